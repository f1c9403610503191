"""PyTorch with this library's random numbers, so that one program draws the same weights and noise from both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import shadergrad as sg

IN_PLACE = ("uniform_", "normal_", "bernoulli_", "exponential_")
MADE = ("rand", "randn", "randint", "randperm", "normal")  # on the cpu device: programs move what they draw
LIKE = ("rand_like", "randn_like", "multinomial", "bernoulli")  # where their argument is


def _ours(value: Any, device: str = "cpu") -> Any:
    """A tensor as ours, all else as it is."""
    return sg.tensor(value.detach().numpy(), device=device) if isinstance(value, torch.Tensor) else value


def _theirs(value: sg.Tensor, like: Any = None) -> torch.Tensor:
    found = torch.from_numpy(np.array(value.numpy()))
    return found if like is None else found.to(like.dtype)


def _in_place(name: str) -> Callable[..., Any]:
    def draw(self: Any, *args: Any, generator: Any = None, **options: Any) -> Any:
        drawn = getattr(sg.zeros(tuple(self.shape)), name)(*map(_ours, args), **options)
        with torch.no_grad():
            return self.copy_(_theirs(drawn))

    return draw


def _made(name: str, device: str) -> Callable[..., Any]:
    integer = name in ("randint", "randperm", "multinomial")

    def draw(*args: Any, requires_grad: bool = False, dtype: Any = None, **options: Any) -> Any:
        kept = {k: v for k, v in options.items() if k not in ("device", "generator")}
        drawn = getattr(sg, name)(*(_ours(a, device) for a in args), **kept)
        wanted = dtype or (torch.int64 if integer else torch.float32)
        return _theirs(drawn).to(wanted).requires_grad_(requires_grad)

    return draw


def _dropout(device: str) -> Callable[..., Any]:
    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or not p:
            return input
        return input * _theirs(sg.nn.functional.dropout(sg.ones(tuple(input.shape), device=device), p))

    return dropout


@contextmanager
def pytorch_draws_as_we_do(device: str) -> Iterator[None]:
    """Within, every random number of PyTorch's comes from our generators, in the order in which it is asked for: those of
    a model from that of `device`, where our model would be, all others from that of the cpu."""
    patches = [(torch.Tensor, name, _in_place(name)) for name in IN_PLACE]
    patches += [(torch, name, _made(name, "cpu")) for name in MADE]
    patches += [(torch, name, _made(name, device)) for name in LIKE]
    patches += [(torch.nn.functional, "dropout", _dropout(device))]
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in patches]
    for holder, name, patch in patches:
        setattr(holder, name, patch)
    try:
        yield
    finally:
        for holder, name, old in before:
            setattr(holder, name, old)
