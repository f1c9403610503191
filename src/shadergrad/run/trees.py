"""Tensors in nested arguments and results: finding, replacing and naming them.

In: a tensor, or tuples, named tuples, dataclasses, lists and dicts of tensors and other values. The order is that in which they are
written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields
from types import UnionType
from typing import Any

import numpy as np

from ..errors import CompileError
from ..tensor import Tensor
from ..tensor.strides import is_run_of_rows, lies_row_by_row
from .places import is_plain


def exchange(value: Any, kind: type | UnionType, new: Callable[[Any], Any], made: dict[int, Any] | None = None) -> Any:
    """`value` with each x of a kind within it replaced by new(x).

    made: the copies of containers encountered so far, by id: with it, a container that occurs twice stays one. Several calls with
    the same `made` preserve the sharing between their values.
    """
    if isinstance(value, kind):
        return new(value)
    if not isinstance(value, tuple | list | dict) and not _is_record(value):
        return value
    if made is None:
        return _exchanged(value, kind, new, None)
    if id(value) not in made:
        made[id(value)] = _exchanged(value, kind, new, made)
    return made[id(value)]


def _exchanged(value: Any, kind: type | UnionType, new: Callable[[Any], Any], made: dict[int, Any] | None) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(exchange(v, kind, new, made) for v in value))
    if isinstance(value, tuple | list):
        return type(value)(exchange(v, kind, new, made) for v in value)
    if isinstance(value, dict):
        return {k: exchange(v, kind, new, made) for k, v in value.items()}
    if any(isinstance(leaf, kind) for _, leaf in leaves_of(value)):
        record = copy.copy(value)  # not constructed again: its checks are for tensors, and have run
        for name, v in _fields(value):
            object.__setattr__(record, name, exchange(v, kind, new, made))
        return record
    return value


def containers_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each mutable container within (list, dict, dataclass), with its contents: a list, or a dict by keys or names."""
    if isinstance(value, tuple):
        inner = value
    elif isinstance(value, list):
        yield value, list(value)
        inner = value
    elif isinstance(value, dict) or _is_record(value):
        held = dict(value) if isinstance(value, dict) else dict(_fields(value))
        yield value, held
        inner = held.values()
    else:
        return
    for v in inner:
        yield from containers_in(v)


def tensors_in(value: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Each tensor within, with its access path from `path`: `batch[0]`, `options['a']`, `pair.loss`."""
    return ((where, leaf) for where, leaf in leaves_of(value, path) if isinstance(leaf, Tensor))


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors and everything else that is not a container, with the access path from `path`."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, v in zip(value._fields, value, strict=True):  # pyright: ignore[reportAttributeAccessIssue]  # a named tuple
            yield from leaves_of(v, f"{path}.{name}")
    elif isinstance(value, tuple | list):
        for k, v in enumerate(value):
            yield from leaves_of(v, f"{path}[{k}]")
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from leaves_of(v, f"{path}[{k!r}]")
    elif _is_record(value):
        for name, v in _fields(value):
            yield from leaves_of(v, f"{path}.{name}")
    else:
        yield path, value


def _is_record(value: Any) -> bool:
    return hasattr(type(value), "__dataclass_fields__")  # the test of `is_dataclass`, which is several times slower


def _fields(record: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(record, f.name)) for f in fields(record)]


def signature(value: Any, tensors: list[Tensor]) -> Any:
    """The key that must be equal for two calls to share a capture; also collects the tensors in order.

    Raises CompileError on a value that cannot be an argument.
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        node = value._node
        flags = (node.requires_grad or has_gradient(value), layout_of(value))
        return ("tensor", node.shape, node.dtype.name, node.device, flags, *marks_of(value))
    if isinstance(value, np.ndarray):
        raise CompileError(
            "a compiled step takes tensors. Hint: sg.tensor(array, device=...) puts an array on a device."
        )
    if isinstance(value, tuple | list):
        return (type(value).__name__, *(signature(v, tensors) for v in value))
    if isinstance(value, dict):
        return ("dict", *((k, signature(v, tensors)) for k, v in value.items()))
    if _is_record(value) and any(True for _ in tensors_in(value)):
        return (type(value), *((name, signature(v, tensors)) for name, v in _fields(value)))
    try:
        hash(value)
    except TypeError:
        raise CompileError(
            f"a compiled step takes tensors, numbers, strings and containers of them, not {type(value).__name__}."
        ) from None
    return (type(value).__name__, value)


def marks_of(t: Tensor) -> tuple[tuple[str, type[Any], Any], ...]:
    """The custom attributes of a tensor, as part of a signature. Raises CompileError for a mutable one."""
    own = t.__dict__
    if not own:
        return ()
    for name, value in own.items():
        if not is_plain(value):
            raise CompileError(
                f"an argument of a compiled step has the attribute {name!r}, a {type(value).__name__}; a step sees numbers and texts "
                "alone on its arguments. Hint: give it as an argument of its own."
            )
    return tuple((name, type(value), value) for name, value in own.items())


def has_gradient(t: Tensor) -> str:
    """A word if the .grad of a tensor is set, even if the tensor no longer requires grad; else an empty text."""
    return "" if t._grad is None else "with a gradient"


def layout_of(t: Tensor) -> tuple[int, ...] | None:
    """The strides of a tensor that is not row-major in the shared memory: its `reshape` may be a copy."""
    shared = t._shared
    if shared is None or not (t._path or shared.path):
        return None
    if len(t._path) == 1 and not shared.path and is_run_of_rows(t._path[0], shared.storage.node.shape):
        return None  # the common case: a batch that a loop cuts out of its data
    layout = t._strides()[0]
    return None if lies_row_by_row(t._node.shape, layout) else layout


def without_numbers(signed: Any) -> Any:
    """A signature without the values of ints and floats."""
    if not isinstance(signed, tuple):
        return signed
    if len(signed) == 2 and signed[0] in ("int", "float") and isinstance(signed[1], int | float):
        return signed[0]
    return tuple(map(without_numbers, signed))


def without_sizes(signed: Any) -> Any:
    """A signature without the sizes in shapes."""
    if not isinstance(signed, tuple):
        return signed
    if len(signed) == 5 and signed[0] == "tensor":
        return ("tensor", len(signed[1]), *signed[2:4], signed[4][0])  # without strides, which depend on sizes
    return tuple(map(without_sizes, signed))
