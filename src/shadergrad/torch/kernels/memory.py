"""Operators that create, copy, resize and view storages. Over torch.Tensors."""

from __future__ import annotations

from typing import Any

import torch

import shadergrad as sg
from shadergrad.nn import functional as F

from ..dtypes import STORED, stored
from ..private import as_strided, lay, on_meta, sized_on_meta, viewed
from ..storage import (
    Place,
    cell_of,
    from_host,
    is_ours,
    offset_of,
    read,
    refuse_other,
    strides_of_copy,
    to_host,
    view,
    wrap,
    wrap_as,
    write,
)
from ..strides import reach
from ..table import on_tensors, passing

aten = torch.ops.aten


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


@on_tensors("empty.memory_format")
def empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> torch.Tensor:
    refuse_other(device)
    dtype = dtype or torch.get_default_dtype()
    value = sg.zeros(tuple(size), dtype=stored(dtype), device=Place.device)
    if memory_format in (None, torch.contiguous_format):
        return wrap(value, dtype)
    return wrap_as(value, dtype, torch.empty(size, device="meta", memory_format=memory_format).stride())


@on_tensors("empty_strided")
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> torch.Tensor:
    refuse_other(device)
    dtype = dtype or torch.get_default_dtype()
    shape, stride = tuple(size), tuple(stride)
    if stride == _contiguous(shape):
        return wrap(sg.zeros(shape, dtype=stored(dtype), device=Place.device), dtype)
    line = wrap(sg.zeros((reach(shape, stride, 0),), dtype=stored(dtype), device=Place.device), dtype)
    return view(line, shape, stride, 0)


@on_tensors("copy_")
def copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """copy_ itself and not _copy_from, whose target PyTorch would resolve into another tensor if it is a conjugate."""
    if is_ours(target):
        return write(target, read(source) if is_ours(source) else from_host(source))
    return target.copy_(to_host(source))


@on_tensors("copy")
def copied(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """The functional copy_: the target's shape, dtype and order of axes, the source's values."""
    return copy(torch.empty_like(target), source)


@on_tensors("_copy_from")
def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return copy(target, source)


@on_tensors("_copy_from_and_resize")
def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    target.resize_(source.shape)
    return target.copy_(source)


@on_tensors("_to_copy")
def to_copy(
    x: torch.Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> torch.Tensor:
    refuse_other(device)
    dtype = dtype or x.dtype
    if device is not None and device.type != "webgpu":
        return to_host(x).to(device=device, dtype=dtype, memory_format=memory_format or torch.preserve_format)
    if is_ours(x):
        value, kept = read(x), stored(dtype)
        value = value.clone() if value.dtype is kept else value.to(kept)
    else:
        value = from_host(x, dtype)
    stride = strides_of_copy(x, memory_format)
    return wrap(value, dtype) if stride is None else wrap_as(value, dtype, stride)


@on_tensors("clone", "lift_fresh_copy")
def clone(x: torch.Tensor, *, memory_format: Any = None) -> torch.Tensor:
    stride = strides_of_copy(x, memory_format)
    value = read(x).clone()
    return wrap(value, x.dtype) if stride is None else wrap_as(value, x.dtype, stride)


passing("as_strided")(as_strided)
passing("view")(viewed)
passing("unfold")(sized_on_meta("unfold"))


@passing("_reshape_alias")
def reshape_alias(x: torch.Tensor, size: Any, stride: Any) -> torch.Tensor:
    return view(x, tuple(size), tuple(stride))


@passing("view.dtype")
def view_as_dtype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return on_meta(aten.view.dtype, x, dtype)


@passing("view_as_real")
def view_as_real(x: torch.Tensor) -> torch.Tensor:
    return on_meta(aten.view_as_real.default, x)


@passing("view_as_complex")
def view_as_complex(x: torch.Tensor) -> torch.Tensor:
    seen = on_meta(aten.view_as_complex.default, x)
    stored(seen.dtype)  # refuses pairs of halves, of which there are no complex numbers
    return seen


@passing("set_.source_Storage_storage_offset")
def set_storage(x: torch.Tensor, storage: Any, offset: int, size: Any, stride: Any = ()) -> torch.Tensor:
    return on_meta(aten.set_.source_Storage_storage_offset, x, storage, offset, size, stride)


@passing("set_.source_Tensor")
def set_tensor(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return on_meta(aten.set_.source_Tensor, x, y)


@on_tensors("resize_")
def resize(x: torch.Tensor, size: Any, *, memory_format: Any = None) -> torch.Tensor:
    shape = tuple(size)
    if tuple(x.shape) != shape:
        cell = cell_of(x)
        line = cell.value.reshape(-1)
        stride = _contiguous(shape)
        if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
            stride = torch.empty(shape, device="meta", memory_format=memory_format).stride()
        lay(x, x.untyped_storage(), offset_of(x), shape, stride)
        missing = reach(shape, x.stride(), offset_of(x)) - line.numel()
        if missing > 0:  # in the same cell: others share this storage
            cell.value = F.pad(line, (0, missing))
    return x


@on_tensors("_local_scalar_dense")
def item(x: torch.Tensor) -> Any:
    return to_host(x).item()


@on_tensors("fill_.Scalar")
def fill(x: torch.Tensor, value: Any) -> torch.Tensor:
    if isinstance(value, complex):
        return write(x, sg.tensor(value, dtype=STORED[x.dtype], device=Place.device))
    return write(x, sg.full(tuple(x.shape), value, dtype=STORED[x.dtype], device=Place.device))


@on_tensors("fill_.Tensor")
def fill_with(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return write(x, read(value))


@on_tensors("zero_")
def zero(x: torch.Tensor) -> torch.Tensor:
    return write(x, sg.zeros(tuple(x.shape), dtype=STORED[x.dtype], device=Place.device))


@passing("record_stream")
def record_stream(x: torch.Tensor, stream: Any) -> None:
    """Nothing: submissions run in order, so no memory is reused too early."""


@on_tensors("arange.start_step")
def arange(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> torch.Tensor:
    whole = all(isinstance(v, int) for v in (start, end, step))
    dtype = dtype or (torch.int64 if whole else torch.get_default_dtype())
    return wrap(sg.arange(start, end, step, dtype=stored(dtype), device=Place.device), dtype)


@on_tensors("arange.start_out")
def arange_out(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    value = sg.arange(start, end, step, dtype=stored(out.dtype), device=Place.device)
    out.resize_(value.shape)
    return write(out, value)


@on_tensors("eye.m_out", "eye.out")
def eye_out(n: int, m: int | None = None, *, out: torch.Tensor) -> torch.Tensor:
    out.resize_((n, n if m is None else m))
    return write(out, sg.eye(n, n if m is None else m, dtype=stored(out.dtype), device=Place.device))


@on_tensors("_efficientzerotensor")
def zeros_of_no_memory(size: Any, *, dtype: Any = None, **options: Any) -> torch.Tensor:
    dtype = dtype or torch.get_default_dtype()
    return wrap(sg.zeros(tuple(size), dtype=stored(dtype), device=Place.device), dtype)


@on_tensors("as_strided_scatter")
def as_strided_scatter(x: torch.Tensor, part: torch.Tensor, size: Any, stride: Any, offset: Any = None) -> torch.Tensor:
    result = wrap(read(x).clone(), x.dtype)
    write(view(result, tuple(size), tuple(stride), offset or 0), read(part))
    return result


def _refuse_sparse(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        "[torch] the device webgpu holds dense tensors only; to_sparse() makes a sparse one. Hint: keep it dense, or .cpu() first."
    )


on_tensors(
    "_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc"
)(_refuse_sparse)
