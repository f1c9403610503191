"""Low-rank adaptation in PyTorch alone: a model that has read Python's documentation learns a tale, and its matrices stay as they were.

Hu et al., LoRA: low-rank adaptation of large language models, 2021. torch.nn.utils.parametrize adds the product of two thin matrices to
each weight; these alone are trained.
Run: python examples/torch/lora.py [webgpu|cpu]; cpu is PyTorch's.
"""

import itertools
import sys
from collections.abc import Iterator
from importlib.resources import files
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

import shadergrad.torch  # registers the device

BLOCK, LAYERS, HEADS, WIDTH, BATCH, RANK = 32, 2, 4, 64, 16, 4
FIRST, THEN = 300, 200  # steps
TALE = (files("shadergrad.recipes") / "tale.txt").read_text(encoding="utf-8")
PYTHON = topics["class"] + topics["function"]
LETTERS = sorted(set(TALE + PYTHON))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.places = nn.Embedding(BLOCK, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        x = self.letters(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.layers(x, mask, is_causal=True))


class LowRank(nn.Module):
    """A weight plus the product of two thin matrices, of which the second begins as zeros."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(RANK, weight.shape[1]).to(weight.device) / weight.shape[1] ** 0.5)
        self.up = nn.Parameter(torch.zeros(weight.shape[0], RANK, device=weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


def build(device: str) -> Model:
    return Model().to(device)


def adapt(model: Model) -> list[nn.Parameter]:
    """The parameters of a low-rank change to every weight of the layers; all else is frozen."""
    model.requires_grad_(False)
    linear = [m for m in model.layers.modules() if isinstance(m, nn.Linear)]
    changes = [LowRank(m.weight) for m in linear]
    for m, change in zip(linear, changes, strict=True):
        parametrize.register_parametrization(m, "weight", change)
    return [p for change in changes for p in change.parameters()]


def steps(model: Model, parameters: list[nn.Parameter], text: str, lr: float, device: str) -> Iterator[Tensor]:
    """The loss per letter of each step, without end."""
    data = torch.tensor([LETTERS.index(c) for c in text])
    optimizer = torch.optim.AdamW(parameters, lr)
    while True:
        rows = torch.randint(0, len(data) - BLOCK, (BATCH, 1)) + torch.arange(BLOCK + 1)
        piece = data[rows].to(device)
        loss = F.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def training(model: Model, device: str) -> Iterator[Tensor]:
    """First all parameters on the documentation, then the adaptation on the tale."""
    yield from itertools.islice(steps(model, list(model.parameters()), PYTHON, 3e-3, device), FIRST)
    yield from itertools.islice(steps(model, adapt(model), TALE, 1e-2, device), THEN)


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "webgpu"
    torch.manual_seed(0)
    model = build(device)
    for k, loss in enumerate(training(model, device)):
        if k in (0, FIRST) or (k + 1) % 100 == 0:
            print(f"{'documentation' if k < FIRST else 'tale'}: step {k + 1}  loss per letter {loss.item():.3f}")
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"the tale took {trained} of {sum(p.numel() for p in model.parameters())} parameters")
