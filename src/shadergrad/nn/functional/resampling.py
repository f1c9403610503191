"""Another size: interpolation, and channels that become pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import ShapeError
from ...tensor import Tensor
from ..arguments import per_axis, refuse, whole
from ..errors import ArgumentError
from .windows import Ints, along_axis

MODES = {"linear": 1, "bilinear": 2, "trilinear": 3}  # to the number of spatial axes; "nearest" takes any


def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """(batch, c, *size) of 1 to 3 spatial axes at another size; F.upsample is its older name.

    size, or scale_factor: a number for all axes or one for each. mode: 'nearest'; or 'linear', 'bilinear', 'trilinear'
    for 1, 2, 3 axes. align_corners: the centres of the outer elements stay in place, else their edges do; not for
    'nearest'.
    ShapeError for another number of axes; ArgumentError unless just one of size and scale_factor is given, and for
    modes that do not fit. All modes but 'nearest' multiply each axis by a matrix, so one NaN or infinity reaches the
    whole axis.
    PyTorch's 'bicubic', 'area', 'nearest-exact', recompute_scale_factor and antialias are not there.

    >>> F.interpolate(sg.tensor([[[0.0, 2.0]]]), scale_factor=2)
    tensor([[[0., 0., 2., 2.]]])
    >>> F.interpolate(sg.tensor([[[0.0, 2.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[0., 1., 2.]]])
    """
    rank = input.ndim - 2
    if rank not in (1, 2, 3):
        raise ShapeError(f"[interpolate] Only 3D, 4D and 5D input Tensors supported, but got {list(input.shape)}.")
    if mode != "nearest" and MODES.get(mode) != rank:
        raise ArgumentError(f"interpolate(): mode={mode!r} does not fit an input of {rank} spatial axes.")
    if mode == "nearest" and align_corners is not None:
        raise ArgumentError(
            "interpolate(): align_corners option can only be set with the interpolating modes: linear | bilinear | "
            f"trilinear, but got align_corners={align_corners}."
        )
    x = input
    for a, (n, (m, ratio)) in enumerate(
        zip(input.shape[2:], _targets(input.shape[2:], size, scale_factor), strict=True)
    ):
        x = _resample(x, 2 + a, n, m, ratio, mode == "nearest", bool(align_corners))
    return x


def _targets(
    sizes: Sequence[int], size: Ints | None, scale_factor: float | Sequence[float] | None
) -> list[tuple[int, float]]:
    """The size that each axis gets, and how far apart its samples are in the input."""
    rank = len(sizes)
    if (size is None) == (scale_factor is None):
        words = "either" if size is None else "only one of"
        raise ArgumentError(
            f"interpolate(): {words} size or scale_factor should be defined, but got {size=}, {scale_factor=}."
        )
    if scale_factor is None:
        wanted = per_axis("interpolate", "size", size, rank, 1)
        return [(m, n / m) for n, m in zip(sizes, wanted, strict=True)]
    factors = [scale_factor] * rank if isinstance(scale_factor, int | float) else list(scale_factor)
    if len(factors) != rank:
        raise ArgumentError(
            f"interpolate(): Input and scale_factor must have the same number of spatial dimensions, {rank}, but got "
            f"{scale_factor=}."
        )
    for n, factor in zip(sizes, factors, strict=True):
        if not isinstance(factor, int | float):
            refuse("interpolate", "scale_factor", factor, "float or a tuple of floats")
        if not 1 <= n * factor < math.inf:
            raise ArgumentError(
                f"interpolate(): Input and output sizes should be greater than 0, but got {scale_factor=} at size {n}."
            )
    return [(math.floor(n * factor), 1.0 / factor) for n, factor in zip(sizes, factors, strict=True)]


upsample = interpolate  # its older name


def _resample(x: Tensor, axis: int, n: int, m: int, ratio: float, nearest: bool, align_corners: bool) -> Tensor:
    if nearest:
        if m % n == 0 and ratio == n / m:
            wide = x.unsqueeze(axis + 1).expand(*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :])
            return wide.reshape(*x.shape[:axis], m, *x.shape[axis + 1 :])
        table = np.minimum(np.floor(np.arange(m) * np.float32(ratio)).astype(np.int32), n - 1)
        return x.index_select(axis, Tensor(table, device=x.device))
    if align_corners:
        position = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        position = np.maximum((np.arange(m) + 0.5) * ratio - 0.5, 0.0)
    low = np.minimum(np.floor(position).astype(int), n - 1)
    high = np.minimum(low + 1, n - 1)
    share = position - low
    matrix = np.zeros((m, n))
    np.add.at(matrix, (np.arange(m), low), 1.0 - share)
    np.add.at(matrix, (np.arange(m), high), share)
    return along_axis(x, axis, matrix)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., c * r * r, h, w) to (..., c, h * r, w * r): channels become the pixels of a square (Shi et al., 2016).

    ShapeError for channels that r * r does not divide, or fewer than 3 axes.

    >>> F.pixel_shuffle(sg.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    r = whole("pixel_shuffle", "upscale_factor", upscale_factor, 1)
    *lead, channels, h, w = _image("pixel_shuffle", input)
    if channels % (r * r):
        raise ShapeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={channels} is not divisible by {r * r}"
        )
    k = len(lead)
    x = input.reshape(*lead, channels // (r * r), r, r, h, w)
    x = x.permute(*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return x.reshape(*lead, channels // (r * r), h * r, w * r)


def _image(what: str, input: Tensor) -> tuple[int, ...]:
    if input.ndim < 3:
        raise ShapeError(
            f"{what} expects input to have at least 3 dimensions, but got input of size {list(input.shape)}"
        )
    return input.shape


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of pixel_shuffle: (..., c, h * r, w * r) to (..., c * r * r, h, w).

    ShapeError for a height or width that r does not divide, or fewer than 3 axes.

    >>> F.pixel_unshuffle(sg.arange(4).reshape(1, 2, 2), 2).flatten()
    tensor([0, 1, 2, 3])
    """
    r = whole("pixel_unshuffle", "downscale_factor", downscale_factor, 1)
    *lead, channels, h, w = _image("pixel_unshuffle", input)
    for axis, (name, n) in enumerate((("height", h), ("width", w)), -2):
        if n % r:
            raise ShapeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({axis})={n} is not "
                f"divisible by {r}"
            )
    k = len(lead)
    x = input.reshape(*lead, channels, h // r, r, w // r, r)
    x = x.permute(*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return x.reshape(*lead, channels * r * r, h // r, w // r)
