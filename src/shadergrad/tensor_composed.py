# pyright: reportGeneralTypeIssues=false
# Why: in a mixin, self is the whole Tensor, and pyright cannot know that the mixin is used nowhere else.
"""Tensor methods made of other methods: PyTorch's further names, and functions that need no primitive of their own.

Nothing here makes a node by itself, so every method works on each device, within compiled steps, and has derivatives of
any order. Methods that read values (their doc says so) cannot be used inside a compiled step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .dtypes import bool_, float32, int32, parse_dtype
from .errors import DTypeError, ShapeError
from .graph import node as nodes
from .tensor_math import Number, check_axis, where, wrap

if TYPE_CHECKING:
    from .tensor import Tensor


class MinAndMax(NamedTuple):
    """What aminmax gives."""

    min: Any
    max: Any


IN_PLACE = (
    "absolute", "acosh", "arccos", "arcsin", "arctan", "asinh", "atanh", "clamp_max", "clamp_min", "clip", "deg2rad",
    "divide", "eq", "fix", "ge", "gt", "heaviside", "hypot", "index_fill", "le", "logical_xor", "logit", "lt",
    "masked_scatter", "multiply", "nan_to_num", "ne", "negative", "rad2deg", "scatter", "sinc", "subtract",
    "true_divide", "xlogy",
)  # fmt: skip


class ComposedMethods:
    """Elementwise functions, comparisons, reductions, and parts of tensors, by composition."""

    __slots__ = ()

    # -- other names

    def absolute(self: Tensor) -> Tensor:
        return self.abs()

    def negative(self: Tensor) -> Tensor:
        return self.neg()

    def positive(self: Tensor) -> Tensor:
        return self

    def fix(self: Tensor) -> Tensor:
        return self.trunc()

    def arccos(self: Tensor) -> Tensor:
        return self.acos()

    def arcsin(self: Tensor) -> Tensor:
        return self.asin()

    def arctan(self: Tensor) -> Tensor:
        return self.atan()

    def subtract(self: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
        return self.sub(other, alpha=alpha)

    def multiply(self: Tensor, other: Tensor | Number) -> Tensor:
        return self.mul(other)

    def divide(self: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
        return self.div(other, rounding_mode=rounding_mode)

    def true_divide(self: Tensor, other: Tensor | Number) -> Tensor:
        return self.div(other)

    def greater(self: Tensor, other: Tensor | Number) -> Tensor:
        return self.gt(other)

    def greater_equal(self: Tensor, other: Tensor | Number) -> Tensor:
        return self.ge(other)

    def less(self: Tensor, other: Tensor | Number) -> Tensor:
        return self.lt(other)

    def less_equal(self: Tensor, other: Tensor | Number) -> Tensor:
        return self.le(other)

    def not_equal(self: Tensor, other: Tensor | Number) -> Tensor:
        return self.ne(other)

    def clip(self: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
        return self.clamp(min, max)

    def clamp_min(self: Tensor, min: Tensor | Number) -> Tensor:
        return self.clamp(min=min)

    def clamp_max(self: Tensor, max: Tensor | Number) -> Tensor:
        return self.clamp(max=max)

    def moveaxis(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        return self.movedim(source, destination)

    def swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
        return self.transpose(axis0, axis1)

    def swapdims(self: Tensor, dim0: int, dim1: int) -> Tensor:
        return self.transpose(dim0, dim1)

    def ravel(self: Tensor) -> Tensor:
        return self.reshape(-1)

    def reshape_as(self: Tensor, other: Tensor) -> Tensor:
        return self.reshape(other.shape)

    def view_as(self: Tensor, other: Tensor) -> Tensor:
        return self.reshape(other.shape)

    def ndimension(self: Tensor) -> int:
        return self.ndim

    def is_contiguous(self: Tensor) -> bool:
        """True: there are no strides here."""
        return True

    # -- functions of elements

    def acosh(self: Tensor) -> Tensor:
        return (self + (self * self - 1.0).sqrt()).log()

    def asinh(self: Tensor) -> Tensor:
        negative = self < 0
        size = where(negative, -self, self)  # not abs(), whose derivative at 0 is 0
        value = (size + size * size / ((size * size + 1.0).sqrt() + 1.0)).log1p()
        return where(negative, -value, value)

    def atanh(self: Tensor) -> Tensor:
        return (self.log1p() - (-self).log1p()) * 0.5

    def logit(self: Tensor, eps: float | None = None) -> Tensor:
        """log(x / (1 - x)); x is limited to [eps, 1 - eps] first, if eps is given."""
        x = self if eps is None else self.clamp(eps, 1.0 - eps)
        return x.log() - (-x).log1p()

    def xlogy(self: Tensor, other: Tensor | Number) -> Tensor:
        """self * log(other), and 0 where self is 0 (NaN where other is NaN)."""
        y = _as_tensor(other, self)
        vanishes = (self == 0) & ((y <= 0) | (y == math.inf))
        return self * where(vanishes, 1.0, y).log()

    def hypot(self: Tensor, other: Tensor) -> Tensor:
        """sqrt(self ** 2 + other ** 2), without overflow on the way."""
        scale = self.detach().abs().maximum(other.detach().abs())
        scale = where((scale == 0) | ~scale.isfinite(), 1.0, scale)
        a, b = self / scale, other / scale
        return (a * a + b * b).sqrt() * scale

    def logaddexp(self: Tensor, other: Tensor) -> Tensor:
        """log(exp(self) + exp(other))."""
        top = self.detach().maximum(other.detach())
        top = where(top.isfinite(), top, 0.0)
        return ((self - top).exp() + (other - top).exp()).log() + top

    def logaddexp2(self: Tensor, other: Tensor) -> Tensor:
        """log2(2 ** self + 2 ** other)."""
        return (self * math.log(2.0)).logaddexp(other * math.log(2.0)) * (1.0 / math.log(2.0))

    def nan_to_num(self: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """NaN and infinities replaced; those by the dtype's largest and smallest number, if not told."""
        if self.dtype.category < 2:
            return self
        limits = np.finfo(self.dtype.numpy)
        high = float(limits.max) if posinf is None else posinf
        low = float(limits.min) if neginf is None else neginf
        infinite = where(self > 0, high, low).to(dtype=self.dtype)
        return where(self.isfinite(), self, where(self.isnan(), float(nan), infinite))

    def heaviside(self: Tensor, values: Tensor) -> Tensor:
        """0 below 0, 1 above, `values` at 0. No gradient."""
        if values.dtype is not self.dtype:
            raise DTypeError(
                f"heaviside is not yet implemented for tensors with different dtypes: {self.dtype.name} and {values.dtype.name}."
            )
        x = self.detach()
        return where(x == 0, values.detach(), (x > 0).to(dtype=x.dtype))

    def sinc(self: Tensor) -> Tensor:
        """sin(pi x) / (pi x), and 1 at 0."""
        is_zero = self == 0
        angle = where(is_zero, 1.0, self) * math.pi
        return where(is_zero, 1.0, angle.sin() / angle)

    def deg2rad(self: Tensor) -> Tensor:
        return self * (math.pi / 180.0)

    def rad2deg(self: Tensor) -> Tensor:
        return self * (180.0 / math.pi)

    def prelu(self: Tensor, weight: Tensor) -> Tensor:
        """x, and weight * x where negative; a weight for each channel (axis 1), or one for all."""
        from .nn.functional import prelu

        return prelu(self, weight)

    # -- comparisons

    def isinf(self: Tensor) -> Tensor:
        if self.dtype.category < 2:
            return self != self
        return self.abs() == math.inf

    def isposinf(self: Tensor) -> Tensor:
        return self.isinf() & (self > 0)

    def isneginf(self: Tensor) -> Tensor:
        return self.isinf() & (self < 0)

    def isclose(
        self: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Tensor:
        """Where |self - other| <= atol + rtol * |other|, or both are equal (infinities are)."""
        if self.dtype is not other.dtype:
            raise DTypeError(f"[isclose] {self.dtype.name} did not match {other.dtype.name}.")
        a, b = self.detach(), other.detach()
        same = a == b
        if a.dtype is bool_:
            return same
        near = (a - b).abs() <= b.abs() * rtol + atol
        if a.dtype.category == 2:
            near = near & a.isfinite() & b.isfinite()
            if equal_nan:
                same = same | (a.isnan() & b.isnan())
        return same | near

    def allclose(
        self: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> bool:
        """Whether isclose holds everywhere. Reads the result."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all().item())

    def equal(self: Tensor, other: Tensor) -> bool:
        """Whether shape and all elements are equal. Reads the result."""
        return self.shape == other.shape and bool((self.detach() == other.detach()).all().item())

    def bucketize(self: Tensor, boundaries: Tensor, *, out_int32: bool = True, right: bool = False) -> Tensor:
        """For each element, before which of the increasing `boundaries` it belongs, int32.

        Position i has boundaries[i - 1] < x <= boundaries[i], or <= and < if `right`. NaN belongs at the end.
        The boundaries below are counted: n comparisons for each element, which is quick for the few of a histogram.
        """
        if boundaries.ndim != 1:
            raise ShapeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
        return boundaries.searchsorted(self, right=right)

    def searchsorted(self: Tensor, values: Tensor | Number, *, out_int32: bool = True, right: bool = False) -> Tensor:
        """Where `values` belong in the sorted last axis, int32; see bucketize. Shape: that of values.

        self: (n,) for values of any shape, or (..., n) for values (..., m).
        """
        edges = self.detach()
        x = _as_tensor(values, edges).detach()
        if edges.ndim > 1 and tuple(edges.shape[:-1]) != tuple(x.shape[:-1]):
            raise ShapeError(
                "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value "
                f"tensor must match, but we got boundaries tensor {list(edges.shape)} and input value tensor {list(x.shape)}"
            )
        places = x.unsqueeze(-1)
        edges = edges if edges.ndim == 1 else edges.unsqueeze(-2)
        below = (edges <= places) if right else (edges < places)
        return (below | places.isnan()).sum(-1)

    # -- reductions

    def count_nonzero(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        """How many elements are not 0, int32."""
        return (self.detach() != 0).sum(dim)

    def aminmax(self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinAndMax:
        """(min, max); ties share the gradient."""
        return MinAndMax(self.amin(dim, keepdim), self.amax(dim, keepdim))

    def nansum(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The sum, NaN as 0."""
        return where(self.isnan(), 0, self).to(dtype=self.dtype).sum(dim, keepdim, dtype=dtype)

    def nanmean(self: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The mean of what is not NaN."""
        return self.nansum(dim, keepdim) / (~self.isnan()).sum(dim, keepdim)

    def diff(
        self: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
    ) -> Tensor:
        """Differences of neighbours along `dim`, n times; bools: whether they differ."""
        from .tensor_shape import cat

        if self.ndim == 0:
            raise ShapeError("diff expects input to be at least one-dimensional")
        axis = check_axis(dim, self.ndim, "diff")
        x = cat([t for t in (prepend, self, append) if t is not None], axis)
        for _ in range(min(n, x.shape[axis])):
            count = x.shape[axis] - 1
            after, before = x.narrow(axis, 1, count), x.narrow(axis, 0, count)
            x = after ^ before if x.dtype is bool_ else after - before
        return x

    def trace(self: Tensor) -> Tensor:
        """The sum of a matrix's diagonal."""
        if self.ndim != 2:
            raise ShapeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
        return self.diagonal().sum()

    def inner(self: Tensor, other: Tensor) -> Tensor:
        """Sums of products along the last axes."""
        from .tensor_linalg import tensordot

        if self.ndim == 0 or other.ndim == 0:
            return self * other
        return tensordot(self, other, [[self.ndim - 1], [other.ndim - 1]])

    def dist(self: Tensor, other: Tensor, p: float = 2) -> Tensor:
        """The p-norm of the difference."""
        return (self - other).norm(p)

    # -- parts

    def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
        """One axis as several; one of the sizes may be -1."""
        axis = check_axis(dim, self.ndim, "unflatten")
        shape, wanted = list(self.shape), list(sizes)
        if wanted.count(-1) == 1:
            known = -math.prod(wanted)
            wanted[wanted.index(-1)] = shape[axis] // known if known else 0
        if math.prod(wanted) != shape[axis]:
            raise ShapeError(
                f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({shape[axis]}) in the input tensor"
            )
        return self.reshape(*shape[:axis], *wanted, *shape[axis + 1 :])

    def fliplr(self: Tensor) -> Tensor:
        return self.flip(1)

    def flipud(self: Tensor) -> Tensor:
        return self.flip(0)

    def scatter(self: Tensor, dim: int, index: Tensor, src: Tensor | Number) -> Tensor:
        """self with src[..., j, ...] at position index[..., j, ...] along `dim`. src: of at least the index's shape, or
        a number. Of several values for one place, the mean is taken."""
        from .tensor import Tensor

        if not isinstance(src, Tensor):
            src = wrap(nodes.constant(src, self.dtype, index._node.device, tuple(index.shape)))
        elif src.dtype is not self.dtype:
            raise DTypeError(
                f"scatter(): Expected self.dtype to be equal to src.dtype, got {self.dtype.name} and {src.dtype.name}."
            )
        if self.dtype is bool_:
            return self.to(dtype=int32).scatter(dim, index, src.to(dtype=int32)).to(dtype=bool_)
        nothing = wrap(nodes.like(self._node, 0))
        ones = wrap(nodes.like(src._node, 1))
        count, total = nothing.scatter_add(dim, index, ones), nothing.scatter_add(dim, index, src)
        divisor = count.clamp(min=1)
        return where(count > 0, total / divisor if self.dtype.category == 2 else total.floor_divide(divisor), self)

    def index_fill(self: Tensor, dim: int, index: Tensor, value: Number) -> Tensor:
        """self with `value` in the slices at positions `index` along `dim`."""
        axis = check_axis(dim, self.ndim, "index_fill")
        places = wrap(nodes.constant(0, int32, self._node.device, (self.shape[axis],)))
        chosen = places.index_add(0, index, wrap(nodes.like(index._node, 1)).to(dtype=int32)) > 0
        return self.masked_fill(chosen.reshape(-1, *(1,) * (self.ndim - axis - 1)), value)

    def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        """self with the first elements of `source`, in order, where the mask holds."""
        mask = mask.expand(*self.shape)
        order = (mask.reshape(-1).to(dtype=int32).cumsum(0) - 1).clamp(min=0)
        return where(mask, source.reshape(-1).index_select(0, order).reshape(self.shape), self)

    def masked_select(self: Tensor, mask: Tensor) -> Tensor:
        """The elements where the mask holds, in one axis. Reads the mask."""
        shape = np.broadcast_shapes(tuple(self.shape), tuple(mask.shape))
        return self.expand(*shape)[mask.expand(*shape)]

    def nonzero(self: Tensor, *, as_tuple: bool = False) -> Any:
        """The positions of elements that are not 0, (count, ndim) int32, or a tuple of one tensor an axis. Reads."""
        from .tensor import Tensor

        found = np.nonzero((self.detach() != 0)._read("nonzero()"))
        if as_tuple:
            return tuple(Tensor(p.astype(np.int32), device=self.device) for p in found)
        return Tensor(np.stack(found, 1).astype(np.int32).reshape(-1, self.ndim), device=self.device)

    # -- new tensors of the same dtype and device

    def new_tensor(self: Tensor, data: Any, **options: Any) -> Tensor:
        from .creation import tensor

        return tensor(data, **_like(self, options))

    def new_full(self: Tensor, size: Any, fill_value: Number, **options: Any) -> Tensor:
        from .creation import full

        return full(size, fill_value, **_like(self, options))

    def new_zeros(self: Tensor, *size: Any, **options: Any) -> Tensor:
        from .creation import zeros

        return zeros(*size, **_like(self, options))

    def new_ones(self: Tensor, *size: Any, **options: Any) -> Tensor:
        from .creation import ones

        return ones(*size, **_like(self, options))

    def new_empty(self: Tensor, *size: Any, **options: Any) -> Tensor:
        from .creation import empty

        return empty(*size, **_like(self, options))

    # -- random values, in place

    def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Tensor:
        """Uniform on [from_, to)."""
        from .creation import rand_like

        return self._update_in_place(rand_like(self, generator=generator) * (to - from_) + from_, "uniform_")

    def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
        """Normal."""
        from .creation import randn_like

        return self._update_in_place(randn_like(self, generator=generator) * std + mean, "normal_")

    def bernoulli_(self: Tensor, p: Tensor | float = 0.5, *, generator: Any = None) -> Tensor:
        """1 with probability p, else 0."""
        from .creation import rand

        drawn = rand(*self.shape, device=self.device, generator=generator) < p
        return self._update_in_place(drawn.to(dtype=self.dtype), "bernoulli_")

    def bernoulli(self: Tensor, *, generator: Any = None) -> Tensor:
        """1 with the probability that is the element, else 0."""
        from .creation import rand_like

        return (rand_like(self, generator=generator) < self.detach()).to(dtype=self.dtype)

    def multinomial(self: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
        """Positions along the last axis drawn with probabilities proportional to the elements, int32.

        self: (n,) or (rows, n), non-negative; result (num_samples,) or (rows, num_samples). By the Gumbel-max method:
        the largest of log(p) + noise, or, without replacement, the num_samples largest.
        """
        from .creation import rand

        n = self.shape[-1]
        if not replacement and num_samples > n:
            raise ShapeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        shape = (*self.shape[:-1], num_samples, n) if replacement else tuple(self.shape)
        u = rand(*shape, device=self.device, generator=generator)
        noise = -(-(u + 2.0**-24).log()).log()  # u has 23 bits: never 0, never 1
        p = self.detach().log()
        score = (p.unsqueeze(-2) if replacement else p) + noise
        return score.argmax(-1) if replacement else score.topk(num_samples)[1]


def _as_tensor(value: Any, like: Tensor) -> Tensor:
    """A number as a tensor of the dtype and device of `like`, float32 where that is of integers."""
    from .tensor import Tensor

    if isinstance(value, Tensor):
        return value
    dtype = like.dtype if like.dtype.category == 2 else float32
    return wrap(nodes.constant(float(value), dtype, like._node.device))


def _like(x: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """Options with the dtype and device of x where they name none."""
    dtype, device = options.get("dtype"), options.get("device")
    return {
        **options,
        "dtype": x.dtype if dtype is None else parse_dtype(dtype),
        "device": x.device if device is None else device,
    }
