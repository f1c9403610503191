"""Convolutions as modules. PyTorch's arguments, names and initial values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor, empty
from . import functional as F
from . import init
from .arguments import per_axis, takes_tensors, whole
from .errors import ArgumentError
from .function_module import _Applied
from .functional.sliding_windows import Ints
from .parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(_Applied):
    """Base: weight and bias start uniform on +-1/sqrt(fan in). `function` is F.conv1d or one of its relatives.

    Its arguments have PyTorch's order, because programs derive classes from it. Those have as many axes as their kernel_size; the
    library's own classes have a `rank`.
    """

    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints | str,
        dilation: Ints,
        transposed: bool,
        output_padding: Ints,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        what = type(self).__name__
        if not hasattr(type(self), "rank"):
            self.rank = len(kernel_size) if isinstance(kernel_size, Sequence) else 1  # type: ignore[misc]
        if transposed != self.transposed:
            self.transposed = transposed
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
        self.output_padding = per_axis(what, "output_padding", output_padding, self.rank, 0)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = Parameter(empty(first, second // groups, *self.kernel_size, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        fan_in = math.prod(self.weight.shape[1:])
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

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


class _ForwardConv(_ConvNd):
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
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            False,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with another weight and bias, for programs that quantize or standardize weights."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._edges(), self.padding_mode)
            padding = 0
        return type(self).function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    @property
    def _reversed_padding_repeated_twice(self) -> list[int]:
        return self._edges()

    def _edges(self) -> list[int]:
        """(before, after) of every spatial axis, the last one first, as F.pad takes them."""
        if not isinstance(self.padding, str):
            pairs = [(p, p) for p in self.padding]
        else:
            same = self.padding == "same"
            reach = [d * (k - 1) * same for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(n // 2, n - n // 2) for n in reach]
        return [n for pair in reversed(pairs) for n in pair]


class Conv1d(_ForwardConv, function=F.conv1d, rank=1):
    """The convolution (cross-correlation) of (N, C, L) or (C, L): (N, O, L') or (O, L').

    L' = floor((L + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1; C is in_channels, O out_channels. weight
    (O, C / groups, kernel_size) and bias (O,) start uniform on +-1/sqrt(C / groups * kernel_size). padding: a number,
    'valid' for none or 'same' for L' = L; padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
    Raises ArgumentError for sizes out of range, channels that groups does not divide, and 'same' with a stride;
    ShapeError for an input of other channels, or smaller than the kernel.

    >>> layer = nn.Conv1d(1, 1, 2, bias=False)
    >>> _ = nn.init.ones_(layer.weight)
    >>> layer(sg.tensor([[1.0, 2.0, 3.0, 4.0]])).detach()
    tensor([[3., 5., 7.]])
    """


class Conv2d(_ForwardConv, function=F.conv2d, rank=2):
    """The convolution (cross-correlation) of (N, C, H, W) or (C, H, W): (N, O, H', W') or (O, H', W').

    kernel_size, stride, padding and dilation: a number for both axes or one for each. weight
    (O, C / groups, *kernel_size) and bias (O,) start uniform on +-1/sqrt(C / groups * product of kernel_size). Sizes,
    arguments and errors as in Conv1d.

    >>> layer = nn.Conv2d(3, 8, 3, padding=1, stride=2)
    >>> layer(sg.ones(4, 3, 32, 32)).shape
    shadergrad.Size([4, 8, 16, 16])
    >>> layer.weight.shape
    shadergrad.Size([8, 3, 3, 3])
    """


class Conv3d(_ForwardConv, function=F.conv3d, rank=3):
    """The convolution (cross-correlation) of (N, C, D, H, W) or (C, D, H, W): (N, O, D', H', W') or (O, D', H', W').

    weight (O, C / groups, *kernel_size), bias (O,). Initial values, sizes, arguments and errors as in Conv2d.

    >>> nn.Conv3d(2, 4, (1, 3, 3))(sg.ones(2, 5, 6, 6)).shape
    shadergrad.Size([4, 5, 4, 4])
    """


class _TransposedConv(_ConvNd):
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
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            True,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

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


class ConvTranspose1d(_TransposedConv, function=F.conv_transpose1d, rank=1):
    """The adjoint of Conv1d (Dumoulin and Visin, 2016): (N, C, L) or (C, L) to (N, O, L') or (O, L').

    L' = (L - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1; C is in_channels, O out_channels.
    weight (C, O / groups, kernel_size) and bias (O,) start uniform on +-1/sqrt(O / groups * kernel_size). output_size,
    of the call, names L' instead of output_padding. Raises ArgumentError for sizes out of range, an output_size that no
    output_padding gives, and a padding_mode other than 'zeros'; ShapeError for an input of other channels.

    >>> layer = nn.ConvTranspose1d(1, 1, 2, stride=2, bias=False)
    >>> _ = nn.init.ones_(layer.weight)
    >>> layer(sg.tensor([[1.0, 2.0, 3.0]])).detach()
    tensor([[1., 1., 2., 2., 3., 3.]])
    """


class ConvTranspose2d(_TransposedConv, function=F.conv_transpose2d, rank=2):
    """The adjoint of Conv2d: (N, C, H, W) or (C, H, W) to (N, O, H', W') or (O, H', W').

    weight (C, O / groups, *kernel_size), bias (O,). Initial values, sizes, arguments and errors as in ConvTranspose1d.

    >>> nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)(sg.ones(2, 8, 16, 16)).shape
    shadergrad.Size([2, 3, 32, 32])
    """


class ConvTranspose3d(_TransposedConv, function=F.conv_transpose3d, rank=3):
    """The adjoint of Conv3d: (N, C, D, H, W) or (C, D, H, W) to (N, O, D', H', W') or (O, D', H', W').

    weight (C, O / groups, *kernel_size), bias (O,). Initial values, sizes, arguments and errors as in ConvTranspose1d.

    >>> nn.ConvTranspose3d(4, 2, 2, stride=2)(sg.ones(4, 3, 3, 3)).shape
    shadergrad.Size([2, 6, 6, 6])
    """
