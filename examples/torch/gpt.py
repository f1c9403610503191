"""A small GPT, whose forward and backward passes torch.compile makes one plan each on any GPU.

Radford et al., Language models are unsupervised multitask learners, 2019. The text is Python's own documentation.
Run: python examples/torch/gpt.py [webgpu|cpu]; cpu is PyTorch's, and there nothing is compiled.
"""

import sys
from collections.abc import Iterator
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import shadergrad.torch  # registers the device and the backend

BLOCK, LAYERS, HEADS, WIDTH, BATCH, STEPS = 64, 3, 4, 64, 16, 400
TEXT = "".join(topics[name] for name in sorted(topics))[:100_000]
LETTERS = sorted(set(TEXT))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.outward = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        q, k, v = self.inward(x).view(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outward(y.transpose(1, 2).reshape(n, length, WIDTH))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.RMSNorm(WIDTH), Attention())
        self.perceptron = nn.Sequential(
            nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.perceptron(x)


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(BLOCK, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, len(LETTERS), bias=False)
        nn.init.normal_(self.letters.weight, std=0.02)
        self.head.weight = self.letters.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.letters(x) + self.places[: x.shape[1]]
        return self.head(self.blocks(x))


def build(device: str) -> GPT:
    return GPT().to(device)


def training(model: GPT, device: str) -> Iterator[Tensor]:
    """The loss per letter of each step, without end."""
    data = torch.tensor([LETTERS.index(c) for c in TEXT])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    if device != "cpu":
        loss_of = torch.compile(loss_of, backend="shadergrad")
    while True:
        rows = torch.randint(0, len(data) - BLOCK, (BATCH, 1)) + torch.arange(BLOCK + 1)
        piece = data[rows].to(device)
        loss = loss_of(piece[:, :-1], piece[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "webgpu"
    torch.manual_seed(0)
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device)):
        if (k + 1) % 100 == 0:
            print(f"step {k + 1}  loss per letter {loss.item():.3f}")
