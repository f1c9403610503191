"""Convolutions as modules. PyTorch's arguments, names and initial values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor, rand
from . import functional as F
from .arguments import per_axis, takes_tensors, whole
from .errors import ArgumentError
from .functional.windows import Ints
from .module import Module
from .parameter import Parameter


class _Conv(Module):
    """Base: weight and bias start uniform on +-1/sqrt(fan in). `function` is F.conv1d or one of its relatives."""

    function: Any = None
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
        what = type(self).__name__
        for name, value in (("in_channels", in_channels), ("out_channels", out_channels)):
            whole(what, name, value, 0)
            if value % whole(what, "groups", groups, 1):
                raise ArgumentError(f"{what}(): {name} must be divisible by groups, but got {name}={value}, {groups=}.")
        if padding_mode not in PADDING_MODES:
            raise ArgumentError(
                f"{what}(): padding_mode must be one of {sorted(PADDING_MODES)}, but got padding_mode={padding_mode!r}."
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_axis(what, "kernel_size", kernel_size, self.rank, 1)
        self.stride = per_axis(what, "stride", stride, self.rank, 1)
        self.dilation = per_axis(what, "dilation", dilation, self.rank, 1)
        if not isinstance(padding, str):
            self.padding: tuple[int, ...] | str = per_axis(what, "padding", padding, self.rank, 0)
        elif padding not in ("same", "valid"):
            raise ArgumentError(f"{what}(): Invalid padding string {padding=}, should be 'same' or 'valid'.")
        elif padding == "same" and max(self.stride) > 1:
            raise ArgumentError(
                f"{what}(): padding='same' is not supported for strided convolutions, but got stride={stride}."
            )
        else:
            self.padding = padding
        self.padding_mode = padding_mode
        self.output_padding = (0,) * self.rank
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
        if any(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
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

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._edges(), self.padding_mode)
            padding = 0
        return type(self).function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _edges(self) -> list[int]:
        """(before, after) of every spatial axis, the last one first, as F.pad takes them."""
        if not isinstance(self.padding, str):
            pairs = [(p, p) for p in self.padding]
        else:
            same = self.padding == "same"
            reach = [d * (k - 1) * same for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(n // 2, n - n // 2) for n in reach]
        return [n for pair in reversed(pairs) for n in pair]


class Conv1d(_ForwardConv):
    """(batch, c, length) to (batch, o, length')."""

    function = F.conv1d
    rank = 1


class Conv2d(_ForwardConv):
    """(batch, c, height, width) to (batch, o, height', width')."""

    function = F.conv2d
    rank = 2


class Conv3d(_ForwardConv):
    """(batch, c, depth, height, width) to (batch, o, depth', height', width')."""

    function = F.conv3d
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
            raise ArgumentError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, but got {padding_mode=}.'
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = per_axis(type(self).__name__, "output_padding", output_padding, self.rank, 0)

    @takes_tensors
    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra: Any = self.output_padding
        if output_size is not None:
            extra = self._extra(input, output_size)
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        what = type(self).__name__
        given = tuple(output_size) if isinstance(output_size, Sequence) else output_size
        if isinstance(given, tuple) and len(given) == self.rank + 2:
            given = given[2:]
        wanted = per_axis(what, "output_size", given, self.rank, 1)
        smallest = [
            (n - 1) * s - 2 * int(p) + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.rank :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        extra = tuple(w - m for w, m in zip(wanted, smallest, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            largest = [m + s - 1 for m, s in zip(smallest, self.stride, strict=True)]
            raise ArgumentError(
                f"{what}(): requested an output size of {wanted}, but valid sizes range from {smallest} to {largest} (for an "
                f"input of {list(input.shape)})"
            )
        return extra


class ConvTranspose1d(_TransposedConv):
    """(batch, c, length) to (batch, o, length'), the adjoint of Conv1d."""

    function = F.conv_transpose1d
    rank = 1


class ConvTranspose2d(_TransposedConv):
    """(batch, c, height, width) to (batch, o, height', width'), the adjoint of Conv2d."""

    function = F.conv_transpose2d
    rank = 2


class ConvTranspose3d(_TransposedConv):
    """(batch, c, depth, height, width) to (batch, o, …), the adjoint of Conv3d."""

    function = F.conv_transpose3d
    rank = 3
