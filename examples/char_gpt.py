"""A small GPT writes a tale on, letter by letter, with attention to the letters before.

Radford et al., Language models are unsupervised multitask learners, 2019, as its small teaching versions are written: weights of the
embedding and the output are one, projections begin smaller by the depth, matrices alone decay.
Run: shadergrad run examples/char_gpt.py [--compile], or python examples/char_gpt.py with PyTorch.
"""

import math
import sys
from collections.abc import Iterator
from importlib.resources import files

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import functional as F

BLOCK, LAYERS, HEADS, WIDTH, DROPOUT, BATCH, STEPS = 32, 3, 4, 64, 0.1, 16, 600
TEXT = (files("shadergrad.recipes") / "tale.txt").read_text(encoding="utf-8")
LETTERS = sorted(set(TEXT))


class CausalSelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.resid_dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(WIDTH, dim=2)
        q, k, v = (t.view(B, T, HEADS, C // HEADS).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = CausalSelfAttention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(len(LETTERS), WIDTH)
        self.wpe = nn.Embedding(BLOCK, WIDTH)
        self.drop = nn.Dropout(DROPOUT)
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, len(LETTERS), bias=False)
        self.wte.weight = self.lm_head.weight
        for name, p in self.named_parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, 0.0, 0.02 / (math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 1))

    def forward(self, idx: Tensor) -> Tensor:
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))

    @torch.no_grad()
    def generate(self, idx: Tensor, count: int, temperature: float = 0.7) -> Tensor:
        for _ in range(count):
            logits = self(idx[:, -BLOCK:])[:, -1, :] / temperature
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return idx


def build(device: str) -> GPT:
    return GPT().to(device)


def training(model: GPT, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss of each step, without end."""
    data = torch.tensor([LETTERS.index(c) for c in TEXT], dtype=torch.long)
    params = list(model.parameters())
    groups = [
        {"params": [p for p in params if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.99))

    def step(x: Tensor, y: Tensor) -> Tensor:
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=-1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    model.train()
    while True:
        ix = torch.randint(0, len(data) - BLOCK, (BATCH,)).tolist()
        x = torch.stack([data[i : i + BLOCK] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + BLOCK] for i in ix])
        yield step(x.to(device), y.to(device))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 100 == 0 or k == STEPS - 1:
            print(f"step {k:3}  loss {loss.item():.4f}")
    model.eval()
    begin = torch.tensor([[LETTERS.index(c) for c in "The keeper"]], dtype=torch.long, device=device)
    print("".join(LETTERS[i] for i in model.generate(begin, 100)[0].tolist()))
