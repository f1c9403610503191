"""Padding as modules: amounts (before, after) for every padded axis, from the last one backwards, or one for all sides."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from .arguments import takes_tensors
from .errors import ArgumentError
from .module import Module


class _Padding(Module):
    """Base: `rank` axes are padded, by `mode`. Inputs (N, C, ...) or (C, ...), for the constant mode of any shape."""

    rank: ClassVar[int] = 0
    mode: ClassVar[str] = "constant"

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


class ConstantPad1d(_ConstantPadding):
    """A number around the last axis: `value`.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts.

    >>> nn.ConstantPad1d(1, 9.0)(sg.tensor([[1.0, 2.0, 3.0]]))
    tensor([[9., 1., 2., 3., 9.]])
    """

    rank = 1


class ConstantPad2d(_ConstantPadding):
    """A number around the last two axes: `value`.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts.

    >>> nn.ConstantPad2d(1, 9.0)(sg.ones(1, 3, 3)).shape
    shadergrad.Size([1, 5, 5])
    """

    rank = 2


class ConstantPad3d(_ConstantPadding):
    """A number around the last three axes: `value`.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts.

    >>> nn.ConstantPad3d(1, 9.0)(sg.ones(1, 2, 2, 2)).shape
    shadergrad.Size([1, 4, 4, 4])
    """

    rank = 3


class ZeroPad1d(_ZeroPadding):
    """Zeros around the last axis.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts.

    >>> nn.ZeroPad1d(1)(sg.tensor([[1.0, 2.0, 3.0]]))
    tensor([[0., 1., 2., 3., 0.]])
    """

    rank = 1


class ZeroPad2d(_ZeroPadding):
    """Zeros around the last two axes.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts.

    >>> nn.ZeroPad2d(1)(sg.ones(1, 3, 3)).shape
    shadergrad.Size([1, 5, 5])
    """

    rank = 2


class ZeroPad3d(_ZeroPadding):
    """Zeros around the last three axes.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts.

    >>> nn.ZeroPad3d(1)(sg.ones(1, 2, 2, 2)).shape
    shadergrad.Size([1, 4, 4, 4])
    """

    rank = 3


class ReflectionPad1d(_Padding):
    """The last axis mirrored at the edges, which are not repeated.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes and for more than they have.

    >>> nn.ReflectionPad1d(1)(sg.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 1., 2., 3., 2.]])
    """

    rank = 1
    mode = "reflect"


class ReflectionPad2d(_Padding):
    """The last two axes mirrored at the edges, which are not repeated.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes and for more than they have.

    >>> nn.ReflectionPad2d(1)(sg.ones(1, 3, 3)).shape
    shadergrad.Size([1, 5, 5])
    """

    rank = 2
    mode = "reflect"


class ReflectionPad3d(_Padding):
    """The last three axes mirrored at the edges, which are not repeated.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes and for more than they have.

    >>> nn.ReflectionPad3d(1)(sg.ones(1, 2, 2, 2)).shape
    shadergrad.Size([1, 4, 4, 4])
    """

    rank = 3
    mode = "reflect"


class ReplicationPad1d(_Padding):
    """The edges of the last axis repeated.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes.

    >>> nn.ReplicationPad1d(1)(sg.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 2., 3., 3.]])
    """

    rank = 1
    mode = "replicate"


class ReplicationPad2d(_Padding):
    """The edges of the last two axes repeated.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes.

    >>> nn.ReplicationPad2d(1)(sg.ones(1, 3, 3)).shape
    shadergrad.Size([1, 5, 5])
    """

    rank = 2
    mode = "replicate"


class ReplicationPad3d(_Padding):
    """The edges of the last three axes repeated.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes.

    >>> nn.ReplicationPad3d(1)(sg.ones(1, 2, 2, 2)).shape
    shadergrad.Size([1, 4, 4, 4])
    """

    rank = 3
    mode = "replicate"


class CircularPad1d(_Padding):
    """The last axis continued from the other side.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes and for more than they have.

    >>> nn.CircularPad1d(1)(sg.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    rank = 1
    mode = "circular"


class CircularPad2d(_Padding):
    """The last two axes continued from the other side.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes and for more than they have.

    >>> nn.CircularPad2d(1)(sg.ones(1, 3, 3)).shape
    shadergrad.Size([1, 5, 5])
    """

    rank = 2
    mode = "circular"


class CircularPad3d(_Padding):
    """The last three axes continued from the other side.

    padding: an int, or (before, after) for every axis, from the last one backwards; negative amounts cut.
    Raises ArgumentError for another number of amounts, ShapeError at the call for other axes and for more than they have.

    >>> nn.CircularPad3d(1)(sg.ones(1, 2, 2, 2)).shape
    shadergrad.Size([1, 4, 4, 4])
    """

    rank = 3
    mode = "circular"
