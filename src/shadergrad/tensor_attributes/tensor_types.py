"""Tensors by the names of their types: FloatTensor and its like, the default dtype, `x.type()`, `x.half()`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..arguments import checked
from ..dtypes import DType, bool_, default_dtype, float16, float32, float64, int32, int64, parse_dtype, uint8
from ..errors import DeviceError
from ..tensor import Tensor, sizes_of, zeros
from .installation import install_methods


def _constructor(name: str, kind: DType) -> Any:
    def make(*data: Any) -> Tensor:
        if all(isinstance(d, int) and not isinstance(d, bool) for d in data):
            return zeros(*sizes_of(data, name), dtype=kind, device="cpu")
        (values,) = data
        return Tensor(
            np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values), dtype=kind, device="cpu"
        )

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""A tensor of {kind.name} on the cpu device: {name}(values), or {name}(2, 3) of zeros by sizes.

>>> sg.{name}([1, 0]).dtype
shadergrad.{kind.name}
"""
    return checked(make, name)


FloatTensor = _constructor("FloatTensor", float32)
DoubleTensor = _constructor("DoubleTensor", float64)
HalfTensor = _constructor("HalfTensor", float16)
LongTensor = _constructor("LongTensor", int64)
IntTensor = _constructor("IntTensor", int32)
ByteTensor = _constructor("ByteTensor", uint8)
BoolTensor = _constructor("BoolTensor", bool_)
TYPES = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "LongTensor": int64,
    "IntTensor": int32,
    "ByteTensor": uint8,
    "BoolTensor": bool_,
}


def _kind(t: Any) -> DType:
    """The dtype of a constructor, or of its name."""
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    last = name.rpartition(".")[2]
    if ".cuda." in name:
        raise DeviceError(f"[type] {name} is of CUDA, which is not there. Hint: x.to('webgpu').")
    return TYPES[last] if last in TYPES else parse_dtype(t)


@checked
def set_default_dtype(d: Any) -> None:
    """The floating dtype of tensors of Python floats, of zeros, ones, rand and their like: float32 or float64.

    float64 is on the cpu device alone. Raises DTypeError for another dtype.

    >>> sg.set_default_dtype(sg.float32)
    """
    dtypes.set_default(parse_dtype(d))


@checked
def get_default_dtype() -> DType:
    """The floating dtype where none is said.

    >>> sg.get_default_dtype()
    shadergrad.float32
    """
    return default_dtype()


@checked
def set_default_tensor_type(t: Any) -> None:
    """The default dtype by the name of a constructor: FloatTensor or DoubleTensor.

    >>> sg.set_default_tensor_type("torch.FloatTensor")
    """
    dtypes.set_default(_kind(t))


@checked
def typename(obj: object) -> str:
    """The type of an object with its module; of a tensor as `x.type()`.

    >>> sg.typename(sg.ones(2))
    'torch.FloatTensor'
    """
    return obj.type() if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__name__}"  # type: ignore[attr-defined]


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, as 'torch.FloatTensor'; or the tensor in another dtype, named so or by a dtype.

    >>> sg.ones(2).type(), sg.ones(2).type("torch.LongTensor").dtype
    ('torch.FloatTensor', shadergrad.int64)
    """
    if dtype is not None:
        return self.to(dtype=_kind(dtype))
    name = next((n for n, d in TYPES.items() if d is self.dtype), f"{self.dtype.name.capitalize()}Tensor")
    return f"torch.{name}"


def _half(self: Tensor) -> Tensor:
    """As float16, which is on the cpu device only: DTypeError elsewhere.

    >>> sg.ones(2).half().dtype
    shadergrad.float16
    """
    return self.to(dtype=float16)


def _bfloat16(self: Tensor) -> Tensor:
    """There is no bfloat16: raises DTypeError.

    >>> try:
    ...     sg.ones(2).bfloat16()
    ... except sg.DTypeError as error:
    ...     print(error)
    bfloat16 is not available: no shader has it, nor NumPy. Hint: float32, which is exact there.
    """
    return self.to(dtype=dtypes.bfloat16)


def _byte(self: Tensor) -> Tensor:
    """As uint8.

    >>> sg.ones(2).byte().dtype
    shadergrad.uint8
    """
    return self.to(dtype=uint8)


def _new(self: Tensor, *args: Any) -> Tensor:
    """A tensor of this dtype and device, of zeros by sizes, or of values: x.new(2, 3), x.new([1, 2]).

    >>> sg.ones(2).new(2, 3).shape
    shadergrad.Size([2, 3])
    """
    if args and not all(isinstance(a, int) for a in args):
        return Tensor(args[0], dtype=self.dtype, device=self.device)
    return self.new_zeros(*args) if args else self.new_zeros(0)


install_methods({"type": _type, "half": _half, "bfloat16": _bfloat16, "byte": _byte, "new": _new})
