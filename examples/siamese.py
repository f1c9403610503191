"""One network looks at two digits and puts them near each other if they are the same, apart if not.

Hadsell, Chopra and LeCun, Dimensionality reduction by learning an invariant mapping, 2006. It learns from pairs, and tells pairs of
images apart that it has never seen.
Run: shadergrad run examples/siamese.py [--compile], or python examples/siamese.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from shadergrad.data import load_digits

BATCH, CHANNELS, WIDTH, MARGIN, STEPS = 64, 12, 16, 1.0, 600


class SiameseNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, CHANNELS, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(8 * CHANNELS, WIDTH),
        )

    def forward(self, input1: Tensor, input2: Tensor) -> tuple[Tensor, Tensor]:
        return self.cnn(input1), self.cnn(input2)


class ContrastiveLoss(nn.Module):
    """label 0: the same; 1: another."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, output1: Tensor, output2: Tensor, label: Tensor) -> Tensor:
        distance = F.pairwise_distance(output1, output2)
        same, other = distance.pow(2), torch.clamp(self.margin - distance, min=0.0).pow(2)
        return torch.mean((1 - label) * same + label * other)


def pairs(images: Tensor, labels: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """n pairs, half of them of the same digit: two (n, 1, 8, 8), and (n,) 1.0 where the digits differ."""
    first, candidates = torch.randint(0, len(images), (n,)), torch.randint(0, len(images), (n, 40))
    wanted = torch.arange(n) % 2 == 0
    fits = (labels[candidates] == labels[first][:, None]) == wanted[:, None]
    second = candidates[torch.arange(n), fits.float().argmax(dim=1)]
    return images[first], images[second], (labels[first] != labels[second]).float()


def build(device: str) -> SiameseNetwork:
    return SiameseNetwork().to(device)


def training(model: SiameseNetwork, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images, labels = map(torch.from_numpy, load_digits()[:2])
    images = images.view(-1, 1, 8, 8)
    criterion = ContrastiveLoss(MARGIN)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(one: Tensor, two: Tensor, label: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = criterion(*model(one, two), label)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        yield step(*(x.to(device) for x in pairs(images, labels, BATCH)))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    images, labels = map(torch.from_numpy, load_digits()[2:])
    one, two, label = pairs(images.view(-1, 1, 8, 8), labels, 1000)
    with torch.no_grad():
        distance = F.pairwise_distance(*model(one.to(device), two.to(device))).cpu()
    right = ((distance > MARGIN / 2) == (label > 0)).float().mean().item()
    print(f"of 1000 pairs of unseen images {100 * right:.1f} % told apart rightly")
