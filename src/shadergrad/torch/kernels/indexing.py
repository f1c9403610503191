"""Reading and writing at indices."""

from __future__ import annotations

from typing import Any

import shadergrad as sg
from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel, pure_kernel


def _key(indices: Any) -> tuple[Any, ...]:
    return tuple([slice(None) if i is None else i for i in indices])


@kernel("index.Tensor", takes_host=True)
def index(x: Tensor, indices: Any) -> Tensor:
    return x[_key(indices)]


@kernel("index_put", "_unsafe_index_put", takes_host=True)
def index_put(x: Tensor, indices: Any, value: Tensor, accumulate: bool = False) -> Tensor:
    if accumulate:
        at = _positions(x, indices)
        return x.index_put(at, value, True)
    y = x.clone()
    y[_key(indices)] = value
    return y


def _positions(x: Tensor, indices: Any) -> tuple[Tensor, ...]:
    """An index for every axis: a missing one becomes the positions along its axis."""
    if not any(i is None for i in indices) and len(indices) == x.dim():
        return tuple(indices)
    key = _key((*indices, *[None] * (x.dim() - len(indices))))
    axes = [
        sg.arange(n, device=x.device).reshape(tuple(-1 if i == k else 1 for i in range(x.dim())))
        for k, n in enumerate(x.shape)
    ]
    return tuple([axis.expand(x.shape)[key] for axis in axes])


@kernel("embedding")
def embedding(w: Tensor, at: Tensor, padding: int = -1, scale: bool = False, sparse: bool = False) -> Tensor:
    if sparse:
        raise NotImplementedError(
            "[torch] the device webgpu has no sparse gradients. Hint: Embedding(..., sparse=False)."
        )
    return F.embedding(at, w)


@kernel("embedding_dense_backward")
def embedding_dense_backward(g: Tensor, at: Tensor, n: int, padding: int, scale: bool) -> Tensor:
    at, rows = at.reshape(-1), g.reshape(-1, g.shape[-1])
    if padding >= 0:
        rows = sg.where((at == padding).unsqueeze(1), 0.0, rows)
    if scale:
        rows = rows / sg.zeros(n, device=g.device).index_add(0, at, sg.ones(at.shape, device=g.device))[at].unsqueeze(1)
    return sg.zeros((n, g.shape[-1]), dtype=g.dtype, device=g.device).index_add(0, at, rows)


@kernel("_index_put_impl", takes_host=True)
def index_put_impl(x: Tensor, indices: Any, value: Tensor, accumulate: bool = False, unsafe: bool = False) -> Tensor:
    return index_put(x, indices, value, accumulate)


@pure_kernel("select_backward")
def select_backward(g: Tensor, sizes: Any, dim: int, index: int) -> Tensor:
    """Zeros, but for the slice that was selected."""
    dim, index = dim % len(sizes), index % sizes[dim]
    behind = [0, 0] * (len(sizes) - 1 - dim)
    return F.pad(g.unsqueeze(dim), (*behind, index, sizes[dim] - 1 - index))
