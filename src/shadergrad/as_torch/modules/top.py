"""Names in torch itself that this library does not have: assertions, the version, queries with a constant answer."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import shadergrad

from ...errors import ArgumentError, ArgumentTypeError, CheckpointError
from ...pytorch_files import write_pytorch_file
from ...system.atomic_files import replacing
from ...tensor import Tensor
from ...tensor.storage_handles import StorageHandle, TypedStorage
from ..finder import PYTORCH


class TorchVersion(str):
    """A version as text that compares as a version, also with tuples: TorchVersion("2.13.0") >= (2, 1)."""

    __slots__ = ()

    def _parts(self, other: Any) -> tuple[Any, Any]:
        # packaging is installed with PyTorch's programs; without it, versions compare as text
        from packaging.version import Version

        return Version(str(self)), Version(other if isinstance(other, str) else ".".join(map(str, other)))

    def _compare(self, other: Any, how: str) -> Any:
        if not isinstance(other, str | tuple | list) and not hasattr(other, "release"):
            return NotImplemented
        try:
            mine, theirs = self._parts(str(other) if hasattr(other, "release") else other)
        except (ImportError, ValueError):
            return getattr(str, how)(self, other)
        return getattr(mine, how)(theirs)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, "__eq__")

    __hash__ = str.__hash__


__version__ = TorchVersion(PYTORCH)


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with the message if the condition is false."""
    assert condition, message


def _check_error(cond: Any, message: Any, kind: type[Exception]) -> None:
    if not cond:
        raise kind("Expected cond to be True" if message is None else message() if callable(message) else str(message))


def _check(cond: Any, message: Any = None) -> None:
    """Raise RuntimeError with the text of message() if the condition is false."""
    _check_error(cond, message, RuntimeError)


def _check_index(cond: Any, message: Any = None) -> None:
    """Raise IndexError if the condition is false."""
    _check_error(cond, message, IndexError)


def _check_value(cond: Any, message: Any = None) -> None:
    """Raise ValueError if the condition is false."""
    _check_error(cond, message, ValueError)


def _check_type(cond: Any, message: Any = None) -> None:
    """Raise TypeError if the condition is false."""
    _check_error(cond, message, TypeError)


def _check_not_implemented(cond: Any, message: Any = None) -> None:
    """Raise NotImplementedError if the condition is false."""
    _check_error(cond, message, NotImplementedError)


def _check_with(kind: type[Exception], cond: Any, message: Any) -> None:
    """Raise an error of the type `kind` if the condition is false."""
    _check_error(cond, message, kind)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """Raise RuntimeError for a negative size."""
    _check_error(i >= 0, message, RuntimeError)


def _assert_tensor_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None
) -> None:
    """Raise RuntimeError if a tensor's size, stride, dtype or device differs from the given one; None is not compared."""
    for name, wanted, found in (
        ("sizes", None if size is None else tuple(size), tuple(a.shape)),
        ("strides", None if stride is None else tuple(stride), tuple(a.stride())),
        ("dtype", dtype, a.dtype),
        ("device", device, a.device),
    ):
        if wanted is not None and wanted != found:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {wanted}, got: {found}.")


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object to a path or an open file, in PyTorch's format.

    pickle_module and pickle_protocol must be Python's own pickle, and 2. Raises ArgumentError for others, and for the format before
    PyTorch 1.6; CheckpointError for an object that cannot be pickled.
    """
    if pickle_module not in (None, pickle) or pickle_protocol != 2 or not _use_new_zipfile_serialization:
        raise ArgumentError(
            "save(): files are written by pickle, in protocol 2, as zip archives. Hint: leave these arguments out."
        )
    if hasattr(f, "write"):
        write_pytorch_file(obj, f)
        return
    if not isinstance(f, str | os.PathLike):
        raise ArgumentTypeError(f"save(): argument 'f' must be str or Path or a file, not {type(f).__name__}.")
    path = Path(f)
    with replacing(path, CheckpointError) as opened:
        write_pytorch_file(obj, opened, path.stem)


def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage of a tensor."""
    return isinstance(obj, StorageHandle | TypedStorage)


def is_warn_always_enabled() -> bool:
    """Always False: Python's warning filters decide."""
    return False


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Always False: all operations are deterministic."""
    return False


def get_deterministic_debug_mode() -> int:
    """Always 0: all operations are deterministic."""
    return 0


def compiled_with_cxx11_abi() -> bool:
    """Always True, as in PyTorch's releases of this version."""
    return True


def is_vulkan_available() -> bool:
    """Always False: PyTorch's Vulkan backend does not exist here."""
    return False


def _is_functional_tensor(t: Any) -> bool:
    """Always False: there are no functional tensors."""
    return False


def get_device_module(device: Any = None) -> Any:
    """torch.cuda, torch.mps or torch.cpu, by the name of a device."""
    import sys  # the stand-ins are in sys.modules

    kind = str(device or "cpu").partition(":")[0]
    kind = "cuda" if kind == "webgpu" else kind
    if f"torch.{kind}" not in sys.modules:
        raise RuntimeError(f"there is no torch.{kind}.")
    return sys.modules[f"torch.{kind}"]


class layout:  # PyTorch's name
    """The class of torch.strided."""


class memory_format:  # PyTorch's name
    """The class of torch.channels_last."""


class qscheme:  # PyTorch's name
    """The class of quantization schemes; it has no instances."""


class SymInt(int):
    """PyTorch's class of symbolic sizes; it has no instances, because sizes are ints."""

    def __new__(cls, *args: Any) -> Any:
        raise TypeError("SymInt: sizes are ints here.")


SymFloat = type("SymFloat", (), {"__doc__": "A number that is not known yet, in PyTorch; there are none here."})
SymBool = type("SymBool", (), {"__doc__": "A truth that is not known yet, in PyTorch; there are none here."})
OutOfMemoryError = shadergrad.OutOfMemoryError
AcceleratorError = shadergrad.DeviceError


def sym_int(x: Any) -> int:
    """int(x)."""
    return int(x)


def sym_float(x: Any) -> float:
    """float(x)."""
    return float(x)


def sym_not(x: Any) -> Any:
    """not x."""
    return not x


def sym_max(a: Any, b: Any) -> Any:
    """max(a, b)."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """min(a, b)."""
    return min(a, b)
