"""Convolutions as modules. PyTorch's arguments, names and initial values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor, rand
from . import functional_conv as FC
from .functional_conv import Ints, spread
from .module import Module, Parameter


class _Conv(Module):
    """Base: weight and bias start uniform on +-1/sqrt(fan in)."""

    rank = 0
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints | str,
        dilation: Ints,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        if groups <= 0 or in_channels % groups:
            raise ShapeError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ShapeError("out_channels must be divisible by groups")
        if padding_mode not in PADDING_MODES:
            raise ShapeError(
                f"padding_mode must be one of {sorted(PADDING_MODES)}, but got padding_mode='{padding_mode}'"
            )
        what = type(self).__name__
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = spread(kernel_size, self.rank, what)
        self.stride, self.dilation = spread(stride, self.rank, what), spread(dilation, self.rank, what)
        self.padding = padding if isinstance(padding, str) else spread(padding, self.rank, what)
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        fan_in = math.prod(shape[1:])
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        self.weight = Parameter(rand(*shape, device=device, dtype=dtype) * (2 * bound) - bound)
        if bias:
            self.bias = Parameter(rand(out_channels, device=device, dtype=dtype) * (2 * bound) - bound)
        else:
            self.register_parameter("bias", None)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if isinstance(self.padding, str) or any(self.padding):
            parts.append(f"padding={self.padding}")
        if any(d != 1 for d in self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ForwardConv(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = FC.pad_edges(input, self._edges(), self.padding_mode)
            padding = 0
        return FC.conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups, self.rank)

    def _edges(self) -> list[tuple[int, int]]:
        """(before, after) of every spatial axis."""
        if not isinstance(self.padding, str):
            return [(p, p) for p in self.padding]
        reach = [
            d * (k - 1) if self.padding == "same" else 0 for d, k in zip(self.dilation, self.kernel_size, strict=True)
        ]
        return [(n // 2, n - n // 2) for n in reach]


class Conv1d(_ForwardConv):
    """(batch, c, length) to (batch, o, length')."""

    rank = 1


class Conv2d(_ForwardConv):
    """(batch, c, height, width) to (batch, o, height', width')."""

    rank = 2


class Conv3d(_ForwardConv):
    """(batch, c, depth, height, width) to (batch, o, depth', height', width')."""

    rank = 3


class _TransposedConv(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ShapeError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = spread(output_padding, self.rank, type(self).__name__)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra: Any = self.output_padding
        if output_size is not None:
            extra = self._extra(input, output_size)
        assert not isinstance(self.padding, str)
        return FC.conv_transpose(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation, self.rank
        )

    def _extra(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        wanted = tuple(output_size)[-self.rank :]
        smallest = [
            (n - 1) * s - 2 * int(p) + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.rank :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        extra = tuple(w - m for w, m in zip(wanted, smallest, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            raise ShapeError(
                f"requested an output size of {wanted}, but valid sizes range from {smallest} by less than the stride."
            )
        return extra


class ConvTranspose1d(_TransposedConv):
    """(batch, c, length) to (batch, o, length'), the adjoint of Conv1d."""

    rank = 1


class ConvTranspose2d(_TransposedConv):
    """(batch, c, height, width) to (batch, o, height', width'), the adjoint of Conv2d."""

    rank = 2


class ConvTranspose3d(_TransposedConv):
    """(batch, c, depth, height, width) to (batch, o, …), the adjoint of Conv3d."""

    rank = 3
