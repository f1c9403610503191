"""x[key] and x[key] = value."""

from __future__ import annotations

import math
import operator
import warnings
from types import EllipsisType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from ..arguments import refuse, type_name
from ..drive.tracing import current
from ..dtypes import bool_, int32, int64, uint8
from ..errors import DTypeError, IndexRangeError, IndexTypeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import Node, make
from ..plan import IN_GATHER
from ..primitives import views as v
from ..primitives.indexing import Gather
from ..symbolic_sizes import bounds_of, broadcast_shapes
from .base import TensorBase
from .coercion import OPERANDS, RaggedError, host_tensor
from .comparison import where
from .creation import arange
from .handle import wrap
from .masks import WHAT, Choice, choice_of
from .norms import NormTensor
from .overwrite import overwrite
from .positions import known_number, wrapped

T = TypeVar("T", bound="SubscriptTensor")


MOST_IN_A_LIST = 32  # entries of a list that is treated as a tuple


class StepError(IndexRangeError, ValueError):
    """A slice with a step of 0 or less."""


class _Block(NamedTuple):
    """Every `step`-th of `size` positions along an axis, from `start` on."""

    start: int
    size: int
    step: int


class SubscriptTensor(NormTensor):
    """Subscripts: indices, slices, tensors of positions, masks."""

    __slots__ = ()
    _selected: ClassVar[Any]  # the class of x[mask] within a compiled step (selected.py)

    def __getitem__(self, key: Any) -> Self:
        """By ints, slices with positive steps, None, Ellipsis, sequences, integer and bool tensors (bools are read; those of
        uint8 too, as in PyTorch). A single bool adds an axis of one element or none."""
        parts = tuple(_on_device_of(self, list(k) if isinstance(k, range | tuple) else k) for k in _parts(key))
        if current.trace is not None and (choice := choice_of(self, parts)) is not None:
            return self._selected.of(choice)
        if any(isinstance(k, bool | np.bool_) or _is_mask(k) for k in parts):
            return _index_by_bools(self, parts)
        return _index(self, parts)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assignment to a part. Of several values for one place, the last one stays.

        If tensors or lists select the part, an assigned tensor must have self's dtype, or int32 for int64 and back, else
        DTypeError. It is cast if only ints and slices select, or if it is one number for the places of a single mask.
        """
        _assign(self, key, value)

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, OPERANDS):
            refuse("__contains__", "element", element, "Tensor or Number")
        return bool((self == element).any().item())


def _parts(key: Any) -> tuple[Any, ...]:
    """The entries of a key, one per axis. A list of sequences, slices or tensors is treated as a tuple, as in PyTorch."""
    if isinstance(key, tuple):
        return key
    if not isinstance(key, list) or len(key) >= MOST_IN_A_LIST or not any(_is_entry(k) for k in key):
        return (key,)
    warnings.warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated: PyTorch takes it as x[tuple(seq)], NumPy as "
        "x[array(seq)]. Hint: x[tuple(seq)], or x[sg.tensor(seq)].",
        stacklevel=4,
    )
    return tuple(key)


def _is_entry(k: Any) -> bool:
    return k is None or k is Ellipsis or isinstance(k, list | tuple | range | slice | np.ndarray | TensorBase)


def _is_mask(k: Any) -> bool:
    """Whether an entry of a key is a single bool, or of uint8, which is read as bools."""
    return isinstance(k, TensorBase) and (k.dtype is uint8 or (k.dtype is bool_ and not k.ndim))


def _index_by_bools(x: T, parts: tuple[Any, ...]) -> T:
    """Subscripts with single bools, each a new axis whose one position is selected or not, and with bytes as bools."""
    made = [_bytes_as_bools(k) for k in parts]
    if not any(k is Ellipsis for k in made):  # not `in`: a tensor compares its elements
        made.append(Ellipsis)
    dots = next(p for p, k in enumerate(made) if k is Ellipsis)
    found, axis = x, 0
    for p, k in enumerate(made):
        if p == dots:
            axis = x.ndim + (axis - sum(_axes_of(q) for q in made if not _is_single(q)))
            continue
        if _is_single(k):
            found = found.unsqueeze(axis)
            made[p] = host_tensor(np.zeros(int(bool(k)), np.int32), device=x.device)
            axis += 1
        else:
            axis += _axes_of(k)
    return _index(found, tuple(made))


def _bytes_as_bools(k: Any) -> Any:
    """An entry of a key; a tensor of uint8 is a mask, with a warning, as in PyTorch."""
    if not isinstance(k, TensorBase) or k.dtype is not uint8:
        return k
    warnings.warn("indexing with dtype uint8 is now deprecated, please use a dtype bool instead.", stacklevel=4)
    return k.to(dtype=bool_)


def _is_single(k: Any) -> bool:
    return isinstance(k, bool | np.bool_) or (isinstance(k, TensorBase) and k.dtype is bool_ and not k.ndim)


def select_positions(x: T, axis: int, index: SubscriptTensor) -> T:
    """x at positions `index` (any shape) along an axis, which is replaced by the axes of `index`."""
    if not index.dtype.is_position:
        wanted = "int32 or int64. Hint: .long() them" if index.dtype.category == 1 else "integers"
        raise DTypeError(f"[index] positions are {index.dtype.name}, not {wanted}.")
    count = index._node.size
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    flat = build.reshape(index._node, tuple(count if a == axis else 1 for a in range(x.ndim)))
    picked = make(Gather(axis), x._node, build.broadcast(flat, shape))
    return wrap(build.reshape(picked, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])))


def _index(x: T, key: tuple[Any, ...]) -> T:
    shape: list[int] = []
    blocks: list[_Block] = []
    selected: list[tuple[int, Any]] = []  # axis of the sliced tensor, positions along it
    full, of_masks = _full_key(x, key)
    x, full = _numbers_first(x, full, of_masks)
    for k in full:
        if k is None:
            shape.append(1)
            continue
        axis = len(blocks)
        if isinstance(k, TensorBase):
            selected.append((len(shape), k if id(k) in of_masks else wrapped(k, x.shape[axis], IN_GATHER)))
            k = slice(None)
        blocks.append(_block(k, axis, x.shape[axis]))
        if isinstance(k, slice):
            shape.append(blocks[-1].size)

    def shown(node: Node) -> Node:
        if any(block.size != n for block, n in zip(blocks, node.shape, strict=True)):
            starts, sizes, steps = zip(*blocks, strict=True)
            node = make(v.Slice(starts, sizes, steps), node)
        return build.reshape(node, tuple(shape))

    if not selected:
        return x._view(shown)
    result = wrap(shown(x._node))
    if len(selected) == 1:
        return select_positions(result, *selected[0])
    return _select_several(result, selected)


def _numbers_first(x: T, full: list[Any], of_masks: set[int]) -> tuple[T, list[Any]]:
    """0-d tensors as ints, so that the result is a view, as in PyTorch; if their values are
    unknown, they are applied before tensors with axes, as ints are.
    """
    if not any(_is_number(k, of_masks) for k in full):
        return x, full
    found: list[Any] = []
    axis = 0
    for k in full:
        number = known_number(k, x.shape[axis]) if _is_number(k, of_masks) else None
        found.append(k if number is None else number)
        axis += k is not None
    if any(isinstance(k, TensorBase) and k.ndim for k in found):
        for place in reversed(range(len(found))):
            if _is_number(k := found[place], of_masks):
                axis = sum(other is not None for other in found[:place])
                x = select_positions(x, axis, wrapped(k, x.shape[axis], IN_GATHER))
                del found[place]
    return x, found


def _is_number(k: Any, of_masks: set[int]) -> bool:
    return isinstance(k, TensorBase) and not k.ndim and id(k) not in of_masks


def _full_key(x: TensorBase, key: tuple[Any, ...]) -> tuple[list[Any], set[int]]:
    """An entry for every axis: an int, a slice or a tensor of integers; and None for a new axis. Also the ids of
    the positions that come from a mask, which are in range.
    """
    parts = [_host_index(k, x) if isinstance(k, list | np.ndarray) else k for k in key]
    used = sum(_axes_of(k) for k in parts)
    if used > x.ndim:
        raise IndexRangeError(f"too many indices for tensor of dimension {x.ndim}: {used}.")
    dots = [p for p, k in enumerate(parts) if isinstance(k, EllipsisType)]
    if len(dots) > 1:
        raise IndexRangeError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(parts)
    full: list[Any] = []
    of_masks: set[int] = set()
    axis = 0
    for k in (*parts[:at], *(slice(None),) * (x.ndim - used), *parts[at + 1 :]):
        if isinstance(k, TensorBase) and k.dtype is bool_:
            places = _positions_of(k, axis, x)
            of_masks |= set(map(id, places))
            full += places
        else:
            full.append(k)
        axis += _axes_of(k)
    return full, of_masks


def _axes_of(k: Any) -> int:
    """The number of axes that an entry indexes."""
    if k is None or k is Ellipsis:
        return 0
    if not isinstance(k, TensorBase) or k.dtype.is_position:
        return 1
    if k.dtype is bool_:
        return k.ndim
    hint = " Hint: .long() gives positions." if k.dtype.category == 1 else ""
    raise IndexTypeError(f"tensors used as indices must be of integers or bools, not {k.dtype.name}.{hint}")


def _on_device_of(x: TensorBase, key: Any) -> Any:
    """An index tensor of the cpu device, moved to the device of x; one on another device is refused later. A single integer may have any
    dtype, as in PyTorch, which treats it as an int.
    """
    if not isinstance(key, TensorBase):
        return key
    if not key.ndim and key.dtype.category == 1 and key.dtype is not uint8 and not key.dtype.is_position:
        key = key.to(dtype=int64)
    return key.to(x.device) if key.device != x.device and key.device == "cpu" else key


def _host_index(key: list[Any] | np.ndarray, x: TensorBase) -> Any:
    """Positions in a list or an array as a tensor; an empty list has no positions."""
    try:
        return host_tensor(key, dtype=None if len(key) else int32, device=x.device)
    except (DTypeError, RaggedError):
        raise _no_index(key) from None


def _no_index(key: Any) -> IndexTypeError:
    hint = " Hint: x[None] adds an axis." if isinstance(key, bool | np.bool_) else ""
    return IndexTypeError(
        "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid indices "
        f"(got {type_name(key)}).{hint}"
    )


def _block(k: Any, axis: int, n: int) -> _Block:
    """The positions of an int or a slice along an axis of n elements."""
    if isinstance(k, slice):
        try:
            start, stop, step = bounds_of(k, n)
        except TypeError:
            raise IndexTypeError(f"slice indices must be integers or None, not {k}.") from None
        except ValueError:
            start, stop, step = 0, 0, 0
        if step < 1:
            raise StepError(f"step must be greater than zero, not {k.step}. Hint: use flip().")
        size = max(0, -(-(stop - start) // step))
        return _Block(min(start, n) if size else 0, size, step)
    if isinstance(k, bool | np.bool_) or not hasattr(k, "__index__"):
        raise _no_index(k)
    at = operator.index(k)
    if not -n <= at < n:
        raise IndexRangeError(f"index {at} is out of bounds for dimension {axis} with size {n}")
    return _Block(at + n if at < 0 else at, 1, 1)


def _positions_of(mask: TensorBase, axis: int, x: TensorBase) -> tuple[Any, ...]:
    """A bool index as positions along each of its axes, starting at `axis` of x. Reads the mask, because the number of positions
    determines the result's shape.
    """
    if mask.shape != x.shape[axis : axis + mask.ndim]:
        raise IndexRangeError(
            f"the shape of the mask {list(mask.shape)} at index {axis} does not match the shape of the indexed tensor "
            f"{list(x.shape)} at index {axis}."
        )
    return tuple(host_tensor(p.astype(np.int32), device=mask.device) for p in np.nonzero(mask._read(WHAT)))


def _select_several(x: T, selected: list[tuple[int, Any]]) -> T:
    """Positions along several axes at once, broadcast together: one gather over the axes joined."""
    axes = [axis for axis, _ in selected]
    try:
        shape = broadcast_shapes(*(tuple(p.shape) for _, p in selected))
    except ValueError:
        raise IndexRangeError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {[list(p.shape) for _, p in selected]}"
        ) from None
    rest = [a for a in range(x.ndim) if a not in axes]
    front = x.permute(*axes, *rest).reshape(math.prod(x.shape[a] for a in axes), *(x.shape[a] for a in rest))
    flat: Any = None
    for axis, positions in selected:
        flat = positions if flat is None else flat * x.shape[axis] + positions
    assert flat is not None
    picked = select_positions(front, 0, flat.expand(*shape))
    if axes != list(range(axes[0], axes[-1] + 1)):
        return picked  # apart from each other: their axes come first, as in NumPy
    k, before = len(shape), axes[0]
    return picked.permute(*range(k, k + before), *range(k), *range(k + before, picked.ndim))


def _assign(x: Any, key: Any, value: Any) -> None:
    keys = tuple(_on_device_of(x, _bytes_as_bools(k)) for k in _parts(key))
    if isinstance(value, x._selected):
        _put_selected(x, keys, value)
        return
    is_plain = all(
        k is None or k is Ellipsis or (isinstance(k, int | np.integer | slice) and not isinstance(k, bool))
        for k in keys
    )
    if is_plain and isinstance(value, bool | int | float):
        part = x[keys]
        part._update_in_place(build.like(part._node, value), "setitem")
        return
    if not isinstance(value, TensorBase):
        if isinstance(value, list | tuple | np.ndarray):
            _refuse_floats(x, host_tensor(value, device="cpu"))
        value = host_tensor(value, dtype=x.dtype, device=x.device)
    if is_plain:
        _assign_to_part(x[keys], value)
        return
    x._check_writable("setitem")  # before keys are checked, as in PyTorch
    if not casts(keys, value):
        _check_dtype(x, value)
    value = wrap(cast(value.to(x.device)._node, x.dtype))
    choice = choice_of(x, keys, ints=value.numel() == 1)
    if choice is not None and (everywhere := _at_all_places(value, choice)) is not None:
        choice.part._update_in_place(where(choice.mask, everywhere, choice.part), "setitem")
        return
    numbers = arange(1, x.numel() + 1, device=x.device).reshape(x.shape)
    places = numbers[keys] - 1  # -1 for positions out of range
    value = _without_leading_ones(value, places.ndim).expand(*places.shape).reshape(-1)
    written = overwrite(x.reshape(-1)._node, 0, places.reshape(-1)._node, value._node)
    x._update_in_place(build.reshape(written, tuple(x.shape)), "setitem")


def _put_selected(x: Any, keys: tuple[Any, ...], value: Any) -> None:
    choice = choice_of(x, keys)
    if choice is None:
        value.refuse()
        return
    x._check_writable("setitem")
    written = value.put_into(choice)
    _check_dtype(x, written)
    choice.part._update_in_place(cast(written._node, x.dtype), "setitem")


def _at_all_places(value: Any, choice: Choice) -> Any:
    """A value that is the same at all places of the mask, in a shape that broadcasts to the part; None if it differs, or does not fit."""
    if value.numel() == 1:
        return value.reshape(())
    rest = choice.part.shape[choice.axes :]
    value = _without_leading_ones(value, len(rest))
    fits = value.ndim <= len(rest) and all(n in (1, m) for n, m in zip(value.shape[::-1], rest[::-1], strict=False))
    return value if fits else None


def _without_leading_ones(value: Any, ndim: int) -> Any:
    """A value without leading axes of size 1 beyond the `ndim` axes of the part, as in PyTorch."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


def casts(keys: tuple[Any, ...], value: TensorBase) -> bool:
    """Whether an assignment casts: to a part without index tensors, and of one number at the places of a single mask, as in PyTorch."""
    chosen = [
        k for k in keys if isinstance(k, list | tuple | range | np.ndarray) or (isinstance(k, TensorBase) and k.ndim)
    ]
    return not chosen or (len(chosen) == 1 and value.numel() == 1 and _holds_bools(chosen[0]))


def _holds_bools(key: Any) -> bool:
    return key.dtype is bool_ if isinstance(key, TensorBase) else np.asarray(key).dtype == np.bool_


def _check_dtype(x: TensorBase, value: TensorBase) -> None:
    if not x.dtype.takes(value.dtype):
        raise DTypeError(
            f"Index put requires the source and destination dtypes match, got {x.dtype.name} for the destination and "
            f"{value.dtype.name} for the source. Hint: .to(x.dtype) it; of floats as integers it drops the fractions."
        )


def _refuse_floats(x: TensorBase, value: TensorBase) -> None:
    """Refuses numbers of the host that the dtype of x would truncate."""
    if value.dtype.category > x.dtype.category:
        _check_dtype(x, value)


def _assign_to_part(part: Any, value: Any) -> None:
    if part._is_the_same_view(value):  # x[0] += 1, which has written already
        part._check_writable("setitem")
        return
    value = value.to(part.device, part.dtype)
    value = _without_leading_ones(value, part.ndim)
    part._update_in_place(value.expand(*part.shape), "setitem")
