"""Cells that see their eight neighbours alone learn to grow a figure from one cell.

Mordvintsev et al., Growing neural cellular automata, Distill 2020. Each cell perceives gradients by Sobel filters; a small network, the
same for all, changes it; only half of the cells change at a time; cells without living neighbours die.
Run: shadergrad run examples/neural_ca.py [--compile], or python examples/neural_ca.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

SIDE, CHANNELS, HIDDEN, GROWTH, BATCH, STEPS = 12, 12, 48, 20, 4, 400


class CAModel(nn.Module):
    kernel: Tensor

    def __init__(self) -> None:
        super().__init__()
        identity = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        sobel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
        kernel = torch.stack([identity, sobel, sobel.t()])[:, None].repeat(CHANNELS, 1, 1, 1)
        self.register_buffer("kernel", kernel)
        last = nn.Conv2d(HIDDEN, CHANNELS, 1)
        nn.init.zeros_(last.weight)
        self.dmodel = nn.Sequential(nn.Conv2d(3 * CHANNELS, HIDDEN, 1), nn.ReLU(), last)

    @staticmethod
    def living(x: Tensor) -> Tensor:
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1

    def forward(self, x: Tensor, fire_rate: float = 0.5) -> Tensor:
        before = self.living(x)
        perceived = F.conv2d(x, self.kernel, padding=1, groups=CHANNELS)
        update = (torch.rand_like(x[:, :1]) <= fire_rate).float()
        x = x + self.dmodel(perceived) * update
        return x * (before & self.living(x)).float()


def target_image() -> Tensor:
    """A red heart with its opacity, (4, SIDE, SIDE)."""
    line = torch.linspace(-1.5, 1.5, SIDE)
    y, x = torch.meshgrid(-line, line, indexing="ij")
    inside = ((x * x + y * y - 1) ** 3 - x * x * y**3 < 0).float()
    return torch.stack([inside, 0.2 * inside, 0.3 * inside, inside])


def seed(n: int) -> Tensor:
    """One living cell in the middle, (n, CHANNELS, SIDE, SIDE)."""
    x = torch.zeros(n, CHANNELS, SIDE, SIDE)
    x[:, 3:, SIDE // 2, SIDE // 2] = 1.0
    return x


def build(device: str) -> CAModel:
    return CAModel().to(device)


def training(model: CAModel, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    target = target_image().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        for _ in range(GROWTH):
            x = model(x)
        loss = F.mse_loss(x[:, :4], target.expand(len(x), -1, -1, -1))
        loss.backward()
        for p in model.parameters():  # all of one length: the depth makes lengths wild
            if p.grad is not None:
                p.grad /= p.grad.norm() + 1e-8
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        yield step(seed(BATCH).to(device))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 50 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.5f}")
    with torch.no_grad():
        x = seed(1).to(device)
        for _ in range(GROWTH):
            x = model(x)
    for row in x[0, 3].cpu().tolist():
        print("".join("  " if alpha < 0.3 else "()" if alpha < 0.7 else "##" for alpha in row))
