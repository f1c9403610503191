"""A network reads a row of digits of any length and writes it backwards, looking at the digit that it needs.

Bahdanau, Cho and Bengio, Neural machine translation by jointly learning to align and translate, 2014 (arXiv:1409.0473): a GRU reads
packed sequences, another writes with attention to what the first has seen; while training it is told what it should have written.
Run: shadergrad run examples/seq2seq.py, or python examples/seq2seq.py with PyTorch.
"""

import random
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

BATCH, WIDTH, LONGEST, STEPS = 32, 64, 8, 400
PAD, BEGIN, END, TOKENS = 10, 11, 12, 13  # after the digits


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH, padding_idx=PAD)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(self.embedding(input), lengths, batch_first=True, enforce_sorted=False)
        outputs, hidden = self.gru(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        return outputs, hidden


class BahdanauAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.Wa = nn.Linear(WIDTH, WIDTH)
        self.Ua = nn.Linear(WIDTH, WIDTH)
        self.Va = nn.Linear(WIDTH, 1)

    def forward(self, query: Tensor, keys: Tensor, hidden_from: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2)
        weights = F.softmax(scores.masked_fill(hidden_from, float("-inf")), dim=-1).unsqueeze(1)
        return torch.bmm(weights, keys), weights


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.attention = BahdanauAttention()
        self.gru = nn.GRU(2 * WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, TOKENS)

    def forward(self, outputs: Tensor, hidden: Tensor, pads: Tensor, target: Tensor | None, count: int) -> Tensor:
        token = torch.full((len(pads), 1), BEGIN, dtype=torch.long, device=pads.device)
        logits = []
        for i in range(count):
            context, _ = self.attention(hidden.permute(1, 0, 2), outputs, pads)
            step, hidden = self.gru(torch.cat((self.embedding(token), context), dim=2), hidden)
            logits.append(self.out(step))
            token = target[:, i : i + 1] if target is not None else logits[-1].argmax(-1)
        return torch.cat(logits, dim=1)


class Seq2Seq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, rows: list[Tensor], target: Tensor | None = None) -> Tensor:
        device = self.decoder.out.weight.device
        lengths = torch.tensor([len(row) for row in rows])
        input = pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)
        outputs, hidden = self.encoder(input, lengths)
        return self.decoder(outputs, hidden, input == PAD, target, input.size(1) + 1)


def examples(rng: random.Random) -> tuple[list[Tensor], Tensor]:
    """BATCH rows of 1 to LONGEST digits, and (BATCH, longest + 1) what shall be written of each."""
    rows = [torch.tensor([rng.randrange(10) for _ in range(rng.randint(1, LONGEST))]) for _ in range(BATCH)]
    rows[0] = torch.tensor([rng.randrange(10) for _ in range(LONGEST)])
    written = [torch.cat([row.flip(0), torch.tensor([END])]) for row in rows]
    return rows, pad_sequence(written, batch_first=True, padding_value=PAD)


def build(device: str) -> Seq2Seq:
    return Seq2Seq().to(device)


def training(model: Seq2Seq, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end. Rows of other lengths are other steps, so it is left uncompiled."""
    rng = random.Random(0)
    criterion = nn.NLLLoss(ignore_index=PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    while True:
        rows, target = examples(rng)
        target = target.to(device)
        optimizer.zero_grad()
        logits = F.log_softmax(model(rows, target), dim=-1)
        loss = criterion(logits.view(-1, TOKENS), target.view(-1))
        loss.backward()
        optimizer.step()
        yield loss.detach()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device)):
        if k % 50 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    rng = random.Random(1)
    right = count = 0
    with torch.no_grad():
        for _ in range(8):
            rows, target = examples(rng)
            written = model(rows).argmax(-1).cpu()
            right += int(((written == target) | (target == PAD)).all(dim=1).sum())
            count += len(rows)
    print(f"{right} of {count} new rows written backwards without a mistake")
