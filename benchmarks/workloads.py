"""What is measured: networks, batches and losses, each written once, for shadergrad and for PyTorch alike.

`lib` is `shadergrad` or `torch`: both have nn, nn.functional and optim. The small sizes serve to try a workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Workload:
    """model: takes lib and makes the network. batch: inputs and targets, the same in every run.
    loss: takes lib, the model, inputs and targets; a scalar. optimizer: its name in lib.optim."""

    model: Callable[[Any], Any]
    batch: Callable[[], Arrays]
    loss: Callable[[Any, Any, Any, Any], Any]
    optimizer: str = "AdamW"
    lr: float = 1e-3


def training_step(lib: Any, workload: Workload, model: Any) -> Callable[[Any, Any], Any]:
    """A step of the workload's optimizer for inputs and targets, which gives the loss."""
    optimizer = getattr(lib.optim, workload.optimizer)(model.parameters(), lr=workload.lr)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = workload.loss(lib, model, x, y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def mean_square(lib: Any, model: Any, x: Any, y: Any) -> Any:
    return lib.nn.functional.mse_loss(model(x), y)


def cross_entropy(lib: Any, model: Any, x: Any, y: Any) -> Any:
    """Of logits (..., classes) and classes (...)."""
    logits = model(x)
    return lib.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def perceptron(nn: Any, sizes: tuple[int, ...], activation: str = "ReLU") -> Any:
    """Linear layers with activations between."""
    layers: list[Any] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), getattr(nn, activation)()]
    return nn.Sequential(*layers[:-1])


def images(*shape: int, classes: int = 10) -> Arrays:
    """Noise of a shape (batch, ...), and a class for each of the batch."""
    rng = np.random.default_rng(0)
    return rng.normal(size=shape).astype(np.float32), rng.integers(0, classes, shape[0]).astype(np.int32)


def text(*shape: int, characters: int) -> Arrays:
    """Random characters, and what follows them."""
    drawn = np.random.default_rng(0).integers(0, characters, (shape[0] + 1, *shape[1:])).astype(np.int32)
    return drawn[:-1], drawn[1:]


def xor(small: bool) -> Workload:
    """Four points, 2-8-1."""
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    y = (x.sum(1, keepdims=True) == 1).astype(np.float32)
    return Workload(lambda lib: perceptron(lib.nn, (2, 8, 1), "Tanh"), lambda: (x, y), mean_square)


def logreg(small: bool) -> Workload:
    """Logistic regression 784-10, batch 256, SGD."""
    batch, pixels = (4, 9) if small else (256, 784)
    return Workload(
        lambda lib: lib.nn.Linear(pixels, 10), lambda: images(batch, pixels), cross_entropy, optimizer="SGD", lr=0.1
    )


def mlp(small: bool) -> Workload:
    """784-512-512-10, batch 256, AdamW."""
    batch, sizes = (4, (9, 8, 8, 10)) if small else (256, (784, 512, 512, 10))
    return Workload(lambda lib: perceptron(lib.nn, sizes), lambda: images(batch, sizes[0]), cross_entropy)


def cnn(small: bool) -> Workload:
    """Images of 28x28, convolutions to 32 and 64 channels, a pooling, 128 features, batch 128, AdamW."""
    batch, side, first, second, features = (2, 8, 4, 8, 16) if small else (128, 28, 32, 64, 128)

    def model(lib: Any) -> Any:
        nn = lib.nn
        return nn.Sequential(
            nn.Conv2d(1, first, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * (side // 2) ** 2, features),
            nn.ReLU(),
            nn.Linear(features, 10),
        )

    return Workload(model, lambda: images(batch, 1, side, side), cross_entropy)


def resnet(small: bool) -> Workload:
    """ResNet-18 for images of 3x32x32 (He et al., 2015: a first convolution of 3x3, no pooling after it), batch 128, AdamW."""
    return residual(4, 16, (4, 8, 8, 8)) if small else residual(128, 32, (64, 128, 256, 512))


def resnet_16(small: bool) -> Workload:
    """The same with batch 16, for processors."""
    return residual(2, 16, (4, 8, 8, 8)) if small else residual(16, 32, (64, 128, 256, 512))


def residual(batch: int, side: int, widths: tuple[int, ...], blocks: int = 2) -> Workload:
    """A residual network for images of 3 x side x side, with so many blocks of two convolutions for each of the widths."""

    def model(lib: Any) -> Any:
        nn, relu = lib.nn, lib.nn.functional.relu

        class Block(nn.Module):
            """Two convolutions and a way around them."""

            def __init__(self, n_in: int, n_out: int, stride: int) -> None:
                super().__init__()
                self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
                self.bn1 = nn.BatchNorm2d(n_out)
                self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
                self.bn2 = nn.BatchNorm2d(n_out)
                self.around = nn.Sequential()
                if stride > 1 or n_in != n_out:
                    self.around = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

            def forward(self, x: Any) -> Any:
                inner = self.bn2(self.conv2(relu(self.bn1(self.conv1(x)))))
                return relu(inner + self.around(x))

        layers = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
        for k, width in enumerate(widths):
            layers.append(Block(widths[max(k - 1, 0)], width, 2 if k else 1))
            layers += [Block(width, width, 1) for _ in range(blocks - 1)]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))

    return Workload(model, lambda: images(batch, 3, side, side), cross_entropy)


def lstm(small: bool) -> Workload:
    """Characters: embeddings of 64, an LSTM of 256, sequences of 32, batch 64, Adam."""
    sequence, batch, width, hidden, characters = (3, 2, 4, 8, 5) if small else (32, 64, 64, 256, 96)

    def model(lib: Any) -> Any:
        nn = lib.nn

        class NextCharacter(nn.Module):
            """Logits [sequence, batch, characters] of what follows each of [sequence, batch]."""

            def __init__(self) -> None:
                super().__init__()
                self.embedding = nn.Embedding(characters, width)
                self.lstm = nn.LSTM(width, hidden)
                self.head = nn.Linear(hidden, characters)

            def forward(self, x: Any) -> Any:
                return self.head(self.lstm(self.embedding(x))[0])

        return NextCharacter()

    return Workload(model, lambda: text(sequence, batch, characters=characters), cross_entropy, optimizer="Adam")


def transformer(small: bool) -> Workload:
    """A decoder: width 256, 4 heads, 4 layers, 256 characters, sequences of 128, batch 16, AdamW."""
    return decoder(2, 8, 2, heads=2, sequence=5, characters=7) if small else decoder(16, 256, 4, heads=4)


def decoder(batch: int, width: int, depth: int, heads: int, sequence: int = 128, characters: int = 256) -> Workload:
    """Layers of attention to what is before, and of a perceptron four times as wide."""

    def model(lib: Any) -> Any:
        nn = lib.nn

        class Decoder(nn.Module):
            """Logits [sequence, batch, characters]; each place sees itself and what is before it."""

            def __init__(self) -> None:
                super().__init__()
                layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", norm_first=True)
                self.embedding = nn.Embedding(characters, width)
                self.places = nn.Parameter(lib.randn(sequence, 1, width) * 0.02)
                self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
                self.head = nn.Linear(width, characters)
                self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(sequence))

            def forward(self, x: Any) -> Any:
                return self.head(self.layers(self.embedding(x) + self.places, mask=self.mask, is_causal=True))

        return Decoder()

    return Workload(model, lambda: text(sequence, batch, characters=characters), cross_entropy)


def mlm(small: bool) -> Workload:
    """A masked language model of proteins: width 128, 4 heads, 6 layers, 512 features between, 25 tokens, 32 x 128 of them,
    15 % hidden and asked for, AdamW."""
    sequence, batch, width, heads, depth, tokens = (8, 2, 64, 2, 2, 25) if small else (128, 32, 128, 4, 6, 25)

    def model(lib: Any) -> Any:
        nn = lib.nn

        class Encoder(nn.Module):
            """Logits [batch, sequence, tokens]."""

            def __init__(self) -> None:
                super().__init__()
                layer = nn.TransformerEncoderLayer(
                    width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
                )
                self.embedding = nn.Embedding(tokens, width)
                self.places = nn.Parameter(lib.randn(1, sequence, width) * 0.02)
                self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
                self.dense = nn.Sequential(
                    nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, tokens)
                )

            def forward(self, x: Any) -> Any:
                return self.dense(self.layers(self.embedding(x) + self.places))

        return Encoder()

    def residues() -> Arrays:
        """Tokens with some hidden (21), and what stood there, -100 elsewhere."""
        rng = np.random.default_rng(0)
        drawn = rng.integers(0, 20, (batch, sequence)).astype(np.int32)
        hidden = rng.random(drawn.shape) < 0.15
        return np.where(hidden, 21, drawn).astype(np.int32), np.where(hidden, drawn, -100).astype(np.int32)

    return Workload(model, residues, cross_entropy)


def gpt2s(small: bool) -> Workload:
    """GPT-2 small, 124 M parameters: width 768, 12 heads, 12 layers, 50,257 tokens, 4 x 512 of them, AdamW."""
    return generative(8, 2, 64, 2, 2, 50) if small else generative(512, 4, 768, 12, 12, 50257)


def gpt2s_128(small: bool) -> Workload:
    """The same with 1 x 128 tokens, for processors."""
    return generative(8, 1, 64, 2, 2, 50) if small else generative(128, 1, 768, 12, 12, 50257)


def generative(sequence: int, batch: int, width: int, heads: int, depth: int, tokens: int) -> Workload:
    """A language model of GPT-2's form, whose head has the embedding's weights."""

    def model(lib: Any) -> Any:
        nn, F = lib.nn, lib.nn.functional

        class Block(nn.Module):
            """Attention to what is before, and a perceptron."""

            def __init__(self) -> None:
                super().__init__()
                self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.mlp = nn.Sequential(
                    nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
                )

            def forward(self, x: Any) -> Any:
                n, length = x.shape[0], x.shape[1]
                parts = self.c_attn(self.ln_1(x)).split(width, 2)
                q, k, v = (p.reshape(n, length, heads, width // heads).transpose(1, 2) for p in parts)
                seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.c_proj(seen.transpose(1, 2).reshape(n, length, width))
                return x + self.mlp(self.ln_2(x))

        class GPT(nn.Module):
            """Logits [batch, sequence, tokens]; the head's weights are those of the embedding."""

            def __init__(self) -> None:
                super().__init__()
                self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(sequence, width)
                self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
                self.ln_f = nn.LayerNorm(width)
                with lib.no_grad():
                    self.wte.weight *= 0.02
                    self.wpe.weight *= 0.02

            def forward(self, x: Any) -> Any:
                x = self.wte(x) + self.wpe.weight
                return F.linear(self.ln_f(self.blocks(x)), self.wte.weight)

        return GPT()

    return Workload(model, lambda: text(batch, sequence, characters=tokens), cross_entropy)


WORKLOADS: dict[str, Callable[[bool], Workload]] = {
    f.__name__: f for f in (logreg, mlp, cnn, resnet, resnet_16, lstm, transformer, mlm, gpt2s, gpt2s_128, xor)
}
ON_PROCESSORS = ("resnet_16", "gpt2s_128")  # measured on the cpu device alone
