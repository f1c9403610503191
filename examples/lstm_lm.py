"""A language model of words: an LSTM that reads a text in pieces and keeps its state from one to the next.

After Zaremba, Sutskever and Vinyals, Recurrent neural network regularization, 2014 (arXiv:1409.2329): backpropagation ends where a
piece begins, so the state is detached; gradients are clipped.
Run: shadergrad run examples/lstm_lm.py [--compile], or python examples/lstm_lm.py with PyTorch.
"""

import math
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

BATCH, BPTT, WIDTH, LAYERS, DROPOUT, CLIP, STEPS = 8, 16, 96, 2, 0.2, 0.25, 500
TEXT = (files("shadergrad.recipes") / "tale.txt").read_text(encoding="utf-8")
WORDS = re.findall(r"\w+|[.,:;!?]", TEXT.lower())
VOCABULARY = sorted(set(WORDS))

State = tuple[Tensor, Tensor]


class RNNModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(DROPOUT)
        self.encoder = nn.Embedding(len(VOCABULARY), WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, LAYERS)
        self.decoder = nn.Linear(WIDTH, len(VOCABULARY))
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input: Tensor, hidden: State) -> tuple[Tensor, State]:
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return self.decoder(self.drop(output)), hidden

    def init_hidden(self, bsz: int) -> State:
        weight = next(self.parameters())
        return weight.new_zeros(LAYERS, bsz, WIDTH), weight.new_zeros(LAYERS, bsz, WIDTH)


def repackage_hidden(h: Any) -> Any:
    """The state without its history."""
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def batchify(ids: Tensor, bsz: int) -> Tensor:
    """The text (n,) as bsz columns that are read side by side: (n // bsz, bsz)."""
    nbatch = ids.size(0) // bsz
    return ids.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def build(device: str) -> RNNModel:
    return RNNModel().to(device)


def training(model: RNNModel, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each piece, without end."""
    source = batchify(torch.tensor([VOCABULARY.index(word) for word in WORDS]), BATCH).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def step(data: Tensor, targets: Tensor, hidden: State) -> tuple[Tensor, State]:
        model.zero_grad()
        output, hidden = model(data, repackage_hidden(hidden))
        loss = criterion(output.view(-1, len(VOCABULARY)), targets.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.detach(), repackage_hidden(hidden)

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        hidden = model.init_hidden(BATCH)
        for i in range(0, source.size(0) - 1 - BPTT, BPTT):
            loss, hidden = step(source[i : i + BPTT], source[i + 1 : i + 1 + BPTT], hidden)
            yield loss


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(
                f"step {k:3}  loss {loss.item():.3f}  perplexity {math.exp(loss.item()):.1f} of {len(VOCABULARY)} words"
            )
