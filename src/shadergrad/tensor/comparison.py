"""Elementwise comparisons, logical and bitwise operations, and selection (`where`)."""

from __future__ import annotations

import warnings
from typing import Any, Self

from ..arguments import refuse
from ..dtypes import DType, bool_, of_scalar, promote, uint8
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph.node import Node, make
from ..primitives import elementwise as e
from .axes import common_shape
from .base import TensorBase
from .coercion import OPERANDS, Number, binary, operands
from .handle import wrap
from .operators import OPERATORS, REFLECTED, apply_operator, apply_reflected
from .placement import check_fits
from .records import RecordTensor


class ComparisonTensor(RecordTensor):
    """Elementwise comparisons, logical and bitwise operations, and selection."""

    __slots__ = ()
    __hash__ = TensorBase.__hash__

    def eq(self, other: ComparisonTensor | Number) -> Self:
        """Where self == other, as bools; NaN equals nothing.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.eq(2)
        tensor([False,  True, False])
        """
        return binary(e.Equal(), self, other)

    def ne(self, other: ComparisonTensor | Number) -> Self:
        """Where self != other, as bools; NaN differs from everything.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.ne(2)
        tensor([ True, False,  True])
        """
        return binary(e.NotEqual(), self, other)

    def lt(self, other: ComparisonTensor | Number) -> Self:
        """Where self < other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.lt(2)
        tensor([ True, False, False])
        """
        return binary(e.Less(), self, other)

    def le(self, other: ComparisonTensor | Number) -> Self:
        """Where self <= other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.le(2)
        tensor([ True,  True, False])
        """
        return binary(e.LessEqual(), self, other)

    def gt(self, other: ComparisonTensor | Number) -> Self:
        """Where self > other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.gt(2)
        tensor([False, False,  True])
        """
        return binary(e.Greater(), self, other)

    def ge(self, other: ComparisonTensor | Number) -> Self:
        """Where self >= other, as bools.

        >>> x = sg.tensor([1, 2, 3])
        >>> x.ge(2)
        tensor([False,  True,  True])
        """
        return binary(e.GreaterEqual(), self, other)

    # elementwise, as in PyTorch; object's operators return one bool
    def __eq__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return apply_operator("eq", self, other)

    def __ne__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return apply_operator("ne", self, other)

    def __lt__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("lt", self, other)

    def __le__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("le", self, other)

    def __gt__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("gt", self, other)

    def __ge__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("ge", self, other)

    def logical_not(self) -> Self:
        """True where self is 0 or False.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_not()
        tensor([ True, False, False])
        """
        return wrap(make(e.Not(), _truth(self)))

    def logical_and(self, other: ComparisonTensor) -> Self:
        """Where both are true; any number but 0 is true.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_and(sg.tensor([1, 1, 0]))
        tensor([False,  True, False])
        """
        return binary(e.And(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_or(self, other: ComparisonTensor) -> Self:
        """Where at least one is true; any number but 0 is true.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_or(sg.tensor([0, 1, 0]))
        tensor([False,  True,  True])
        """
        return binary(e.Or(), wrap(_truth(self)), wrap(_truth(other)))

    def logical_xor(self, other: ComparisonTensor) -> Self:
        """Where exactly one is true; any number but 0 is true.

        >>> x = sg.tensor([0, 1, 2])
        >>> x.logical_xor(sg.tensor([0, 1, 0]))
        tensor([False, False,  True])
        """
        return binary(e.Xor(), wrap(_truth(self)), wrap(_truth(other)))

    def bitwise_and(self, other: ComparisonTensor | Number) -> Self:
        """self & other, of integers or bools. Raises DTypeError for floats.

        >>> x = sg.tensor([5, 6])
        >>> x.bitwise_and(3)
        tensor([1, 2])
        """
        return binary(e.And(), self, other)

    def bitwise_or(self, other: ComparisonTensor | Number) -> Self:
        """self | other, of integers or bools. Raises DTypeError for floats.

        >>> x = sg.tensor([5, 6])
        >>> x.bitwise_or(3)
        tensor([7, 7])
        """
        return binary(e.Or(), self, other)

    def bitwise_xor(self, other: ComparisonTensor | Number) -> Self:
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

    def bitwise_left_shift(self, other: ComparisonTensor | Number) -> Self:
        """self << other; 0 for shifts below 0 and beyond the width. Raises DTypeError for bools and floats.

        >>> sg.tensor([1, 3]).bitwise_left_shift(2)
        tensor([ 4, 12])
        """
        return binary(e.ShiftLeft(), self, other)

    def bitwise_right_shift(self, other: ComparisonTensor | Number) -> Self:
        """self >> other; negative numbers stay negative, and shifts below 0 or beyond the width leave the sign. Raises DTypeError for bools and
        floats.

        >>> sg.tensor([12, -8]).bitwise_right_shift(2)
        tensor([ 3, -2])
        """
        return binary(e.ShiftRight(), self, other)

    def __lshift__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("bitwise_left_shift", self, other)

    def __rshift__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("bitwise_right_shift", self, other)

    def __rlshift__(self, other: Number) -> Self:
        return apply_reflected("bitwise_left_shift", self, other)

    def __rrshift__(self, other: Number) -> Self:
        return apply_reflected("bitwise_right_shift", self, other)

    def __and__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("bitwise_and", self, other)

    def __or__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("bitwise_or", self, other)

    def __xor__(self, other: ComparisonTensor | Number) -> Self:
        return apply_operator("bitwise_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Self:
        return wrap(make(e.Not(), self._node))

    def where(self, condition: ComparisonTensor, other: ComparisonTensor | Number) -> Self:
        """self if the condition holds, else `other`, elementwise; the three broadcast. Raises DTypeError for a condition that is
        not bool.

        >>> x = sg.tensor([1.0, -2.0])
        >>> x.where(x > 0, 0.0)
        tensor([1., 0.])
        """
        return where(condition, self, other)

    def masked_fill(self, mask: ComparisonTensor, value: ComparisonTensor | Number) -> Self:
        """self, with `value`, a number or a tensor of shape (), where the mask is true; in the dtype of self. mask:
        bool, broadcasts.

        >>> x = sg.tensor([1.0, 2.0, 3.0])
        >>> x.masked_fill(x > 1.5, 0.0)
        tensor([1., 0., 0.])
        """
        if isinstance(value, TensorBase) and value.ndim:
            raise ShapeError(f"[masked_fill] value must be a number or a tensor of shape (), got {tuple(value.shape)}.")
        if mask.dtype is not bool_:
            raise DTypeError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype.name}")
        check_fits(value, self.dtype)
        return where(mask, value, self).to(dtype=self.dtype)


# operators by method name; the methods here are not yet wrapped in argument checks
OPERATORS.update(
    {
        "bitwise_and": ("&", ComparisonTensor.bitwise_and),
        "bitwise_or": ("|", ComparisonTensor.bitwise_or),
        "bitwise_xor": ("^", ComparisonTensor.bitwise_xor),
        "bitwise_left_shift": ("<<", ComparisonTensor.bitwise_left_shift),
        "bitwise_right_shift": (">>", ComparisonTensor.bitwise_right_shift),
        "eq": ("==", ComparisonTensor.eq),
        "ne": ("!=", ComparisonTensor.ne),
        "lt": ("<", ComparisonTensor.lt),
        "le": ("<=", ComparisonTensor.le),
        "gt": (">", ComparisonTensor.gt),
        "ge": (">=", ComparisonTensor.ge),
    }
)
REFLECTED.update(
    {
        "bitwise_left_shift": lambda a, b: binary(e.ShiftLeft(), a, b),
        "bitwise_right_shift": lambda a, b: binary(e.ShiftRight(), a, b),
    }
)


def _truth(x: ComparisonTensor) -> Node:
    return x._node if x.dtype is bool_ else make(e.NotEqual(), x._node, build.like(x._node, 0))


def where(condition: ComparisonTensor, a: Any, b: Any) -> Any:
    """a if the condition holds, else b, elementwise; the three broadcast, dtypes of a and b are promoted.

    A condition of uint8 holds where it is not 0, with a warning. Raises DTypeError for one of another dtype, ShapeError if the
    shapes do not broadcast.

    >>> sg.where(sg.tensor([True, False]), sg.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    for name, value in (("input", a), ("other", b)):
        if not isinstance(value, OPERANDS):
            refuse("where", name, value, "Tensor or Number")
    if condition.dtype is uint8:
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated. Hint: .bool() it.", stacklevel=2
        )
        condition = condition != 0
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
