"""Device names, the default device, and the dtypes that each device supports."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ..arguments import checked, refuse
from ..dtypes import DType, FloatLimits, bfloat16, float16, float32, float64, int64
from ..errors import ArgumentError, DTypeError
from ..runtime.device import canonical_name, get_device, standing_for


class device(str):
    """A device name such as 'cpu', 'webgpu' or 'webgpu:1', with `type` and `index`; the device is opened on first use.

    Within `with sg.device(...):` it is the default device. PyTorch's other devices, such as 'cuda' and 'meta',
    may be named; using them for a tensor raises DeviceError.

    >>> sg.device("webgpu:1").type, sg.device("webgpu:1").index
    ('webgpu', 1)
    """

    def __new__(cls, name: str = "", index: int | None = None, *, type: str = "") -> device:
        name = type if name == "" and type else name
        if index is not None:
            name = f"{name}:{index}"
        return super().__new__(cls, name if _is_other_backend(name) else _checked_name(name))

    def __enter__(self) -> device:
        """Make it the default device within `with`."""
        _Defaults.before.append(_Defaults.device)
        set_default_device(str(self))
        return self

    def __exit__(self, *_: object) -> None:
        _Defaults.device = _Defaults.before.pop()

    @property
    def type(self) -> str:
        """The name without its number.

        >>> sg.device("webgpu:1").type
        'webgpu'
        """
        return self.partition(":")[0]

    @property
    def index(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]  # PyTorch's attribute hides str.index
        """Its number, 0 if the name has none (PyTorch: None).

        >>> sg.device("webgpu:1").index
        1
        """
        return int(self.partition(":")[2] or 0)


@cache
def named_device(name: str) -> device:
    """The device for the name in a node."""
    return device(name)


# PyTorch's devices, which programs may name before they check whether they are available
OTHER_BACKENDS = re.compile(r"(cuda|meta|mps|xpu|mtia|hpu|npu|mlu|xla|ipu|hip|vulkan|mkldnn)(:\d+)?")


def _is_other_backend(name: object) -> bool:
    kind = OTHER_BACKENDS.fullmatch(name) if isinstance(name, str) else None
    return kind is not None and standing_for(kind[1]) is None


def _checked_name(name: object) -> str:
    if isinstance(name, int) and not isinstance(name, bool) and standing_for("cuda") is not None:
        name = f"cuda:{name}"  # PyTorch's numbers are those of GPUs
    return canonical_name(name) if isinstance(name, str) else refuse("device", "device", name, "str")


def has_stand_in(kind: str) -> bool:
    """Whether a device is mapped to another library's name, such as "cuda" under `shadergrad run --device`."""
    return standing_for(kind) is not None


class _Defaults:
    device: str = "cpu"
    everything: bool = False  # whether it also gets tensors that PyTorch makes on the CPU despite a default device
    before: list[str] = []  # noqa: RUF012  # the devices of the enclosing contexts


class _Here(threading.local):
    """The temporary replacement of the default device in one thread."""

    device: str | None = None


_here = _Here()


@contextmanager
def standing_in(source: str, name: str) -> Iterator[None]:
    """A context in which, in this thread, the default device is `name` if it was `source`."""
    before = _here.device
    if resolve_device(None) == source:
        _here.device = name
    try:
        yield
    finally:
        _here.device = before


@checked
def set_default_device(name: str | None) -> None:
    """Set the device of tensors that are created without one. Initially, and with None again, 'cpu'. Raises DeviceError for a device
    that does not exist.

    >>> sg.set_default_device("cpu")
    """
    name = "cpu" if name is None else name
    get_device(name)
    _Defaults.device = canonical_name(name)


@checked
def get_default_device() -> device:
    """The device of tensors that are created without one.

    >>> sg.get_default_device()
    'cpu'
    """
    return device(resolve_device(None))


def resolve_device(name: object | None, dtype: DType | None = None) -> str:
    """The device of a name, or the default one. If everything is on one device (`make_everything_on`), dtypes that it lacks
    are on the cpu device.
    """
    if name is not None:
        return _checked_name(name)
    return place_of(dtype, _here.device or _Defaults.device)


def place_of(dtype: DType | None, default: str) -> str:
    """The device of a new tensor of a dtype on a default device: that one, or, if everything is on one device that lacks the
    dtype, the cpu device.
    """
    return "cpu" if _Defaults.everything and dtype is not None and not _has(default, dtype) else default


def make_everything_on(name: str) -> None:
    """Create all tensors without an explicit device on one device: also those that PyTorch creates on the CPU regardless of the default
    device, as from_numpy does. For programs that do not mention devices.
    """
    set_default_device(name)
    _Defaults.everything = True


def host_device() -> str | None:
    """The device of tensors that PyTorch creates on the CPU; None for the default device."""
    return None if _Defaults.everything else "cpu"


def device_for(dtype: DType, present: str, now: DType) -> str:
    """The device of the cast of a tensor on `present`: the same, unless everything is on one device that lacks a dtype."""
    if not _Defaults.everything or dtype is now:
        return present
    default = resolve_device(None)
    if present == default:
        return present if _has(present, dtype) else "cpu"
    return default if present == "cpu" and not _has(default, now) and _has(default, dtype) else present


def _has(device_name: str, dtype: DType) -> bool:
    return dtype.wgsl is not None or get_device(device_name).target.language != "wgsl"


def check_storable(dtype: DType, device_name: str) -> None:
    """Raises DTypeError if the device lacks this dtype."""
    if not _has(device_name, dtype):
        if dtype.is_complex:
            raise DTypeError(
                f"{dtype.name} is not available on {device_name}. Hint: compute with it on the cpu device (x.cpu(), which "
                "gradients go through), or keep real and imaginary parts as pairs of floats (view_as_real)."
            )
        raise DTypeError(f"{dtype.name} is not available on {device_name}. Hint: use float32 there, or the cpu device.")


def check_integer(what: str, value: Any, dtype: DType, device_name: str) -> None:
    """Raises DTypeError for an int64 that a GPU cannot store; other numbers are checked when constants are made."""
    if dtype is int64 and math.isfinite(value):
        low, high = integer_range(dtype, device_name)
        if not low <= value <= high and dtype.range[0] <= value <= dtype.range[1]:
            raise dtype.refused(int(value), what)


LARGEST = {dtype: FloatLimits.of(dtype).max for dtype in (bfloat16, float16, float32)}


def check_fits(value: Any, dtype: DType) -> None:
    """Raises ArgumentError for a finite number beyond the range of a floating dtype with which a tensor is to be filled or limited,
    and DTypeError for a complex number with a real dtype. Infinite numbers fit; those of integers are checked when constants
    are made.
    """
    if isinstance(value, complex | np.complexfloating) and not dtype.is_complex:
        raise DTypeError(f"complex numbers are no {dtype.name}. Hint: take .real or .imag, or dtype=sg.complex64.")
    largest = LARGEST.get(dtype)
    if largest is not None and isinstance(value, int | float) and abs(value) > largest and abs(value) != math.inf:
        raise ArgumentError(
            f"value {value} cannot be converted to {dtype.name} without overflow: the largest is {largest:.8g}. "
            f"Hint: finfo({dtype.name}).min or .max, or float('inf')."
        )


def widest_float(device_name: str) -> DType:
    """float64; on a GPU, which lacks it, float32."""
    return float32 if get_device(device_name).target.language == "wgsl" else float64


def integer_range(dtype: DType, device_name: str) -> tuple[int, int]:
    """The least and the largest value of an integer dtype on the device."""
    return dtype.stored_range if get_device(device_name).target.language == "wgsl" else dtype.range
