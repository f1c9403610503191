"""A language model of words: nn.TransformerEncoder with a mask that hides what follows.

Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762), in the form of PyTorch's first tutorial of it: sines as positions, a
learning rate that decays with the passes.
Run: shadergrad run examples/transformer_lm.py [--compile], or python examples/transformer_lm.py with PyTorch.
"""

import math
import re
import sys
from collections.abc import Iterator
from importlib.resources import files

import torch
from torch import Tensor, nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer

BATCH, BPTT, WIDTH, HIDDEN, HEADS, LAYERS, DROPOUT, STEPS = 8, 24, 64, 128, 4, 2, 0.1, 500
TEXT = (files("shadergrad.recipes") / "tale.txt").read_text(encoding="utf-8")
WORDS = re.findall(r"\w+|[.,:;!?]", TEXT.lower())
VOCABULARY = sorted(set(WORDS))


class PositionalEncoding(nn.Module):
    pe: Tensor

    def __init__(self, max_len: int = 500) -> None:
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        pe = torch.zeros(max_len, 1, WIDTH)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.dropout = nn.Dropout(p=DROPOUT)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[: x.size(0)])


class TransformerModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pos_encoder = PositionalEncoding()
        layer = TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, DROPOUT)
        self.transformer_encoder = TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.embedding = nn.Embedding(len(VOCABULARY), WIDTH)
        self.linear = nn.Linear(WIDTH, len(VOCABULARY))
        self.embedding.weight.data.uniform_(-0.1, 0.1)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-0.1, 0.1)

    def forward(self, src: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(len(src), device=src.device)
        src = self.pos_encoder(self.embedding(src) * math.sqrt(WIDTH))
        return self.linear(self.transformer_encoder(src, mask))


def build(device: str) -> TransformerModel:
    return TransformerModel().to(device)


def training(model: TransformerModel, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each piece of the text, without end."""
    ids = torch.tensor([VOCABULARY.index(word) for word in WORDS], dtype=torch.long)
    source = ids[: len(ids) // BATCH * BATCH].view(BATCH, -1).t().contiguous().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.95)

    def step(data: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = criterion(model(data).view(-1, len(VOCABULARY)), targets.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        for i in range(0, source.size(0) - 1 - BPTT, BPTT):
            yield step(source[i : i + BPTT], source[i + 1 : i + 1 + BPTT])
        scheduler.step()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(
                f"step {k:3}  loss {loss.item():.3f}  perplexity {math.exp(loss.item()):.1f} of {len(VOCABULARY)} words"
            )
