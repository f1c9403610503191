"""Methods of single elements: arithmetic, functions, comparisons, logic, choosing."""

from __future__ import annotations

import math
from typing import Any, Self, TypeVar

import numpy as np

from ..dtypes import DType, bool_, float32, int32, of_scalar, promote
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import Node, make
from ..primitives import elementwise as e
from .base import Number, TensorBase, binary, floating, operands, wrap
from .records import RecordTensor

T = TypeVar("T", bound="ElementwiseTensor")


class ElementwiseTensor(RecordTensor):
    """Methods of single elements: arithmetic, functions, comparisons, logic, choosing."""

    __slots__ = ()
    __hash__ = TensorBase.__hash__

    def add(self, other: ElementwiseTensor | Number, *, alpha: Number = 1) -> Self:
        return binary(e.Add(), self, other if alpha == 1 else other * alpha)

    def sub(self, other: ElementwiseTensor | Number, *, alpha: Number = 1) -> Self:
        if self.dtype is bool_ or getattr(other, "dtype", None) is bool_:
            raise DTypeError(
                "Subtraction, the `-` operator, with a bool tensor is not supported. Hint: use ^ or logical_xor()."
            )
        return binary(e.Sub(), self, other if alpha == 1 else other * alpha)

    def mul(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Mul(), self, other)

    def div(self, other: ElementwiseTensor | Number, *, rounding_mode: str | None = None) -> Self:
        """True division: integers give float32. rounding_mode: None, 'floor', or 'trunc' (towards zero)."""
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
        return binary(e.Pow(), self, exponent)

    def neg(self) -> Self:
        if self.dtype is bool_:
            raise DTypeError(
                "Negation, the `-` operator, on a bool tensor is not supported. Hint: use ~ or logical_not()."
            )
        return wrap(make(e.Neg(), self._node))

    def positive(self) -> Self:
        """The tensor itself."""
        return self

    def __add__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("add", self, other)

    def __radd__(self, other: Number) -> Self:
        return _operator("add", self, other)

    def __sub__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("sub", self, other)

    def __rsub__(self, other: Number) -> Self:
        return binary(e.Sub(), other, self)

    def __mul__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("mul", self, other)

    def __rmul__(self, other: Number) -> Self:
        return _operator("mul", self, other)

    def __truediv__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("div", self, other)

    def __rtruediv__(self, other: Number) -> Self:
        return _divide(other, self)

    def __pow__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("pow", self, other)

    def __rpow__(self, other: Number) -> Self:
        return binary(e.Pow(), other, self)

    def __neg__(self) -> Self:
        return self.neg()

    def __abs__(self) -> Self:
        return self.abs()

    def exp2(self) -> Self:
        return (self * math.log(2.0)).exp()

    def log2(self) -> Self:
        return self.log() * (1.0 / math.log(2.0))

    def log10(self) -> Self:
        return self.log() * (1.0 / math.log(10.0))

    def tan(self) -> Self:
        return self.sin() / self.cos()

    def atan(self) -> Self:
        x = wrap(floating(self))
        return binary(e.Atan2(), x, 1.0)

    def atan2(self, other: ElementwiseTensor) -> Self:
        """The angle of (other, self) from the positive first axis."""
        return binary(e.Atan2(), wrap(floating(self)), wrap(floating(other)))

    def sinh(self) -> Self:
        return (self.expm1() - (-self).expm1()) * 0.5

    def cosh(self) -> Self:
        return (self.exp() + (-self).exp()) * 0.5

    def acosh(self) -> Self:
        return (self + (self * self - 1.0).sqrt()).log()

    def asinh(self) -> Self:
        negative = self < 0
        size = where(negative, -self, self)  # not abs(), whose derivative at 0 is 0
        value = (size + size * size / ((size * size + 1.0).sqrt() + 1.0)).log1p()
        return where(negative, -value, value)

    def atanh(self) -> Self:
        return (self.log1p() - (-self).log1p()) * 0.5

    def ceil(self) -> Self:
        return self if self.dtype.category < 2 else -(-self).floor()

    def floor(self) -> Self:
        return self if self.dtype.category < 2 else wrap(make(e.Floor(), self._node))

    def trunc(self) -> Self:
        return self if self.dtype.category < 2 else wrap(make(e.Trunc(), self._node))

    def frac(self) -> Self:
        return self - self.trunc()

    def round(self, *, decimals: int = 0) -> Self:
        """To the nearest, halves to even."""
        if self.dtype.category < 2:
            return self
        scale = 10.0**decimals
        return (
            wrap(make(e.Round(), self._node)) if decimals == 0 else wrap(make(e.Round(), (self * scale)._node)) / scale
        )

    def floor_divide(self, other: ElementwiseTensor | Number) -> Self:
        """The largest integer not above the quotient."""
        return _floor_divide(self, other)

    def remainder(self, other: ElementwiseTensor | Number) -> Self:
        """What is left of the quotient rounded down; has the sign of the divisor, as % in Python."""
        return _remainder(self, other)

    def fmod(self, other: ElementwiseTensor | Number) -> Self:
        """What is left of the quotient rounded towards zero; has the sign of the dividend."""
        if self.dtype.category < 2 and getattr(other, "dtype", int32).category < 2 and not isinstance(other, float):
            size = _remainder(self.abs(), abs(other))
            return size * self.sign()
        return self - _divide(self, other).trunc() * other

    def __floordiv__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("floor_divide", self, other)

    def __rfloordiv__(self, other: Number) -> Self:
        return _floor_divide(other, self)

    def __mod__(self, other: ElementwiseTensor | Number) -> Self:
        return _operator("remainder", self, other)

    def __rmod__(self, other: Number) -> Self:
        return _remainder(other, self)

    def lerp(self, end: ElementwiseTensor, weight: ElementwiseTensor | Number) -> Self:
        """self + weight * (end - self)."""
        return self + (end - self) * weight

    def addcmul(self, tensor1: ElementwiseTensor, tensor2: ElementwiseTensor, *, value: Number = 1) -> Self:
        product = tensor1 * tensor2
        return self + (product if value == 1 else product * value)

    def addcdiv(self, tensor1: ElementwiseTensor, tensor2: ElementwiseTensor, *, value: Number = 1) -> Self:
        quotient = tensor1 / tensor2
        return self + (quotient if value == 1 else quotient * value)

    def relu(self) -> Self:
        return wrap(make(e.Relu(), self._node))

    def gelu(self, approximate: str = "none") -> Self:
        """x * Phi(x) (Hendrycks and Gimpel, 2016); approximate='tanh' for the tanh form."""
        if approximate == "tanh":
            inner = (self + self * self * self * 0.044715) * math.sqrt(2.0 / math.pi)
            return self * 0.5 * (inner.tanh() + 1.0)
        if approximate != "none":
            raise ShapeError(f"[gelu] approximate must be 'none' or 'tanh', got {approximate!r}.")
        return self * 0.5 * ((self * math.sqrt(0.5)).erf() + 1.0)

    def abs(self) -> Self:
        return wrap(make(e.Abs(), self._node))

    def sign(self) -> Self:
        return wrap(make(e.Sign(), self._node))

    def square(self) -> Self:
        return self * self

    def reciprocal(self) -> Self:
        return _divide(1.0, self)

    def maximum(self, other: ElementwiseTensor) -> Self:
        return binary(e.Maximum(), self, other)

    def minimum(self, other: ElementwiseTensor) -> Self:
        return binary(e.Minimum(), self, other)

    def clamp(
        self, min: ElementwiseTensor | Number | None = None, max: ElementwiseTensor | Number | None = None
    ) -> Self:
        """Limited to [min, max]. The gradient is 1 inside and at the limits, 0 outside."""
        if min is None and max is None:
            raise ShapeError("[clamp] At least one of 'min' or 'max' must not be None")
        inside: Any = None
        value = self
        if min is not None:
            inside = self >= min
            value = binary(e.Maximum(), value.detach(), _detached(min))
        if max is not None:
            below = self <= max
            inside = below if inside is None else inside & below
            value = binary(e.Minimum(), value.detach(), _detached(max))
        return where(inside, self, value)

    def clamp_min(self, min: ElementwiseTensor | Number) -> Self:
        return self.clamp(min=min)

    def clamp_max(self, max: ElementwiseTensor | Number) -> Self:
        return self.clamp(max=max)

    def logit(self, eps: float | None = None) -> Self:
        """log(x / (1 - x)); x is limited to [eps, 1 - eps] first, if eps is given."""
        x = self if eps is None else self.clamp(eps, 1.0 - eps)
        return x.log() - (-x).log1p()

    def xlogy(self, other: ElementwiseTensor | Number) -> Self:
        """self * log(other), and 0 where self is 0 (NaN where other is NaN)."""
        y = _as_tensor(other, self)
        vanishes = (self == 0) & ((y <= 0) | (y == math.inf))
        return self * where(vanishes, 1.0, y).log()

    def hypot(self, other: ElementwiseTensor) -> Self:
        """sqrt(self ** 2 + other ** 2), without overflow on the way."""
        scale = self.detach().abs().maximum(other.detach().abs())
        scale = where((scale == 0) | ~scale.isfinite(), 1.0, scale)
        a, b = self / scale, other / scale
        return (a * a + b * b).sqrt() * scale

    def logaddexp(self, other: ElementwiseTensor) -> Self:
        """log(exp(self) + exp(other))."""
        top = self.detach().maximum(other.detach())
        top = where(top.isfinite(), top, 0.0)
        return ((self - top).exp() + (other - top).exp()).log() + top

    def logaddexp2(self, other: ElementwiseTensor) -> Self:
        """log2(2 ** self + 2 ** other)."""
        return (self * math.log(2.0)).logaddexp(other * math.log(2.0)) * (1.0 / math.log(2.0))

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """NaN and infinities replaced; those by the dtype's largest and smallest number, if not told."""
        if self.dtype.category < 2:
            return self
        limits = np.finfo(self.dtype.numpy)
        high = float(limits.max) if posinf is None else posinf
        low = float(limits.min) if neginf is None else neginf
        infinite = where(self > 0, high, low).to(dtype=self.dtype)
        return where(self.isfinite(), self, where(self.isnan(), float(nan), infinite))

    def heaviside(self, values: ElementwiseTensor) -> Self:
        """0 below 0, 1 above, `values` at 0. No gradient."""
        if values.dtype is not self.dtype:
            raise DTypeError(
                f"heaviside is not yet implemented for tensors with different dtypes: {self.dtype.name} and {values.dtype.name}."
            )
        x = self.detach()
        return where(x == 0, values.detach(), (x > 0).to(dtype=x.dtype))

    def sinc(self) -> Self:
        """sin(pi x) / (pi x), and 1 at 0."""
        is_zero = self == 0
        angle = where(is_zero, 1.0, self) * math.pi
        return where(is_zero, 1.0, angle.sin() / angle)

    def deg2rad(self) -> Self:
        return self * (math.pi / 180.0)

    def rad2deg(self) -> Self:
        return self * (180.0 / math.pi)

    def eq(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Equal(), self, other)

    def ne(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.NotEqual(), self, other)

    def lt(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Less(), self, other)

    def le(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.LessEqual(), self, other)

    def gt(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Greater(), self, other)

    def ge(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.GreaterEqual(), self, other)

    def __eq__(self, other: object) -> Any:
        return _operator("eq", self, other)

    def __ne__(self, other: object) -> Any:
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
        return wrap(make(e.Not(), _truth(self)))

    def logical_and(self, other: ElementwiseTensor) -> Self:
        return binary(e.And(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_or(self, other: ElementwiseTensor) -> Self:
        return binary(e.Or(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_xor(self, other: ElementwiseTensor) -> Self:
        return binary(e.Xor(), wrap(_truth(self)), wrap(_truth(other)))

    def bitwise_and(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.And(), self, other)

    def bitwise_or(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Or(), self, other)

    def bitwise_xor(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Xor(), self, other)

    def bitwise_not(self) -> Self:
        return wrap(make(e.Not(), self._node))

    def bitwise_left_shift(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.ShiftLeft(), self, other)

    def bitwise_right_shift(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.ShiftRight(), self, other)

    def __lshift__(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.ShiftLeft(), self, other)

    def __rshift__(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.ShiftRight(), self, other)

    def __and__(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.And(), self, other)

    def __or__(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Or(), self, other)

    def __xor__(self, other: ElementwiseTensor | Number) -> Self:
        return binary(e.Xor(), self, other)

    def __invert__(self) -> Self:
        return wrap(make(e.Not(), self._node))

    def isnan(self) -> Self:
        return wrap(make(e.IsNan(), self._node)) if self.dtype.category == 2 else self != self

    def isfinite(self) -> Self:
        return wrap(make(e.IsFinite(), self._node)) if self.dtype.category == 2 else self == self

    def isinf(self) -> Self:
        if self.dtype.category < 2:
            return self != self
        return self.abs() == math.inf

    def isposinf(self) -> Self:
        return self.isinf() & (self > 0)

    def isneginf(self) -> Self:
        return self.isinf() & (self < 0)

    def isclose(
        self, other: ElementwiseTensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
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

    def where(self, condition: ElementwiseTensor, other: ElementwiseTensor | Number) -> Self:
        return where(condition, self, other)

    def masked_fill(self, mask: ElementwiseTensor, value: ElementwiseTensor | Number) -> Self:
        return where(mask, value, self).to(dtype=self.dtype)


def _operator(method: str, a: Any, b: Any) -> Any:
    return (
        getattr(a, method)(b)
        if isinstance(b, TensorBase | bool | int | float) or hasattr(b, "__float__")
        else NotImplemented
    )


def _detached(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


def _truth(x: T) -> Node:
    return x._node if x.dtype is bool_ else make(e.NotEqual(), x._node, build.like(x._node, 0))


def _divide(a: T | Number, b: ElementwiseTensor | Number) -> T:
    left, right = operands(a, b)
    if left.dtype.category < 2:
        left, right = cast(left, float32), cast(right, float32)
    return wrap(make(e.Div(), left, right))


def _floor_divide(a: T | Number, b: ElementwiseTensor | Number) -> T:
    left, right = operands(a, b)
    if left.dtype.category < 2:
        left, right = (cast(n, int32) if n.dtype is bool_ else n for n in (left, right))
        return wrap(make(e.FloorDiv(), left, right))
    return wrap(make(e.Floor(), make(e.Div(), left, right)))


def _divide_towards_zero(a: T, b: ElementwiseTensor | Number) -> T:
    if max(a.dtype.category, (b.dtype if isinstance(b, TensorBase) else of_scalar(b)).category) == 2:
        return _divide(a, b).trunc()
    sign = a.sign() * (b.sign() if isinstance(b, TensorBase) else 1 if b > 0 else -1)
    return _floor_divide(a.abs(), abs(b)) * sign


def _remainder(a: T | Number, b: ElementwiseTensor | Number) -> T:
    quotient = _floor_divide(a, b)
    result: Any = a - quotient * b
    return result


def where(condition: ElementwiseTensor, a: Any, b: Any) -> Any:
    """a where the condition holds, else b; broadcasts."""
    if condition.dtype is not bool_:
        raise DTypeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.name}"
        )
    if not isinstance(a, TensorBase) and not isinstance(b, TensorBase):
        a = wrap(build.constant(a, promote_numbers(a, b), condition._node.device))
    x, y = operands(a, b)
    try:
        shape = np.broadcast_shapes(condition._node.shape, x.shape)
    except ValueError:
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
    dtype = like.dtype if like.dtype.category == 2 else float32
    return wrap(build.constant(float(value), dtype, like._node.device))
