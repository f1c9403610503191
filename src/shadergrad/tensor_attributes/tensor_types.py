"""Tensors by the names of their types: FloatTensor and its like, the default dtype, `x.type()`, `x.half()`."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..arguments import checked
from ..dtypes import DType, bool_, default_dtype, float16, float32, float64, int32, int64, parse_dtype, uint8
from ..errors import DeviceError, DTypeError
from ..tensor import Tensor, tensor
from ..tensor.placement import has_stand_in, host_device
from ..tensor.public import constructed
from .installation import install_methods


class TensorType(type):
    """The class of FloatTensor and its like: a call makes a tensor of the type, and isinstance asks whether one is."""

    dtype: DType
    device: str | None

    def __call__(cls, *data: Any) -> Tensor:
        values, kind = constructed(cls.__name__, data, cls.dtype)
        if isinstance(values, Tensor):
            if values.dtype is not cls.dtype:
                raise DTypeError(
                    f"{cls.__name__}(): a tensor of {cls.dtype.name} is wanted, not {values.dtype.name}. Hint: x.to()."
                )
            values = values.detach()
        return tensor(values, dtype=kind, device=cls.device or host_device())

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and _lies_at(instance, cls.device)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _lies_at(x: Tensor, device: str | None) -> bool:
    return (x.device == "cpu") if device is None else (x.device != "cpu")


def tensor_type(name: str, kind: DType, device: str | None = None) -> TensorType:
    """A constructor by the name of a type: of the cpu device, or of a device that `device` names, as torch.cuda.FloatTensor."""
    module = "torch" if device is None else f"torch.{device}"
    example = f"""

>>> sg.{name}([1, 0]).dtype
shadergrad.{kind.name}
"""
    if device is not None:
        example = f"\n\n>>> sg.{device}.{name}.__name__\n'{name}'\n"
    where = "the cpu device" if device is None else f"the device that {device!r} means"
    return TensorType(
        name,
        (),
        {
            "__doc__": f"A tensor of {kind.name} on {where}: {name}(values), or {name}(2, 3) of zeros by sizes."
            + example,
            "__module__": module,
            "dtype": kind,
            "device": device,
        },
    )


TYPES = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "LongTensor": int64,
    "IntTensor": int32,
    "ShortTensor": dtypes.int16,
    "CharTensor": dtypes.int8,
    "ByteTensor": uint8,
    "BoolTensor": bool_,
}
FloatTensor = tensor_type("FloatTensor", float32)
DoubleTensor = tensor_type("DoubleTensor", float64)
HalfTensor = tensor_type("HalfTensor", float16)
BFloat16Tensor = tensor_type("BFloat16Tensor", dtypes.bfloat16)
LongTensor = tensor_type("LongTensor", int64)
IntTensor = tensor_type("IntTensor", int32)
ShortTensor = tensor_type("ShortTensor", dtypes.int16)
CharTensor = tensor_type("CharTensor", dtypes.int8)
ByteTensor = tensor_type("ByteTensor", uint8)
BoolTensor = tensor_type("BoolTensor", bool_)


def _kind(t: Any) -> DType:
    """The dtype of a constructor, or of its name."""
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    last = name.rpartition(".")[2]
    return TYPES[last] if last in TYPES else parse_dtype(t)


def _device_of(t: Any) -> str | None:
    """The device that a constructor, or its name, says: None where it is a dtype, which says none."""
    if isinstance(t, TensorType):
        return t.device or "cpu"
    if isinstance(t, str) and t.endswith("Tensor"):
        if ".cuda." in t and not has_stand_in("cuda"):
            raise DeviceError(f"[type] {t} is of CUDA, which is not there. Hint: x.to('webgpu').")
        return "cuda" if ".cuda." in t else "cpu"
    return None


@checked
def set_default_dtype(d: Any) -> None:
    """The floating dtype of tensors of Python floats, of zeros, ones, rand and their like: initially float32.

    float64 is on the cpu device alone. Raises DTypeError for a dtype that is not floating.

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
        return self.to(device=_device_of(dtype), dtype=_kind(dtype))
    name = next((n for n, d in TYPES.items() if d is self.dtype), f"{self.dtype.name.capitalize()}Tensor")
    return f"torch.cuda.{name}" if self.device != "cpu" and has_stand_in("cuda") else f"torch.{name}"


def _half(self: Tensor) -> Tensor:
    """As float16, rounded to nearest even.

    >>> sg.ones(2).half().dtype
    shadergrad.float16
    """
    return self.to(dtype=float16)


def _bfloat16(self: Tensor) -> Tensor:
    """As bfloat16, rounded to nearest even.

    >>> sg.ones(2).bfloat16().dtype
    shadergrad.bfloat16
    """
    return self.to(dtype=dtypes.bfloat16)


def _byte(self: Tensor) -> Tensor:
    """As uint8.

    >>> sg.ones(2).byte().dtype
    shadergrad.uint8
    """
    return self.to(dtype=uint8)


def _char(self: Tensor) -> Tensor:
    """As int8.

    >>> sg.ones(2).char().dtype
    shadergrad.int8
    """
    return self.to(dtype=dtypes.int8)


def _short(self: Tensor) -> Tensor:
    """As int16.

    >>> sg.ones(2).short().dtype
    shadergrad.int16
    """
    return self.to(dtype=dtypes.int16)


def _new(self: Tensor, *args: Any) -> Tensor:
    """A tensor of this dtype and device, of zeros by sizes, or of values: x.new(2, 3), x.new([1, 2]).

    >>> sg.ones(2).new(2, 3).shape
    shadergrad.Size([2, 3])
    """
    values, kind = constructed("new", args, self.dtype)
    return tensor(values.detach() if isinstance(values, Tensor) else values, dtype=kind, device=self.device)


install_methods({
    "type": _type, "half": _half, "bfloat16": _bfloat16, "byte": _byte, "char": _char, "short": _short, "new": _new,
})  # fmt: skip
