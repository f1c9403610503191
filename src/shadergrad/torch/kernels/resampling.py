"""Interpolation, grid sampling, and reflection and replication padding, forward and backward."""

from __future__ import annotations

from typing import Any

from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel
from .gradients import gradients

RESIZED = {  # PyTorch's operators: our mode, whether corners can be aligned, and whether all elements between count
    "upsample_nearest1d": ("nearest", False, False),
    "upsample_nearest2d": ("nearest", False, False),
    "upsample_nearest3d": ("nearest", False, False),
    "_upsample_nearest_exact1d": ("nearest-exact", False, False),
    "_upsample_nearest_exact2d": ("nearest-exact", False, False),
    "_upsample_nearest_exact3d": ("nearest-exact", False, False),
    "upsample_linear1d": ("linear", True, False),
    "upsample_bilinear2d": ("bilinear", True, False),
    "upsample_trilinear3d": ("trilinear", True, False),
    "upsample_bicubic2d": ("bicubic", True, False),
    "_upsample_bilinear2d_aa": ("bilinear", True, True),
    "_upsample_bicubic2d_aa": ("bicubic", True, True),
}


def _resized(x: Tensor, size: Any, mode: str, align: bool | None, antialias: bool, scales: Any) -> Tensor:
    """With the program's scale factor, if given: positions follow from it, not from the quotient of the sizes."""
    given: dict[str, Any] = {"mode": mode, "align_corners": align, "antialias": antialias}
    if scales and all(scales):
        y = F.interpolate(x, scale_factor=tuple(scales), **given)
        if tuple(y.shape[2:]) == tuple(size):
            return y
    return F.interpolate(x, tuple(size), **given)


def _note(name: str, mode: str, has_corners: bool, antialias: bool) -> None:
    def forward(x: Tensor, size: Any, *rest: Any) -> Tensor:
        align, scales = (rest[0], rest[1:]) if has_corners else (None, rest)
        return _resized(x, size, mode, align, antialias, scales)

    def backward(g: Tensor, size: Any, shape: Any, *rest: Any) -> Any:
        x = g.new_zeros(tuple(shape))
        return gradients(lambda x: forward(x, size, *rest), [x], g)[0]

    kernel(name)(forward)
    kernel(f"{name}_backward")(backward)


for _name, _rule in RESIZED.items():
    _note(_name, *_rule)

SAMPLED = ("bilinear", "nearest", "bicubic")
BORDERS = ("zeros", "border", "reflection")


@kernel("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(x: Tensor, grid: Tensor, mode: int, border: int, align: bool) -> Tensor:
    return F.grid_sample(x, grid, SAMPLED[mode], BORDERS[border], align)


@kernel("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(g: Tensor, x: Tensor, grid: Tensor, mode: int, border: int, align: bool, mask: Any) -> Any:
    dx, dgrid = gradients(lambda x, grid: grid_sampler(x, grid, mode, border, align), [x, grid], g)
    return dx if mask[0] else None, dgrid if mask[1] else None


def _padded(mode: str) -> Any:
    return lambda g, x, padding: gradients(lambda x: F.pad(x, tuple(padding), mode), [x], g)[0]


kernel("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")(_padded("replicate"))
kernel("reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward")(_padded("reflect"))
