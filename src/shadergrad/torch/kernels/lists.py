"""Operators over lists of tensors, which optimizers use: `_foreach_mul_` and its family.

PyTorch's own kernel calls an operator for each tensor. Here a whole list is one composition (tensor/composed.py), which later steps of a
loop add without running the operators' Python. Lists of other than contiguous float32 tensors and numbers go to PyTorch's kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import shadergrad as sg

from ...tensor.composed import composed
from ..private import one_by_one, overload
from ..storage import cell_of, is_ours, read, wrap, write
from ..table import on_tensors

Function = Callable[..., Any]
_ONE: dict[str, Function] = {"neg": sg.neg, "reciprocal": sg.reciprocal, "sqrt": sg.sqrt}
_TWO: dict[str, Function] = {
    "add": lambda x, y, alpha=1: x + (y if alpha == 1 else y * alpha),
    "sub": lambda x, y, alpha=1: x - (y if alpha == 1 else y * alpha),
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": sg.maximum,
}
_THREE: dict[str, Function] = {
    "lerp": sg.lerp,
    "addcmul": lambda x, a, b, value=1: x + a * b * value,
    "addcdiv": lambda x, a, b, value=1: x + a / b * value,
}
_OVERLOADS = {
    **dict.fromkeys(_ONE, ("",)),
    **dict.fromkeys(_TWO, (".Scalar", ".List", ".ScalarList", ".Tensor")),
    **dict.fromkeys(_THREE, (".Scalar", ".ScalarList")),
    "sub": (".Scalar", ".List", ".ScalarList"),
    "maximum": (".List",),
    "lerp": (".Scalar", ".List", ".ScalarList"),
}


def _is_plain(columns: list[Any]) -> bool:
    """Whether arguments are lists of equal length, of numbers and of contiguous float32 tensors on the device."""
    count = len(columns[0])
    for column in columns:
        if len(column) != count:
            return False
        for x in column:
            if isinstance(x, torch.Tensor):
                if x.dtype is not torch.float32 or not is_ours(x) or not x.is_contiguous():
                    return False
            elif not isinstance(x, (int, float)):
                return False
    return True


def _one_after_another(columns: list[Any]) -> bool:
    """Whether a tensor that is written is read again for a later list element."""
    written: dict[int, int] = {}
    for k, x in enumerate(columns[0]):
        if written.setdefault(id(cell_of(x)), k) != k:
            return True
    return any(
        isinstance(x, torch.Tensor) and written.get(id(cell_of(x)), k) < k
        for column in columns[1:]
        for k, x in enumerate(column)
    )


def _kernel(op: Any, function: Function, in_place: bool) -> Function:
    def over_lists(count: int, *given: Any) -> Any:
        """The kernel over concatenated lists."""
        return tuple([function(*given[k::count]) for k in range(count)])

    whole = composed(over_lists, is_patient=True)

    def run(xs: Any, *rest: Any, **named: Any) -> Any:
        count = len(xs)
        columns = [xs, *[a if isinstance(a, (list, tuple)) else [a] * count for a in (*rest, *named.values())]]
        if not _is_plain(columns) or (in_place and _one_after_another(columns)):
            return one_by_one(op, xs, *rest, **named)
        found = whole(count, *[read(x) if isinstance(x, torch.Tensor) else x for column in columns for x in column])
        if not in_place:
            return [wrap(v) for v in found]
        for x, value in zip(xs, found, strict=True):
            write(x, value)
        return None

    return run


for _functions in (_ONE, _TWO, _THREE):
    for _base, _function in _functions.items():
        for _rest in _OVERLOADS[_base]:
            for _name, _in_place in ((f"_foreach_{_base}{_rest}", False), (f"_foreach_{_base}_{_rest}", True)):
                on_tensors(_name)(_kernel(overload(_name), _function, _in_place))
