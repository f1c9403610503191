"""Further elementwise methods: signs, exponents, neighbouring floats, common divisors, extrema that ignore NaN."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self, TypeVar

from ..dtypes import bool_, default_dtype, int32
from ..errors import DTypeError
from ..graph import build
from ..graph.node import make
from ..primitives import elementwise as e
from ..primitives.complex import ImaginaryPart
from .arithmetic import check_alpha, scaled
from .base import TensorBase
from .coercion import Number, binary, floating
from .comparison import where
from .elementwise import ElementwiseTensor
from .handle import wrap
from .placement import widest_float

T = TypeVar("T", bound="NumericTensor")


class MantissaAndExponent(NamedTuple):
    """The result of frexp."""

    mantissa: Any
    exponent: Any


class NumericTensor(ElementwiseTensor):
    """Further elementwise methods: signs, exponents, neighbouring floats, common divisors, extrema that ignore NaN."""

    __slots__ = ()

    def rsub(self, other: NumericTensor | Number, *, alpha: Number = 1) -> Self:
        """other - alpha * self. Raises DTypeError for bools.

        >>> sg.tensor([1.0, 2.0]).rsub(10)
        tensor([9., 8.])
        """
        if self.dtype is bool_ or isinstance(other, bool) or getattr(other, "dtype", None) is bool_:
            raise DTypeError(
                "Subtraction, the `-` operator, with bools is not supported. Hint: use ^ or logical_xor()."
            )
        check_alpha(alpha, self, other)
        return binary(e.Sub(), other, self) if alpha == 1 else scaled(other, self, alpha, e.Sub())

    def copysign(self, other: NumericTensor | Number) -> Self:
        """The magnitude of self with the sign of `other`, -0.0 included; integers give float32.

        Raises DTypeError for complex numbers.

        >>> x = sg.tensor([1.0, -2.0])
        >>> x.copysign(sg.tensor([-0.0, 3.0]))
        tensor([-1.,  2.])
        """
        if (
            self.dtype.is_complex
            or isinstance(other, complex)
            or (isinstance(other, TensorBase) and other.dtype.is_complex)
        ):
            raise DTypeError("copysign() is not defined for complex numbers, which have no sign.")
        if not isinstance(other, TensorBase):
            size = wrap(floating(self)).abs()
            return -size if math.copysign(1.0, other) < 0 else size
        size = wrap(floating(self)).abs()
        return where(other.signbit(), -size, size).to(dtype=_floating_of(self, other))

    def signbit(self) -> Self:
        """Whether the sign bit is set, as bools: for negative numbers and -0.0; False for bools.

        >>> sg.tensor([-1.0, -0.0, 0.0]).signbit()
        tensor([ True,  True, False])
        """
        if self.dtype.category == 2:
            return wrap(make(e.SignBit(), self._node))
        return self.detach() < 0 if self.dtype is not bool_ else self ^ self

    def sgn(self) -> Self:
        """-1, 0 or 1, as `sign`; of complex numbers x / |x|, or 0.

        >>> x = sg.tensor([-3.0, 0.0, 2.0])
        >>> x.sgn()
        tensor([-1.,  0.,  1.])
        >>> sg.tensor([3j, 0.0]).sgn()
        tensor([0.+1.j, 0.+0.j])
        """
        if not self.dtype.is_complex:
            return self.sign()
        size = self.abs()
        zero = size == 0
        return where(zero, 0.0, self / where(zero, 1.0, size))

    def fmax(self, other: NumericTensor) -> Self:
        """The larger of each pair; if one is NaN, the other.

        >>> sg.tensor([1.0, math.nan]).fmax(sg.tensor([3.0, 2.0]))
        tensor([3., 2.])
        """
        return where((self >= other) | other.isnan(), self, other)

    def fmin(self, other: NumericTensor) -> Self:
        """The smaller of each pair; if one is NaN, the other.

        >>> sg.tensor([1.0, math.nan]).fmin(sg.tensor([3.0, 2.0]))
        tensor([1., 2.])
        """
        return where((self <= other) | other.isnan(), self, other)

    def ldexp(self, other: NumericTensor) -> Self:
        """self * 2 ** other; integers give float32.

        >>> x = sg.tensor([1.0, 3.0])
        >>> x.ldexp(sg.tensor([2, 1]))
        tensor([4., 6.])
        """
        power: Any = other
        return self * power.to(dtype=default_dtype() if other.dtype.category < 2 else other.dtype).exp2()

    def frexp(self) -> MantissaAndExponent:
        """(mantissa, exponent) with self = mantissa * 2 ** exponent and 0.5 <= |mantissa| < 1; the exponent int32.

        Raises DTypeError for integers and bools.

        >>> mantissa, exponent = sg.tensor([8.0, -0.75]).frexp()
        >>> mantissa, exponent
        (tensor([ 0.5 , -0.75]), tensor([4, 0]))
        """
        if self.dtype.category != 2:
            raise DTypeError(f"torch.frexp() only supports floating-point dtypes, not {self.dtype.name}")
        exponent = wrap(make(e.Exponent(), self.detach()._node))
        first = (exponent * 0.5).trunc()
        power: Any = 2.0
        mantissa = self / power**first / power ** (exponent - first)
        return MantissaAndExponent(where(self.isfinite(), mantissa, self), exponent.to(dtype=int32))

    def float_power(self, exponent: NumericTensor | Number) -> Self:
        """self ** exponent in float64; in float32 on a GPU, which has no more.

        >>> x = sg.tensor([2.0, 3.0]).double()
        >>> x.float_power(2)
        tensor([4., 9.], dtype=shadergrad.float64)
        """
        widest = widest_float(self._node.device)
        power = exponent.to(dtype=widest) if isinstance(exponent, TensorBase) else exponent
        return self.to(dtype=widest).pow(power)

    def gcd(self, other: NumericTensor) -> Self:
        """The greatest common divisor, of integers; not negative. Raises DTypeError for others.

        >>> x = sg.tensor([12, -8])
        >>> x.gcd(sg.tensor([18, 12]))
        tensor([6, 4])
        """
        return binary(e.Gcd(), self, other)

    def lcm(self, other: NumericTensor) -> Self:
        """The least common multiple, of integers; not negative, 0 where one is 0. Raises DTypeError for others.

        >>> x = sg.tensor([4, -6])
        >>> x.lcm(sg.tensor([6, 8]))
        tensor([12, 24])
        """
        divisor = self.gcd(other)
        return (self.floor_divide(divisor) * other).abs()

    def nextafter(self, other: NumericTensor) -> Self:
        """The next representable number towards `other`. Floating dtypes only.

        >>> x = sg.tensor([0.0])
        >>> x.nextafter(sg.tensor([0.0]))
        tensor([0.])
        >>> float(sg.tensor([1.0]).nextafter(sg.tensor([2.0])).item())
        1.0000001192092896
        """
        return binary(e.NextAfter(), self, other)

    def isreal(self) -> Self:
        """Where the imaginary part is 0, as bools: of real numbers everywhere.

        >>> sg.tensor([1.0, math.nan]).isreal()
        tensor([ True,  True])
        """
        if self.dtype.is_complex:
            return wrap(build.elementwise("Equal", make(ImaginaryPart(), self._node), 0.0))
        return wrap(build.constant(True, bool_, self._node.device, self._node.shape))


def _floating_of(a: Any, b: Any) -> Any:
    """The floating dtype of both, as of a quotient."""
    return (a.detach() / b.detach()).dtype
