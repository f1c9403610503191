"""A network whose hidden layers say yes or no reads digits; an autograd.Function gives the sign a slope to learn by.

Hubara et al., Binarized neural networks, 2016 (arXiv:1602.02830), after the straight-through estimator of Bengio, Leonard and Courville,
2013 (arXiv:1308.3432).
Run: shadergrad run examples/binary_network.py [--compile], or python examples/binary_network.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from shadergrad.data import load_digits

BATCH, WIDTH, STEPS = 64, 128, 600


class BinaryActivation(torch.autograd.Function):
    """-1 or 1; the gradient passes where the input lies between."""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return torch.where(input >= 0, torch.ones_like(input), -torch.ones_like(input))

    @staticmethod
    def backward(ctx, grad_output):  # pyright: ignore[reportIncompatibleMethodOverride]  # there is one result
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.abs() > 1] = 0
        return grad_input


class BinaryLinear(nn.Linear):
    """A linear layer whose weights are used as -1 or 1."""

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, BinaryActivation.apply(self.weight), self.bias)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.bn1 = nn.Linear(64, WIDTH), nn.BatchNorm1d(WIDTH)
        self.fc2, self.bn2 = BinaryLinear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)
        self.fc3 = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = BinaryActivation.apply(self.bn1(self.fc1(x)))
        x = BinaryActivation.apply(self.bn2(self.fc2(x)))
        return self.fc3(x)


def build(device: str) -> Net:
    return Net().to(device)


def training(model: Net, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images, labels = (torch.from_numpy(a).to(device) for a in load_digits()[:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels.long())
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        rows = torch.randint(0, len(images), (BATCH,)).to(device)
        yield step(images[rows], labels[rows])


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    images, labels = map(torch.from_numpy, load_digits()[2:])
    model.eval()
    with torch.no_grad():
        pred = model(images.to(device)).argmax(dim=1).cpu()
    print(f"test accuracy {100 * pred.eq(labels).float().mean().item():.1f} %")
