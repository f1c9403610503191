"""Views of the same memory as another dtype: which primitive computes them, and the cases that PyTorch refuses."""

from __future__ import annotations

from collections.abc import Callable

from ..dtypes import DType
from ..errors import DTypeError, ShapeError
from ..graph.node import Node, make
from ..graph.primitive import Primitive
from ..primitives.complex import Conj
from ..primitives.dtype_views import AsReal, Reinterpret
from ..primitives.elementwise import Bitcast, Cast
from ..primitives.views import Slice
from ..runtime.device import get_device
from .paths import Path
from .placement import check_storable


def reading(source: DType, dtype: DType, device: str) -> Callable[[Node], Node]:
    """The primitive that reads the memory of `source` as `dtype`. Raises DTypeError if the device cannot."""
    check_storable(dtype, device)
    step: Primitive
    if max(source.category, dtype.category) < 2 and source.itemsize == dtype.itemsize:
        step = Cast(dtype)  # integers wrap, which keeps the bits
    elif source.itemsize == dtype.itemsize == 4:
        step = Bitcast(dtype)
    elif get_device(device).target.language == "numpy":
        step = Reinterpret(source, dtype)
    else:
        raise DTypeError(
            f"[view] {source.name} cannot be seen as {dtype.name} on {device}: there elements take 32 bits, halves 16. "
            "Hint: x.cpu().view(dtype), or x.to(dtype) for the values."
        )
    return lambda x: make(step, x)


def check_layout(source: DType, dtype: DType, layout: tuple[int, ...], shape: tuple[int, ...], offset: int) -> None:
    """Raises ShapeError if elements with `layout` cannot be split into, or combined to, elements of another size."""
    old, new = source.itemsize, dtype.itemsize
    if old == new:
        return
    what = f"to view {source.name} as {dtype.name} (different element sizes)"
    if not layout:
        raise ShapeError(f"[view] self.dim() cannot be 0 {what}.")
    if layout[-1] != 1:
        raise ShapeError(
            f"[view] self.stride(-1) must be 1 {what}, but got {layout[-1]}. Hint: x.contiguous().view(dtype)."
        )
    ratio = new // old
    if ratio < 2:
        return
    if shape[-1] % ratio:
        raise ShapeError(f"[view] self.size(-1) must be divisible by {ratio} {what}, but got {shape[-1]}.")
    if offset % ratio:
        raise ShapeError(f"[view] self.storage_offset() must be divisible by {ratio} {what}, but got {offset}.")
    for axis, step in enumerate(layout[:-1]):
        if step % ratio:
            raise ShapeError(f"[view] self.stride({axis}) must be divisible by {ratio} {what}, but got {step}.")


def signs(path: Path) -> tuple[bool, bool]:
    """Whether a path shows conjugated memory, and whether it shows negated imaginary parts of memory."""
    is_conjugate = is_negative = False
    for k, step in enumerate(path):
        if isinstance(step, Conj):
            is_conjugate = not is_conjugate
        elif isinstance(step, AsReal) and is_conjugate:
            after = path[k + 1] if k + 1 < len(path) else None
            is_negative = isinstance(after, Slice) and after.starts[-1] == 1
            is_conjugate = False
    return is_conjugate, is_negative
