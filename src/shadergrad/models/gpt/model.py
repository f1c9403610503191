"""The network. In: tokens. Out: logits of the next token at each position."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn

STD = 0.02  # of the first weights


@dataclass(frozen=True)
class Config:
    """The shapes of a GPT-2, under Hugging Face's names. Raises ShapeError for sizes that do not fit each other.

    >>> from shadergrad.models.gpt import Config
    >>> Config(n_embd=96, n_head=4).head_dim
    24
    """

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    dropout: float = 0.1
    layer_norm_epsilon: float = 1e-5

    def __post_init__(self) -> None:
        sizes = (self.vocab_size, self.n_positions, self.n_embd, self.n_layer, self.n_head)
        if any(not isinstance(n, int) or n < 1 for n in sizes):
            raise sg.ShapeError(f"[gpt] the sizes are {sizes}; each must be a number, at least 1.")
        if self.n_embd % self.n_head:
            raise sg.ShapeError(f"[gpt] n_embd is {self.n_embd}, which {self.n_head} heads do not divide.")

    @property
    def head_dim(self) -> int:
        """Features of a head."""
        return self.n_embd // self.n_head


SHAPES = {
    "gpt2": Config(),
    "gpt2-medium": Config(n_embd=1024, n_layer=24, n_head=16),
    "gpt2-large": Config(n_embd=1280, n_layer=36, n_head=20),
    "gpt2-xl": Config(n_embd=1600, n_layer=48, n_head=25),
}


class Attention(nn.Module):
    """Causal self-attention of (batch, length, n_embd)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.resid_dropout = nn.Dropout(config.dropout)

    def heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value of each head: (batch, heads, length, head_dim)."""
        batch, length, _ = x.shape
        shape = (batch, length, self.config.n_head, self.config.head_dim)
        return tuple(part.reshape(*shape).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))

    def joined(self, heads: Tensor) -> Tensor:
        """The results of the heads, concatenated: (batch, length, n_embd)."""
        batch, _, length, _ = heads.shape
        return self.resid_dropout(self.c_proj(heads.transpose(1, 2).reshape(batch, length, self.config.n_embd)))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.heads(x)
        dropout = self.config.dropout if self.training else 0.0
        return self.joined(F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True))


class MLP(nn.Module):
    """Two linear layers with GELU (tanh form) between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), "tanh")))


class Block(nn.Module):
    """Attention and a perceptron, each after a norm and with a residual connection."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = MLP(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Integer tokens (batch, length) to logits (batch, length, vocab_size) of the next tokens (Radford et al., 2019).

    The output layer shares its weights with the token embedding (Press and Wolf, 2017). Initial weights are normal with
    deviation 0.02, smaller by sqrt(2 n_layer) at the end of a residual branch.
    Raises ShapeError for tokens of another rank, or more than n_positions.

    >>> from shadergrad.models.gpt import GPT, Config
    >>> model = GPT(Config(vocab_size=11, n_positions=8, n_embd=16, n_layer=2, n_head=2)).eval()
    >>> model(sg.zeros(3, 5, dtype=sg.int32)).shape
    shadergrad.Size([3, 5, 11])
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.reset_parameters()

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """One of SHAPES, with optional other fields of Config. Raises ShapeError for an unknown name."""
        if name not in SHAPES:
            raise sg.ShapeError(f"[gpt] there is no {name!r}; there are {', '.join(SHAPES)}.")
        return cls(Config(**{**SHAPES[name].__dict__, **changes}))

    def reset_parameters(self) -> None:
        """Redraw the weights."""
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif p.ndim == 2:
                ends = name.endswith("c_proj.weight")
                nn.init.normal_(p, 0.0, STD / math.sqrt(2 * self.config.n_layer) if ends else STD)

    def embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The input of the first block: (batch, length, n_embd)."""
        return self.drop(self.wte(tokens) + self.wpe(positions))

    def logits(self, x: Tensor) -> Tensor:
        """The logits of the last block's output."""
        return F.linear(self.ln_f(x), self.wte.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= self.config.n_positions:
            raise sg.ShapeError(
                f"[gpt] tokens are {tuple(tokens.shape)}; they must be (batch, length) with 1 to "
                f"{self.config.n_positions} positions."
            )
        x = self.embedded(tokens, sg.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return self.logits(x)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups for an optimizer: weight decay for matrices, none for biases and norms."""
        named = list(self.named_parameters())
        return [
            {"params": [p for _, p in named if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for _, p in named if p.ndim < 2], "weight_decay": 0.0},
        ]
