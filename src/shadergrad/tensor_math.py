# pyright: reportGeneralTypeIssues=false
# Why: in a mixin, self is the whole Tensor, and pyright cannot know that the mixin is used nowhere else.
"""Tensor methods that compute: arithmetic, functions of elements, comparisons, reductions, softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .dtypes import DType, bool_, float32, int32, parse_dtype
from .errors import DTypeError, IndexRangeError, ShapeError
from .graph import node as nodes
from .graph.node import Node, make
from .graph.primitive import Primitive
from .primitives import elementwise as e
from .primitives.indexing import Gather
from .primitives.reduce import Reduce, ReduceMax, ReduceMin, ReduceSum

if TYPE_CHECKING:
    from .tensor import Tensor

Number = bool | int | float


class ValuesAndIndices(NamedTuple):
    """What a reduction with a position gives; unpacks as (values, indices)."""

    values: Any
    indices: Any


def wrap(node: Node) -> Tensor:
    from .tensor import Tensor

    return Tensor._of(node)


def binary(primitive: Primitive, a: Tensor | Number, b: Tensor | Number) -> Tensor:
    from .tensor import operands

    return wrap(make(primitive, *operands(a, b)))


def floating(x: Tensor) -> Node:
    """The node of x, as float32 where it is of integers or bools."""
    return x._node if x.dtype.category == 2 else make(e.Cast(float32), x._node)


def unary(primitive: Primitive, x: Tensor) -> Tensor:
    return wrap(make(primitive, floating(x)))


def check_axis(dim: int, ndim: int, what: str) -> int:
    """A non-negative axis; raises IndexRangeError outside [-ndim, ndim - 1]."""
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise IndexRangeError(
            f"[{what}] Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], but got {dim})"
        )
    return dim % max(ndim, 1)


def check_axes(dim: int | Sequence[int] | None, ndim: int, what: str) -> tuple[int, ...]:
    """Sorted axes; None or () means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    axes = [check_axis(d, ndim, what) for d in ([dim] if isinstance(dim, int) else dim)]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"[{what}] a dim appears twice in {dim}.")
    return tuple(sorted(axes)) if ndim else ()


class MathMethods:
    """Elementwise operations, comparisons and reductions."""

    __slots__ = ()

    # -- arithmetic

    def add(self: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
        return binary(e.Add(), self, other if alpha == 1 else other * alpha)

    def sub(self: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
        if self.dtype is bool_ or getattr(other, "dtype", None) is bool_:
            raise DTypeError(
                "Subtraction, the `-` operator, with a bool tensor is not supported. Hint: use ^ or logical_xor()."
            )
        return binary(e.Sub(), self, other if alpha == 1 else other * alpha)

    def mul(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Mul(), self, other)

    def div(self: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
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

    def pow(self: Tensor, exponent: Tensor | Number) -> Tensor:
        return binary(e.Pow(), self, exponent)

    def neg(self: Tensor) -> Tensor:
        if self.dtype is bool_:
            raise DTypeError(
                "Negation, the `-` operator, on a bool tensor is not supported. Hint: use ~ or logical_not()."
            )
        return wrap(make(e.Neg(), self._node))

    def __add__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("add", self, other)

    def __radd__(self: Tensor, other: Number) -> Tensor:
        return _operator("add", self, other)

    def __sub__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("sub", self, other)

    def __rsub__(self: Tensor, other: Number) -> Tensor:
        return binary(e.Sub(), other, self)

    def __mul__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("mul", self, other)

    def __rmul__(self: Tensor, other: Number) -> Tensor:
        return _operator("mul", self, other)

    def __truediv__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("div", self, other)

    def __rtruediv__(self: Tensor, other: Number) -> Tensor:
        return _divide(other, self)

    def __pow__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("pow", self, other)

    def __rpow__(self: Tensor, other: Number) -> Tensor:
        return binary(e.Pow(), other, self)

    def __neg__(self: Tensor) -> Tensor:
        return self.neg()

    def __abs__(self: Tensor) -> Tensor:
        return self.abs()

    # -- functions

    def exp(self: Tensor) -> Tensor:
        return unary(e.Exp(), self)

    def expm1(self: Tensor) -> Tensor:
        return unary(e.Expm1(), self)

    def exp2(self: Tensor) -> Tensor:
        return unary(e.Exp(), self * math.log(2.0))

    def log(self: Tensor) -> Tensor:
        return unary(e.Log(), self)

    def log2(self: Tensor) -> Tensor:
        return unary(e.Log(), self) * (1.0 / math.log(2.0))

    def log10(self: Tensor) -> Tensor:
        return unary(e.Log(), self) * (1.0 / math.log(10.0))

    def log1p(self: Tensor) -> Tensor:
        return unary(e.Log1p(), self)

    def tan(self: Tensor) -> Tensor:
        return self.sin() / self.cos()

    def asin(self: Tensor) -> Tensor:
        return unary(e.Asin(), self)

    def acos(self: Tensor) -> Tensor:
        return unary(e.Acos(), self)

    def atan(self: Tensor) -> Tensor:
        x = wrap(floating(self))
        return binary(e.Atan2(), x, 1.0)

    def atan2(self: Tensor, other: Tensor) -> Tensor:
        """The angle of (other, self) from the positive first axis."""
        return binary(e.Atan2(), wrap(floating(self)), wrap(floating(other)))

    def sinh(self: Tensor) -> Tensor:
        return (self.expm1() - (-self).expm1()) * 0.5

    def cosh(self: Tensor) -> Tensor:
        return (self.exp() + (-self).exp()) * 0.5

    def ceil(self: Tensor) -> Tensor:
        return self if self.dtype.category < 2 else -(-self).floor()

    def trunc(self: Tensor) -> Tensor:
        return self if self.dtype.category < 2 else wrap(make(e.Trunc(), self._node))

    def frac(self: Tensor) -> Tensor:
        return self - self.trunc()

    def round(self: Tensor, *, decimals: int = 0) -> Tensor:
        """To the nearest, halves to even."""
        if self.dtype.category < 2:
            return self
        scale = 10.0**decimals
        return (
            wrap(make(e.Round(), self._node)) if decimals == 0 else wrap(make(e.Round(), (self * scale)._node)) / scale
        )

    def floor_divide(self: Tensor, other: Tensor | Number) -> Tensor:
        """The largest integer not above the quotient."""
        return _floor_divide(self, other)

    def remainder(self: Tensor, other: Tensor | Number) -> Tensor:
        """What is left of the quotient rounded down; has the sign of the divisor, as % in Python."""
        return _remainder(self, other)

    def fmod(self: Tensor, other: Tensor | Number) -> Tensor:
        """What is left of the quotient rounded towards zero; has the sign of the dividend."""
        if self.dtype.category < 2 and getattr(other, "dtype", int32).category < 2 and not isinstance(other, float):
            size = _remainder(self.abs(), abs(other))
            return size * self.sign()
        return self - _divide(self, other).trunc() * other

    def __floordiv__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("floor_divide", self, other)

    def __rfloordiv__(self: Tensor, other: Number) -> Tensor:
        return _floor_divide(other, self)

    def __mod__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("remainder", self, other)

    def __rmod__(self: Tensor, other: Number) -> Tensor:
        return _remainder(other, self)

    def lerp(self: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
        """self + weight * (end - self)."""
        return self + (end - self) * weight

    def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
        product = tensor1 * tensor2
        return self + (product if value == 1 else product * value)

    def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
        quotient = tensor1 / tensor2
        return self + (quotient if value == 1 else quotient * value)

    def sqrt(self: Tensor) -> Tensor:
        return unary(e.Sqrt(), self)

    def rsqrt(self: Tensor) -> Tensor:
        return unary(e.Rsqrt(), self)

    def sin(self: Tensor) -> Tensor:
        return unary(e.Sin(), self)

    def cos(self: Tensor) -> Tensor:
        return unary(e.Cos(), self)

    def tanh(self: Tensor) -> Tensor:
        return unary(e.Tanh(), self)

    def sigmoid(self: Tensor) -> Tensor:
        return unary(e.Sigmoid(), self)

    def erf(self: Tensor) -> Tensor:
        return unary(e.Erf(), self)

    def erfinv(self: Tensor) -> Tensor:
        return unary(e.Erfinv(), self)

    def floor(self: Tensor) -> Tensor:
        return self if self.dtype.category < 2 else wrap(make(e.Floor(), self._node))

    def relu(self: Tensor) -> Tensor:
        return wrap(make(e.Relu(), self._node))

    def gelu(self: Tensor, approximate: str = "none") -> Tensor:
        """x * Phi(x) (Hendrycks and Gimpel, 2016); approximate='tanh' for the tanh form."""
        if approximate == "tanh":
            inner = (self + self * self * self * 0.044715) * math.sqrt(2.0 / math.pi)
            return self * 0.5 * (inner.tanh() + 1.0)
        if approximate != "none":
            raise ShapeError(f"[gelu] approximate must be 'none' or 'tanh', got {approximate!r}.")
        return self * 0.5 * ((self * math.sqrt(0.5)).erf() + 1.0)

    def abs(self: Tensor) -> Tensor:
        return wrap(make(e.Abs(), self._node))

    def sign(self: Tensor) -> Tensor:
        return wrap(make(e.Sign(), self._node))

    def square(self: Tensor) -> Tensor:
        return self * self

    def reciprocal(self: Tensor) -> Tensor:
        return _divide(1.0, self)

    def maximum(self: Tensor, other: Tensor) -> Tensor:
        return binary(e.Maximum(), self, other)

    def minimum(self: Tensor, other: Tensor) -> Tensor:
        return binary(e.Minimum(), self, other)

    def clamp(self: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
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

    # -- comparisons and logic

    def eq(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Equal(), self, other)

    def ne(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.NotEqual(), self, other)

    def lt(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Less(), self, other)

    def le(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.LessEqual(), self, other)

    def gt(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Greater(), self, other)

    def ge(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.GreaterEqual(), self, other)

    def __eq__(self: Tensor, other: object) -> Any:
        return _operator("eq", self, other)

    def __ne__(self: Tensor, other: object) -> Any:
        return _operator("ne", self, other)

    def __lt__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("lt", self, other)

    def __le__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("le", self, other)

    def __gt__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("gt", self, other)

    def __ge__(self: Tensor, other: Tensor | Number) -> Tensor:
        return _operator("ge", self, other)

    def logical_not(self: Tensor) -> Tensor:
        return wrap(make(e.Not(), _truth(self)))

    def logical_and(self: Tensor, other: Tensor) -> Tensor:
        return binary(e.And(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_or(self: Tensor, other: Tensor) -> Tensor:
        return binary(e.Or(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_xor(self: Tensor, other: Tensor) -> Tensor:
        return binary(e.Xor(), wrap(_truth(self)), wrap(_truth(other)))

    def bitwise_and(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.And(), self, other)

    def bitwise_or(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Or(), self, other)

    def bitwise_xor(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Xor(), self, other)

    def bitwise_not(self: Tensor) -> Tensor:
        return wrap(make(e.Not(), self._node))

    def bitwise_left_shift(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.ShiftLeft(), self, other)

    def bitwise_right_shift(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.ShiftRight(), self, other)

    def __lshift__(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.ShiftLeft(), self, other)

    def __rshift__(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.ShiftRight(), self, other)

    def __and__(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.And(), self, other)

    def __or__(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Or(), self, other)

    def __xor__(self: Tensor, other: Tensor | Number) -> Tensor:
        return binary(e.Xor(), self, other)

    def __invert__(self: Tensor) -> Tensor:
        return wrap(make(e.Not(), self._node))

    def isnan(self: Tensor) -> Tensor:
        return wrap(make(e.IsNan(), self._node)) if self.dtype.category == 2 else self != self

    def isfinite(self: Tensor) -> Tensor:
        return wrap(make(e.IsFinite(), self._node)) if self.dtype.category == 2 else self == self

    def where(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
        return where(condition, self, other)

    def masked_fill(self: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
        return where(mask, value, self).to(dtype=self.dtype)

    # -- reductions

    def sum(
        self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Tensor:
        """Bools and integers sum to int32."""
        node = self._node
        if dtype is not None:
            node = cast(node, parse_dtype(dtype))
        elif node.dtype is bool_:
            node = cast(node, int32)
        return _reduce(ReduceSum, node, dim, keepdim, "sum")

    def mean(
        self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Tensor:
        node = self._node if dtype is None else cast(self._node, parse_dtype(dtype))
        if node.dtype.category != 2:
            raise DTypeError(
                f"mean(): could not infer output dtype. Input dtype must be a floating point dtype. Got: {self.dtype.name}. Hint: .float() first."
            )
        count = math.prod(node.shape[a] for a in check_axes(dim, node.ndim, "mean"))
        total = _reduce(ReduceSum, node, dim, keepdim, "mean")
        return total * (1.0 / count) if count else total / 0.0

    def amax(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The largest; ties share the gradient."""
        return _extremum(ReduceMax, self, dim, keepdim, "amax")

    def amin(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The smallest; ties share the gradient."""
        return _extremum(ReduceMin, self, dim, keepdim, "amin")

    def max(self: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Any:
        """max() of all; max(dim) as (values, indices), where the gradient goes to the first of ties; max(other)."""
        return _max_or_min(self, dim, keepdim, ReduceMax, e.Maximum())

    def min(self: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Any:
        """As max."""
        return _max_or_min(self, dim, keepdim, ReduceMin, e.Minimum())

    def argmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The position of the largest, the first on ties, as int32; NaN counts as largest."""
        return _arg(ReduceMax, self, dim, keepdim, "argmax")

    def argmin(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The position of the smallest, the first on ties, as int32; NaN counts as smallest."""
        return _arg(ReduceMin, self, dim, keepdim, "argmin")

    def any(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return (
            wrap(make(e.Cast(bool_), _reduce(ReduceMax, cast(_truth(self), int32), dim, keepdim, "any")._node))
            if self.numel()
            else _empty_logic(self, dim, keepdim, False)
        )

    def all(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return (
            wrap(make(e.Cast(bool_), _reduce(ReduceMin, cast(_truth(self), int32), dim, keepdim, "all")._node))
            if self.numel()
            else _empty_logic(self, dim, keepdim, True)
        )

    def var(
        self: Tensor,
        dim: int | Sequence[int] | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: int | None = None,
    ) -> Tensor:
        """The variance, two-pass; divided by n - correction (default 1)."""
        correction = (1 if unbiased else 0) if correction is None else correction
        axes = check_axes(dim, self.ndim, "var")
        count = math.prod(self.shape[a] for a in axes)
        centred = self - self.mean(axes, keepdim=True) if axes else self - self
        total = (centred * centred).sum(axes or None, keepdim=keepdim)
        return total / max(count - correction, 0) if count - correction <= 0 else total * (1.0 / (count - correction))

    def std(
        self: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
    ) -> Tensor:
        return self.var(dim, unbiased, keepdim, correction=correction).sqrt()

    def var_mean(
        self: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """(variance, mean)."""
        return self.var(dim, unbiased, keepdim, correction=correction), self.mean(dim, keepdim)

    def std_mean(
        self: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """(standard deviation, mean)."""
        return self.std(dim, unbiased, keepdim, correction=correction), self.mean(dim, keepdim)

    def logsumexp(self: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
        top = _finite_top(self, dim)
        result = (self - top).exp().sum(dim, keepdim=True).log() + top
        return result if keepdim else _without(result, check_axes(dim, self.ndim, "logsumexp"))

    def softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
        x = self if dtype is None else self.to(dtype=dtype)
        shifted = (x - x.detach().amax(dim, keepdim=True)).exp()
        return shifted / shifted.sum(dim, keepdim=True)

    def log_softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
        x = self if dtype is None else self.to(dtype=dtype)
        shifted = x - x.detach().amax(dim, keepdim=True)
        return shifted - shifted.exp().sum(dim, keepdim=True).log()


def _operator(method: str, a: Any, b: Any) -> Any:
    from .tensor import Tensor

    return (
        getattr(a, method)(b)
        if isinstance(b, Tensor | bool | int | float) or hasattr(b, "__float__")
        else NotImplemented
    )


def _detached(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x


def cast(node: Node, dtype: DType) -> Node:
    return node if node.dtype is dtype else make(e.Cast(dtype), node)


def _truth(x: Tensor) -> Node:
    return x._node if x.dtype is bool_ else make(e.NotEqual(), x._node, nodes.like(x._node, 0))


def _divide(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    from .tensor import operands

    left, right = operands(a, b)
    if left.dtype.category < 2:
        left, right = cast(left, float32), cast(right, float32)
    return wrap(make(e.Div(), left, right))


def _floor_divide(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    from .tensor import operands

    left, right = operands(a, b)
    if left.dtype.category < 2:
        left, right = (cast(n, int32) if n.dtype is bool_ else n for n in (left, right))
        return wrap(make(e.FloorDiv(), left, right))
    return wrap(make(e.Floor(), make(e.Div(), left, right)))


def _divide_towards_zero(a: Tensor, b: Tensor | Number) -> Tensor:
    from .dtypes import of_scalar
    from .tensor import Tensor

    if max(a.dtype.category, (b.dtype if isinstance(b, Tensor) else of_scalar(b)).category) == 2:
        return _divide(a, b).trunc()
    sign = a.sign() * (b.sign() if isinstance(b, Tensor) else 1 if b > 0 else -1)
    return _floor_divide(a.abs(), abs(b)) * sign


def _remainder(a: Tensor | Number, b: Tensor | Number) -> Tensor:
    quotient = _floor_divide(a, b)
    result: Any = a - quotient * b
    return result


def where(condition: Tensor, a: Tensor | Number, b: Tensor | Number) -> Tensor:
    """a where the condition holds, else b; broadcasts."""
    from .tensor import Tensor, operands

    if condition.dtype is not bool_:
        raise DTypeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.name}"
        )
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = wrap(nodes.constant(a, promote_numbers(a, b), condition._node.device))
    x, y = operands(a, b)
    import numpy as np

    try:
        shape = np.broadcast_shapes(condition._node.shape, x.shape)
    except ValueError:
        raise ShapeError(f"[where] the condition {tuple(condition.shape)} does not broadcast with {x.shape}.") from None
    return wrap(
        make(e.Where(), nodes.broadcast(condition._node, shape), nodes.broadcast(x, shape), nodes.broadcast(y, shape))
    )


def promote_numbers(a: Number, b: Number) -> DType:
    from .dtypes import of_scalar, promote

    return promote(of_scalar(a), of_scalar(b))


def _without(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Axes of size 1 removed."""
    return wrap(nodes.reshape(x._node, tuple(n for a, n in enumerate(x._node.shape) if a not in axes)))


def _reduce(kind: type[Reduce], node: Node, dim: Any, keepdim: bool, what: str) -> Tensor:
    axes = check_axes(dim, node.ndim, what)
    result = wrap(make(kind(axes), node) if axes else node)
    return result if keepdim else _without(result, axes)


def _extremum(kind: type[Reduce], x: Tensor, dim: Any, keepdim: bool, what: str) -> Tensor:
    axes = check_axes(dim, x.ndim, what)
    if any(x.shape[a] == 0 for a in axes):
        raise ShapeError(f"[{what}] expected a non-empty axis to reduce, but the shape is {tuple(x.shape)}.")
    if x.dtype is bool_:
        return wrap(make(e.Cast(bool_), _reduce(kind, cast(x._node, int32), dim, keepdim, what)._node))
    return _reduce(kind, x._node, dim, keepdim, what)


def _arg(kind: type[Reduce], x: Tensor, dim: int | None, keepdim: bool, what: str) -> Tensor:
    node = x.detach()._node
    if dim is None:
        axis, shape = 0, (1,) * x.ndim if keepdim else ()
        node = nodes.reshape(node, (node.size,))
    else:
        axis = check_axis(dim, x.ndim, what)
        node = node if node.ndim else nodes.reshape(node, (1,))
        shape = (
            tuple(1 if a == axis else n for a, n in enumerate(x.shape))
            if keepdim
            else tuple(n for a, n in enumerate(x.shape) if a != axis)
        )
    if node.shape[axis] == 0:
        raise ShapeError(f"[{what}] expected a non-empty axis to reduce, but the shape is {tuple(x.shape)}.")
    if node.dtype is bool_:
        node = cast(node, int32)
    best = nodes.broadcast(make(kind((axis,)), node), node.shape)
    chosen = make(e.Equal(), node, best)
    if node.dtype.category == 2:
        chosen = make(e.Or(), chosen, make(e.IsNan(), node))
    counter = nodes.iota_along(node, axis, int32)
    positions = make(e.Where(), chosen, counter, nodes.like(counter, node.shape[axis]))
    return wrap(nodes.reshape(make(ReduceMin((axis,)), positions), shape))


def _max_or_min(x: Tensor, dim: Any, keepdim: bool, kind: type[Reduce], elementwise: Primitive) -> Any:
    from .tensor import Tensor

    if isinstance(dim, Tensor):
        return binary(elementwise, x, dim)
    what = "max" if kind is ReduceMax else "min"
    if dim is None:
        return _extremum(kind, x, None, keepdim, what)
    axis = check_axis(dim, x.ndim, what)
    indices = _arg(kind, x, dim, True, what)
    if x.ndim == 0:
        return ValuesAndIndices(x.clone(), indices.reshape(()))
    values = wrap(make(Gather(axis), x._node, indices._node))
    return (
        ValuesAndIndices(values, indices)
        if keepdim
        else ValuesAndIndices(_without(values, [axis]), _without(indices, [axis]))
    )


def _finite_top(x: Tensor, dim: Any) -> Tensor:
    """The maximum without history, 0 where it is infinite: what may be subtracted before exp."""
    top = x.detach().amax(dim, keepdim=True)
    return where(top.isfinite(), top, 0.0)


def _empty_logic(x: Tensor, dim: int | None, keepdim: bool, value: bool) -> Tensor:
    axes = check_axes(dim, x.ndim, "any")
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    result = wrap(nodes.constant(value, bool_, x._node.device, shape))
    return result if keepdim else _without(result, axes)
