"""Kernels with 16-bit operands compute in float32 and round each result once, as PyTorch's own kernels do.

In: a kernel over values, and an operator's arguments. Out: its results, in the dtypes of PyTorch's Meta kernels, which are called once
for each operator and combination of dtypes. The rounding of shadergrad's functions (docs/decisions/0029) is not applied in addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

import shadergrad as sg

from ..dtypes import met
from ..tensor import Tensor
from .dtypes import STORED
from .storage import read

_ONE_FUNCTION = """
add.Tensor sub.Tensor mul.Tensor div.Tensor mm bmm relu where.self masked_fill.Scalar masked_fill.Tensor cat sum sum.dim_IntList mean mean.dim
convolution convolution_overrideable bernoulli native_dropout
"""  # kernels that are one of our functions, which rounds once
AS_THEY_ARE = frozenset(_ONE_FUNCTION.split())
HALVES = (torch.float16, torch.bfloat16)
_known: dict[Any, list[Any] | None] = {}


def _is_half(value: Any) -> bool:
    return isinstance(value, Tensor) and value._node.dtype.is_half


def any_half(values: Any) -> bool:
    """Whether a kernel's arguments contain a tensor of halves, also in lists. Cheap if a program never used halves."""
    if not met.halves:
        return False
    for value in values:
        if isinstance(value, Tensor):
            if value._node.dtype.is_half:
                return True
        elif isinstance(value, (list, tuple)) and any(_is_half(v) for v in value):
            return True
    return False


def widened(value: Any) -> Any:
    """An argument of a kernel, with float32 in place of halves."""
    if isinstance(value, Tensor):
        return value.to(sg.float32) if value._node.dtype.is_half else value
    return type(value)([widened(v) for v in value]) if type(value) in (list, tuple) else value


def read_single(x: torch.Tensor) -> Any:
    """The value of a torch.Tensor for a kernel that computes: of halves in float32."""
    return widened(read(x))


def in_single(function: Callable[..., Any], op: Any, given: tuple[Any, Any], values: Any, named: Any) -> Any:
    """The results of a kernel over values of halves. given: the operator's own arguments."""
    out = function(*[widened(v) for v in values], **{k: widened(v) for k, v in named.items()})
    shown = _dtypes(op, *given)
    if isinstance(out, Tensor):
        return _rounded(out, shown[0] if shown else None, given)
    if not isinstance(out, (tuple, list)):
        return out
    kinds = shown if shown is not None and len(shown) == len(out) else [None] * len(out)
    return tuple([_rounded(v, kind, given) for v, kind in zip(out, kinds, strict=True)])


def _rounded(value: Any, dtype: Any, given: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple([_rounded(v, dtype, given) for v in value])
    if not isinstance(value, Tensor) or value.dtype is not sg.float32:
        return value
    if dtype is None:
        dtype = next(a.dtype for a in pytree.tree_leaves(given) if isinstance(a, torch.Tensor) and a.dtype in HALVES)
    return value.to(STORED[dtype]) if dtype in HALVES else value


def _kind(a: Any) -> Any:
    if isinstance(a, torch.Tensor):
        return a.dtype, a.dim() > 0
    return a if a is None or isinstance(a, (bool, torch.dtype)) else type(a)


def _dtypes(op: Any, args: Any, kwargs: Any) -> list[Any] | None:
    """The dtypes of an operator's results; None if PyTorch has no Meta kernel for it."""
    key = op, tuple(_kind(a) for a in pytree.tree_leaves((args, kwargs))), tuple(kwargs)
    if key not in _known:
        try:
            out = op(*pytree.tree_map(_on_meta, args), **pytree.tree_map(_on_meta, kwargs))
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            _known[key] = None
        else:
            parts = out if isinstance(out, (tuple, list)) else [out]
            _known[key] = [p.dtype if isinstance(p, torch.Tensor) else None for p in parts]
    return _known[key]


def _on_meta(a: Any) -> Any:
    if isinstance(a, torch.Tensor):
        return torch.empty_like(a, device="meta")
    return torch.device("meta") if isinstance(a, torch.device) else a
