"""Reading what PyTorch's torch.save wrote, in both of its formats. In: an open file. Out: the object, with tensors of this library."""

from __future__ import annotations

import codecs
import collections
import importlib
import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ..dtypes import DType, bfloat16, parse_dtype
from ..errors import CheckpointError, DTypeError, ShadergradError
from ..tensor import Size, Tensor
from ..tensor.placement import has_stand_in
from .names import DTYPES, STORAGES, elements_of

ZIP = b"PK\x03\x04"
OLD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled magic number that files of the older format begin with

safe_classes: list[Any] = []  # what programs allow beside data (torch.serialization.add_safe_globals)

_of_numpy: dict[str, Any] = {"_reconstruct": np.ones(0).__reduce__()[0], "scalar": np.float64(0).__reduce__()[0]}
PLAIN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "Counter"): collections.Counter,
    **{
        (module, kind.__name__): kind
        for module in ("builtins", "__builtin__")
        for kind in (set, frozenset, bytearray, complex)
    },
    **{(f"numpy.{core}.multiarray", name): made for core in ("core", "_core") for name, made in _of_numpy.items()},
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): codecs.encode,  # of bytes, in the protocol that torch.save takes
    ("torch", "Size"): Size,
}
RENAMED = {"NonDynamicallyQuantizableLinear": "Linear"}  # of attention, against PyTorch's own quantization


def is_pytorch_file(beginning: bytes) -> bool:
    """Whether a file that begins so is one of torch.save's."""
    return beginning.startswith((ZIP, OLD))


def read_pytorch_file(file: BinaryIO, device: Any, weights_only: bool, encoding: str = "utf-8") -> Any:
    """The object in a file of torch.save's, with its tensors on a device.

    weights_only: plain data, arrays and tensors alone; otherwise reading the file runs the code that it names. Tensors that shared memory are
    copies, except where they are the same elements. Raises CheckpointError for a damaged file, and for what this library does not have.
    """
    beginning = file.read(len(OLD))
    file.seek(0)
    try:
        reader = _of_zip if beginning.startswith(ZIP) else _of_old
        return reader(file, _Maker(device, weights_only, encoding))
    except (CheckpointError, DTypeError):
        raise
    except ShadergradError as error:
        raise CheckpointError(str(error)) from None
    except Exception as error:  # pickle, zipfile and the file's own classes raise many kinds
        raise CheckpointError(f"{type(error).__name__}: {error}.") from None


def _of_zip(file: BinaryIO, maker: _Maker) -> Any:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        pickled = next((name for name in names if name.endswith("/data.pkl") and name.count("/") == 1), None)
        if pickled is None or pickled.replace("data.pkl", "constants.pkl") in names:
            raise CheckpointError("it is a program of TorchScript's or another zip archive, not what torch.save wrote.")
        folder = pickled.removesuffix("data.pkl")
        order = f"{folder}byteorder"
        maker.is_big = order in names and archive.read(order) == b"big"
        maker.bytes_of = lambda key: archive.read(f"{folder}data/{key}")
        return maker.load(io.BytesIO(archive.read(pickled)))


def _of_old(file: BinaryIO, maker: _Maker) -> Any:
    for _ in range(2):  # the magic number, and the version of the format
        _skip(file)
    maker.is_big = not maker.load(file)["little_endian"]
    start = file.tell()
    _skip(file)
    keys = maker.load(file)
    sizes = _sizes_of(file, start)
    memory = {}
    for key in keys:
        file.read(8)  # how many elements
        memory[key] = file.read(sizes[key])
    maker.bytes_of = memory.__getitem__
    file.seek(start)
    return maker.load(file)


def _skip(file: BinaryIO) -> None:
    """Go behind a pickle, which is not made."""
    for _ in pickletools.genops(file):
        pass


def _sizes_of(file: BinaryIO, start: int) -> dict[str, int]:
    """How many bytes each memory takes that the pickle at `start` names. The file stays where it is."""
    behind = file.tell()
    file.seek(start)
    looker = _Looker(file)
    looker.load()
    file.seek(behind)
    return looker.sizes


class _Nothing:
    """Stands for every object of a file whose tensors are being counted."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """Nothing."""

    def extend(self, values: Any) -> None:
        """Nothing."""


class _Looker(pickle.Unpickler):
    """Reads a pickle for the memory that it names, and makes none of its objects."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.sizes: dict[str, int] = {}

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return _storage_of(module_name, global_name) or _Nothing

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == "module":
            return _Nothing
        if pid[0] == "storage":
            self.sizes[pid[2]] = pid[4] * elements_of(pid[1].name).itemsize
        return _Nothing()


@dataclass(frozen=True)
class _Named:
    """A kind of memory, by the dtype of its numbers."""

    name: str


def _storage_of(module: str, name: str) -> _Named | None:
    return _Named(STORAGES[name]) if name in STORAGES and module in ("torch", "torch.storage") else None


@dataclass(frozen=True)
class _Memory:
    """Memory of tensors: numbers of a dtype, by name. device: where tensors of it shall lie."""

    key: str
    name: str
    values: np.ndarray
    device: Any


class _Maker:
    """Makes the objects of a file. bytes_of: the memory of a key; is_big: whether it is of a big-endian machine."""

    bytes_of: Callable[[str], bytes]
    is_big = False

    def __init__(self, device: Any, weights_only: bool, encoding: str) -> None:
        self.device, self.weights_only, self.encoding = device, weights_only, encoding
        self.memory: dict[str, _Memory] = {}
        self.made: dict[tuple[Any, ...], Tensor] = {}

    def load(self, file: BinaryIO) -> Any:
        """The object of the pickle that a file goes on with."""
        return _Unpickler(file, self, encoding=self.encoding).load()

    def storage(self, kind: Any, key: str, location: str) -> _Memory:
        """The memory of a key, which was on a device of that name."""
        if not isinstance(kind, _Named):
            raise CheckpointError(f"it has memory of a kind that is not known, {kind!r}.")
        if key not in self.memory:
            values = np.frombuffer(self.bytes_of(key), elements_of(kind.name).newbyteorder(">" if self.is_big else "<"))
            there = location.startswith("cuda") and has_stand_in("cuda")
            self.memory[key] = _Memory(key, kind.name, values, "cuda" if self.device is None and there else self.device)
        return self.memory[key]

    def tensor(
        self,
        memory: _Memory,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool = False,
        hooks: Any = None,
        metadata: Any = None,
    ) -> Tensor:
        """A tensor with the elements of a storage at the given strides."""
        if metadata:
            raise CheckpointError(f"it has a tensor that is a pending {' and '.join(metadata)} of another.")
        what = memory.key, memory.name, offset, tuple(size), tuple(stride)
        if what in self.made:
            made = self.made[what].detach()  # of the same memory, such as a weight that two layers share
        else:
            made = self.made[what] = self._of(_elements(memory.values, offset, size, stride), memory)
        return made.requires_grad_() if requires_grad else made

    def _of(self, values: np.ndarray, memory: _Memory) -> Tensor:
        name = memory.name
        values = values.astype(values.dtype.newbyteorder("="))
        if name == bfloat16.name:
            values = bfloat16.decoded(values)
        return Tensor(values, dtype=parse_dtype(name), device=memory.device)

    def retyped(
        self,
        memory: _Memory,
        offset: int,
        size: Any,
        stride: Any,
        grad: bool,
        hooks: Any,
        dtype: DType,
        more: Any = None,
    ) -> Tensor:
        """A tensor in memory whose dtype it names itself."""
        order = ">" if self.is_big else "<"
        values = memory.values.view(np.uint8).view(elements_of(dtype.name).newbyteorder(order))
        return self.tensor(
            _Memory(memory.key, dtype.name, values, memory.device), offset, size, stride, grad, hooks, more
        )

    def parameter(self, data: Tensor, requires_grad: bool, hooks: Any, state: Any = None) -> Any:
        """A parameter."""
        made = find("torch.nn.parameter", "Parameter")(data, requires_grad)
        vars(made).update(state if isinstance(state, dict) else {})
        return made

    def attributed(self, function: Any, kind: Any, arguments: tuple[Any, ...], state: Any) -> Any:
        """A tensor with attributes of a program's own."""
        made = function(*arguments)
        for name, value in (state if isinstance(state, dict) else {}).items():
            setattr(made, name, value)
        return made


def _elements(values: np.ndarray, offset: int, size: Any, stride: Any) -> np.ndarray:
    if min((offset, *size, *stride), default=0) < 0 or (
        0 not in size and offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) >= len(values)
    ):
        raise CheckpointError("it is damaged: a tensor reaches beyond its memory.")
    steps = [s * values.itemsize for s in stride]
    return np.lib.stride_tricks.as_strided(values[offset:], tuple(size), steps).copy()


def find(module: str, name: str) -> Any:
    """The object of this library under a name of PyTorch's. Raises CheckpointError if there is none.

    Pickles name the file of a class, such as torch.nn.modules.linear; the class is also in the packages above it.
    """
    parts = ["shadergrad", *module.split(".")[1:]]
    ours = RENAMED.get(name, name)
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        if hasattr(found, ours):
            return getattr(found, ours)
    raise CheckpointError(f"it names {module}.{name}, which is not in shadergrad.")


class _Unpickler(pickle.Unpickler):
    """Makes tensors of this library where PyTorch's functions would make its own."""

    def __init__(self, file: BinaryIO, maker: _Maker, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self.maker = maker
        self.known = PLAIN | {
            ("torch._utils", "_rebuild_tensor_v2"): maker.tensor,
            ("torch._utils", "_rebuild_tensor"): maker.tensor,
            ("torch._utils", "_rebuild_tensor_v3"): maker.retyped,
            ("torch._utils", "_rebuild_parameter"): maker.parameter,
            ("torch._utils", "_rebuild_parameter_with_state"): maker.parameter,
            ("torch._tensor", "_rebuild_from_type_v2"): maker.attributed,
            ("torch", "Tensor"): Tensor,
            ("torch._tensor", "Tensor"): Tensor,
            ("torch", "device"): find("torch", "device"),
        }

    def persistent_load(self, pid: Any) -> Any:
        what, *given = pid
        if what == "module":  # the older format keeps a module's source beside its class
            return given[0]
        if what != "storage":
            raise CheckpointError(f"it names {what!r}, which is not known.")
        if len(given) > 4 and given[4] is not None:
            raise CheckpointError("it has memory that is part of other memory, as PyTorch wrote before 0.4.")
        return self.maker.storage(*given[:3])

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        known = self.known.get((module_name, global_name)) or _storage_of(module_name, global_name)
        if known is not None:
            return known
        if module_name == "torch" and global_name in DTYPES:
            return parse_dtype(global_name)
        if module_name == "torch._utils" and global_name.startswith("_rebuild"):
            raise CheckpointError(
                f"it has tensors that are not there in shadergrad: {global_name.removeprefix('_rebuild_')}."
            )
        for allowed in safe_classes:
            made, name = (
                allowed if isinstance(allowed, tuple) else (allowed, f"{allowed.__module__}.{allowed.__qualname__}")
            )
            if name == f"{module_name}.{global_name}":
                return made
        if self.maker.weights_only:
            raise CheckpointError(
                f"it holds {module_name}.{global_name}, and reading that runs its code. Hint: weights_only=False, if you trust it."
            )
        if module_name == "torch" or module_name.startswith("torch."):
            return find(module_name, global_name)
        return super().find_class(module_name, global_name)
