"""A perceptron reads handwritten digits: PyTorch's modules, autograd and optimizer on any GPU.

Run: python examples/torch/digits.py [webgpu|cpu]; cpu is PyTorch's.
"""

import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import shadergrad.torch  # registers the device
from shadergrad.data import load_digits

BATCH, HIDDEN, STEPS = 64, 128, 400


def build(device: str) -> nn.Module:
    return nn.Sequential(nn.Linear(64, HIDDEN), nn.GELU(), nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 10)).to(device)


def training(model: nn.Module, device: str) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images, labels, *_ = (torch.from_numpy(a).to(device) for a in load_digits())
    images, labels = images.float().flatten(1), labels.long()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    while True:
        rows = torch.randint(0, len(images), (BATCH,)).to(device)  # drawn on the host: every device sees the same
        loss = F.cross_entropy(model(images[rows]), labels[rows], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def accuracy(model: nn.Module, device: str) -> float:
    images, labels = (torch.from_numpy(a).to(device) for a in load_digits()[2:])
    with torch.no_grad():
        return (model(images.float().flatten(1)).argmax(1) == labels).float().mean().item()


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "webgpu"
    torch.manual_seed(0)
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device)):
        if (k + 1) % 100 == 0:
            print(f"step {k + 1}  loss {loss.item():.4f}")
    print(f"{100 * accuracy(model, device):.1f} % of unseen digits")
