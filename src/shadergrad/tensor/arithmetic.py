"""Elementwise arithmetic methods: addition, multiplication, division, powers, rounding."""

from __future__ import annotations

from typing import Any, Self, TypeVar

from ..dtypes import bool_, default_dtype, int32, of_scalar
from ..errors import DTypeError, ShapeError
from ..graph.build import cast
from ..graph.node import make
from ..graph.primitive import Primitive
from ..primitives import elementwise as e
from ..primitives.complex import Magnitude
from .base import TensorBase
from .coercion import Number, binary, operands
from .comparison import ComparisonTensor, where
from .handle import wrap
from .operators import OPERATORS, REFLECTED, apply_operator, apply_reflected
from .precision import follows_policy, policy

T = TypeVar("T", bound="ArithmeticTensor")


class ArithmeticTensor(ComparisonTensor):
    """Elementwise arithmetic methods."""

    __slots__ = ()

    def add(self, other: ArithmeticTensor | Number, *, alpha: Number = 1) -> Self:
        """self + alpha * other; for bools, or. Shapes broadcast, dtypes are promoted.

        Raises ShapeError if the shapes do not broadcast, DeviceError for tensors on two devices.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.add(sg.tensor([10.0, 20.0]))
        tensor([11., 22.])
        >>> x.add(1, alpha=10)
        tensor([11., 12.])
        """
        check_alpha(alpha, self, other)
        return binary(e.Add(), self, other) if alpha == 1 else scaled(self, other, alpha, e.Add())

    def sub(self, other: ArithmeticTensor | Number, *, alpha: Number = 1) -> Self:
        """self - alpha * other. Raises DTypeError for bools, ShapeError if the shapes do not broadcast.

        >>> x = sg.tensor([5.0, 6.0])
        >>> x.sub(sg.tensor([1.0, 2.0]), alpha=2)
        tensor([3., 2.])
        """
        _refuse_bools(self, other)
        check_alpha(alpha, self, other)
        return binary(e.Sub(), self, other) if alpha == 1 else scaled(self, other, alpha, e.Sub())

    def mul(self, other: ArithmeticTensor | Number) -> Self:
        """self * other; for bools, and. Raises ShapeError if the shapes do not broadcast.

        >>> x = sg.tensor([[1.0], [2.0]])
        >>> x.mul(3)
        tensor([[3.],
                [6.]])
        >>> x.mul(sg.tensor([1.0, 10.0]))
        tensor([[ 1., 10.],
                [ 2., 20.]])
        """
        return binary(e.Mul(), self, other)

    def div(self, other: ArithmeticTensor | Number, *, rounding_mode: str | None = None) -> Self:
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

    def pow(self, exponent: ArithmeticTensor | Number) -> Self:
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
        """The tensor itself. Raises DTypeError for bools.

        >>> sg.tensor([1.0, -2.0]).positive()
        tensor([ 1., -2.])
        """
        if self.dtype is bool_:
            raise DTypeError("The `+` operator, on a bool tensor is not supported.")
        return self

    def __add__(self, other: ArithmeticTensor | Number) -> Self:
        return apply_operator("add", self, other)

    def __radd__(self, other: Number) -> Self:
        return apply_reflected("add", self, other)

    def __sub__(self, other: ArithmeticTensor | Number) -> Self:
        return apply_operator("sub", self, other)

    def __rsub__(self, other: Number) -> Self:
        return apply_reflected("sub", self, other)

    def __mul__(self, other: ArithmeticTensor | Number) -> Self:
        return apply_operator("mul", self, other)

    def __rmul__(self, other: Number) -> Self:
        return apply_reflected("mul", self, other)

    def __truediv__(self, other: ArithmeticTensor | Number) -> Self:
        return apply_operator("div", self, other)

    def __rtruediv__(self, other: Number) -> Self:
        return apply_reflected("div", self, other)

    __rdiv__ = __rtruediv__

    def __pow__(self, other: ArithmeticTensor | Number) -> Self:
        return apply_operator("pow", self, other)

    def __rpow__(self, other: Number) -> Self:
        return apply_reflected("pow", self, other)

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self.positive()

    def __abs__(self) -> Self:
        return self.abs()

    def ceil(self) -> Self:
        """The smallest integer not below, in the same dtype. The gradient is 0.

        >>> x = sg.tensor([1.2, -1.2])
        >>> x.ceil()
        tensor([ 2., -1.])
        """
        return self.clone() if self.dtype.category < 2 else -(-self).floor()

    def floor(self) -> Self:
        """The largest integer not above, in the same dtype. The gradient is 0.

        >>> x = sg.tensor([1.2, -1.2])
        >>> x.floor()
        tensor([ 1., -2.])
        """
        return self.clone() if self.dtype.category < 2 else wrap(make(e.Floor(), self._node))

    def trunc(self) -> Self:
        """The integer part, in the same dtype. The gradient is 0.

        >>> x = sg.tensor([1.2, -1.2])
        >>> x.trunc()
        tensor([ 1., -1.])
        """
        return self.clone() if self.dtype.category < 2 else wrap(make(e.Trunc(), self._node))

    def frac(self) -> Self:
        """The fractional part: self - self.trunc().

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
            return self.clone()
        scale = 10.0**decimals
        return (
            wrap(make(e.Round(), self._node)) if decimals == 0 else wrap(make(e.Round(), (self * scale)._node)) / scale
        )

    def floor_divide(self, other: ArithmeticTensor | Number) -> Self:
        """The largest integer not above self / other, in the promoted dtype. Integers divided by zero give 0.

        >>> x = sg.tensor([7.0, -7.0])
        >>> x.floor_divide(2)
        tensor([ 3., -4.])
        """
        return _floor_divide(self, other)

    def remainder(self, other: ArithmeticTensor | Number) -> Self:
        """The remainder of floor division, exactly; it has the sign of the divisor, as % in Python.

        >>> x = sg.tensor([7.0, -7.0])
        >>> x.remainder(3)
        tensor([1., 2.])
        """
        return _remainder(self, other)

    def fmod(self, other: ArithmeticTensor | Number) -> Self:
        """The remainder of division truncated towards zero, exactly; it has the sign of the dividend.

        >>> x = sg.tensor([7.0, -7.0])
        >>> x.fmod(3)
        tensor([ 1., -1.])
        """
        if self.dtype.category < 2 and getattr(other, "dtype", int32).category < 2 and not isinstance(other, float):
            if self.dtype.numpy.kind == "u" and isinstance(
                other, int
            ):  # a negative number wraps, as in other operations
                return _remainder(self, other)
            size = _remainder(self.abs(), abs(other))
            return size * self.sign()
        return binary(e.Fmod(), self, other)

    def __floordiv__(self, other: ArithmeticTensor | Number) -> Self:
        return apply_operator("floor_divide", self, other)

    def __rfloordiv__(self, other: Number) -> Self:
        return apply_reflected("floor_divide", self, other)

    def __mod__(self, other: ArithmeticTensor | Number) -> Self:
        return apply_operator("remainder", self, other)

    def __rmod__(self, other: Number) -> Self:
        return apply_reflected("remainder", self, other)

    def lerp(self, end: ArithmeticTensor, weight: ArithmeticTensor | Number) -> Self:
        """self + weight * (end - self), computed from the nearer end, so that a weight of 1 gives exactly `end`.

        >>> x = sg.tensor([0.0, 10.0])
        >>> x.lerp(sg.tensor([4.0, 20.0]), 0.25)
        tensor([ 1. , 12.5])
        """
        for name, value in (("end", end), ("weight", weight)):
            if isinstance(value, TensorBase) and value.dtype is not self.dtype:
                raise DTypeError(
                    f"[lerp] expected dtype {self.dtype.name} for `{name}` but got dtype {value.dtype.name}."
                )
        if self.dtype.category < 2:
            raise DTypeError(f"[lerp] is not defined for {self.dtype.name}. Hint: .float() first.")
        step: Any = end - self
        near: Any = abs(weight) < 0.5
        if isinstance(near, bool):
            return self + step * weight if near else end - step * (1.0 - weight)
        return where(near, self + step * weight, end - step * (1.0 - weight))

    def addcmul(self, tensor1: ArithmeticTensor, tensor2: ArithmeticTensor, *, value: Number = 1) -> Self:
        """self + value * tensor1 * tensor2. Of integers `value` is cut to an integer, as in PyTorch.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.addcmul(sg.tensor([3.0, 4.0]), sg.tensor([5.0, 6.0]), value=10)
        tensor([151., 242.])
        """
        product = tensor1 * tensor2
        if max(t.dtype.category for t in (self, product)) < 2:
            value = int(value)  # type: ignore[arg-type]
        return self + (product if value == 1 else product * value)

    def addcdiv(self, tensor1: ArithmeticTensor, tensor2: ArithmeticTensor, *, value: Number = 1) -> Self:
        """self + value * tensor1 / tensor2. Raises DTypeError if both are of integers, as PyTorch.

        >>> x = sg.tensor([1.0, 2.0])
        >>> x.addcdiv(sg.tensor([6.0, 8.0]), sg.tensor([2.0, 4.0]), value=10)
        tensor([31., 22.])
        """
        if tensor1.dtype.category < 2 and tensor2.dtype.category < 2:
            raise DTypeError(
                "Integer division with addcdiv is no longer supported. Hint: self + value * (tensor1 / tensor2)."
            )
        quotient = tensor1 / tensor2
        return self + (quotient if value == 1 else quotient * value)

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


# operators by method name; the methods here are not yet wrapped in argument checks
OPERATORS.update(
    {
        "add": ("+", ArithmeticTensor.add),
        "sub": ("-", ArithmeticTensor.sub),
        "mul": ("*", ArithmeticTensor.mul),
        "div": ("/", ArithmeticTensor.div),
        "pow": ("**", follows_policy(ArithmeticTensor.pow, "pow")),
        "floor_divide": ("//", follows_policy(ArithmeticTensor.floor_divide, "floor_divide")),
        "remainder": ("%", follows_policy(ArithmeticTensor.remainder, "remainder")),
    }
)
REFLECTED.update(
    {
        "add": lambda a, b: b.add(a),
        "sub": lambda a, b: _subtract(a, b),
        "mul": lambda a, b: b.mul(a),
        "div": lambda a, b: _divide(a, b),
        "pow": follows_policy(lambda a, b: binary(e.Pow(), a, b), "pow"),
        "floor_divide": follows_policy(lambda a, b: _floor_divide(a, b), "floor_divide"),
        "remainder": follows_policy(lambda a, b: _remainder(a, b), "remainder"),
    }
)


def _subtract(a: Any, b: Any) -> Any:
    _refuse_bools(a, b)
    return binary(e.Sub(), a, b)


@policy("add_scaled")
def scaled(a: Any, b: Any, alpha: Number, primitive: Primitive) -> Any:
    """a + alpha * b, or a - alpha * b; halves are rounded once."""
    return binary(primitive, a, b * alpha)


def check_alpha(alpha: Number, *values: Any) -> None:
    """Raises if alpha is not an integer for integer tensors, or is a bool for tensors of numbers."""
    if type(alpha) is int:
        return
    factor, *others = ((v.dtype if isinstance(v, TensorBase) else of_scalar(v)).category for v in (alpha, *values))
    category = max(others)
    if not factor and category > 0:
        raise DTypeError("Boolean alpha only supported for Boolean results.")
    if category < 2 and factor >= 2:
        raise DTypeError(
            "For integral input tensors, argument alpha must not be a floating point number. Hint: .float() first."
        )


def _refuse_bools(*values: Any) -> None:
    if any(isinstance(v, bool) or getattr(v, "dtype", None) is bool_ for v in values):
        raise DTypeError("Subtraction, the `-` operator, with bools is not supported. Hint: use ^ or logical_xor().")


def _divide(a: T | Number, b: ArithmeticTensor | Number) -> T:
    kinds = [v.dtype if isinstance(v, TensorBase) else of_scalar(v) for v in (a, b)]
    if max(k.category for k in kinds) < 2:  # before a number wraps at the bits of an integer
        a, b = (wrap(cast(v._node, default_dtype())) if isinstance(v, TensorBase) else float(v) for v in (a, b))  # type: ignore[arg-type]
    return wrap(make(e.Div(), *operands(a, b)))


def _floor_divide(a: T | Number, b: ArithmeticTensor | Number) -> T:
    left, right = operands(a, b, wraps=True)
    if left.dtype.category < 2:
        left, right = (cast(n, int32) if n.dtype is bool_ else n for n in (left, right))
        return wrap(make(e.FloorDiv(), left, right))
    return _floor_of_quotient(wrap(left), wrap(right))


def _floor_of_quotient(a: Any, b: Any) -> Any:
    """The floor of a quotient, from its remainder: the quotient itself may be rounded up to the next integer (as in CPython's floats)."""
    rest = wrap(make(e.Fmod(), a._node, b._node))
    quotient = _divide(a - rest, b)
    quotient = where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1.0, quotient)
    whole = quotient.floor()
    whole = where(quotient - whole > 0.5, whole + 1.0, whole)
    return where(b == 0, _divide(a, b).floor(), whole)


def _divide_towards_zero(a: T, b: ArithmeticTensor | Number) -> T:
    if max(a.dtype.category, (b.dtype if isinstance(b, TensorBase) else of_scalar(b)).category) == 2:
        return _divide(a, b).trunc()
    sign = a.sign() * (b.sign() if isinstance(b, TensorBase) else 1 if b > 0 else -1)  # type: ignore[operator]
    return _floor_divide(a.abs(), abs(b)) * sign


def _remainder(a: T | Number, b: ArithmeticTensor | Number) -> T:
    left, right = operands(a, b, wraps=True)
    if left.dtype.category < 2:
        quotient = _floor_divide(a, b)
        result: Any = a - quotient * b
        return result
    rest, divisor = wrap(make(e.Fmod(), left, right)), wrap(right)
    return where((rest != 0) & ((rest < 0) != (divisor < 0)), rest + divisor, rest)
