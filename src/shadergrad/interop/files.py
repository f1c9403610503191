"""Files of named arrays of other libraries: .safetensors, .npz, PyTorch's .pt. In: a path. Out: NumPy arrays.

sg.save writes safetensors; this module reads them, and reads and writes .npz. No file can run code: .npz is read without
pickled objects, .pt with PyTorch's weights_only.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DTypeError
from ..nn.module import Module
from ..system.atomic_files import replacing
from ..system.optional_packages import require
from ..system.safe_tensors import SafetensorError, in_numpys_own, safe_open
from ..tensor import Tensor, host_tensor
from .errors import InteropError
from .torch_tensors import array_from_torch

Arrays = dict[str, np.ndarray]


def read_arrays(path: str | Path, key: str | None = None) -> Arrays:
    """The arrays in a .safetensors, .npz, .pt or .pth file, by name. bfloat16 becomes float32.

    key: for .pt files with more than a state dict, the entry of the state dict ("a.b" for a nested one).
    Raises InteropError if the file is missing, damaged or of another kind; MissingPackageError for .pt without PyTorch.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.save({"w": sg.tensor([1.0, 2.0])}, f"{folder}/weights.safetensors")
    ...     arrays = sg.interop.read_arrays(f"{folder}/weights.safetensors")
    >>> arrays["w"].tolist()
    [1.0, 2.0]
    """
    path = Path(path)
    if not path.is_file():
        raise InteropError(f"there is no file {path}.")
    kind = path.suffix.lower()
    if kind == ".safetensors":
        return _read_safetensors(path)
    if kind == ".npz":
        return _read_npz(path)
    if kind in (".pt", ".pth", ".bin"):
        return _read_pytorch(path, key)
    raise InteropError(
        f"cannot tell what {path} is by its name. Hint: .safetensors, .npz, .pt, .pth and .bin are known."
    )


def save_npz(path: str | Path, source: Module | Mapping[str, Any]) -> None:
    """Write a module's state dict, or named tensors and arrays, as an uncompressed .npz file.

    Atomic, and equal values give equal bytes. Raises InteropError for other values, names that are not strings, or a failed
    write.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.interop.save_npz(f"{folder}/weights.npz", {"w": sg.tensor([1.0, 2.0])})
    ...     arrays = dict(np.load(f"{folder}/weights.npz"))
    >>> arrays["w"].tolist()
    [1.0, 2.0]
    """
    named = source.state_dict() if isinstance(source, Module) else source
    arrays: Arrays = {}
    for name, value in named.items():
        if not isinstance(name, str) or not isinstance(value, Tensor | np.ndarray | np.generic | bool | int | float):
            raise InteropError(f"[save_npz] {name!r} is a {type(value).__name__}, not a tensor under a name.")
        arrays[name] = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
        if arrays[name].dtype == object:
            raise InteropError(f"[save_npz] {name!r} is an array of Python objects.")
    # numpy.savez takes names as keyword arguments, and has some of its own; and it writes down the time of day
    with replacing(path, InteropError) as aside, zipfile.ZipFile(aside, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def load_npz(path: str | Path, device: Any = None) -> dict[str, Tensor]:
    """The tensors in a .npz file, by name, in their own dtypes, on `device`.

    Raises InteropError if the file is missing, damaged, or holds anything but tensors.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/weights.npz", w=np.array([1, 2]))
    ...     tensors = sg.interop.load_npz(f"{folder}/weights.npz")
    >>> tensors
    {'w': tensor([1, 2], dtype=shadergrad.int64)}
    """
    tensors = {}
    for name, array in _read_npz(Path(path)).items():
        try:
            tensors[name] = host_tensor(array, device=device)
        except DTypeError as error:
            raise InteropError(f"{path} holds {name!r}, which no tensor can: {error}") from None
    return tensors


def _read_npz(path: Path) -> Arrays:
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InteropError(f"{path} is a single array (.npy), not an archive of named ones.")
            with archive:
                arrays = {name: archive[name] for name in archive.files}
    except InteropError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InteropError(f"{path} is no .npz file of plain arrays, or is damaged: {reason}.") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy hands out the bytes of entries that are no .npy
            raise InteropError(f"{path} holds {name!r}, which is no array.")
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}


def _read_safetensors(path: Path) -> Arrays:
    try:
        with safe_open(path, framework="numpy") as file:
            dtypes = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 (not a dict)
            brief = {name for name, dtype in dtypes.items() if dtype == "BF16"}
            arrays = {name: _tensor(path, file, name, dtype) for name, dtype in dtypes.items() if name not in brief}
        return arrays | _read_bfloat16(path, brief) if brief else arrays
    except SafetensorError as error:
        raise InteropError(f"{path} is no safetensors file, or is damaged: {error}.") from None
    except OSError as error:
        raise InteropError(f"cannot read {path}: {error.strerror or error}.") from None


def _tensor(path: Path, file: Any, name: str, dtype: str) -> np.ndarray:
    try:
        return in_numpys_own(file.get_tensor(name))
    except (AttributeError, TypeError):  # what safetensors raises for types such as float8
        raise InteropError(f"{path} holds {name} in {dtype}: NumPy has no such numbers.") from None


def _read_bfloat16(path: Path, names: set[str]) -> Arrays:
    """Converts bfloat16, which NumPy lacks: its 16 bits are the upper half of a float32."""
    arrays = {}
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
            for name in names:
                first, last = header[name]["data_offsets"]
                file.seek(8 + length + first)
                halves = np.frombuffer(file.read(last - first), "<u2").astype(np.uint32)
                arrays[name] = (halves << np.uint32(16)).view(np.float32).reshape(header[name]["shape"])
    except (KeyError, ValueError):  # safetensors has found the file sound
        raise InteropError(f"{path} was replaced by another file while it was read.") from None
    return arrays


def _read_pytorch(path: Path, key: str | None) -> Arrays:
    torch = require("torch", "torch", "a PyTorch file")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InteropError(
            f"{path} cannot be loaded as PyTorch weights: {reason}. Hint: save model.state_dict(), not the model."
        ) from None
    for part in key.split(".") if key else ():
        if not isinstance(found, Mapping) or part not in found:
            raise InteropError(f"{path} has no entry {key!r}. {_entries(found)}")
        found = found[part]
    if not isinstance(found, Mapping) or not all(isinstance(v, torch.Tensor) for v in found.values()):
        raise InteropError(
            f"{path} holds more than a state dict. {_entries(found)} Hint: name the one to load with key=."
        )
    try:
        return {str(name): array_from_torch(tensor) for name, tensor in found.items()}
    except InteropError as error:
        raise InteropError(f"{path}: {error}") from None


def _entries(found: Any) -> str:
    if not isinstance(found, Mapping):
        return f"It holds a {type(found).__name__}."
    return f"Its entries are {', '.join(map(repr, list(found)[:20])) or 'none'}."
