"""Two LSTM cells read a hundred points of a wave and go on with it; LBFGS trains them on all waves at once.

After PyTorch's example of time sequence prediction; the optimizer is Liu and Nocedal's, On the limited memory BFGS method, 1989. It asks
for the loss several times a step, so the step is a closure and is left uncompiled.
Run: shadergrad run examples/time_series.py, or python examples/time_series.py with PyTorch.
"""

from collections.abc import Iterator

import torch
import torch.nn as nn
from torch import Tensor, optim

WAVES, LENGTH, HIDDEN, ITERATIONS, STEPS = 24, 40, 16, 8, 12


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, HIDDEN)
        self.lstm2 = nn.LSTMCell(HIDDEN, HIDDEN)
        self.linear = nn.Linear(HIDDEN, 1)

    def forward(self, input: Tensor, future: int = 0) -> Tensor:
        outputs = []
        h_t = torch.zeros(input.size(0), HIDDEN, dtype=input.dtype, device=input.device)
        c_t, h_t2, c_t2 = torch.zeros_like(h_t), torch.zeros_like(h_t), torch.zeros_like(h_t)
        output = input[:, :1]
        for t in range(input.size(1) + future):
            known = input[:, t : t + 1] if t < input.size(1) else output
            h_t, c_t = self.lstm1(known, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs.append(output)
        return torch.cat(outputs, dim=1)


def waves(n: int, length: int) -> Tensor:
    """Sines of one length that begin anywhere, (n, length)."""
    begin = torch.rand(n, 1) * 80
    return torch.sin((begin + torch.arange(length)) / 4)


def build(device: str) -> Sequence:
    return Sequence().to(device)


def training(model: Sequence, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss before each step, without end."""
    data = waves(WAVES, LENGTH + 1).to(device)
    input, target = data[:, :-1], data[:, 1:]
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(model.parameters(), lr=0.5, max_iter=ITERATIONS)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = criterion(model(input), target)
        loss.backward()
        return loss

    while True:
        yield optimizer.step(closure).detach()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device)):
        print(f"step {k:2}  loss {loss.item():.6f}")
    test = waves(50, LENGTH + 20).to(device)
    with torch.no_grad():
        future = model(test[:, :LENGTH], future=20)[:, LENGTH - 1 : -1]
    print(f"20 points further the error is {(future - test[:, LENGTH:]).abs().mean().item():.3f} on average")
