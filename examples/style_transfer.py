"""An image keeps its content and takes on the texture of another: the pixels themselves are trained.

Gatys, Ecker and Bethge, A neural algorithm of artistic style, 2015 (arXiv:1508.06576), with features of fixed random filters in place of
a trained network's, which do for textures (Ustyuzhaninov et al., 2016, arXiv:1606.00021).
Run: shadergrad run examples/style_transfer.py [--compile], or python examples/style_transfer.py with PyTorch.
"""

import math
import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim

SIDE, FILTERS, STYLE_WEIGHT, STEPS = 32, 32, 1e4, 200


def gram_matrix(input: Tensor) -> Tensor:
    """How often filters answer together: (1, c, h, w) to (c, c)."""
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


class Features(nn.Module):
    """What fixed random filters of three sizes see: a list of (1, FILTERS, h, w)."""

    def __init__(self) -> None:
        super().__init__()
        convs = [nn.Conv2d(3, FILTERS, size, bias=False) for size in (3, 7, 11)]
        for conv in convs:
            nn.init.orthogonal_(conv.weight)
        self.convs = nn.ModuleList(convs)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [F.relu(conv(x)) for conv in self.convs]


def content_image() -> Tensor:
    """A disc before a slope, (1, 3, SIDE, SIDE)."""
    line = torch.linspace(-1, 1, SIDE)
    y, x = torch.meshgrid(line, line, indexing="ij")
    disc = (x * x + y * y < 0.4).float()
    return torch.stack([0.3 + 0.6 * disc, 0.5 + 0.3 * y, 0.6 - 0.4 * disc])[None]


def style_image() -> Tensor:
    """Slanted stripes of three colours, (1, 3, SIDE, SIDE)."""
    line = torch.arange(SIDE) * (2 * math.pi / 8)
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([0.5 + 0.5 * torch.sin(x + y + shift) for shift in (0.0, 2.0, 4.0)])[None]


def build(device: str) -> Features:
    """The filters, which are not trained."""
    return Features().to(device)


def training(cnn: Features, device: str, compiled: bool = False, input_img: Tensor | None = None) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    content, style = content_image().to(device), style_image().to(device)
    content_targets = cnn(content)
    style_targets = [gram_matrix(f).detach() for f in cnn(style)]
    input_img = (content.clone() if input_img is None else input_img).requires_grad_(True)
    optimizer = optim.Adam([input_img], lr=0.02)

    def step() -> Tensor:
        optimizer.zero_grad()
        features = cnn(input_img)
        content_losses = [F.mse_loss(f, t) for f, t in zip(features, content_targets)]
        style_losses = [F.mse_loss(gram_matrix(f), t) for f, t in zip(features, style_targets)]
        loss = torch.stack(content_losses).sum() + STYLE_WEIGHT * torch.stack(style_losses).sum()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            input_img.clamp_(0, 1)
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        yield step()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cnn = build(device)
    image, losses = content_image().to(device), []
    for k, loss in zip(range(STEPS), training(cnn, device, "--compile" in sys.argv, image)):
        losses.append(loss.item())
        if k % 50 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    print(f"the loss fell to {100 * losses[-1] / losses[0]:.1f} % of the content image's")
