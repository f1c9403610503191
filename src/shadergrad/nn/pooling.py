"""Pooling and resampling as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor
from . import functional_conv as FC
from .functional_conv import Ints
from .module import Module


class _MaxPool(Module):
    rank = 0

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
        return FC.max_pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
            self.rank,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest of windows along the last axis."""

    rank = 1


class MaxPool2d(_MaxPool):
    """The largest of windows over the last two axes."""

    rank = 2


class MaxPool3d(_MaxPool):
    """The largest of windows over the last three axes."""

    rank = 3


class _AvgPool(Module):
    rank = 0

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return FC.avg_pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
            self.rank,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of windows along the last axis."""

    rank = 1


class AvgPool2d(_AvgPool):
    """The mean of windows over the last two axes."""

    rank = 2


class AvgPool3d(_AvgPool):
    """The mean of windows over the last three axes."""

    rank = 3


class _AdaptivePool(Module):
    rank = 0

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    def forward(self, input: Tensor) -> Tensor:
        return FC.adaptive_avg_pool(input, self.output_size, self.rank)


class _AdaptiveMaxPool(_AdaptivePool):
    def forward(self, input: Tensor) -> Tensor:
        return FC.adaptive_max_pool(input, self.output_size, self.rank)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of windows that cover the last axis evenly."""

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows that cover the last two axes evenly."""

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows that cover the last three axes evenly."""

    rank = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest of windows that cover the last axis evenly."""

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest of windows that cover the last two axes evenly."""

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest of windows that cover the last three axes evenly."""

    rank = 3


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
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def forward(self, input: Tensor) -> Tensor:
        return FC.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        which = f"scale_factor={self.scale_factor}" if self.size is None else f"size={self.size}"
        return f"{which}, mode={self.mode!r}"
