"""An LSTM reads a page of Python's own documentation letter by letter, and writes on.

The state goes from each piece of the text to the next without its history, and gradients are clipped.
Run: python examples/torch/lstm.py [webgpu|cpu]; cpu is PyTorch's.
"""

import sys
from collections.abc import Iterator
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import shadergrad.torch  # registers the device

BATCH, LENGTH, WIDTH, LAYERS, STEPS = 16, 32, 128, 2, 400
TEXT = topics["class"] + topics["function"]
LETTERS = sorted(set(TEXT))


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        y, state = self.lstm(self.embedding(x), state)
        return self.head(y), state


def build(device: str) -> Reader:
    return Reader().to(device)


def training(model: Reader, device: str) -> Iterator[Tensor]:
    """The loss per letter of each step, without end."""
    data = torch.tensor([LETTERS.index(c) for c in TEXT])
    rows = data[: len(data) // BATCH * BATCH].reshape(BATCH, -1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    while True:
        state = None
        for at in range(0, rows.shape[1] - LENGTH - 1, LENGTH):
            logits, state = model(rows[:, at : at + LENGTH], state)
            state = tuple(s.detach() for s in state)
            loss = F.cross_entropy(logits.transpose(1, 2), rows[:, at + 1 : at + LENGTH + 1])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            yield loss.detach()


@torch.no_grad()
def continued(model: Reader, text: str, n: int) -> str:
    """A text and the n letters that the model writes after it, each drawn by its probability."""
    device = model.head.weight.device
    x, state = torch.tensor([[LETTERS.index(c) for c in text]], device=device), None
    for _ in range(n):
        logits, state = model(x, state)
        x = (logits[:, -1] / 0.7).softmax(-1).multinomial(1)
        text += LETTERS[int(x)]
    return text


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "webgpu"
    torch.manual_seed(0)
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device)):
        if (k + 1) % 100 == 0:
            print(f"step {k + 1}  loss per letter {loss.item():.3f}")
    print(continued(model, "A class ", 200))
