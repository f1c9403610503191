"""Padding as modules. The amounts are pairs (before, after) for each padded axis, the last axis first, or one number for all sides."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from .arguments import takes_tensors
from .errors import ArgumentError
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Told(NamedTuple):
    """The parts of the docstrings that differ between families of paddings."""

    does: str  # to {axes}
    padded: str  # the example's result: [1, 2, 3] padded by one on each side
    arguments: str = "1"
    refuses: str = ""  # errors, besides the one for another number of amounts


_SHAPES = ", ShapeError at the call for other axes"
_TOLD = {
    "ConstantPad": _Told("A number around {axes}: `value`", "9., 1., 2., 3., 9.", "1, 9.0"),
    "ZeroPad": _Told("Zeros around {axes}", "0., 1., 2., 3., 0."),
    "ReflectionPad": _Told(
        "{axes} mirrored at the edges, which are not repeated",
        "2., 1., 2., 3., 2.",
        refuses=f"{_SHAPES} and for more than they have",
    ),
    "ReplicationPad": _Told("The edges of {axes} repeated", "1., 1., 2., 3., 3.", refuses=_SHAPES),
    "CircularPad": _Told(
        "{axes} continued from the other side",
        "3., 1., 2., 3., 1.",
        refuses=f"{_SHAPES} and for more than they have",
    ),
}


def _docstring(name: str, rank: int) -> str:
    """The docstring of a class: a family of _TOLD with the number of padded axes."""
    told = _TOLD[name.removesuffix(f"{rank}d")]
    does = told.does.format(axes=("the last axis", "the last two axes", "the last three axes")[rank - 1])
    example = (
        f"(sg.tensor([[1.0, 2.0, 3.0]]))\ntensor([[{told.padded}]])",
        "(sg.ones(1, 3, 3)).shape\nshadergrad.Size([1, 5, 5])",
        "(sg.ones(1, 2, 2, 2)).shape\nshadergrad.Size([1, 4, 4, 4])",
    )[rank - 1]
    return f"""{does[0].upper()}{does[1:]}.

padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
Raises ArgumentError for another number of amounts{told.refuses}.

>>> nn.{name}({told.arguments}){example}
"""


class _Padding(Module):
    """Base class: pads `rank` axes in a `mode`. Inputs are (N, C, ...) or (C, ...), in constant mode of any shape."""

    rank: ClassVar[int] = 0
    mode: ClassVar[str] = "constant"

    def __init_subclass__(cls, rank: int = 0, mode: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        if rank:
            cls.rank, cls.mode = rank, mode or cls.mode
            if cls.__module__ == __name__:  # a user's class keeps its own docstring
                cls.__doc__ = _docstring(cls.__name__, rank)

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        amounts = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        if len(amounts) != 2 * self.rank:
            raise ArgumentError(
                f"{type(self).__name__}(): padding must be an int or {2 * self.rank} of them, but it is {padding}."
            )
        self.padding = amounts

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        self._check_input(input)
        return F.pad(input, self.padding, self.mode)

    def _check_input(self, input: Tensor) -> None:
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadding(_Padding):
    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadding(_ConstantPadding):
    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# fmt: off
class _ReflectionPadding(_Padding): ...
class _ReplicationPadding(_Padding): ...
class _CircularPadding(_Padding): ...
class ConstantPad1d(_ConstantPadding, rank=1): ...
class ConstantPad2d(_ConstantPadding, rank=2): ...
class ConstantPad3d(_ConstantPadding, rank=3): ...
class ZeroPad1d(_ZeroPadding, rank=1): ...
class ZeroPad2d(_ZeroPadding, rank=2): ...
class ZeroPad3d(_ZeroPadding, rank=3): ...
class ReflectionPad1d(_ReflectionPadding, rank=1, mode="reflect"): ...
class ReflectionPad2d(_ReflectionPadding, rank=2, mode="reflect"): ...
class ReflectionPad3d(_ReflectionPadding, rank=3, mode="reflect"): ...
class ReplicationPad1d(_ReplicationPadding, rank=1, mode="replicate"): ...
class ReplicationPad2d(_ReplicationPadding, rank=2, mode="replicate"): ...
class ReplicationPad3d(_ReplicationPadding, rank=3, mode="replicate"): ...
class CircularPad1d(_CircularPadding, rank=1, mode="circular"): ...
class CircularPad2d(_CircularPadding, rank=2, mode="circular"): ...
class CircularPad3d(_CircularPadding, rank=3, mode="circular"): ...
# fmt: on
