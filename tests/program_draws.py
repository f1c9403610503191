"""PyTorch with this library's random numbers, so that one program draws the same weights and noise from both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import shadergrad as sg

IN_PLACE = ("uniform_", "normal_", "bernoulli_", "exponential_")
MADE = ("rand", "randn", "randint", "randperm", "normal", "rand_like", "randn_like", "multinomial", "bernoulli")


def _ours(value: Any) -> Any:
    """A tensor as ours, all else as it is."""
    return sg.tensor(value.detach().numpy()) if isinstance(value, torch.Tensor) else value


def _theirs(value: sg.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.array(value.numpy()))


def _in_place(name: str) -> Callable[..., Any]:
    def draw(self: Any, *args: Any, generator: Any = None, **options: Any) -> Any:
        drawn = getattr(sg.zeros(tuple(self.shape)), name)(*map(_ours, args), **options)
        with torch.no_grad():
            return self.copy_(_theirs(drawn))

    return draw


def _made(name: str) -> Callable[..., Any]:
    integer = name in ("randint", "randperm", "multinomial")

    def draw(*args: Any, requires_grad: bool = False, dtype: Any = None, **options: Any) -> Any:
        kept = {k: v for k, v in options.items() if k not in ("device", "generator")}
        drawn = getattr(sg, name)(*map(_ours, args), **kept)
        wanted = dtype or (torch.int64 if integer else torch.float32)
        return _theirs(drawn).to(wanted).requires_grad_(requires_grad)

    return draw


def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not training or not p:
        return input
    return input * _theirs(sg.nn.functional.dropout(sg.ones(tuple(input.shape)), p))


@contextmanager
def pytorch_draws_as_we_do() -> Iterator[None]:
    """Within, every random number of PyTorch's comes from our stream, in the order in which it is asked for."""
    patches = [(torch.Tensor, name, _in_place(name)) for name in IN_PLACE]
    patches += [(torch, name, _made(name)) for name in MADE]
    patches += [(torch.nn.functional, "dropout", _dropout)]
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in patches]
    for holder, name, patch in patches:
        setattr(holder, name, patch)
    try:
        yield
    finally:
        for holder, name, old in before:
            setattr(holder, name, old)
