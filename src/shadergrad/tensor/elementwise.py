"""Elementwise functions: exponentials, trigonometry, activations, clamping, tests for NaN and infinity."""

from __future__ import annotations

import math
from typing import Any, Self

from ..dtypes import FloatLimits, bool_, default_dtype, of_scalar, promote_operands
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph.node import make
from ..primitives import elementwise as e
from .arithmetic import ArithmeticTensor
from .base import TensorBase
from .coercion import Number, binary, floating
from .comparison import where
from .composed import composed
from .handle import wrap
from .placement import check_fits

LARGE = 1e9  # beyond it asinh and acosh are log(2 x) to the last bit, while x * x may overflow, and a GPU's x / x be 0
NEARLY_INFINITE = 80.0  # from here sinh and cosh are half of e ** |x|, which may overflow where they do not


class ElementwiseTensor(ArithmeticTensor):
    """Elementwise functions and tests."""

    __slots__ = ()

    def tan(self) -> Self:
        """The tangent of an angle in radians; integers give float32.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.tan()
        tensor([0.    , 1.5574])
        """
        if self.dtype.is_complex:  # whose sine and cosine overflow together
            return (self * 1j).tanh() * -1j
        return self.sin() / self.cos()

    def atan(self) -> Self:
        """The inverse tangent, in radians from -pi / 2 to pi / 2; integers give float32.

        >>> x = sg.tensor([0.0, 1.0, math.inf])
        >>> x.atan()
        tensor([0.    , 0.7854, 1.5708])
        """
        x = wrap(floating(self))
        return (x * 1j).atanh() * -1j if x.dtype.is_complex else binary(e.Atan2(), x, 1.0)

    def atan2(self, other: ElementwiseTensor) -> Self:
        """The angle of the point (other, self) with the positive x axis, in radians from -pi to pi; integers give
        float32.

        >>> x = sg.tensor([0.0, 1.0, 0.0])
        >>> x.atan2(sg.tensor([1.0, 0.0, -1.0]))
        tensor([0.    , 1.5708, 3.1416])
        """
        return binary(e.Atan2(), wrap(floating(self)), wrap(floating(other)))

    def sinh(self) -> Self:
        """The hyperbolic sine, exact near 0; integers give float32.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.sinh()
        tensor([0.    , 1.1752])
        """
        x = wrap(floating(self))
        if x.dtype.is_complex:
            return (x.expm1() - (-x).expm1()) * 0.5
        large, half = _half_of_large(x)
        sign = where(x < 0, -1.0, 1.0)
        y = where(large, 0.0, x)
        return where(large, half * 0.5 * half * sign, (y.expm1() - (-y).expm1()) * 0.5)

    def cosh(self) -> Self:
        """The hyperbolic cosine; integers give float32.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.cosh()
        tensor([1.    , 1.5431])
        """
        x = wrap(floating(self))
        if x.dtype.is_complex:
            return (x.exp() + (-x).exp()) * 0.5
        large, half = _half_of_large(x)
        y = where(large, 0.0, x)
        # min changes nothing, and keeps NVIDIA's compiler from squaring `half` first, which overflows
        return where(large, (half * 0.5).clamp(max=1e30) * half, (y.exp() + (-y).exp()) * 0.5)

    def acosh(self) -> Self:
        """The inverse hyperbolic cosine, NaN below 1; integers give float32.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.acosh()
        tensor([0.   , 1.317])
        """
        x = wrap(floating(self))
        if x.dtype.is_complex:
            return (x + (x + 1.0).sqrt() * (x - 1.0).sqrt()).log()
        large = x > LARGE
        y = where(large, 1.0, x)
        above = y - 1.0
        small = (above + above.sqrt() * (y + 1.0).sqrt()).log1p()
        return where(large, where(large, x, 1.0).log() + math.log(2.0), small)

    def asinh(self) -> Self:
        """The inverse hyperbolic sine, exact near 0; integers give float32.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.asinh()
        tensor([0.    , 0.8814])
        """
        x = wrap(floating(self))
        if x.dtype.is_complex:
            return (x * 1j).asin() * -1j
        negative = x < 0
        size = where(negative, -x, x)  # not abs(), whose derivative at 0 is 0
        large = size > LARGE
        y = where(large, 1.0, size)
        value = (y + y * y / ((y * y + 1.0).sqrt() + 1.0)).log1p()
        value = where(large, where(large, size, 1.0).log() + math.log(2.0), value)
        return where(negative, -value, value)

    def atanh(self) -> Self:
        """The inverse hyperbolic tangent, infinite at -1 and 1, NaN beyond; integers give float32.

        >>> x = sg.tensor([0.0, 0.5])
        >>> x.atanh()
        tensor([0.    , 0.5493])
        """
        x = wrap(floating(self))
        return (x.log1p() - (-x).log1p()) * 0.5

    def relu(self) -> Self:
        """max(self, 0); the gradient at 0 is 0. Raises DTypeError for bools.

        >>> x = sg.tensor([-1.0, 2.0])
        >>> x.relu()
        tensor([0., 2.])
        """
        return wrap(make(e.Relu(), self._node))

    @composed
    def gelu(self, approximate: str = "none") -> Self:
        """self * Phi(self), Phi the distribution function of the standard normal distribution (Hendrycks and Gimpel,
        2016); approximate='tanh' takes their approximation by tanh. Raises ShapeError for another `approximate`.

        >>> sg.tensor([-1.0, 0.0, 1.0]).gelu()
        tensor([-0.1587,  0.    ,  0.8413])
        """
        if approximate == "tanh":
            # 1 + tanh(z) is 2 sigmoid(2 z), which takes fewer instructions and keeps its digits where tanh(z) is near -1
            inner = (self + self * self * self * 0.044715) * math.sqrt(8.0 / math.pi)
            return self * inner.sigmoid()
        if approximate != "none":
            raise ShapeError(f"[gelu] approximate must be 'none' or 'tanh', got {approximate!r}.")
        return self * 0.5 * ((self * math.sqrt(0.5)).erf() + 1.0)

    def maximum(self, other: ElementwiseTensor) -> Self:
        """The larger of each pair, NaN if either is NaN. A tie halves the gradient.

        >>> x = sg.tensor([1.0, 5.0])
        >>> x.maximum(sg.tensor([3.0, 2.0]))
        tensor([3., 5.])
        """
        return binary(e.Maximum(), self, other)

    def minimum(self, other: ElementwiseTensor) -> Self:
        """The smaller of each pair, NaN if either is NaN. A tie halves the gradient.

        >>> x = sg.tensor([1.0, 5.0])
        >>> x.minimum(sg.tensor([3.0, 2.0]))
        tensor([1., 2.])
        """
        return binary(e.Minimum(), self, other)

    def clamp(
        self, min: ElementwiseTensor | Number | None = None, max: ElementwiseTensor | Number | None = None
    ) -> Self:
        """Limited to [min, max], numbers or tensors of which one may be None; max if min is above it. The gradient
        is 1 inside and at the limits, and 0 outside, where a limit that is a tensor receives it. Raises ShapeError if both
        are None.

        >>> x = sg.tensor([-2.0, 0.5, 3.0])
        >>> x.clamp(0, 1)
        tensor([0. , 0.5, 1. ])
        """
        if min is None and max is None:
            raise ShapeError("[clamp] At least one of 'min' or 'max' must not be None")
        limits = [limit for limit in (min, max) if isinstance(limit, TensorBase)]
        if limits and any(limit.dtype is not self.dtype for limit in limits):  # all operands are promoted
            kinds = [(v.dtype, 2 if v.ndim else 1) for v in (self, *limits)]
            kinds += [(of_scalar(v), 0) for v in (min, max) if v is not None and not isinstance(v, TensorBase)]
            kind = promote_operands(kinds)
            cast_to = [v.to(dtype=kind) if isinstance(v, TensorBase) else v for v in (min, max)]
            if any(v.dtype is not kind for v in (self, *limits)):
                return self.to(dtype=kind).clamp(*cast_to)
        check_fits(min, self.dtype)
        check_fits(max, self.dtype)
        inside: Any = None
        value = self
        if min is not None:
            inside = self.ge(min)
            value = binary(e.Maximum(), value.detach(), _detached(min))
        if max is not None:
            below = self.le(max)
            inside = below if inside is None else inside & below
            value = binary(e.Minimum(), value.detach(), _detached(max))
        if not any(isinstance(limit, TensorBase) and limit.requires_grad for limit in (min, max)):
            return where(inside, self, value)
        return where(inside, self, _limit(self, min, max, value))

    def clamp_min(self, min: ElementwiseTensor | Number) -> Self:
        """The larger of self and `min`.

        >>> x = sg.tensor([-2.0, 0.5])
        >>> x.clamp_min(0)
        tensor([0. , 0.5])
        """
        return self.clamp(min=min)

    def clamp_max(self, max: ElementwiseTensor | Number) -> Self:
        """The smaller of self and `max`.

        >>> x = sg.tensor([0.5, 3.0])
        >>> x.clamp_max(1)
        tensor([0.5, 1. ])
        """
        return self.clamp(max=max)

    def logit(self, eps: float | None = None) -> Self:
        """log(self / (1 - self)), the inverse of sigmoid; self is limited to [eps, 1 - eps] first, if eps is given.

        >>> x = sg.tensor([0.5, 0.75])
        >>> x.logit()
        tensor([0.    , 1.0986])
        """
        x = wrap(floating(self))
        if eps is not None:
            x = x.clamp(eps, 1.0 - eps) if eps <= 0.5 else where(x < eps, eps, where(x > 1.0 - eps, 1.0 - eps, x))
        return x.log() - (-x).log1p()

    def xlogy(self, other: ElementwiseTensor | Number) -> Self:
        """self * log(other), and 0 where self is 0 (NaN where other is NaN).

        >>> x = sg.tensor([0.0, 2.0])
        >>> x.xlogy(sg.tensor([0.0, 10.0]))
        tensor([0.    , 4.6052])
        """
        y = _as_tensor(other, self)
        vanishes = (self == 0) & ((y <= 0) | (y == math.inf))
        return self * where(vanishes, 1.0, y).log()

    def hypot(self, other: ElementwiseTensor) -> Self:
        """sqrt(self ** 2 + other ** 2), without intermediate overflow; NaN if either is NaN. Raises DTypeError for complex numbers.

        >>> x = sg.tensor([3.0, 5.0])
        >>> x.hypot(sg.tensor([4.0, 12.0]))
        tensor([ 5., 13.])
        """
        for x in (self, other):
            if x.dtype.is_complex:
                raise DTypeError(f"[hypot] is not defined for {x.dtype.name}. Hint: .abs() first.")
        scale = self.detach().abs().maximum(other.detach().abs())
        scale = where((scale == 0) | ~scale.isfinite(), 1.0, scale)
        a, b = self / scale, other / scale
        return (a * a + b * b).sqrt() * scale

    def logaddexp(self, other: ElementwiseTensor) -> Self:
        """log(exp(self) + exp(other)), without intermediate overflow.

        >>> sg.tensor([0.0, 200.0]).logaddexp(sg.tensor([0.0, 200.0]))
        tensor([  0.6931, 200.6931])
        """
        top = self.detach().maximum(other.detach())
        top = where(top.isfinite(), top, 0.0)
        return ((self - top).exp() + (other - top).exp()).log() + top

    def logaddexp2(self, other: ElementwiseTensor) -> Self:
        """log2(2 ** self + 2 ** other), without intermediate overflow.

        >>> sg.tensor([0.0, 3.0]).logaddexp2(sg.tensor([0.0, 3.0]))
        tensor([1., 4.])
        """
        return (self * math.log(2.0)).logaddexp(other * math.log(2.0)) * (1.0 / math.log(2.0))

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """NaN and infinities replaced by the given numbers; infinities by default by the dtype's largest and
        smallest number. Integers and bools stay as they are.

        >>> x = sg.tensor([1.0, math.nan, math.inf])
        >>> x.nan_to_num(nan=0.0, posinf=9.0)
        tensor([1., 0., 9.])
        """
        if self.dtype.category < 2:
            return self.clone()
        limits = FloatLimits.of(self.dtype)
        high = float(limits.max) if posinf is None else posinf
        low = float(limits.min) if neginf is None else neginf
        infinite = where(self > 0, high, low).to(dtype=self.dtype)
        return where(self.isfinite(), self, where(self.isnan(), float(nan), infinite))

    def heaviside(self, values: ElementwiseTensor) -> Self:
        """0 below 0, 1 above, `values` at 0. No gradient. Raises DTypeError if the dtypes differ.

        >>> x = sg.tensor([-2.0, 0.0, 3.0])
        >>> x.heaviside(sg.tensor([0.5]))
        tensor([0. , 0.5, 1. ])
        """
        if values.dtype is not self.dtype:
            raise DTypeError(
                f"heaviside is not yet implemented for tensors with different dtypes: {self.dtype.name} and {values.dtype.name}."
            )
        x = self.detach()
        return where(x == 0, values.detach(), (x > 0).to(dtype=x.dtype))

    def sinc(self) -> Self:
        """sin(pi x) / (pi x), and 1 at 0.

        >>> x = sg.tensor([0.0, 0.5])
        >>> x.sinc()
        tensor([1.    , 0.6366])
        """
        is_zero = self == 0
        angle = where(is_zero, 1.0, self) * math.pi
        return where(is_zero, 1.0, angle.sin() / angle)

    def deg2rad(self) -> Self:
        """Degrees as radians.

        >>> x = sg.tensor([90.0, 180.0])
        >>> x.deg2rad()
        tensor([1.5708, 3.1416])
        """
        return self * (math.pi / 180.0)

    def rad2deg(self) -> Self:
        """Radians as degrees.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.rad2deg()
        tensor([ 0.    , 57.2958])
        """
        return self * (180.0 / math.pi)

    def isnan(self) -> Self:
        """Where self is NaN, as bools.

        >>> sg.tensor([1.0, math.nan]).isnan()
        tensor([False,  True])
        """
        return wrap(make(e.IsNan(), self._node)) if self.dtype.category >= 2 else self != self

    def isfinite(self) -> Self:
        """Where self is neither infinite nor NaN, as bools.

        >>> sg.tensor([1.0, math.inf, math.nan]).isfinite()
        tensor([ True, False, False])
        """
        return wrap(make(e.IsFinite(), self._node)) if self.dtype.category >= 2 else self == self

    def isinf(self) -> Self:
        """Where self is infinite, of either sign, as bools.

        >>> sg.tensor([1.0, -math.inf, math.nan]).isinf()
        tensor([False,  True, False])
        """
        if self.dtype.category < 2:
            return self != self
        return self.abs() == math.inf

    def isposinf(self) -> Self:
        """Where self is +inf, as bools.

        >>> sg.tensor([math.inf, -math.inf]).isposinf()
        tensor([ True, False])
        """
        return self.isinf() & (self > 0)

    def isneginf(self) -> Self:
        """Where self is -inf, as bools.

        >>> sg.tensor([math.inf, -math.inf]).isneginf()
        tensor([False,  True])
        """
        return self.isinf() & (self < 0)

    def isclose(
        self, other: ElementwiseTensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
        """Where |self - other| <= atol + rtol * |other|, or both are equal (infinities are; NaN only with equal_nan).
        Raises DTypeError if the dtypes differ.

        >>> sg.tensor([1.0, 2.0]).isclose(sg.tensor([1.0 + 1e-6, 2.1]))
        tensor([ True, False])
        """
        if rtol < 0 or atol < 0:
            raise ShapeError(f"[isclose] rtol and atol must not be negative, but are {rtol} and {atol}.")
        if self.dtype is not other.dtype:
            raise DTypeError(f"[isclose] {self.dtype.name} did not match {other.dtype.name}.")
        a, b = self.detach(), other.detach()
        same = a == b
        if a.dtype is bool_:
            return same
        is_integer = a.dtype.category == 1
        if is_integer:  # of which the difference may wrap
            a, b = a.to(dtype=default_dtype()), b.to(dtype=default_dtype())
        near = (a - b).abs() <= b.abs() * rtol + atol
        if a.dtype.category == 2 and not is_integer:
            near = near & a.isfinite() & b.isfinite()
            if equal_nan:
                same = same | (a.isnan() & b.isnan())
        return same | near


def _limit(x: Any, low: Any, high: Any, value: Any) -> Any:
    """The limit that applies outside; `value`, without a gradient, if there is none, and for NaN."""
    if high is not None:
        above = x > high if low is None else (x > high) | ((x <= high) & _less(high, low))
        value = where(above, high, value)
    if low is not None:
        below = x < low if high is None else (x < low) & _less(low, high)
        value = where(below, low, value)
    return value


def _less(a: Any, b: Any) -> Any:
    return a < b if isinstance(a, TensorBase) else b > a


def _detached(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


def _as_tensor(value: Any, like: TensorBase) -> Any:
    """A number as a tensor of the dtype and device of `like`, float32 if that is of integers."""
    if isinstance(value, TensorBase):
        return value
    dtype = like.dtype if like.dtype.category == 2 else default_dtype()
    return wrap(build.constant(float(value), dtype, like._node.device))


def _half_of_large(x: ElementwiseTensor) -> tuple[ElementwiseTensor, ElementwiseTensor]:
    """Whether |x| is so large that cosh(x) = e ** |x| / 2, and e ** (|x| / 2) there."""
    large = (x > NEARLY_INFINITE) | (x < -NEARLY_INFINITE)
    return large, where(large, where(x < 0, -x, x) * 0.5, 0.0).exp()
