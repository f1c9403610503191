"""A convolutional network reads handwritten digits of 28 x 28 pixels.

After LeCun et al., Gradient-based learning applied to document recognition, 1998. The images are scikit-learn's of 8 x 8, enlarged.
Run: shadergrad run examples/cnn.py [--compile], or python examples/cnn.py with PyTorch.
"""

import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from shadergrad.data import load_digits

BATCH, CHANNELS, HIDDEN, EPOCHS = 64, 16, 128, 5


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, CHANNELS, 3, 1)
        self.conv2 = nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(2 * CHANNELS * 12 * 12, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def enlarged(images: Tensor) -> Tensor:
    """(n, 64) to (n, 1, 28, 28)."""
    return F.interpolate(images.view(-1, 1, 8, 8), size=(28, 28), mode="bilinear", align_corners=False)


def build(device: str) -> Net:
    return Net().to(device)


def training(model: Net, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    images, labels = map(torch.from_numpy, load_digits()[:2])
    loader = DataLoader(TensorDataset(enlarged(images), labels.long()), batch_size=BATCH, shuffle=True, drop_last=True)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)

    def step(data: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        model.train()
        for data, target in loader:
            yield step(data.to(device), target.to(device))
        scheduler.step()


def accuracy(model: Net, device: str) -> float:
    images, labels = map(torch.from_numpy, load_digits()[2:])
    model.eval()
    with torch.no_grad():
        pred = model(enlarged(images).to(device)).argmax(dim=1)
    return pred.cpu().eq(labels).float().mean().item()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    steps = len(load_digits()[0]) // BATCH
    for k, loss in zip(range(EPOCHS * steps), training(model, device, "--compile" in sys.argv)):
        if (k + 1) % steps == 0:
            print(f"epoch {(k + 1) // steps}  loss {loss.item():.4f}")
    print(f"test accuracy {100 * accuracy(model, device):.1f} %")
