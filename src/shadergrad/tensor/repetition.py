"""Methods that repeat, flip and pad elements, and extract windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ..dtypes import bool_
from ..errors import ArgumentTypeError, ShapeError
from ..graph import build
from ..graph.node import make
from ..primitives import views as v
from ..primitives.window import Window
from .axes import check_axes, check_axis, sizes_of
from .handle import wrap
from .placement import check_fits
from .shape import ShapeTensor


class RepeatTensor(ShapeTensor):
    """Methods that repeat, flip and pad elements, and extract windows."""

    __slots__ = ()

    def expand(self, *sizes: Any) -> Self:
        """Axes of size 1 repeated to `sizes`, and new leading axes; -1 keeps a size. Nothing is copied.

        Raises ShapeError if an axis has neither size 1 nor the requested size.

        >>> sg.tensor([[1], [2]]).expand(-1, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
        """
        wanted = list(sizes_of(sizes, "expand"))
        extra = len(wanted) - self.ndim
        if extra < 0:
            raise ShapeError(
                f"[expand] the number of sizes provided ({len(wanted)}) must be greater or equal to the number of dimensions ({self.ndim})"
            )
        for k, n in enumerate(wanted):
            if n == -1:
                if k < extra:
                    raise ShapeError("[expand] -1 is not allowed in a leading, non-existing dimension")
                wanted[k] = self.shape[k - extra]
            elif n < 0 or (k >= extra and self.shape[k - extra] not in (1, n)):
                existing = " is negative" if k < extra else f" must match the existing size ({self.shape[k - extra]})"
                raise ShapeError(
                    f"[expand] the expanded size ({n}){existing} at dimension {k}: {tuple(self.shape)} to {tuple(wanted)}."
                )
        return self._view(lambda x: build.broadcast(x, tuple(wanted)))

    def expand_as(self, other: ShapeTensor) -> Self:
        """Expanded to the shape of `other`, as by `expand`.

        >>> sg.tensor([1, 2]).expand_as(sg.zeros(2, 2))
        tensor([[1, 2],
                [1, 2]])
        """
        return self.expand(other.shape)

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        """Expanded to `shape`, as by `expand`.

        >>> sg.tensor([1, 2]).broadcast_to((2, 2))
        tensor([[1, 2],
                [1, 2]])
        """
        return self.expand(*sizes_of((shape,), "broadcast_to"))

    def flip(self, *axes: Any, dims: int | Sequence[int] | None = None) -> Self:
        """In reverse order along axes, given as arguments or a sequence, also by the name `dims`.

        >>> sg.tensor([[1, 2], [3, 4]]).flip(1)
        tensor([[2, 1],
                [4, 3]])
        """
        if dims is None and not axes:
            raise ArgumentTypeError("flip(): missing a required argument: 'dims'")
        wanted = sizes_of((dims,) if dims is not None else axes, "flip", "dims")
        found = check_axes(wanted, self.ndim, "flip") if wanted else ()
        return wrap(make(v.Flip(found), self._node)) if found else self._copied()

    def fliplr(self) -> Self:
        """In reverse order along axis 1; at least 2 axes.

        >>> sg.tensor([[1, 2], [3, 4]]).fliplr()
        tensor([[2, 1],
                [4, 3]])
        """
        if self.ndim < 2:
            raise ShapeError(f"fliplr(): input must be >= 2-d, but its shape is {tuple(self.shape)}.")
        return self.flip(1)

    def flipud(self) -> Self:
        """In reverse order along axis 0; at least 1 axis.

        >>> sg.tensor([[1, 2], [3, 4]]).flipud()
        tensor([[3, 4],
                [1, 2]])
        """
        if self.ndim == 0:
            raise ShapeError("[flipud] a tensor of shape () has no axis.")
        return self.flip(0)

    def pad(self, padding: Sequence[int], value: float = 0.0) -> Self:
        """Padded with `value`: padding holds (before, after) pairs from the last axis backwards; negative
        amounts crop.

        Raises ShapeError for half a pair, more pairs than axes, or if more is cropped than there is. Other modes:
        nn.functional.pad.

        >>> sg.tensor([1, 2]).pad((1, 2), value=9)
        tensor([9, 1, 2, 9, 9])
        """
        if len(padding) % 2:
            raise ShapeError(f"[pad] padding holds pairs of numbers, got {tuple(padding)}.")
        pairs = list(zip(padding[::2], padding[1::2], strict=True))
        if len(pairs) > self.ndim:
            raise ShapeError(f"[pad] {len(pairs)} pairs of padding for a tensor of {self.ndim} dimensions.")
        low = [0] * self.ndim
        high = [0] * self.ndim
        for k, (a, b) in enumerate(pairs):
            low[-1 - k], high[-1 - k] = a, b
        result = self
        if min([*low, *high], default=0) < 0:
            starts = tuple(max(-a, 0) for a in low)
            sizes = tuple(n - s + min(b, 0) for n, s, b in zip(self.shape, starts, high, strict=True))
            if min(sizes, default=0) < 0:
                raise ShapeError(f"[pad] padding {tuple(padding)} cuts more than shape {tuple(self.shape)} has.")
            result = wrap(make(v.Slice(starts, sizes, (1,) * self.ndim), self._node))
        check_fits(value, self.dtype)
        number = bool(value) if self.dtype is bool_ else int(value) if self.dtype.category == 1 else float(value)
        lows, highs = tuple(max(a, 0) for a in low), tuple(max(b, 0) for b in high)
        return wrap(make(v.Pad(lows, highs, (0,) * self.ndim, number), result._node))

    def repeat(self, *repeats: Any) -> Self:
        """The tensor tiled that many times along every axis; extra counts are for new leading axes. Raises ShapeError for fewer counts
        than axes.

        >>> sg.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
        """
        counts = sizes_of(repeats, "repeat", "repeats")
        if len(counts) < self.ndim:
            raise ShapeError(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            )
        shape = (1,) * (len(counts) - self.ndim) + tuple(self.shape)
        spread = self.reshape([k for n in shape for k in (1, n)])
        spread = spread.expand(*(k for c, n in zip(counts, shape, strict=True) for k in (c, n)))
        return spread._viewed(tuple(c * n for c, n in zip(counts, shape, strict=True)), "repeat")._copied()

    def tile(self, *dims: Any) -> Self:
        """The tensor tiled that many times along the last axes; like `repeat`, with 1 for missing leading counts.

        >>> sg.tensor([[1, 2], [3, 4]]).tile(2)
        tensor([[1, 2, 1, 2],
                [3, 4, 3, 4]])
        """
        counts = sizes_of(dims, "tile", "dims")
        return self.repeat((1,) * max(0, self.ndim - len(counts)) + counts)

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Windows of `size` every `step` along an axis, which counts the windows; their elements are along a new
        last axis.

        Raises ShapeError if the axis is shorter than a window, or step < 1.

        >>> sg.arange(5).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
        """
        if self.ndim == 0:
            check_axis(dimension, 0, "unfold")
            return self.reshape(1).unfold(0, size, step).reshape(size)
        axis = check_axis(dimension, self.ndim, "unfold")
        if size > self.shape[axis] or step < 1:
            raise ShapeError(
                f"maximum size for tensor at dimension {axis} is {self.shape[axis]} but size is {size}; step is {step}"
            )
        return self._view(lambda x: make(Window((axis,), (size,), (step,), (1,)), x))
