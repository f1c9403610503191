"""A network learns what makes digits alike without being told a single label; a line through its features then reads them.

Chen et al., A simple framework for contrastive learning of visual representations, 2020 (arXiv:2002.05709): two views of an image shall be
nearer to each other than to all other images of the batch.
Run: shadergrad run examples/simclr.py [--compile], or python examples/simclr.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from shadergrad.data import load_digits

BATCH, WIDTH, TEMPERATURE, STEPS = 128, 64, 0.2, 500


class Encoder(nn.Module):
    """Images (n, 64) to features h (n, WIDTH), and what the loss compares, z (n, WIDTH // 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Linear(64, 2 * WIDTH), nn.BatchNorm1d(2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH), nn.ReLU()
        )
        self.projector = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH // 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.backbone(x)
        return h, self.projector(h)


def nt_xent(z1: Tensor, z2: Tensor) -> Tensor:
    """Cross-entropy of finding the other view of the same image among all 2n - 1 others."""
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    n = len(z1)
    similarity = z @ z.t() / TEMPERATURE
    similarity = similarity.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), -1e9)
    target = (torch.arange(2 * n, device=z.device) + n) % (2 * n)
    return F.cross_entropy(similarity, target)


def augment(x: Tensor) -> Tensor:
    """The images moved by up to a pixel, with other contrast and noise."""
    image = F.pad(x.view(-1, 8, 8), (1, 1, 1, 1))
    i, j = torch.randint(0, 3, (2,)).tolist()
    moved = image[:, i : i + 8, j : j + 8].reshape(len(x), 64)
    return moved * (0.7 + 0.6 * torch.rand(len(x), 1)) + 0.15 * torch.randn(len(x), 64)


def build(device: str) -> Encoder:
    return Encoder().to(device)


def training(model: Encoder, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images = torch.from_numpy(load_digits()[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)

    def step(x1: Tensor, x2: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nt_xent(model(x1)[1], model(x2)[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        batch = images[torch.randint(0, len(images), (BATCH,))]
        yield step(augment(batch).to(device), augment(batch).to(device))


def probe(features: Tensor, labels: Tensor, test_features: Tensor, test_labels: Tensor) -> float:
    """The accuracy of a linear layer on features that stay as they are."""
    linear = nn.Linear(features.size(1), 10)
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(linear(features), labels.long()).backward()
        optimizer.step()
    with torch.no_grad():
        return linear(test_features).argmax(1).eq(test_labels).float().mean().item()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, labels, test_images, test_labels = map(torch.from_numpy, load_digits())
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        features, test_features = (model(x.to(device))[0].cpu() for x in (images, test_images))
    few = slice(0, 100)  # a hundred labels are all that it sees
    print(
        f"100 labels, pixels:   {100 * probe(images[few], labels[few], test_images, test_labels):.1f} % of the test right"
    )
    print(f"100 labels, features: {100 * probe(features[few], labels[few], test_features, test_labels):.1f} %")
