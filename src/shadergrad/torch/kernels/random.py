"""Random numbers, from shadergrad's stream of the device. A torch.Generator raises an error, because it would not be used."""

from __future__ import annotations

from typing import Any

import torch

import shadergrad as sg

from ...tensor import Tensor
from ..dtypes import STORED, stored
from ..halves import read_single
from ..sequences import followed
from ..storage import Place, read, refuse_generator, strides_of_copy, wrap, wrap_as, write
from ..table import kernel, on_tensors, passing


def _uniform(x: torch.Tensor) -> Tensor:
    return sg.rand(tuple(x.shape), device=Place.device)


@on_tensors("uniform_")
def uniform(x: torch.Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    refuse_generator(generator)
    return write(x, sg.empty(tuple(x.shape), dtype=STORED[x.dtype], device=Place.device).uniform_(low, high))


@on_tensors("normal_")
def normal(x: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    refuse_generator(generator)
    return write(x, sg.randn(tuple(x.shape), device=Place.device) * std + mean)


@on_tensors("bernoulli_.float")
def bernoulli_with(x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> torch.Tensor:
    refuse_generator(generator)
    return write(x, (_uniform(x) < p).to(STORED[x.dtype]))


@on_tensors("bernoulli_.Tensor")
def bernoulli_as(x: torch.Tensor, p: torch.Tensor, *, generator: Any = None) -> torch.Tensor:
    refuse_generator(generator)
    return write(x, (_uniform(x) < read(p)).to(STORED[x.dtype]))


@kernel("bernoulli")
def bernoulli(p: Tensor, *, generator: Any = None) -> Tensor:
    refuse_generator(generator)
    return (sg.rand(p.shape, device=Place.device) < p).to(p.dtype)


@on_tensors("exponential_")
def exponential(x: torch.Tensor, rate: float = 1.0, *, generator: Any = None) -> torch.Tensor:
    refuse_generator(generator)
    return write(x, -(1 - _uniform(x)).log() / rate)


@on_tensors("random_.from")
def random_between(x: torch.Tensor, low: int, high: Any, *, generator: Any = None) -> torch.Tensor:
    refuse_generator(generator)
    high = torch.iinfo(x.dtype).max if high is None else high
    return write(x, sg.randint(low, high, tuple(x.shape), device=Place.device))


@on_tensors("random_.to")
def random_below(x: torch.Tensor, high: int, *, generator: Any = None) -> torch.Tensor:
    return random_between(x, 0, high, generator=generator)


@on_tensors("randperm")
def randperm(
    n: int, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> torch.Tensor:
    dtype = torch.int64 if dtype is None else dtype
    return wrap(sg.randperm(n, device=Place.device).to(stored(dtype)), dtype)


@on_tensors("randperm.generator")
def randperm_of(n: int, *, generator: Any, **options: Any) -> torch.Tensor:
    refuse_generator(generator)
    return randperm(n, **options)


@passing("native_dropout")
def native_dropout(x: torch.Tensor, p: float, train: Any) -> Any:
    """In two parts, so that only the draw is recorded in each step."""
    if train is False or p == 0:
        return x.clone(), torch.ones(x.shape, dtype=torch.bool, device=x.device)
    kept = _drawn(tuple(x.shape), p)
    return _dropped(x, kept, 1 / (1 - p) if p < 1 else 0.0), kept


_drawn = followed("drawn", lambda shape, p: wrap(sg.rand(shape, device=Place.device) >= p))


def _of_kept(x: torch.Tensor, kept: torch.Tensor, scale: float) -> torch.Tensor:
    value = sg.where(read(kept), read(x) * scale, 0.0)
    stride = strides_of_copy(x)
    return wrap(value, x.dtype) if stride is None else wrap_as(value, x.dtype, stride)


_dropped = followed("dropped", _of_kept)


kernel("native_dropout_backward")(lambda g, mask, scale: g * mask.to(g.dtype) * scale)


@on_tensors("rrelu_with_noise")
def rrelu(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> torch.Tensor:
    """Stores the drawn slopes in `noise`, 1 where x is positive, for the gradient."""
    refuse_generator(generator)
    value = read_single(x)
    if not training:
        return wrap(sg.where(value > 0, value, value * ((lower + upper) / 2)), x.dtype)
    slopes = sg.where(value > 0, 1.0, _uniform(x) * (upper - lower) + lower).to(value.dtype)
    write(noise, slopes)
    return wrap(value * slopes, x.dtype)
