"""Pooling and resampling as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor
from . import functional as F
from .arguments import per_axis
from .functional.pooling import Sizes
from .functional.windows import Ints
from .module import Module


class _MaxPool(Module):
    """Base; `function` is F.max_pool1d or one of its relatives."""

    function: Any = None

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


class MaxPool1d(_MaxPool):
    """The largest of windows along the last axis."""

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest of windows over the last two axes."""

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest of windows over the last three axes."""

    function = F.max_pool3d


class _AvgPool(Module):
    """Base; `function` is F.avg_pool1d or one of its relatives."""

    function: Any = None

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


class AvgPool1d(_AvgPool):
    """The mean of windows along the last axis."""

    function = F.avg_pool1d

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        for name in ("kernel_size", "stride", "padding"):  # PyTorch keeps tuples, of this one alone
            setattr(self, name, per_axis("AvgPool1d", name, getattr(self, name), 1))


class _Divided(_AvgPool):
    """Those that can divide by another number than the window's size."""

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


class AvgPool2d(_Divided):
    """The mean of windows over the last two axes."""

    function = F.avg_pool2d


class AvgPool3d(_Divided):
    """The mean of windows over the last three axes."""

    function = F.avg_pool3d


class _AdaptivePool(Module):
    """Base; `function` is F.adaptive_avg_pool1d or one of its relatives."""

    function: Any = None

    def __init__(self, output_size: Sizes) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means of windows that cover the last axis evenly."""

    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means of windows that cover the last two axes evenly."""

    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptivePool):
    """Means of windows that cover the last three axes evenly."""

    function = F.adaptive_avg_pool3d


class AdaptiveMaxPool1d(_AdaptivePool):
    """The largest of windows that cover the last axis evenly."""

    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptivePool):
    """The largest of windows that cover the last two axes evenly."""

    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptivePool):
    """The largest of windows that cover the last three axes evenly."""

    function = F.adaptive_max_pool3d


class Upsample(Module):
    """Another size by nearest, linear, bilinear or trilinear interpolation."""

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
