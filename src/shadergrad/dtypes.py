"""Element types and PyTorch's promotion rules.

A dtype knows its NumPy type and, where a shader can hold it, its WGSL type. On the GPU an element takes 32 bits: bool
is stored as u32 (WGSL booleans are not host-shareable), uint8 and uint16 as u32 and int8 and int16 as i32 that wrap at their
own bits, and int64 as i32, so that values beyond int32 are refused there. float16 and bfloat16 take 16 bits, two in a u32, and are
computed in float32 (docs/decisions/0029). float64, uint64 and the complex dtypes live on the cpu device only.
The float8 dtypes are names: they have limits (finfo), and tensors without elements.
Promotion: https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import DTypeError


@dataclass(frozen=True, eq=False)
class DType:
    """The type of a tensor's elements, such as sg.float32.

    >>> sg.float32.itemsize, sg.float32.is_floating_point
    (4, True)
    """

    name: str
    category: int  # 0 bool, 1 integer, 2 floating, 3 complex
    rank: int  # order within promotion
    wgsl: str | None  # the value type in shaders; None where they have none
    numpy: Any = field(repr=False)
    itemsize: int = 4  # bytes on the host

    stored: Any = field(default=None, repr=False)  # the NumPy type of its elements in a GPU's memory
    is_half: bool = field(default=False, repr=False)  # whether it is floating in 16 bits, and computed in float32

    def __repr__(self) -> str:
        return f"shadergrad.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (named_dtype, (self.name,))

    @property
    def is_floating_point(self) -> bool:
        """Whether its numbers are floating."""
        return self.category == 2

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return self.category == 3

    @property
    def is_signed(self) -> bool:
        """Whether it holds negative numbers."""
        return self.category >= 2 or (self.category == 1 and self.numpy.kind == "i")

    @property
    def is_small(self) -> bool:
        """Whether it is bool or an integer of fewer than 32 bits, whose sums are int32."""
        return self.category < 2 and self.itemsize < 4

    @property
    def is_narrow(self) -> bool:
        """Whether it is an integer of up to 32 bits."""
        return self.category == 1 and self.itemsize <= 4

    @property
    def bits(self) -> int:
        """The bits at which its values wrap."""
        return 8 * self.itemsize

    @property
    def real(self) -> DType:
        """The dtype of the real and the imaginary part."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def complex(self) -> DType:
        """The complex dtype whose parts hold this one."""
        return complex128 if self.name in ("float64", "complex128") else complex64

    @property
    def is_position(self) -> bool:
        """Whether positions may be of it: int32 and int64. Those of uint8 are masks in PyTorch, others refused."""
        return self.name in ("int32", "int64")

    def takes(self, other: DType) -> bool:
        """Whether values of another dtype may be written where positions are data: of the same one; of int64 as int32 and back, for
        where PyTorch's integers are int64 unless told, int32 may stand here."""
        return self is other or (self.is_position and other.is_position)

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest value of an integer dtype."""
        low = -(1 << self.bits - 1) if self.is_signed else 0
        return low, low + (1 << self.bits) - 1

    @property
    def stored_range(self) -> tuple[int, int]:
        """The least and the largest value of an integer dtype that a GPU can store."""
        limits = np.iinfo(self.stored)
        low, high = self.range
        return max(low, int(limits.min)), min(high, int(limits.max))

    def wrapped(self, value: int) -> int:
        """An integer as this dtype holds it."""
        low, high = self.range
        return (value - low) % (high - low + 1) + low

    def narrowed(self, text: str, vector: bool = False) -> str:
        """A WGSL expression of a value as this dtype holds it: integers of 8 and 16 bits, which shaders hold in 32, wrap."""
        if self.category != 1 or not self.is_small:
            return text
        if self.wgsl == "u32":
            mask = f"{(1 << self.bits) - 1}u"
            return f"(({text}) & {f'vec4<u32>({mask})' if vector else mask})"
        by = f"{32 - self.bits}u"
        by = f"vec4<u32>({by})" if vector else by
        return f"((({text}) << {by}) >> {by})"  # of i32 the shift to the right keeps the sign

    def holding(self, values: Any) -> np.ndarray:
        """Values as a NumPy array, rounded to this dtype. bfloat16 uses float32 arrays, with values rounded to nearest even."""
        with np.errstate(over="ignore"):  # values beyond float16's range become infinite
            if self.name != "bfloat16":
                return np.asarray(values, self.numpy)
            return _rounded_to_bfloat16(np.asarray(values, np.float32))

    def half_below(self, value: float) -> float:
        """The largest number of a dtype of halves that is below a value."""
        near = float(self.holding(value))
        if near < value:
            return near
        bits = int(self.encoded(np.asarray(near))[0])
        bits = 0x8001 if near == 0 else bits - 1 if near > 0 else bits + 1
        return float(self.decoded(np.array([bits], np.uint16))[0])

    def encoded(self, array: np.ndarray) -> np.ndarray:
        """The bits of halves, row by row, in an even number of uint16: two are a word of a GPU's memory."""
        flat = np.ascontiguousarray(self.holding(array)).reshape(-1)
        bits = (
            flat.view(np.uint16)
            if self.name == "float16"
            else (flat.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        )
        return np.append(bits, np.uint16(0)) if bits.size % 2 else bits

    def decoded(self, bits: np.ndarray) -> np.ndarray:
        """The halves of these bits (uint16), as a NumPy array."""
        if self.name == "float16":
            return bits.view(np.float16)
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def refused(self, value: int, where: str) -> DTypeError:
        """The error of an integer that a GPU cannot store."""
        low, high = self.stored_range
        return DTypeError(
            f"[{where}] {value} is beyond what a GPU stores of {self.name}, which is 32 bits there: {low} to {high}. "
            "Hint: keep such numbers on the cpu device, or take them as float32."
        )


# libraries take dataclasses apart wherever they meet one, and a dtype is one value
delattr(DType, "__dataclass_fields__")

_f32, _i32, _u32 = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.uint32)
bool_ = DType("bool", 0, 0, "bool", np.dtype(np.bool_), 1, _u32)
uint8 = DType("uint8", 1, 1, "u32", np.dtype(np.uint8), 1, _u32)
int8 = DType("int8", 1, 2, "i32", np.dtype(np.int8), 1, _i32)
uint16 = DType("uint16", 1, 3, "u32", np.dtype(np.uint16), 2, _u32)
int16 = DType("int16", 1, 4, "i32", np.dtype(np.int16), 2, _i32)
int32 = DType("int32", 1, 5, "i32", _i32, 4, _i32)
uint32 = DType("uint32", 1, 6, "u32", _u32, 4, _u32)
int64 = DType("int64", 1, 7, "i32", np.dtype(np.int64), 8, _i32)
uint64 = DType("uint64", 1, 8, None, np.dtype(np.uint64), 8)
# NumPy has no bfloat16: on the host its values are in float32 arrays
bfloat16 = DType("bfloat16", 2, 9, "f32", _f32, 2, np.dtype(np.uint16), True)
float16 = DType("float16", 2, 10, "f32", np.dtype(np.float16), 2, np.dtype(np.uint16), True)
float32 = DType("float32", 2, 11, "f32", _f32, 4, _f32)
float64 = DType("float64", 2, 12, None, np.dtype(np.float64), 8)
complex64 = DType("complex64", 3, 13, None, np.dtype(np.complex64), 8)
complex128 = DType("complex128", 3, 14, None, np.dtype(np.complex128), 16)


class NamedDType(DType):
    """A dtype that programs name and no tensor's elements have. Tensors without elements may have it: their NumPy arrays are
    float32."""


float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu = (
    NamedDType(f"float8_{kind}", 2, 9, None, _f32, 1) for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
)
_LIMITS = {  # the distance from 1 to the next number, the largest, the least that is normal: what NumPy cannot say
    "bfloat16": (2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
    "float8_e4m3fn": (2.0**-3, 448.0, 2.0**-6),
    "float8_e4m3fnuz": (2.0**-3, 240.0, 2.0**-7),
    "float8_e5m2": (2.0**-2, 57344.0, 2.0**-14),
    "float8_e5m2fnuz": (2.0**-3, 57344.0, 2.0**-15),  # as PyTorch says; its numbers are 2 ** -2 apart
    "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127),
}


@dataclass(frozen=True)
class FloatLimits:
    """What finfo gives: the limits of a floating dtype."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    resolution: float
    dtype: str

    @property
    def smallest_normal(self) -> float:
        """The least positive number with all its bits, as `tiny`."""
        return self.tiny

    @classmethod
    def of(cls, dtype: DType) -> FloatLimits:
        """Those of a dtype."""
        if dtype.name in _LIMITS:
            eps, largest, tiny = _LIMITS[dtype.name]
        else:
            known = np.finfo(dtype.numpy)
            eps, largest, tiny = float(known.eps), float(known.max), float(known.tiny)
        resolution = 10.0 ** -math.floor(-math.log10(eps))
        least = tiny if dtype is float8_e8m0fnu else -largest  # which has no sign
        return cls(dtype.bits, eps, largest, least, tiny, resolution, dtype.name)


@dataclass(frozen=True)
class IntegerLimits:
    """What iinfo gives: the limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: str

    @classmethod
    def of(cls, dtype: DType) -> IntegerLimits:
        """Those of a dtype."""
        low, high = dtype.range
        return cls(dtype.bits, high, low, dtype.name)


NAMES_ONLY = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)

ALL = (
    bool_, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128,
)  # fmt: skip
_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL if d is not bfloat16}


class _Met:
    halves: bool = False


met = _Met()  # whether a program ever asked for halves: no tensor has them before, and operations need not look


def parse_dtype(value: DType | str | type | np.dtype) -> DType:
    """The DType meant by a DType, its name, a NumPy type, or Python's bool, int, float and complex: those of 64 bits and more, as in
    PyTorch."""
    if isinstance(value, DType):
        if type(value) is NamedDType:
            raise unavailable(value)
        met.halves = met.halves or value.is_half
        return value
    if value is bool:
        return bool_
    if value is int:
        return int64
    if value is float:
        return float64
    if value is complex:
        return complex128
    if isinstance(value, str) and value in _BY_NAME:
        return parse_dtype(_BY_NAME[value])
    try:
        return parse_dtype(_BY_NUMPY[np.dtype(value)])
    except (TypeError, KeyError):
        raise DTypeError(f"unknown dtype {value!r}. Known: {', '.join(_BY_NAME)}.") from None


def named_dtype(name: str) -> DType:
    """The dtype of a name, also of a dtype that only pickles and plans contain. Raises DTypeError."""
    return next((d for d in NAMES_ONLY if d.name == name), None) or parse_dtype(name)


def unavailable(dtype: DType) -> DTypeError:
    """The error of a dtype that is a name only."""
    return DTypeError(
        f"{dtype.name} is not available: no shader has it, nor NumPy. Hint: bfloat16 or float16, or float32, which holds all its numbers."
    )


def of_scalar(value: bool | int | float | complex) -> DType:
    """The default dtype of a Python number: bool, int32, float32 or complex64."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, complex | np.complexfloating):
        return _Default.floating.complex
    return int32 if isinstance(value, (int, np.integer)) else _Default.floating


def _rounded_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """float32 numbers with the 16 bits of bfloat16, to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32)).reshape(x.shape)


class _Default:
    floating: DType = float32


def default_dtype() -> DType:
    """The floating dtype where none is said."""
    return _Default.floating


def set_default(dtype: DType) -> None:
    """Raises DTypeError for a dtype that is not floating."""
    if not dtype.is_floating_point:
        raise DTypeError(f"the default dtype is float32 or another floating one, not {dtype.name}.")
    _Default.floating = dtype


def promote(a: DType, b: DType) -> DType:
    """The dtype that holds both."""
    if a is b:
        return a
    if float64 in (a, b) and 3 in (a.category, b.category):
        return complex128
    if a.is_half and b.is_half:
        return float32
    low, high = (a, b) if a.rank < b.rank else (b, a)
    if low.category == high.category == 1:
        if low is uint8 and high is int8:
            return int16
        barred = (uint16, uint64)
        if low in barred or high in barred:
            raise DTypeError(
                f"promotion of {low.name} and {high.name} is not defined, as in PyTorch. Hint: .to() one of both, or .int()."
            )
    return high


def promote_operands(operands: list[tuple[DType, int]]) -> DType:
    """PyTorch's result type of operands given as (dtype, priority).

    priority: 2 tensor with axes, 1 zero-dimensional tensor, 0 Python number. An operand of lower priority only
    counts when its category (bool < integer < floating) is above that of all operands of higher priority.
    """
    result: DType | None = None
    for priority in (2, 1, 0):
        group = [d for d, p in operands if p == priority]
        if not group:
            continue
        dtype = group[0]
        for d in group[1:]:
            dtype = promote(dtype, d)
        if result is None:
            result = dtype
        elif dtype.category > result.category:  # a complex number beside float64 is complex128
            result = promote(result, dtype) if result.category == 2 else dtype
    assert result is not None
    return result
