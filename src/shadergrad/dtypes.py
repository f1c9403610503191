"""Element types and PyTorch's promotion rules.

A dtype knows its NumPy type and, where a shader can hold it, its WGSL type. On the GPU every element takes 32 bits: bool
is stored as u32 (WGSL booleans are not host-shareable), uint8 as u32 of 8 bits, and int64 as i32, so that values beyond
int32 are refused there. float64, float16 and the complex dtypes live on the cpu device only.
Promotion: https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

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

    def __repr__(self) -> str:
        return f"shadergrad.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (parse_dtype, (self.name,))

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
        return self.name not in ("bool", "uint8", "uint32")

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
        """Whether positions may be of it: integers but uint8, whose tensors PyTorch takes for masks, or refuses."""
        return self.category == 1 and self is not uint8

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest value of an integer dtype."""
        limits = np.iinfo(self.numpy)
        return int(limits.min), int(limits.max)

    @property
    def stored_range(self) -> tuple[int, int]:
        """The least and the largest value of an integer dtype that a GPU can store."""
        limits = np.iinfo(self.stored)
        low, high = self.range
        return max(low, int(limits.min)), min(high, int(limits.max))

    def refused(self, value: int, where: str) -> DTypeError:
        """The error of an integer that a GPU cannot store."""
        low, high = self.stored_range
        return DTypeError(
            f"[{where}] {value} is beyond what a GPU stores of {self.name}, which is 32 bits there: {low} to {high}. "
            "Hint: keep such numbers on the cpu device, or take them as float32."
        )


_f32, _i32, _u32 = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.uint32)
bool_ = DType("bool", 0, 0, "bool", np.dtype(np.bool_), 1, _u32)
uint8 = DType("uint8", 1, 1, "u32", np.dtype(np.uint8), 1, _u32)
int32 = DType("int32", 1, 2, "i32", _i32, 4, _i32)
uint32 = DType("uint32", 1, 3, "u32", _u32, 4, _u32)
int64 = DType("int64", 1, 4, "i32", np.dtype(np.int64), 8, _i32)
float16 = DType("float16", 2, 5, None, np.dtype(np.float16), 2)
float32 = DType("float32", 2, 6, "f32", _f32, 4, _f32)
float64 = DType("float64", 2, 7, None, np.dtype(np.float64), 8)
complex64 = DType("complex64", 3, 8, None, np.dtype(np.complex64), 8)
complex128 = DType("complex128", 3, 9, None, np.dtype(np.complex128), 16)

bfloat16 = DType("bfloat16", 2, 5, None, None, 2)  # a name that programs ask for; parse_dtype refuses it

ALL = (bool_, uint8, int32, uint32, int64, float16, float32, float64, complex64, complex128)
_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}


def parse_dtype(value: DType | str | type | np.dtype) -> DType:
    """The DType meant by a DType, its name, a NumPy type, or Python's bool, int, float."""
    if isinstance(value, DType):
        if value.numpy is None:
            raise DTypeError(
                f"{value.name} is not available: no shader has it, nor NumPy. Hint: float32, which is exact there."
            )
        return value
    if value is bool:
        return bool_
    if value is int:
        return int32
    if value is float:
        return _Default.floating
    if value is complex:
        return complex64
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    try:
        return _BY_NUMPY[np.dtype(value)]
    except (TypeError, KeyError):
        raise DTypeError(f"unknown dtype {value!r}. Known: {', '.join(_BY_NAME)}.") from None


def of_scalar(value: bool | int | float | complex) -> DType:
    """The default dtype of a Python number: bool, int32, float32 or complex64."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, complex | np.complexfloating):
        return _Default.floating.complex
    return int32 if isinstance(value, (int, np.integer)) else _Default.floating


class _Default:
    floating: DType = float32


def default_dtype() -> DType:
    """The floating dtype where none is said."""
    return _Default.floating


def set_default(dtype: DType) -> None:
    """Raises DTypeError for what is not float32 or float64."""
    if dtype not in (float32, float64):
        raise DTypeError(f"the default dtype is float32 or float64, not {dtype.name}.")
    _Default.floating = dtype


def promote(a: DType, b: DType) -> DType:
    """The dtype that holds both."""
    if float64 in (a, b) and 3 in (a.category, b.category):
        return complex128
    return a if a is b or a.rank >= b.rank else b


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
