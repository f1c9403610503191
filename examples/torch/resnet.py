"""A residual network reads handwritten digits, stops in the middle, and goes on from a file.

After He et al., Deep residual learning for image recognition, 2015. A DataLoader, batch norm, a learning rate that rises and falls, and
a checkpoint with the states of the model, the optimizer and the schedule.
Run: python examples/torch/resnet.py [webgpu|cpu]; cpu is PyTorch's.
"""

import io
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import shadergrad.torch  # registers the device
from shadergrad.data import load_digits

BATCH, CHANNELS, EPOCHS = 64, 16, 4


class Block(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)])
        same = stride == 1 and n_in == n_out
        self.shortcut = nn.Identity() if same else nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.shortcut(x))


def build(device: str) -> nn.Module:
    n = CHANNELS
    return nn.Sequential(
        Block(1, n, 1), Block(n, 2 * n, 2), Block(2 * n, 2 * n, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * n, 10)
    ).to(device)  # fmt: skip


class Training:
    """A model and all that changes with it."""

    def __init__(self, model: nn.Module, device: str) -> None:
        images, labels, *_ = map(torch.from_numpy, load_digits())
        data = TensorDataset(images.float().reshape(-1, 1, 8, 8), labels.long())
        self.model, self.device = model, device
        self.loader = DataLoader(data, BATCH, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        steps = EPOCHS * len(self.loader)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=steps)

    def epoch(self) -> Iterator[Tensor]:
        """The loss of each step."""
        self.model.train()
        for x, y in self.loader:
            loss = F.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            yield loss.detach()

    def saved(self) -> io.BytesIO:
        file = io.BytesIO()
        parts = (self.model, self.optimizer, self.schedule)
        torch.save([part.state_dict() for part in parts], file)
        file.seek(0)
        return file

    def load(self, file: io.BytesIO) -> None:
        states = torch.load(file, map_location=self.device)
        for part, state in zip((self.model, self.optimizer, self.schedule), states, strict=True):
            part.load_state_dict(state)


def training(model: nn.Module, device: str) -> Iterator[Tensor]:
    """The loss of each step; another Training of the same model goes on after the first half."""
    first = Training(model, device)
    for _ in range(EPOCHS // 2):
        yield from first.epoch()
    second = Training(model, device)
    second.load(first.saved())
    for _ in range(EPOCHS // 2, EPOCHS):
        yield from second.epoch()


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "webgpu"
    torch.manual_seed(0)
    model = build(device)
    for k, loss in enumerate(training(model, device)):
        if (k + 1) % 22 == 0:
            print(f"step {k + 1}  loss {loss.item():.4f}")
    images, labels = map(torch.from_numpy, load_digits()[2:])
    model.eval()
    with torch.no_grad():
        found = model(images.float().reshape(-1, 1, 8, 8).to(device)).argmax(1).cpu()
    print(f"{100 * (found == labels).float().mean().item():.1f} % of unseen digits")
