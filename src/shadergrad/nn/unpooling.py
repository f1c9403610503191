"""Max unpooling, power-average pooling, and fractional max pooling, as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor
from . import functional as F
from .arguments import per_axis
from .errors import ArgumentError
from .function_module import _Applied
from .functional.sliding_windows import Ints

__all__ = [
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _MaxUnpool(_Applied):
    """Base; `function` is F.max_unpool1d or one of its relatives, `rank` how many axes it has."""

    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        super().__init__()
        what, rank = type(self).__name__, self.rank
        self.kernel_size = per_axis(what, "kernel_size", kernel_size, rank, 1)
        self.stride = self.kernel_size if stride is None else per_axis(what, "stride", stride, rank, 1)
        self.padding = per_axis(what, "padding", padding, rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool, function=F.max_unpool1d, rank=1):
    """The inverse of MaxPool1d: its results at the positions of its indices, and zeros elsewhere: (N, C, L') to (N, C, L).

    L = (L' - 1) stride - 2 padding + kernel_size, or output_size, an argument of the call, which differs by less than a stride.
    stride is kernel_size by default. Raises ShapeError if indices and input differ, ArgumentError for another output_size;
    a position beyond the result raises IndexRangeError.

    >>> values, places = nn.MaxPool1d(2, return_indices=True)(sg.tensor([[1.0, 5.0, 2.0, 3.0]]))
    >>> nn.MaxUnpool1d(2)(values, places)
    tensor([[0., 5., 0., 3.]])
    """


class MaxUnpool2d(_MaxUnpool, function=F.max_unpool2d, rank=2):
    """MaxUnpool1d over the last two axes of (N, C, H', W') or (C, H', W').

    >>> values, places = nn.MaxPool2d(2, return_indices=True)(sg.tensor([[[1.0, 2.0], [4.0, 3.0]]]))
    >>> nn.MaxUnpool2d(2)(values, places)
    tensor([[[0., 0.],
             [4., 0.]]])
    """


class MaxUnpool3d(_MaxUnpool, function=F.max_unpool3d, rank=3):
    """MaxUnpool1d over the last three axes of (N, C, D', H', W') or (C, D', H', W').

    >>> values, places = nn.MaxPool3d(2, return_indices=True)(sg.arange(8.0).reshape(1, 2, 2, 2))
    >>> nn.MaxUnpool3d(2)(values, places).shape
    shadergrad.Size([1, 2, 2, 2])
    """


class _LPPool(_Applied):
    """Base; `function` is F.lp_pool1d or one of its relatives."""

    def __init__(
        self, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool, function=F.lp_pool1d):
    """The p-th root of the sum of p-th powers of every window of the last axis, p = norm_type: (N, C, L) to (N, C, L').

    Windows and L': as for AvgPool1d; stride is kernel_size by default. Its errors are those of F.lp_pool1d.

    >>> nn.LPPool1d(2, 2)(sg.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """


class LPPool2d(_LPPool, function=F.lp_pool2d):
    """LPPool1d over the last two axes of (N, C, H, W).

    >>> nn.LPPool2d(2, (2, 1))(sg.tensor([[[[3.0], [4.0]]]]))
    tensor([[[[5.]]]])
    """


class LPPool3d(_LPPool, function=F.lp_pool3d):
    """LPPool1d over the last three axes of (N, C, D, H, W).

    >>> nn.LPPool3d(2, (1, 2, 1))(sg.tensor([[[[[3.0], [4.0]]]]]))
    tensor([[[[[5.]]]]])
    """


class _FractionalMaxPool(_Applied):
    """Base; `function` is F.fractional_max_pool2d or its relative, `rank` how many axes it has."""

    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        what, rank = type(self).__name__, self.rank
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{what} wants one of output_size and output_ratio, and not both.")
        self.kernel_size = per_axis(what, "kernel_size", kernel_size, rank, 1)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_axis(what, "output_size", output_size, rank)
        self.output_ratio = None if output_ratio is None else _ratios(what, output_ratio, rank)

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


def _ratios(what: str, given: float | Sequence[float], rank: int) -> tuple[float, ...]:
    """A ratio for every axis, of one for all or of a list."""
    ratios = (given,) * rank if isinstance(given, int | float) else tuple(given)
    if len(ratios) != rank or not all(0 < r < 1 for r in ratios):
        raise ArgumentError(f"{what}: output_ratio must be between 0 and 1, of one or {rank} axes (got {given})")
    return ratios


class FractionalMaxPool2d(_FractionalMaxPool, function=F.fractional_max_pool2d, rank=2):
    """The maxima of windows of (N, C, H, W) or (C, H, W) with random, approximately even starts (Graham, 2014).

    output_size: the size of the result; or output_ratio: its ratio to the input's size. return_indices: returns (values,
    row-major positions in the plane as int32). Raises ArgumentError unless exactly one of the two is given, and for ratios outside
    (0, 1); ShapeError at the call if the windows do not fit.

    >>> nn.FractionalMaxPool2d(2, output_size=3)(sg.rand(1, 1, 5, 5)).shape
    shadergrad.Size([1, 1, 3, 3])
    """


class FractionalMaxPool3d(_FractionalMaxPool, function=F.fractional_max_pool3d, rank=3):
    """FractionalMaxPool2d over the last three axes of (N, C, D, H, W) or (C, D, H, W).

    >>> nn.FractionalMaxPool3d(2, output_ratio=0.6)(sg.rand(1, 1, 5, 5, 5)).shape
    shadergrad.Size([1, 1, 3, 3, 3])
    """
