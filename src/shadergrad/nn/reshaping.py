"""Modules that only rearrange elements."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import functional as F
from .arguments import takes_tensors
from .errors import ModuleTypeError
from .module import Module

__all__ = ["ChannelShuffle", "Flatten", "PixelShuffle", "PixelUnshuffle", "Unflatten"]


class Flatten(Module):
    """Axes start_dim to end_dim as one: by default (N, ...) to (N, product of the others).

    Raises ShapeError if start_dim is behind end_dim.

    >>> nn.Flatten()(sg.zeros(2, 3, 4)).shape
    shadergrad.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Axis dim as several: (..., n, ...) to (..., *unflattened_size, ...), whose product is n; one size may be -1.

    Raises ModuleTypeError for sizes that are no tuple or list of ints, ShapeError at the call where they do not
    multiply to n. Axes have no names here: dim is a number.

    >>> nn.Unflatten(1, (2, -1))(sg.zeros(5, 6)).shape
    shadergrad.Size([5, 2, 3])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list):
            raise ModuleTypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for k, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise ModuleTypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos {k}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return F.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """Channels become pixels: (..., C r r, H, W) to (..., C, H r, W r), with r = upscale_factor (Shi et al., 2016).

    Raises ShapeError for channels that r r does not divide.

    >>> nn.PixelShuffle(2)(sg.arange(4.0).reshape(4, 1, 1))
    tensor([[[0., 1.],
             [2., 3.]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of PixelShuffle: (..., C, H r, W r) to (..., C r r, H, W), with r = downscale_factor.

    Raises ShapeError if r does not divide height and width.

    >>> nn.PixelUnshuffle(2)(sg.tensor([[[0.0, 1.0], [2.0, 3.0]]])).reshape(-1)
    tensor([0., 1., 2., 3.])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves `groups` groups of the channels of (N, C, ...): the first of each group, then the second of each (Zhang et al., 2018).

    The shape stays. Raises ShapeError if groups does not divide C.

    >>> nn.ChannelShuffle(2)(sg.arange(6.0).reshape(1, 6, 1)).reshape(-1)
    tensor([0., 3., 1., 4., 2., 5.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
