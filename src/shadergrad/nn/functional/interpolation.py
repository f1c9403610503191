"""Interpolation, pixel shuffle and unshuffle."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import DTypeError, ShapeError
from ...tensor import Tensor, host_tensor
from ..arguments import per_axis, refuse, whole
from ..errors import ArgumentError
from .grid_sampling import cubic_weights
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .sliding_windows import Ints, along_axis

__all__ = ["interpolate", "pixel_shuffle", "pixel_unshuffle", "upsample", "upsample_bilinear", "upsample_nearest"]

AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}

MODES = {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,)}  # to the numbers of spatial axes
ANY_RANK = ("nearest", "nearest-exact", "area")  # modes that take one, two or three


def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(batch, c, *size) of 1 to 3 spatial axes at another size; F.upsample is its older name.

    size, or scale_factor: a number for all axes or one for each. mode: 'nearest', 'nearest-exact' (of the centres),
    'area' (means); 'linear', 'bilinear', 'trilinear' for 1, 2, 3 axes; 'bicubic' for 2. align_corners, of the last four:
    the centres of the outer elements stay in place, else their edges do. recompute_scale_factor: the factor is recomputed from
    the sizes. antialias, of 'bilinear' and 'bicubic': a smaller result is an average over all elements between its samples.
    ShapeError for another number of axes; ArgumentError unless just one of size and scale_factor is given, and for
    modes that do not fit; DTypeError for integers but with 'nearest' and 'nearest-exact'.

    >>> F.interpolate(sg.tensor([[[0.0, 2.0]]]), scale_factor=2)
    tensor([[[0., 0., 2., 2.]]])
    >>> F.interpolate(sg.tensor([[[0.0, 2.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[0., 1., 2.]]])
    """
    rank = input.ndim - 2
    if rank not in (1, 2, 3):
        raise ShapeError(f"[interpolate] Only 3D, 4D and 5D input Tensors supported, but got {list(input.shape)}.")
    _check_mode(input, mode, rank, align_corners, antialias)
    targets = _targets(input.shape[2:], size, scale_factor)
    if recompute_scale_factor:
        if size is not None:
            raise ArgumentError("recompute_scale_factor is not meaningful with an explicit size.")
        targets = [(m, n / m) for n, (m, _) in zip(input.shape[2:], targets, strict=True)]
    if mode == "area":
        return AREA[rank](input, [m for m, _ in targets])
    x = input
    for a, (n, (m, ratio)) in enumerate(zip(input.shape[2:], targets, strict=True)):
        if mode == "nearest" or mode == "nearest-exact":
            x = _nearest(x, 2 + a, n, m, ratio, mode == "nearest-exact")
        elif antialias:
            x = along_axis(x, 2 + a, _smoothing(n, m, ratio, mode == "bicubic", bool(align_corners)))
        else:
            x = _between(x, 2 + a, n, m, ratio, mode == "bicubic", bool(align_corners))
    return x


def _check_mode(input: Tensor, mode: str, rank: int, align_corners: bool | None, antialias: bool) -> None:
    if mode not in ANY_RANK and rank not in MODES.get(mode, ()):
        raise ArgumentError(f"interpolate(): mode={mode!r} does not fit an input of {rank} spatial axes.")
    if mode in ANY_RANK and align_corners is not None:
        raise ArgumentError(
            "interpolate(): align_corners option can only be set with the interpolating modes: linear | bilinear | "
            f"bicubic | trilinear, but got align_corners={align_corners}."
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if not input.is_floating_point() and mode not in ("nearest", "nearest-exact"):
        raise DTypeError(
            f"interpolate(): mode={mode!r} is not implemented for {input.dtype.name}. Hint: .float() first."
        )


def _targets(
    sizes: Sequence[int], size: Ints | None, scale_factor: float | Sequence[float] | None
) -> list[tuple[int, float]]:
    """The new size of each axis, and the distance of its samples in the input."""
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


def upsample_nearest(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate with mode='nearest', by an older name.

    >>> F.upsample_nearest(sg.tensor([[[0.0, 2.0]]]), scale_factor=2)
    tensor([[[0., 0., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate with mode='bilinear' and align_corners, by an older name.

    >>> F.upsample_bilinear(sg.tensor([[[[0.0, 2.0]]]]), (1, 3))
    tensor([[[[0., 1., 2.]]]])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


def _nearest(x: Tensor, axis: int, n: int, m: int, ratio: float, exact: bool) -> Tensor:
    if m % n == 0 and ratio == n / m:
        wide = x.unsqueeze(axis + 1).expand(*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :])
        return wide.reshape(*x.shape[:axis], m, *x.shape[axis + 1 :])
    # in float32, as PyTorch: the product of 3 and 1 / 0.6 is 5, and in float64 less
    places = (np.arange(m, dtype=np.float32) + np.float32(0.5 if exact else 0.0)) * np.float32(ratio)
    table = np.minimum(np.floor(places).astype(np.int32), n - 1)
    return x.index_select(axis, host_tensor(table, device=x.device))


def _positions(n: int, m: int, ratio: float, align_corners: bool) -> np.ndarray:
    """The positions of the m elements of the result among the n of the input."""
    if align_corners:
        return np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0.0)
    return (np.arange(m) + 0.5) * ratio - 0.5


def _between(x: Tensor, axis: int, n: int, m: int, ratio: float, cubic: bool, align_corners: bool) -> Tensor:
    """A weighted sum of the two or four neighbours, so that an infinity elsewhere does not change it."""
    position = _positions(n, m, ratio, align_corners)
    if not cubic:
        position = np.maximum(position, 0.0)
    low = np.floor(position).astype(int)
    if not cubic:
        low = np.minimum(low, n - 1)
    share = position - low
    weights = cubic_weights(share) if cubic else [1.0 - share, share]
    first = -1 if cubic else 0
    total: Tensor | None = None
    for k, weight in enumerate(weights):
        places = np.clip(low + first + k, 0, n - 1).astype(np.int32)
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        scale = Tensor(weight, dtype=x.dtype, device=x.device).reshape(shape)
        term = x.index_select(axis, host_tensor(places, device=x.device)) * scale
        total = term if total is None else total + term
    assert total is not None
    return total


def _smoothing(n: int, m: int, ratio: float, cubic: bool, align_corners: bool) -> np.ndarray:
    """The matrix (m, n) of a kernel as wide as the distance of the samples in the input."""
    scale = ((n - 1) / (m - 1) if m > 1 else 0.0) if align_corners else ratio
    width = max(scale, 1.0)
    reach = (2.0 if cubic else 1.0) * width
    matrix = np.zeros((m, n))
    for i in range(m):
        centre = scale * (i + 0.5)
        start, end = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), n)
        t = np.abs((np.arange(start, end) - centre + 0.5) / width)
        line = np.maximum(1.0 - t, 0.0) if not cubic else _cubic_kernel(t)
        matrix[i, start:end] = line / line.sum()
    return matrix


def _cubic_kernel(t: np.ndarray) -> np.ndarray:
    far = ((t - 5.0) * t + 8.0) * t * -0.5 + 2.0
    return np.where(t < 1.0, (1.5 * t - 2.5) * t * t + 1.0, np.where(t < 2.0, far, 0.0))


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
