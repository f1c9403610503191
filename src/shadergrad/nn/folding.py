"""Fold and Unfold, and the older names of upsampling."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional as F
from .functional.sliding_windows import Ints
from .module import Module
from .pooling import Upsample

__all__ = ["Fold", "Unfold", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Unfold(Module):
    """Every window of (N, C, H, W) or (C, H, W) as a column: (N, C * window, windows).

    Raises ShapeError for another number of axes, and for a window that does not fit.

    >>> nn.Unfold(2)(sg.arange(4).float().reshape(1, 1, 2, 2)).shape
    shadergrad.Size([1, 4, 1])
    """

    def __init__(self, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """The adjoint of Unfold: adds up overlapping columns, (N, C * window, windows) to (N, C, *output_size).

    Raises ShapeError if columns and windows do not fit.

    >>> nn.Fold((2, 2), 2)(sg.ones(1, 4, 1)).shape
    shadergrad.Size([1, 1, 2, 2])
    """

    def __init__(
        self, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class UpsamplingNearest2d(Upsample):
    """Upsample of (N, C, H, W) by the mode 'nearest'.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(sg.ones(1, 1, 2, 2)).shape
    shadergrad.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Ints | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")
        self.name, self.recompute_scale_factor = type(self).__name__, None


class UpsamplingBilinear2d(Upsample):
    """Upsample of (N, C, H, W) by the mode 'bilinear', with the corners kept in their places.

    >>> nn.UpsamplingBilinear2d(size=(3, 3))(sg.ones(1, 1, 2, 2)).shape
    shadergrad.Size([1, 1, 3, 3])
    """

    def __init__(self, size: Ints | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
        self.name, self.recompute_scale_factor = type(self).__name__, None
