"""Pooling and resampling as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor
from . import functional as F
from .arguments import per_axis
from .function_module import _Applied
from .functional.pooling import Sizes
from .functional.sliding_windows import Ints
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "Upsample",
]  # fmt: skip


class _MaxPool(_Applied):
    """Base class of max pooling; `function` is F.max_pool1d, F.max_pool2d or F.max_pool3d."""

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool, function=F.max_pool1d):
    """The maximum of each window of the last axis: (N, C, L) or (C, L) to (N, C, L') or (C, L').

    L' = floor((L + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1, or with ceil_mode rounded up; stride is
    kernel_size by default. return_indices: returns (values, positions in L as int32). Of equal maxima, the first gets the
    gradient.
    The call raises ArgumentError for sizes out of range and a padding above half of kernel_size, ShapeError for an
    input smaller than the window.

    >>> nn.MaxPool1d(2)(sg.tensor([[1.0, 5.0, 2.0, 3.0, 9.0]]))
    tensor([[5., 3.]])
    """


class MaxPool2d(_MaxPool, function=F.max_pool2d):
    """The maximum of each window: (N, C, H, W) or (C, H, W) to (N, C, H', W') or (C, H', W').

    Sizes are a number for both axes, or one for each. return_indices: returns (values, row-major positions in the plane as
    int32). Result sizes, arguments and errors as in MaxPool1d.

    >>> nn.MaxPool2d(2)(sg.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """


class MaxPool3d(_MaxPool, function=F.max_pool3d):
    """The maximum of each window: (N, C, D, H, W) or (C, D, H, W) to (N, C, D', H', W') or (C, D', H', W').

    Sizes, arguments and errors as in MaxPool1d.

    >>> nn.MaxPool3d((1, 2, 2))(sg.ones(3, 4, 6, 8)).shape
    shadergrad.Size([3, 4, 3, 4])
    """


class _AvgPool(_Applied):
    """Base class of mean pooling; `function` is F.avg_pool1d, F.avg_pool2d or F.avg_pool3d."""

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool, function=F.avg_pool1d):
    """The mean of each window of the last axis: (N, C, L) or (C, L) to (N, C, L') or (C, L').

    L' = floor((L + 2 padding - kernel_size) / stride) + 1, or with ceil_mode rounded up; stride is kernel_size by default.
    count_include_pad: the mean includes the zeros of the padding. The call raises ArgumentError for sizes out of
    range and a padding above half of kernel_size, ShapeError for an input smaller than the window.

    >>> nn.AvgPool1d(2)(sg.tensor([[1.0, 5.0, 2.0, 3.0, 9.0]]))
    tensor([[3. , 2.5]])
    """

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        for name in ("kernel_size", "stride", "padding"):  # PyTorch keeps tuples, in this class only
            setattr(self, name, per_axis("AvgPool1d", name, getattr(self, name), 1))


class _Divided(_AvgPool):
    """Mean pooling that can divide by another number than the window's size."""

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_Divided, function=F.avg_pool2d):
    """The mean of each window: (N, C, H, W) or (C, H, W) to (N, C, H', W') or (C, H', W').

    Sizes are a number for both axes, or one for each. divisor_override: the divisor of the sums, instead of the window's size.
    Result sizes, other arguments and errors as in AvgPool1d.

    >>> nn.AvgPool2d(2)(sg.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5,  4.5],
             [10.5, 12.5]]])
    """


class AvgPool3d(_Divided, function=F.avg_pool3d):
    """The mean of each window: (N, C, D, H, W) or (C, D, H, W) to (N, C, D', H', W') or (C, D', H', W').

    Sizes, arguments and errors as in AvgPool2d.

    >>> nn.AvgPool3d(2)(sg.ones(3, 4, 6, 8)).shape
    shadergrad.Size([3, 2, 3, 4])
    """


class _AdaptivePool(_Applied):
    """Base class of adaptive pooling; `function` is F.adaptive_avg_pool1d or a similar function."""

    def __init__(self, output_size: Sizes) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    """Base class of adaptive mean pooling, which programs ask isinstance for."""


class AdaptiveAvgPool1d(_AdaptiveAvgPool, function=F.adaptive_avg_pool1d):
    """The means of windows that cover the last axis evenly: (N, C, L) or (C, L) to (N, C, output_size) or (C, output_size).

    Window i spans floor(i L / output_size) to ceil((i + 1) L / output_size); windows may overlap. None keeps L.
    The call raises ShapeError for another number of axes, ArgumentError for a negative size.

    >>> nn.AdaptiveAvgPool1d(2)(sg.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]))
    tensor([[2., 4.]])
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPool, function=F.adaptive_avg_pool2d):
    """The means of windows that cover height and width evenly: (N, C, H, W) to (N, C, *output_size).

    N is optional. output_size: a number for both axes, or one for each; None keeps an axis. Windows and errors as
    in AdaptiveAvgPool1d.

    >>> nn.AdaptiveAvgPool2d(1)(sg.arange(6.0).reshape(1, 2, 3))
    tensor([[[2.5]]])
    """


class AdaptiveAvgPool3d(_AdaptiveAvgPool, function=F.adaptive_avg_pool3d):
    """The means of windows that cover the last three axes evenly: (N, C, D, H, W) to (N, C, *output_size).

    N is optional. output_size: a number for all axes, or one for each; None keeps an axis. Windows and errors as
    in AdaptiveAvgPool1d.

    >>> nn.AdaptiveAvgPool3d((1, None, 2))(sg.ones(3, 4, 5, 6)).shape
    shadergrad.Size([3, 1, 5, 2])
    """


class _AdaptiveMaxPool(_AdaptivePool, function=F.adaptive_max_pool1d):
    """Base class of adaptive max pooling; return_indices: returns (values, positions)."""

    def __init__(self, output_size: Sizes, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool, function=F.adaptive_max_pool1d):
    """The maxima of windows that cover the last axis evenly: (N, C, L) or (C, L) to (N, C, output_size) or (C, output_size).

    Windows and errors as in AdaptiveAvgPool1d. return_indices: returns (values, positions as int32).

    >>> nn.AdaptiveMaxPool1d(2)(sg.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]))
    tensor([[3., 5.]])
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPool, function=F.adaptive_max_pool2d):
    """The maxima of windows that cover height and width evenly: (N, C, H, W) to (N, C, *output_size).

    N is optional. output_size: a number for both axes, or one for each; None keeps an axis. Windows and errors as in
    AdaptiveAvgPool1d, return_indices as in AdaptiveMaxPool1d.

    >>> nn.AdaptiveMaxPool2d((1, 3))(sg.arange(6.0).reshape(1, 2, 3))
    tensor([[[3., 4., 5.]]])
    """


class AdaptiveMaxPool3d(_AdaptiveMaxPool, function=F.adaptive_max_pool3d):
    """The maxima of windows that cover the last three axes evenly: (N, C, D, H, W) to (N, C, *output_size).

    N is optional. output_size: a number for all axes, or one for each; None keeps an axis. Windows and errors as in
    AdaptiveAvgPool1d, return_indices as in AdaptiveMaxPool1d.

    >>> nn.AdaptiveMaxPool3d((1, None, 2))(sg.ones(3, 4, 5, 6)).shape
    shadergrad.Size([3, 1, 5, 2])
    """


class Upsample(Module):
    """Resizes all axes after C by interpolation: (N, C, L), (N, C, H, W) or (N, C, D, H, W).

    size: the new sizes, or scale_factor: their ratio to the old ones; a number, or one for each axis. mode: a mode of
    F.interpolate, such as 'nearest', or 'linear', 'bilinear' (or 'bicubic'), 'trilinear' for one, two, three axes.
    align_corners: the outermost elements keep their places.
    The call raises ArgumentError for both or neither of size and scale_factor and for a mode that does not fit,
    ShapeError for another number of axes. For recompute_scale_factor, use F.interpolate.

    >>> nn.Upsample(scale_factor=2)(sg.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    >>> nn.Upsample(size=3, mode="linear", align_corners=True)(sg.tensor([[[1.0, 2.0]]]))
    tensor([[[1. , 1.5, 2. ]]])
    """

    def __init__(
        self,
        size: Ints | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        if isinstance(scale_factor, Sequence):
            self.scale_factor: Any = tuple(map(float, scale_factor))
        else:
            self.scale_factor = None if scale_factor is None else float(scale_factor)

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        which = f"scale_factor={self.scale_factor}" if self.size is None else f"size={self.size}"
        return f"{which}, mode={self.mode!r}"
