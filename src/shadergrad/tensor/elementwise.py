"""Methods of single elements: arithmetic, functions, comparisons, logic, choosing."""

from __future__ import annotations

import math
from typing import Any, Self, TypeVar

import numpy as np

from ..arguments import refuse
from ..dtypes import DType, bool_, default_dtype, int32, of_scalar, promote
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import Node, make
from ..primitives import elementwise as e
from ..primitives.complex import Magnitude
from .axes import common_shape
from .base import TensorBase
from .coercion import OPERANDS, Number, binary, floating, host_tensor, not_ours, operands, unsupported
from .handle import wrap
from .records import RecordTensor

T = TypeVar("T", bound="ElementwiseTensor")
LARGE = 1e9  # beyond it asinh and acosh are log(2 x) to the last bit, while x * x may overflow, and a GPU's x / x be 0


class ElementwiseTensor(RecordTensor):
    """Methods of single elements: arithmetic, functions, comparisons, logic, choosing."""

    __slots__ = ()
    __hash__ = TensorBase.__hash__

    def add(self, other: ElementwiseTensor | Number, *, alpha: Number = 1) -> Self:
        """self + alpha * other; for bools, or. Shapes broadcast, dtypes are promoted.

        Raises ShapeError where the shapes do not broadcast, DeviceError for tensors on two devices.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.add(sg.tensor([10.0, 20.0]))
        tensor([11., 22.])
        >>> x.add(1, alpha=10)
        tensor([11., 12.])
        """
        return binary(e.Add(), self, other if alpha == 1 else other * alpha)

    def sub(self, other: ElementwiseTensor | Number, *, alpha: Number = 1) -> Self:
        """self - alpha * other. Raises DTypeError for bools, ShapeError where the shapes do not broadcast.

        >>> x = sg.tensor([5.0, 6.0])
        >>> x.sub(sg.tensor([1.0, 2.0]), alpha=2)
        tensor([3., 2.])
        """
        _refuse_bools(self, other)
        return binary(e.Sub(), self, other if alpha == 1 else other * alpha)

    def mul(self, other: ElementwiseTensor | Number) -> Self:
        """self * other; for bools, and. Raises ShapeError where the shapes do not broadcast.

        >>> x = sg.tensor([[1.0], [2.0]])
        >>> x.mul(3)
        tensor([[3.],
                [6.]])
        >>> x.mul(sg.tensor([1.0, 10.0]))
        tensor([[ 1., 10.],
                [ 2., 20.]])
        """
        return binary(e.Mul(), self, other)

    def div(self, other: ElementwiseTensor | Number, *, rounding_mode: str | None = None) -> Self:
        """self / other: true division, integers give float32; rounded to 'floor' or 'trunc' (towards zero) by
        rounding_mode, when integers stay integers. Integers divided by zero and rounded give 0. Raises ShapeError for
        another rounding_mode.

        >>> x = sg.tensor([7.0, -7.0])
        >>> x.div(2)
        tensor([ 3.5, -3.5])
        >>> sg.tensor([7, -7]).div(2, rounding_mode="trunc")
        tensor([ 3, -3])
        """
        if rounding_mode is None:
            return _divide(self, other)
        if rounding_mode == "floor":
            return _floor_divide(self, other)
        if rounding_mode != "trunc":
            raise ShapeError(
                f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
            )
        return _divide_towards_zero(self, other)

    def pow(self, exponent: ElementwiseTensor | Number) -> Self:
        """self ** exponent. Integers stay integers: a negative exponent gives 0 unless the base is 1 or -1 (PyTorch
        raises). Raises DTypeError for two bools.

        >>> x = sg.tensor([2.0, 3.0])
        >>> x.pow(2)
        tensor([4., 9.])
        """
        return binary(e.Pow(), self, exponent)

    def neg(self) -> Self:
        """-self. Raises DTypeError for bools.

        >>> x = sg.tensor([1.0, -2.0])
        >>> x.neg()
        tensor([-1.,  2.])
        """
        if self.dtype is bool_:
            raise DTypeError(
                "Negation, the `-` operator, on a bool tensor is not supported. Hint: use ~ or logical_not()."
            )
        return wrap(make(e.Neg(), self._node))

    def positive(self) -> Self:
        """The tensor itself.

        >>> sg.tensor([1.0, -2.0]).positive()
        tensor([ 1., -2.])
        """
        return self

    def __add__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("add", self, other)

    def __radd__(self, other: Number) -> Self:
        return _reflected("add", self, other)

    def __sub__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("sub", self, other)

    def __rsub__(self, other: Number) -> Self:
        return _reflected("sub", self, other)

    def __mul__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("mul", self, other)

    def __rmul__(self, other: Number) -> Self:
        return _reflected("mul", self, other)

    def __truediv__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("div", self, other)

    def __rtruediv__(self, other: Number) -> Self:
        return _reflected("div", self, other)

    __rdiv__ = __rtruediv__

    def __pow__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("pow", self, other)

    def __rpow__(self, other: Number) -> Self:
        return _reflected("pow", self, other)

    def __neg__(self) -> Self:
        return self.neg()

    def __abs__(self) -> Self:
        return self.abs()

    def exp2(self) -> Self:
        """2 ** self; integers give float32.

        >>> x = sg.tensor([0.0, 1.0, 3.0])
        >>> x.exp2()
        tensor([1., 2., 8.])
        """
        return (self * math.log(2.0)).exp()

    def log2(self) -> Self:
        """The logarithm to base 2; integers give float32.

        >>> x = sg.tensor([1.0, 2.0, 8.0])
        >>> x.log2()
        tensor([0., 1., 3.])
        """
        return self.log() * (1.0 / math.log(2.0))

    def log10(self) -> Self:
        """The logarithm to base 10; integers give float32.

        >>> x = sg.tensor([1.0, 10.0, 100.0])
        >>> x.log10()
        tensor([0., 1., 2.])
        """
        return self.log() * (1.0 / math.log(10.0))

    def tan(self) -> Self:
        """The tangent of an angle in radians; integers give float32.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.tan()
        tensor([0.    , 1.5574])
        """
        return self.sin() / self.cos()

    def atan(self) -> Self:
        """The inverse tangent, in radians from -pi / 2 to pi / 2; integers give float32.

        >>> x = sg.tensor([0.0, 1.0, math.inf])
        >>> x.atan()
        tensor([0.    , 0.7854, 1.5708])
        """
        x = wrap(floating(self))
        return binary(e.Atan2(), x, 1.0)

    def atan2(self, other: ElementwiseTensor) -> Self:
        """The angle of the point (other, self) from the positive first axis, in radians from -pi to pi; integers give
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
        return (x.expm1() - (-x).expm1()) * 0.5

    def cosh(self) -> Self:
        """The hyperbolic cosine; integers give float32.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.cosh()
        tensor([1.    , 1.5431])
        """
        x = wrap(floating(self))
        return (x.exp() + (-x).exp()) * 0.5

    def acosh(self) -> Self:
        """The inverse hyperbolic cosine, NaN below 1; integers give float32.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.acosh()
        tensor([0.   , 1.317])
        """
        x = wrap(floating(self))
        large = x > LARGE
        y = where(large, 1.0, x)
        return where(large, where(large, x, 1.0).log() + math.log(2.0), (y + (y * y - 1.0).sqrt()).log())

    def asinh(self) -> Self:
        """The inverse hyperbolic sine, exact near 0; integers give float32.

        >>> x = sg.tensor([0.0, 1.0])
        >>> x.asinh()
        tensor([0.    , 0.8814])
        """
        x = wrap(floating(self))
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

    def ceil(self) -> Self:
        """The smallest integer not below, in the same dtype. The gradient is 0.

        >>> x = sg.tensor([1.2, -1.2])
        >>> x.ceil()
        tensor([ 2., -1.])
        """
        return self if self.dtype.category < 2 else -(-self).floor()

    def floor(self) -> Self:
        """The largest integer not above, in the same dtype. The gradient is 0.

        >>> x = sg.tensor([1.2, -1.2])
        >>> x.floor()
        tensor([ 1., -2.])
        """
        return self if self.dtype.category < 2 else wrap(make(e.Floor(), self._node))

    def trunc(self) -> Self:
        """The integer part, in the same dtype. The gradient is 0.

        >>> x = sg.tensor([1.2, -1.2])
        >>> x.trunc()
        tensor([ 1., -1.])
        """
        return self if self.dtype.category < 2 else wrap(make(e.Trunc(), self._node))

    def frac(self) -> Self:
        """What follows the point: self - self.trunc().

        >>> x = sg.tensor([1.5, -1.25])
        >>> x.frac()
        tensor([ 0.5 , -0.25])
        """
        return self - self.trunc()

    def round(self, *, decimals: int = 0) -> Self:
        """To the nearest integer, or to `decimals` digits after the point; halves to even. The gradient is 0. Integers
        stay as they are.

        >>> x = sg.tensor([0.5, 1.5, 2.75])
        >>> x.round()
        tensor([0., 2., 3.])
        >>> x.round(decimals=1)
        tensor([0.5, 1.5, 2.8])
        """
        if self.dtype.category < 2:
            if decimals != 0:
                raise DTypeError(f"[round] decimals={decimals} is for floating tensors, not for {self.dtype.name}.")
            return self
        scale = 10.0**decimals
        return (
            wrap(make(e.Round(), self._node)) if decimals == 0 else wrap(make(e.Round(), (self * scale)._node)) / scale
        )

    def floor_divide(self, other: ElementwiseTensor | Number) -> Self:
        """The largest integer not above self / other, in the promoted dtype. Integers divided by zero give 0.

        >>> x = sg.tensor([7.0, -7.0])
        >>> x.floor_divide(2)
        tensor([ 3., -4.])
        """
        return _floor_divide(self, other)

    def remainder(self, other: ElementwiseTensor | Number) -> Self:
        """What is left of the quotient rounded down, exactly; has the sign of the divisor, as % in Python.

        >>> x = sg.tensor([7.0, -7.0])
        >>> x.remainder(3)
        tensor([1., 2.])
        """
        return _remainder(self, other)

    def fmod(self, other: ElementwiseTensor | Number) -> Self:
        """What is left of the quotient rounded towards zero, exactly; has the sign of the dividend.

        >>> x = sg.tensor([7.0, -7.0])
        >>> x.fmod(3)
        tensor([ 1., -1.])
        """
        if self.dtype.category < 2 and getattr(other, "dtype", int32).category < 2 and not isinstance(other, float):
            size = _remainder(self.abs(), abs(other))
            return size * self.sign()
        return binary(e.Fmod(), self, other)

    def __floordiv__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("floor_divide", self, other)

    def __rfloordiv__(self, other: Number) -> Self:
        return _reflected("floor_divide", self, other)

    def __mod__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("remainder", self, other)

    def __rmod__(self, other: Number) -> Self:
        return _reflected("remainder", self, other)

    def lerp(self, end: ElementwiseTensor, weight: ElementwiseTensor | Number) -> Self:
        """self + weight * (end - self), taken from the nearer end, so that a weight of 1 gives `end`.

        >>> x = sg.tensor([0.0, 10.0])
        >>> x.lerp(sg.tensor([4.0, 20.0]), 0.25)
        tensor([ 1. , 12.5])
        """
        step: Any = end - self
        near: Any = abs(weight) < 0.5
        if isinstance(near, bool):
            return self + step * weight if near else end - step * (1.0 - weight)
        return where(near, self + step * weight, end - step * (1.0 - weight))

    def addcmul(self, tensor1: ElementwiseTensor, tensor2: ElementwiseTensor, *, value: Number = 1) -> Self:
        """self + value * tensor1 * tensor2.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.addcmul(sg.tensor([3.0, 4.0]), sg.tensor([5.0, 6.0]), value=10)
        tensor([151., 242.])
        """
        product = tensor1 * tensor2
        return self + (product if value == 1 else product * value)

    def addcdiv(self, tensor1: ElementwiseTensor, tensor2: ElementwiseTensor, *, value: Number = 1) -> Self:
        """self + value * tensor1 / tensor2; the quotient is a true division.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.addcdiv(sg.tensor([6.0, 8.0]), sg.tensor([2.0, 4.0]), value=10)
        tensor([31., 22.])
        """
        quotient = tensor1 / tensor2
        return self + (quotient if value == 1 else quotient * value)

    def relu(self) -> Self:
        """max(self, 0); the gradient at 0 is 0. Raises DTypeError for bools.

        >>> x = sg.tensor([-1.0, 2.0])
        >>> x.relu()
        tensor([0., 2.])
        """
        return wrap(make(e.Relu(), self._node))

    def gelu(self, approximate: str = "none") -> Self:
        """self * Phi(self), Phi the distribution function of the standard normal distribution (Hendrycks and Gimpel,
        2016); approximate='tanh' takes their approximation by tanh. Raises ShapeError for another `approximate`.

        >>> sg.tensor([-1.0, 0.0, 1.0]).gelu()
        tensor([-0.1587,  0.    ,  0.8413])
        """
        if approximate == "tanh":
            inner = (self + self * self * self * 0.044715) * math.sqrt(2.0 / math.pi)
            return self * 0.5 * (inner.tanh() + 1.0)
        if approximate != "none":
            raise ShapeError(f"[gelu] approximate must be 'none' or 'tanh', got {approximate!r}.")
        return self * 0.5 * ((self * math.sqrt(0.5)).erf() + 1.0)

    def abs(self) -> Self:
        """The absolute value; the gradient at 0 is 0. Raises DTypeError for bools.

        >>> x = sg.tensor([-1.0, 2.0])
        >>> x.abs()
        tensor([1., 2.])
        """
        return wrap(make(Magnitude() if self.dtype.is_complex else e.Abs(), self._node))

    def sign(self) -> Self:
        """-1, 0 or 1, in the same dtype; NaN of NaN (PyTorch gives 0). Bools stay as they are. The gradient is 0.

        >>> x = sg.tensor([-3.0, 0.0, 2.0])
        >>> x.sign()
        tensor([-1.,  0.,  1.])
        """
        return self._copied() if self.dtype is bool_ else wrap(make(e.Sign(), self._node))

    def square(self) -> Self:
        """self * self.

        >>> x = sg.tensor([-1.0, 3.0])
        >>> x.square()
        tensor([1., 9.])
        """
        x = self.to(dtype=int32) if self.dtype is bool_ else self
        return x * x

    def reciprocal(self) -> Self:
        """1 / self; integers give float32.

        >>> x = sg.tensor([2.0, 4.0])
        >>> x.reciprocal()
        tensor([0.5 , 0.25])
        """
        return _divide(1.0, self)

    def maximum(self, other: ElementwiseTensor) -> Self:
        """The larger of each two, NaN where either is. A tie halves the gradient.

        >>> x = sg.tensor([1.0, 5.0])
        >>> x.maximum(sg.tensor([3.0, 2.0]))
        tensor([3., 5.])
        """
        return binary(e.Maximum(), self, other)

    def minimum(self, other: ElementwiseTensor) -> Self:
        """The smaller of each two, NaN where either is. A tie halves the gradient.

        >>> x = sg.tensor([1.0, 5.0])
        >>> x.minimum(sg.tensor([3.0, 2.0]))
        tensor([1., 2.])
        """
        return binary(e.Minimum(), self, other)

    def clamp(
        self, min: ElementwiseTensor | Number | None = None, max: ElementwiseTensor | Number | None = None
    ) -> Self:
        """Limited to [min, max], numbers or tensors of which one may be None; max where min is above it. The gradient
        is 1 inside and at the limits, 0 outside, where it goes to a limit that is a tensor. Raises ShapeError where both
        are None.

        >>> x = sg.tensor([-2.0, 0.5, 3.0])
        >>> x.clamp(0, 1)
        tensor([0. , 0.5, 1. ])
        """
        if min is None and max is None:
            raise ShapeError("[clamp] At least one of 'min' or 'max' must not be None")
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
        """Not below `min`.

        >>> x = sg.tensor([-2.0, 0.5])
        >>> x.clamp_min(0)
        tensor([0. , 0.5])
        """
        return self.clamp(min=min)

    def clamp_max(self, max: ElementwiseTensor | Number) -> Self:
        """Not above `max`.

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
        x = wrap(floating(self)) if eps is None else wrap(floating(self)).clamp(eps, 1.0 - eps)
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
        """sqrt(self ** 2 + other ** 2), without overflow on the way; NaN where either is.

        >>> x = sg.tensor([3.0, 5.0])
        >>> x.hypot(sg.tensor([4.0, 12.0]))
        tensor([ 5., 13.])
        """
        scale = self.detach().abs().maximum(other.detach().abs())
        scale = where((scale == 0) | ~scale.isfinite(), 1.0, scale)
        a, b = self / scale, other / scale
        return (a * a + b * b).sqrt() * scale

    def logaddexp(self, other: ElementwiseTensor) -> Self:
        """log(exp(self) + exp(other)), without overflow on the way.

        >>> sg.tensor([0.0, 200.0]).logaddexp(sg.tensor([0.0, 200.0]))
        tensor([  0.6931, 200.6931])
        """
        top = self.detach().maximum(other.detach())
        top = where(top.isfinite(), top, 0.0)
        return ((self - top).exp() + (other - top).exp()).log() + top

    def logaddexp2(self, other: ElementwiseTensor) -> Self:
        """log2(2 ** self + 2 ** other), without overflow on the way.

        >>> sg.tensor([0.0, 3.0]).logaddexp2(sg.tensor([0.0, 3.0]))
        tensor([1., 4.])
        """
        return (self * math.log(2.0)).logaddexp(other * math.log(2.0)) * (1.0 / math.log(2.0))

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """NaN and infinities replaced: by the numbers given; infinities, if not told, by the dtype's largest and
        smallest number. Integers and bools stay as they are.

        >>> x = sg.tensor([1.0, math.nan, math.inf])
        >>> x.nan_to_num(nan=0.0, posinf=9.0)
        tensor([1., 0., 9.])
        """
        if self.dtype.category < 2:
            return self
        limits = np.finfo(self.dtype.numpy)
        high = float(limits.max) if posinf is None else posinf
        low = float(limits.min) if neginf is None else neginf
        infinite = where(self > 0, high, low).to(dtype=self.dtype)
        return where(self.isfinite(), self, where(self.isnan(), float(nan), infinite))

    def heaviside(self, values: ElementwiseTensor) -> Self:
        """0 below 0, 1 above, `values` at 0. No gradient. Raises DTypeError where the dtypes differ.

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

    def eq(self, other: ElementwiseTensor | Number) -> Self:
        """Where self == other, as bools; NaN equals nothing.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.eq(2)
        tensor([False,  True, False])
        """
        return binary(e.Equal(), self, other)

    def ne(self, other: ElementwiseTensor | Number) -> Self:
        """Where self != other, as bools; NaN differs from everything.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.ne(2)
        tensor([ True, False,  True])
        """
        return binary(e.NotEqual(), self, other)

    def lt(self, other: ElementwiseTensor | Number) -> Self:
        """Where self < other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.lt(2)
        tensor([ True, False, False])
        """
        return binary(e.Less(), self, other)

    def le(self, other: ElementwiseTensor | Number) -> Self:
        """Where self <= other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.le(2)
        tensor([ True,  True, False])
        """
        return binary(e.LessEqual(), self, other)

    def gt(self, other: ElementwiseTensor | Number) -> Self:
        """Where self > other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.gt(2)
        tensor([False, False,  True])
        """
        return binary(e.Greater(), self, other)

    def ge(self, other: ElementwiseTensor | Number) -> Self:
        """Where self >= other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.ge(2)
        tensor([False,  True,  True])
        """
        return binary(e.GreaterEqual(), self, other)

    # elementwise, as PyTorch's: not the bool that object says
    def __eq__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _operator("eq", self, other)

    def __ne__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _operator("ne", self, other)

    def __lt__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("lt", self, other)

    def __le__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("le", self, other)

    def __gt__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("gt", self, other)

    def __ge__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("ge", self, other)

    def logical_not(self) -> Self:
        """True where self is 0 or False.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_not()
        tensor([ True, False, False])
        """
        return wrap(make(e.Not(), _truth(self)))

    def logical_and(self, other: ElementwiseTensor) -> Self:
        """Where both are true; what is not 0 is true.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_and(sg.tensor([1, 1, 0]))
        tensor([False,  True, False])
        """
        return binary(e.And(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_or(self, other: ElementwiseTensor) -> Self:
        """Where at least one is true; what is not 0 is true.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_or(sg.tensor([0, 1, 0]))
        tensor([False,  True,  True])
        """
        return binary(e.Or(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_xor(self, other: ElementwiseTensor) -> Self:
        """Where exactly one is true; what is not 0 is true.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_xor(sg.tensor([0, 1, 0]))
        tensor([False, False,  True])
        """
        return binary(e.Xor(), wrap(_truth(self)), wrap(_truth(other)))

    def bitwise_and(self, other: ElementwiseTensor | Number) -> Self:
        """self & other, of integers or bools. Raises DTypeError for floats.

        >>> x = sg.tensor([5, 6])
        >>> x.bitwise_and(3)
        tensor([1, 2])
        """
        return binary(e.And(), self, other)

    def bitwise_or(self, other: ElementwiseTensor | Number) -> Self:
        """self | other, of integers or bools. Raises DTypeError for floats.

        >>> x = sg.tensor([5, 6])
        >>> x.bitwise_or(3)
        tensor([7, 7])
        """
        return binary(e.Or(), self, other)

    def bitwise_xor(self, other: ElementwiseTensor | Number) -> Self:
        """self ^ other, of integers or bools. Raises DTypeError for floats.

        >>> x = sg.tensor([5, 6])
        >>> x.bitwise_xor(3)
        tensor([6, 5])
        """
        return binary(e.Xor(), self, other)

    def bitwise_not(self) -> Self:
        """~self, of integers or bools. Raises DTypeError for floats.

        >>> x = sg.tensor([0, 5])
        >>> x.bitwise_not()
        tensor([-1, -6])
        """
        return wrap(make(e.Not(), self._node))

    def bitwise_left_shift(self, other: ElementwiseTensor | Number) -> Self:
        """self << other, for shifts from 0 to 31. Raises DTypeError for bools and floats.

        >>> sg.tensor([1, 3]).bitwise_left_shift(2)
        tensor([ 4, 12])
        """
        return binary(e.ShiftLeft(), self, other)

    def bitwise_right_shift(self, other: ElementwiseTensor | Number) -> Self:
        """self >> other, for shifts from 0 to 31; negative numbers stay negative. Raises DTypeError for bools and
        floats.

        >>> sg.tensor([12, -8]).bitwise_right_shift(2)
        tensor([ 3, -2])
        """
        return binary(e.ShiftRight(), self, other)

    def __lshift__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("bitwise_left_shift", self, other)

    def __rshift__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("bitwise_right_shift", self, other)

    def __rlshift__(self, other: Number) -> Self:
        return _reflected("bitwise_left_shift", self, other)

    def __rrshift__(self, other: Number) -> Self:
        return _reflected("bitwise_right_shift", self, other)

    def __and__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("bitwise_and", self, other)

    def __or__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("bitwise_or", self, other)

    def __xor__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("bitwise_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Self:
        return wrap(make(e.Not(), self._node))

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
        Raises DTypeError where the dtypes differ.

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
        near = (a - b).abs() <= b.abs() * rtol + atol
        if a.dtype.category == 2:
            near = near & a.isfinite() & b.isfinite()
            if equal_nan:
                same = same | (a.isnan() & b.isnan())
        return same | near

    def where(self, condition: ElementwiseTensor, other: ElementwiseTensor | Number) -> Self:
        """self where the condition holds, else `other`; the three broadcast. Raises DTypeError for a condition that is
        not bool.

        >>> x = sg.tensor([1.0, -2.0])
        >>> x.where(x > 0, 0.0)
        tensor([1., 0.])
        """
        return where(condition, self, other)

    def masked_fill(self, mask: ElementwiseTensor, value: ElementwiseTensor | Number) -> Self:
        """`value`, a number or a tensor of shape (), where the mask is true, else self, in the dtype of self. mask:
        bool, broadcasts.

        >>> x = sg.tensor([1.0, 2.0, 3.0])
        >>> x.masked_fill(x > 1.5, 0.0)
        tensor([1., 0., 0.])
        """
        if isinstance(value, TensorBase) and value.ndim:
            raise ShapeError(f"[masked_fill] value must be a number or a tensor of shape (), got {tuple(value.shape)}.")
        return where(mask, value, self).to(dtype=self.dtype)


# operators by the method that each is; the methods here are not yet behind their checks
OPERATORS: dict[str, tuple[str, Any]] = {
    "add": ("+", ElementwiseTensor.add),
    "sub": ("-", ElementwiseTensor.sub),
    "mul": ("*", ElementwiseTensor.mul),
    "div": ("/", ElementwiseTensor.div),
    "pow": ("**", ElementwiseTensor.pow),
    "floor_divide": ("//", ElementwiseTensor.floor_divide),
    "remainder": ("%", ElementwiseTensor.remainder),
    "bitwise_and": ("&", ElementwiseTensor.bitwise_and),
    "bitwise_or": ("|", ElementwiseTensor.bitwise_or),
    "bitwise_xor": ("^", ElementwiseTensor.bitwise_xor),
    "bitwise_left_shift": ("<<", ElementwiseTensor.bitwise_left_shift),
    "bitwise_right_shift": (">>", ElementwiseTensor.bitwise_right_shift),
    "eq": ("==", ElementwiseTensor.eq),
    "ne": ("!=", ElementwiseTensor.ne),
    "lt": ("<", ElementwiseTensor.lt),
    "le": ("<=", ElementwiseTensor.le),
    "gt": (">", ElementwiseTensor.gt),
    "ge": (">=", ElementwiseTensor.ge),
}
REFLECTED: dict[str, Any] = {
    "add": lambda a, b: b.add(a),
    "sub": lambda a, b: _subtract(a, b),
    "mul": lambda a, b: b.mul(a),
    "div": lambda a, b: _divide(a, b),
    "pow": lambda a, b: binary(e.Pow(), a, b),
    "floor_divide": lambda a, b: _floor_divide(a, b),
    "remainder": lambda a, b: _remainder(a, b),
    "bitwise_left_shift": lambda a, b: binary(e.ShiftLeft(), a, b),
    "bitwise_right_shift": lambda a, b: binary(e.ShiftRight(), a, b),
}


def _operator(method: str, a: Any, b: Any) -> Any:
    """a ∘ b, for a tensor a."""
    symbol, function = OPERATORS[method]
    if isinstance(b, OPERANDS):
        return function(a, b)
    if isinstance(b, np.ndarray):
        return function(a, host_tensor(b, device=a.device))
    if symbol in ("==", "!="):  # of other things, Python says that they differ
        return NotImplemented
    return not_ours(symbol, a, b)


def _reflected(method: str, a: Any, b: Any) -> Any:
    """b ∘ a, for a tensor a and what b could not do itself."""
    if isinstance(b, OPERANDS):
        return REFLECTED[method](b, a)
    raise unsupported(OPERATORS[method][0], b, a)


def _limit(x: Any, low: Any, high: Any, value: Any) -> Any:
    """The limit that is taken outside; `value`, without a gradient, where there is none, for NaN."""
    if high is not None:
        above = x > high if low is None else (x > high) | ((x <= high) & _less(high, low))
        value = where(above, high, value)
    if low is not None:
        below = x < low if high is None else (x < low) & _less(low, high)
        value = where(below, low, value)
    return value


def _less(a: Any, b: Any) -> Any:
    return a < b if isinstance(a, TensorBase) else b > a


def _subtract(a: Any, b: Any) -> Any:
    _refuse_bools(a, b)
    return binary(e.Sub(), a, b)


def _refuse_bools(*values: Any) -> None:
    if any(isinstance(v, bool) or getattr(v, "dtype", None) is bool_ for v in values):
        raise DTypeError("Subtraction, the `-` operator, with bools is not supported. Hint: use ^ or logical_xor().")


def _detached(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


def _truth(x: ElementwiseTensor) -> Node:
    return x._node if x.dtype is bool_ else make(e.NotEqual(), x._node, build.like(x._node, 0))


def _divide(a: T | Number, b: ElementwiseTensor | Number) -> T:
    left, right = operands(a, b)
    if left.dtype.category < 2:
        left, right = cast(left, default_dtype()), cast(right, default_dtype())
    return wrap(make(e.Div(), left, right))


def _floor_divide(a: T | Number, b: ElementwiseTensor | Number) -> T:
    left, right = operands(a, b)
    if left.dtype.category < 2:
        left, right = (cast(n, int32) if n.dtype is bool_ else n for n in (left, right))
        return wrap(make(e.FloorDiv(), left, right))
    return _floor_of_quotient(wrap(left), wrap(right))


def _floor_of_quotient(a: Any, b: Any) -> Any:
    """From what the division leaves: the quotient itself may be rounded up to the next integer (as CPython's floats)."""
    rest = wrap(make(e.Fmod(), a._node, b._node))
    quotient = _divide(a - rest, b)
    quotient = where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1.0, quotient)
    whole = quotient.floor()
    whole = where(quotient - whole > 0.5, whole + 1.0, whole)
    return where(b == 0, _divide(a, b).floor(), whole)


def _divide_towards_zero(a: T, b: ElementwiseTensor | Number) -> T:
    if max(a.dtype.category, (b.dtype if isinstance(b, TensorBase) else of_scalar(b)).category) == 2:
        return _divide(a, b).trunc()
    sign = a.sign() * (b.sign() if isinstance(b, TensorBase) else 1 if b > 0 else -1)  # type: ignore[operator]
    return _floor_divide(a.abs(), abs(b)) * sign


def _remainder(a: T | Number, b: ElementwiseTensor | Number) -> T:
    left, right = operands(a, b)
    if left.dtype.category < 2:
        quotient = _floor_divide(a, b)
        result: Any = a - quotient * b
        return result
    rest, divisor = wrap(make(e.Fmod(), left, right)), wrap(right)
    return where((rest != 0) & ((rest < 0) != (divisor < 0)), rest + divisor, rest)


def where(condition: ElementwiseTensor, a: Any, b: Any) -> Any:
    """a where the condition holds, else b; the three broadcast, dtypes of a and b are promoted.

    Raises DTypeError for a condition that is not bool, ShapeError where the shapes do not broadcast.

    >>> sg.where(sg.tensor([True, False]), sg.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    for name, value in (("input", a), ("other", b)):
        if not isinstance(value, OPERANDS):
            refuse("where", name, value, "Tensor or Number")
    if condition.dtype is not bool_:
        raise DTypeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.name}"
        )
    if not isinstance(a, TensorBase) and not isinstance(b, TensorBase):
        a = wrap(build.constant(a, promote_numbers(a, b), condition._node.device))
    x, y = operands(a, b)
    try:
        shape = common_shape(condition._node.shape, x.shape)
    except ShapeError:
        raise ShapeError(f"[where] the condition {tuple(condition.shape)} does not broadcast with {x.shape}.") from None
    return wrap(
        make(e.Where(), build.broadcast(condition._node, shape), build.broadcast(x, shape), build.broadcast(y, shape))
    )


def promote_numbers(a: Number, b: Number) -> DType:
    return promote(of_scalar(a), of_scalar(b))


def _as_tensor(value: Any, like: TensorBase) -> Any:
    """A number as a tensor of the dtype and device of `like`, float32 where that is of integers."""
    if isinstance(value, TensorBase):
        return value
    dtype = like.dtype if like.dtype.category == 2 else default_dtype()
    return wrap(build.constant(float(value), dtype, like._node.device))
