"""The memory order of a result's axes when an operand is not row-major: channels_last, transposed matrices, slices.

In: an operator, its arguments and its row-major results. Out: the results with the strides of PyTorch's own kernels. PyTorch's Meta kernels
give the strides, and are called once for each operator, sizes and strides. Strides are adjusted only if they order the elements differently.
https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch-memory-format
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from .private import name_of
from .storage import read, wrap_as

# whatever their operands
ROW_BY_ROW = frozenset(
    ("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "linear", "linear_backward", "_local_scalar_dense")
)
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_LIMIT = 4096  # cached answers
_known: dict[Any, list[Any] | None] = {}


def _is_scattered(values: Any) -> bool:
    """Whether an argument, or a tensor in a list, is not row-major, or has gaps."""
    for a in values:
        if isinstance(a, torch.Tensor):
            if not a.is_contiguous():
                return True
        elif isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor) and _is_scattered(a):
            return True
    return False


def _kind(a: Any) -> Any:
    """The properties of an argument on which the strides of a result may depend."""
    if isinstance(a, torch.Tensor):
        return tuple(a.shape), a.stride(), a.dtype
    if isinstance(a, (list, tuple)):
        return tuple([_kind(x) for x in a])
    return float if isinstance(a, float) else a


def _on_meta(a: Any) -> Any:
    if isinstance(a, torch.Tensor):
        return torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device="meta")
    return torch.device("meta") if isinstance(a, torch.device) else a


def _is_dense(m: torch.Tensor) -> bool:
    """Whether the elements fill a block of memory, each once."""
    expected = 1
    for s, k in sorted(zip(m.stride(), m.shape, strict=True)):
        if k != 1 and s != expected:
            return False
        expected *= k
    return True


def _row_by_row(m: torch.Tensor) -> tuple[int, ...]:
    return torch.empty(m.shape, device="meta").stride()


def _of_convolution(op: Any, *args: Any, **kwargs: Any) -> Any:
    """As in oneDNN: channels last if the input or the weights are. The Meta kernel has only CUDA's rule."""
    form = _CHANNELS_LAST.get(args[0].dim())
    shown = op(*args, **kwargs)
    if form is None or not any(x.is_contiguous(memory_format=form) and not x.is_contiguous() for x in args[:2]):
        return shown
    return torch.empty(shown.shape, device="meta", memory_format=form)


def _of_numbers(args: Any) -> Any:
    """As for a sum of the operands: the Meta kernel refused a number in place of a tensor."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return sum(tensors[1:], tensors[0] + 0)


_ASKED: dict[str, Callable[..., Any]] = {  # in place of the operator's Meta kernel
    "convolution": _of_convolution,
    "convolution_overrideable": lambda op, *args, **kwargs: _of_convolution(
        torch.ops.aten.convolution.default, *args, **kwargs
    ),
    "roll": lambda op, x, *args: torch.empty_like(x),
    "native_group_norm_backward": lambda op, g, x, *args: torch.empty_like(x),
}


def _shown(op: Any, args: Any, kwargs: Any) -> Any:
    asked = _ASKED.get(name_of(op))
    if asked is not None:
        return asked(op, *args, **kwargs)
    if torch.Tag.pointwise in op.tags and any(isinstance(a, (int, float)) for a in args):
        try:
            return op(*args, **kwargs)
        except RuntimeError:
            return _of_numbers(args)
    return op(*args, **kwargs)


def _layouts(op: Any, args: Any, kwargs: Any) -> list[Any] | None:
    """Sizes and strides of each result, or None for a row-major one; None if PyTorch does not give them."""
    key = op, _kind(args), tuple((k, _kind(v)) for k, v in kwargs.items())
    try:
        return _known[key]
    except KeyError:
        pass
    try:
        meta, named = pytree.tree_map(_on_meta, args), pytree.tree_map(_on_meta, kwargs)
        out = _shown(op, meta, named)
    except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError):
        found = None
    else:
        parts = out if isinstance(out, (tuple, list)) else (out,)
        found = [
            (m.shape, m.stride())
            if isinstance(m, torch.Tensor) and _is_dense(m) and m.stride() != _row_by_row(m)
            else None
            for m in parts
        ]
        found = found if any(found) else None
    if len(_known) >= _LIMIT:
        _known.clear()
    _known[key] = found
    return found


def _laid(result: Any, layout: Any) -> Any:
    if layout is None or not isinstance(result, torch.Tensor) or result.shape != layout[0]:
        return result
    return wrap_as(read(result), result.dtype, layout[1])


def as_pytorch_lays(name: str, op: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel whose results have the strides of PyTorch's."""
    if name in ROW_BY_ROW:
        return run

    def laid(*args: Any, **kwargs: Any) -> Any:
        out = run(*args, **kwargs)
        if not _is_scattered(args) or out is None:
            return out
        layouts = _layouts(op, args, kwargs)
        if layouts is None:
            return out
        if isinstance(out, torch.Tensor):
            return _laid(out, layouts[0])
        return tuple([_laid(r, s) for r, s in zip(out, (*layouts, *[None] * len(out)), strict=False)])

    return laid
