"""ResNet-18 in the form for small images tells six shapes apart, at any place, size and colour.

He et al., Deep residual learning for image recognition, 2015 (arXiv:1512.03385); a quarter of its channels.
Run: shadergrad run examples/resnet.py [--compile], or python examples/resnet.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim

BATCH, WIDTH, SIZE, LR, STEPS = 32, 16, 16, 0.02, 300


class BasicBlock(nn.Module):
    def __init__(self, in_planes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, num_blocks: list[int], num_classes: int) -> None:
        super().__init__()
        self.in_planes = WIDTH
        self.conv1 = nn.Conv2d(3, WIDTH, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.layers = nn.Sequential(*(self._make_layer(WIDTH << k, n, min(k + 1, 2)) for k, n in enumerate(num_blocks)))
        self.linear = nn.Linear(WIDTH << 3, num_classes)

    def _make_layer(self, planes: int, num_blocks: int, stride: int) -> nn.Sequential:
        layers = []
        for s in [stride] + [1] * (num_blocks - 1):
            layers.append(BasicBlock(self.in_planes, planes, s))
            self.in_planes = planes
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layers(F.relu(self.bn1(self.conv1(x))))
        out = F.adaptive_avg_pool2d(out, 1)
        return self.linear(out.view(out.size(0), -1))


def shapes(n: int) -> tuple[Tensor, Tensor]:
    """Images (n, 3, SIZE, SIZE) of a disc, ring, square, frame, cross or bar on noise, and which it is (n,)."""
    grid = torch.arange(SIZE).float()
    center, radius = SIZE * (0.35 + 0.3 * torch.rand(n, 2, 1, 1)), SIZE * (0.2 + 0.12 * torch.rand(n, 1, 1))
    y, x = (grid[:, None] - center[:, 0]) / radius, (grid[None, :] - center[:, 1]) / radius
    r, m = torch.sqrt(x * x + y * y), torch.maximum(x.abs(), y.abs())
    narrow = torch.minimum(x.abs(), y.abs()) < 0.35
    kinds = [r < 1, (r < 1) & (r > 0.6), m < 1, (m < 1) & (m > 0.6), (m < 1) & narrow, (m < 1) & (x.abs() < 0.35)]
    label = torch.randint(0, len(kinds), (n,))
    mask = torch.stack(kinds, 1).float()[torch.arange(n), label][:, None]
    return mask * (0.5 + torch.rand(n, 3, 1, 1)) + 0.3 * torch.randn(n, 3, SIZE, SIZE), label


def build(device: str) -> ResNet:
    return ResNet([2, 2, 2, 2], 6).to(device)


def training(model: ResNet, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=5e-4)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        inputs, targets = shapes(BATCH)
        yield step(inputs.to(device), targets.to(device))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 50 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        inputs, targets = shapes(500)
        correct = model(inputs.to(device)).argmax(1).cpu().eq(targets).float().mean().item()
    print(f"of 500 new images {100 * correct:.1f} % right")
