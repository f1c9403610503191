"""Sampling of an image at given coordinates, and grids of affine maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import int32
from ...errors import ShapeError
from ...graph import build
from ...graph import node as nodes
from ...tensor import Tensor, joint, where
from ..errors import ArgumentError

__all__ = ["affine_grid", "grid_sample"]

CUBIC = -0.75  # the slope of the bicubic kernel, as PyTorch's


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Sampling coordinates for grid_sample: the images of pixels under affine maps `theta` (N, 2, 3) or (N, 3, 4).

    size: (N, C, H, W) or (N, C, D, H, W), of the result; gives (N, H, W, 2) or (N, D, H, W, 3), coordinates x, y (and z)
    from -1 to 1, between the centres of the outer pixels with align_corners, else between their edges.
    ShapeError if theta and size do not fit.

    >>> F.affine_grid(sg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    spatial = list(size[2:])
    rank = len(spatial)
    if rank not in (2, 3) or tuple(theta.shape) != (size[0], rank, rank + 1):
        raise ShapeError(
            f"[affine_grid] for size {tuple(size)} theta must be (N, 2, 3) or (N, 3, 4), not {tuple(theta.shape)}."
        )
    if min(size) < 1:
        raise ShapeError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    axes = []
    for n in spatial:
        line = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
        axes.append(line if align_corners else line * (n - 1) / n)
    grids = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*reversed(grids), np.ones_like(grids[0])], -1).reshape(-1, rank + 1)
    base = Tensor(points, dtype=theta.dtype, device=theta.device)
    return (base @ theta.transpose(1, 2)).reshape(size[0], *spatial, rank)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """An image (N, C, H, W), or a volume (N, C, D, H, W), sampled at the coordinates of a grid (N, ..., 2) or (N, ..., 3).

    grid: x, y (and z) from -1 to 1, the centres of the outer pixels with align_corners, else their edges (Jaderberg et
    al., 2015). mode: 'bilinear', 'nearest' or, for images, 'bicubic'. padding_mode, for coordinates outside: 'zeros', 'border'
    (the nearest pixel) or 'reflection'. Gives (N, C, ...); both inputs get gradients.
    ShapeError if the two do not fit, ArgumentError for other modes.

    >>> image = sg.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> F.grid_sample(image, sg.tensor([[[[0.0, 0.0], [1.0, 1.0]]]]), align_corners=True)
    tensor([[[[1.5, 3. ]]]])
    """
    rank = input.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ArgumentError(f"grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(
            f"grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    if rank not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != rank or grid.shape[0] != input.shape[0]:
        raise ShapeError(
            f"grid_sample(): expected grid to have size {rank} in last dimension and the batch of the input, but got input "
            f"of size {list(input.shape)} and grid of size {list(grid.shape)}"
        )
    if min(input.shape[2:]) < 1:
        raise ShapeError(
            f"grid_sample(): expected input to have non-empty spatial dimensions, but got {list(input.shape)}"
        )
    if mode == "bicubic" and rank == 3:
        raise ArgumentError("grid_sample(): bicubic interpolation only supports 4D input")
    sizes = input.shape[2:]
    points = grid.reshape(grid.shape[0], -1, rank)
    corners = bool(align_corners)
    places = [_pixels(points[:, :, rank - 1 - a], n, corners) for a, n in enumerate(sizes)]
    reader = _Reader(input, padding_mode, corners)
    found = {"bilinear": _linear, "nearest": _nearest, "bicubic": _cubic}[mode](reader, places)
    if mode == "nearest" and points.requires_grad and nodes.mode.grad:
        found = _with_zero_gradient(found, points)
    return found.reshape(*input.shape[:2], *grid.shape[1:-1])


def _with_zero_gradient(found: Tensor, points: Tensor) -> Tensor:
    """The same value, with a gradient of 0 for the points, because a small move of a point does not change it."""
    inputs = [t for t in (found, points) if t.requires_grad]

    def backward(grads: Any) -> list[Any]:
        return [grads[0] if t is found else Tensor._of(build.like(t._node, 0)) for t in inputs]

    return joint(inputs, [found.detach()], backward)[0]


def _pixels(x: Tensor, n: int, align_corners: bool) -> Tensor:
    """Coordinates from -1 to 1 as positions of pixels; NaN becomes a position outside."""
    placed = (x + 1.0) * ((n - 1) / 2.0) if align_corners else ((x + 1.0) * n - 1.0) / 2.0
    return where(placed.isnan(), -100.0, placed)


class _Reader:
    """Reads an image at whole positions, an axis each (N, P): (N, C, P)."""

    def __init__(self, image: Tensor, padding: str, align_corners: bool) -> None:
        self.sizes = tuple(image.shape[2:])
        self.flat = image.reshape(*image.shape[:2], math.prod(self.sizes))
        self.padding, self.align_corners = padding, align_corners

    def inside(self, x: Tensor, n: int) -> Tensor:
        """Positions moved into the image, as the padding says; zeros stay outside."""
        if self.padding == "zeros":
            return x
        if self.padding == "reflection":
            x = self._reflected(x, n)
        return x.clamp(0.0, n - 1.0)

    def _reflected(self, x: Tensor, n: int) -> Tensor:
        low, high = (0.0, n - 1.0) if self.align_corners else (-0.5, n - 0.5)
        span = high - low
        if span <= 0:
            return x * 0.0
        distance = (x - low).abs()
        rest, turns = distance.fmod(span), (distance / span).floor()
        return where(turns.remainder(2.0) == 0, rest + low, span - rest + low)

    def read(self, positions: Sequence[Tensor]) -> Tensor:
        flat: Any = None
        valid: Any = None
        for x, n in zip(positions, self.sizes, strict=True):
            here = (x >= 0) & (x <= n - 1)
            place = x.detach().clamp(0.0, n - 1.0).to(dtype=int32)
            flat = place if flat is None else flat * n + place
            valid = here if valid is None else valid & here
        batch, channels, _ = self.flat.shape
        index = flat.unsqueeze(1).expand(batch, channels, flat.shape[-1])
        return where(valid.unsqueeze(1), self.flat.gather(2, index), 0.0)


def _linear(reader: _Reader, places: list[Tensor]) -> Tensor:
    """The 2^rank pixels around, each weighted by its nearness along every axis."""
    corners: list[list[tuple[Tensor, Tensor]]] = []
    for x, n in zip(places, reader.sizes, strict=True):
        x = reader.inside(x, n)
        low = x.detach().floor()
        share = x - low
        corners.append([(low, 1.0 - share), (low + 1.0, share)])
    return _weighted(reader, corners)


def _weighted(reader: _Reader, corners: list[list[tuple[Tensor, Tensor]]]) -> Tensor:
    """The weighted sum over all combinations of one position per axis; a weight is the product of the axes' weights."""
    total: Any = None
    ways: list[tuple[list[Tensor], Any]] = [([], None)]
    for options in corners:
        ways = [([*p, x], w if q is None else q * w) for p, q in ways for x, w in options]
    for positions, weight in ways:
        term = reader.read(positions) * weight.unsqueeze(1)
        total = term if total is None else total + term
    return total


def _nearest(reader: _Reader, places: list[Tensor]) -> Tensor:
    return reader.read([reader.inside(x, n).round() for x, n in zip(places, reader.sizes, strict=True)])


def cubic_weights(t: Any, slope: float = CUBIC) -> list[Any]:
    """The weights of the four neighbours of a place, t behind the second (Keys, 1981)."""

    def near(x: Any) -> Any:
        return ((slope + 2.0) * x - (slope + 3.0)) * x * x + 1.0

    def far(x: Any) -> Any:
        return ((slope * x - 5.0 * slope) * x + 8.0 * slope) * x - 4.0 * slope

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def _cubic(reader: _Reader, places: list[Tensor]) -> Tensor:
    """The weighted 16 pixels around; each position is moved into the image separately."""
    corners = []
    for x, n in zip(places, reader.sizes, strict=True):
        low = x.detach().floor()
        weights = cubic_weights(x - low)
        corners.append([(reader.inside(low + (k - 1.0), n), w) for k, w in enumerate(weights)])
    return _weighted(reader, corners)
