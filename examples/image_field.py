"""A small network holds an image as a function of the place, sharp edges and all: coordinates go in as waves.

Mildenhall et al., NeRF, 2020 (arXiv:2003.08934), and Tancik et al., Fourier features, 2020 (arXiv:2006.10739), in two dimensions.
Run: shadergrad run examples/image_field.py [--compile], or python examples/image_field.py with PyTorch.
"""

import math
import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

BATCH, FREQUENCIES, WIDTH, STEPS = 1024, 6, 96, 800


class PositionalEncoding(nn.Module):
    """x (n, d) to x and the sines and cosines of its multiples by powers of two."""

    freq_bands: Tensor

    def __init__(self, num_freqs: int) -> None:
        super().__init__()
        self.register_buffer("freq_bands", 2.0 ** torch.arange(num_freqs) * math.pi)

    def forward(self, x: Tensor) -> Tensor:
        angles = (x[..., None] * self.freq_bands).flatten(-2)
        return torch.cat([x, torch.sin(angles), torch.cos(angles)], dim=-1)


class Field(nn.Module):
    """Places (n, 2) to colours (n, 3), with the input once more in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = PositionalEncoding(FREQUENCIES)
        inputs = 2 * (1 + 2 * FREQUENCIES)
        self.first = nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(WIDTH + inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def forward(self, x: Tensor) -> Tensor:
        encoded = self.encode(x)
        return torch.sigmoid(self.second(torch.cat([self.first(encoded), encoded], -1)))


def picture(x: Tensor) -> Tensor:
    """The colours of a chequered disc on a gradient, at places of -1 to 1."""
    u, v = x[:, 0], x[:, 1]
    disc = (u * u + v * v < 0.6).float()
    checks = ((torch.floor(u * 4) + torch.floor(v * 4)) % 2).abs()
    background = torch.stack([0.5 + 0.4 * u, 0.5 + 0.4 * v, 0.5 - 0.3 * u], -1)
    inside = torch.stack([checks, 1 - checks, 0.2 + 0.6 * checks], -1)
    return torch.lerp(background, inside, disc[:, None])


def build(device: str) -> Field:
    return Field().to(device)


def training(model: Field, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.998)

    def step(x: Tensor, colors: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), colors)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        x = torch.rand(BATCH, 2) * 2 - 1
        yield step(x.to(device), picture(x).to(device))
        scheduler.step()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  PSNR {-10 * math.log10(loss.item()):.1f} dB")
