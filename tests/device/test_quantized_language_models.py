"""Small language models, of GPT-2's and of Llama's shape, with weights of few bits: perplexity beside float32, and adapters that learn."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.models.gpt import GPT, Config, Sampler
from shadergrad.quantization import QuantizedEmbedding, QuantizedLinear

pytestmark = pytest.mark.slow  # trainings
LENGTH, WIDTH = 32, 64
TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_bytes()
LETTERS, TOKENS = np.unique(np.frombuffer(TEXT, np.uint8), return_inverse=True)


def windows(first: int, last: int, count: int) -> np.ndarray:
    """Stretches of the text, (count, LENGTH + 1)."""
    starts = np.random.default_rng(first).integers(first, last - LENGTH, (count, 1))
    return TOKENS[starts + np.arange(LENGTH + 1)].astype(np.int64)


class LlamaBlock(nn.Module):
    """Attention of four heads with two of keys and values, rotated by position, and a gated MLP; after RMS norms."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = nn.Linear(WIDTH, WIDTH // 2, bias=False), nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        angles = np.outer(np.arange(LENGTH), 10000.0 ** (-np.arange(0, 8) / 8)).astype(np.float32)
        self.register_buffer("cos", sg.tensor(np.cos(angles)), persistent=False)
        self.register_buffer("sin", sg.tensor(np.sin(angles)), persistent=False)

    def heads(self, x: sg.Tensor) -> sg.Tensor:
        return x.unflatten(-1, (-1, 16)).transpose(1, 2)

    def turned(self, x: sg.Tensor) -> sg.Tensor:
        a, b = x[..., :8], x[..., 8:]
        return sg.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1)

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        y = self.before(x)
        q, k = self.turned(self.heads(self.q(y))), self.turned(self.heads(self.k(y)))
        k, v = (z.repeat_interleave(2, 1) for z in (k, self.heads(self.v(y))))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def llama() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(len(LETTERS), WIDTH),
        LlamaBlock(),
        LlamaBlock(),
        nn.RMSNorm(WIDTH),
        nn.Linear(WIDTH, len(LETTERS), bias=False),
    )


def gpt() -> nn.Module:
    return GPT(Config(len(LETTERS), LENGTH, WIDTH, n_layer=2, n_head=4, dropout=0.0))


def loss_of(model: nn.Module, tokens: sg.Tensor) -> sg.Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


@cache
def trained(kind: str) -> nn.Module:
    """A model after a short training on the first part of the text."""
    sg.manual_seed(0)
    model = {"gpt": gpt, "llama": llama}[kind]()
    optimizer = sg.optim.AdamW(model.parameters(), lr=3e-3)

    @sg.compile
    def step(tokens: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        return loss

    for tokens in windows(0, len(TOKENS) * 3 // 4, 16 * 90).reshape(90, 16, -1):
        step(sg.tensor(tokens))
    return model


def perplexity(model: nn.Module, device: str) -> float:
    tokens = sg.tensor(windows(len(TOKENS) * 3 // 4, len(TOKENS), 64), device=device)
    with sg.no_grad():
        return float(np.exp(loss_of(model, tokens).item()))


# of perplexity beside float32's
BOUNDS = {(8, True): 1.003, (8, False): 1.003, (4, True): 1.03, (4, False): 1.03}


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_perplexity_stays_near_that_of_float32(device: str, kind: str) -> None:
    floats = copy.deepcopy(trained(kind)).to(device)
    exact = perplexity(floats, device)
    assert exact < 0.4 * len(LETTERS)  # it has learned something
    for (bits, symmetric), bound in BOUNDS.items():
        model = sg.quantize(copy.deepcopy(floats), bits, 32, symmetric)
        layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Embedding)]
        assert all(isinstance(m, QuantizedLinear | QuantizedEmbedding) for m in layers)
        found = perplexity(model, device)
        assert exact / bound < found < exact * bound


def test_a_cache_of_keys_and_values_serves_a_quantised_model() -> None:
    model = sg.quantize(copy.deepcopy(trained("gpt")), 8, 32).eval()
    assert isinstance(model, GPT)
    prompt = TOKENS[:8].tolist()
    written = Sampler(model, temperature=0.0).generate([prompt], 12)[0].tolist()
    for at in range(8, len(written)):
        with sg.no_grad():
            assert model(sg.tensor([written[:at]]))[0, -1].argmax().item() == written[at]


class Adapted(nn.Module):
    """A layer that stays, and a product of thin matrices that learns what to add."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(sg.randn(8, base.in_features) * 0.1)
        self.up = nn.Parameter(sg.zeros(base.out_features, 8))

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


def test_adapters_teach_a_model_of_four_bits_another_text() -> None:
    """The text backwards."""
    model = sg.quantize(copy.deepcopy(trained("llama")), 4, 32).requires_grad_(False)
    for block in model.children():
        if isinstance(block, LlamaBlock):
            for name in ("q", "v", "up", "down"):
                setattr(block, name, Adapted(getattr(block, name)))

    optimizer = sg.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)

    @sg.compile
    def step(tokens: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        return loss

    given = windows(0, len(TOKENS), 16 * 25)[:, ::-1].reshape(25, 16, -1).copy()
    losses = [step(sg.tensor(tokens)).item() for tokens in given]
    assert losses[-1] < 0.85 * losses[0]
