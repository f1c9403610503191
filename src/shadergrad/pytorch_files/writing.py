"""Writing what PyTorch's torch.load reads. In: an object, and an open file. Out: a zip archive of its pickle and of its tensors' memory."""

from __future__ import annotations

import collections
import io
import pickle
import sys
import zipfile
from functools import cache
from typing import Any, BinaryIO

import numpy as np

from ..dtypes import DType, bfloat16
from ..errors import CheckpointError
from ..tensor import Size, Tensor, device
from ..tensor.placement import has_stand_in
from .names import STORAGE_OF

PROTOCOL = 2  # torch.save's
KINDS = {"Tensor": ("torch", "Tensor"), "Parameter": ("torch.nn.parameter", "Parameter"), "Buffer": ("torch", "Tensor")}
ALIGNED = 64  # bytes: where the memory of a tensor begins in the file, so that torch.load(mmap=True) can map it


def write_pytorch_file(obj: Any, file: BinaryIO, name: str = "archive") -> None:
    """Write an object as torch.save does: tensors and plain data for PyTorch and this library, objects of a program's own for both too.

    Modules and optimizers are those of this library: PyTorch reads their state dicts alone. Tensors of the same elements share their
    memory in the file, too. name: of the folder in the archive. Raises CheckpointError for what cannot be pickled.
    """
    text = io.BytesIO()
    pickler = _Pickler(text)
    try:
        pickler.dump(obj)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(f"cannot save this: {error}. Hint: save its state_dict().") from None
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, f"{name}/data.pkl", text.getvalue())
        _write(archive, f"{name}/byteorder", sys.byteorder.encode())
        for key, array in enumerate(pickler.arrays):
            _write(archive, f"{name}/data/{key}", array.tobytes())
        _write(archive, f"{name}/version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Write an entry whose data begin at a multiple of `ALIGNED`. Equal data give equal bytes: no time is noted."""
    entry = zipfile.ZipInfo(name)
    start = archive.fp.tell() + 30 + len(name.encode()) + 4  # type: ignore[union-attr]  # an open archive has a file
    filled = -start % ALIGNED
    entry.extra = b"FB" + filled.to_bytes(2, "little") + b"Z" * filled
    archive.writestr(entry, data)


class _Name:
    """A name that a pickle calls by: PyTorch's, which need not be there."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *_: Any) -> Any:
        """Pickle asks whether it can be called, and does not."""


@cache
def _named(module: str, name: str) -> _Name:
    return _Name(module, name)  # the same object, which the pickle names once


class _Memory:
    """Stands for the memory of a tensor."""

    def __init__(self, kind: _Name, key: int, location: str, count: int) -> None:
        self.id = ("storage", kind, str(key), location, count)


_python_pickler: Any = pickle._Pickler  # pickle's Python version, in which the writing of names can be overridden


class _Pickler(_python_pickler):
    """Names PyTorch's functions where tensors are to be made, and puts their elements aside."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, PROTOCOL)
        self.arrays: list[np.ndarray] = []
        self.memory: dict[Any, _Memory] = {}

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """As pickle does; names as they are."""
        if isinstance(obj, DType):
            obj = _named("torch", obj.name)
        if not isinstance(obj, _Name):
            super().save(obj, save_persistent_id)
        elif (known := self.memo.get(id(obj))) is not None:
            self.write(self.get(known[0]))
        else:
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            self.memoize(obj)

    def persistent_id(self, obj: Any) -> Any:
        return obj.id if isinstance(obj, _Memory) else None

    def reducer_override(self, obj: Any) -> Any:
        """How PyTorch makes what this library has under the same name."""
        if type(obj).__name__ in KINDS and isinstance(
            obj, Tensor
        ):  # a program's own class of tensors is pickled as it is
            function, args = self._tensor(obj)
            if not vars(obj):
                return function, args
            kind = _named(*KINDS[type(obj).__name__])
            return _named("torch._tensor", "_rebuild_from_type_v2"), (function, kind, args, dict(vars(obj)))
        if isinstance(obj, device):
            return _named("torch", "device"), (_location(str(obj)),)
        if isinstance(obj, Size):
            return _named("torch", "Size"), (tuple(obj),)
        return NotImplemented

    def _tensor(self, x: Tensor) -> Any:
        hooks: Any = collections.OrderedDict()
        shape = tuple(x.shape)
        strides = tuple(int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape)))
        memory = self._memory(x)
        args = memory, 0, shape, strides, x.requires_grad, hooks
        if type(x).__name__ == "Parameter":
            return _named("torch._utils", "_rebuild_parameter"), (x.detach(), x.requires_grad, hooks)
        if x.dtype.name not in STORAGE_OF:  # of which PyTorch has no kind of memory
            return _named("torch._utils", "_rebuild_tensor_v3"), (*args, x.dtype)
        return _named("torch._utils", "_rebuild_tensor_v2"), args

    def _memory(self, x: Tensor) -> _Memory:
        key = x.data_ptr(), tuple(x.shape), x.dtype.name, x.device
        if key not in self.memory:
            array = np.ascontiguousarray(x.detach().cpu().numpy())
            if x.dtype is bfloat16:
                array = x.dtype.encoded(array)[: array.size]
            typed = STORAGE_OF.get(x.dtype.name)
            kind = _named("torch.storage", "UntypedStorage") if typed is None else _named("torch", typed)
            count = array.nbytes if typed is None else array.size
            self.memory[key] = _Memory(kind, len(self.arrays), _location(x.device), count)
            self.arrays.append(array)
        return self.memory[key]


def _location(name: str) -> str:
    """PyTorch's name of a device."""
    return "cuda:0" if name != "cpu" and has_stand_in("cuda") else "cpu"
