"""Named arrays and a description, on disk, never half-written. In: NumPy arrays and JSON data. Out: the same again.

One safetensors file holds everything: the arrays, and the description as JSON in the file's metadata, beside a checksum
of both (SHA-256). It replaces the old file at once (see `system/atomic_files.py`). The same arrays and description give the same
bytes. A checkpoint is a folder with such a file and a JSON copy of its description for people; nothing reads the copy.

Format versions: 2 has the checksum. 1 has none; such files still load, unverified.

`pack` and `unpack` turn nested dicts and lists with arrays inside (a state_dict) into that form and back.
Format: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .errors import CheckpointError
from .system.atomic_files import replacing
from .system.safe_tensors import SafetensorError, in_numpys_own, safe_open, save

FORMAT = "shadergrad"
STATE_FORMAT = "shadergrad.state"  # of a step's state, which pages write too
VERSION = 2
VERSION_WITHOUT_CHECKSUM = 1
TENSORS_FILE = "checkpoint.safetensors"
DESCRIPTION_FILE = "checkpoint.json"
MAX_HEADER = 100_000_000  # bytes of names, shapes and description that safetensors reads

Arrays = dict[str, np.ndarray]


def save_checkpoint(folder: str | Path, tensors: Arrays, meta: dict[str, Any]) -> Path:
    """Write a checkpoint into `folder` (made if missing) and return its safetensors file; see `save_tensors`."""
    folder = Path(folder)
    path = folder / TENSORS_FILE
    save_tensors(path, tensors, meta)
    shapes = {name: f"{array.dtype} {list(array.shape)}" for name, array in tensors.items()}
    text = json.dumps({"format": FORMAT, "version": VERSION, **meta, "tensors": shapes}, indent=2)
    with replacing(folder / DESCRIPTION_FILE, CheckpointError) as file:
        file.write(f"{text}\n".encode())
    return path


def load_checkpoint(folder: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """The tensors and the description in `folder`. Raises CheckpointError where there is no whole checkpoint."""
    return load_tensors(Path(folder) / TENSORS_FILE)


def save_tensors(path: str | Path, tensors: Arrays, meta: dict[str, Any]) -> None:
    """Write arrays and their description to one safetensors file, atomically, whoever else writes it at the time.

    tensors: arrays of any shape, by name. meta: JSON data (no NaN). The folder is made if missing.
    Raises CheckpointError, and leaves an existing file as it was, for a description that is not JSON, a dtype that
    safetensors has not, names and description of more than 100 MB together, or a disk that does not take it.
    """
    try:
        text = json.dumps(meta, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"cannot save {path}: its description is not JSON data: {error}.") from None
    # safetensors writes an array's memory and ignores its strides: only C order is read back correctly
    # and in this machine's byte order
    ordered = {name: np.asarray(array, array.dtype.newbyteorder("="), order="C") for name, array in tensors.items()}
    try:
        packed = memoryview(save(ordered))
        metadata = {"format": FORMAT, "version": str(VERSION), "checksum": _checksum(text, ordered), "meta": text}
        begin = 8 + int.from_bytes(packed[:8], "little")
        # safetensors writes metadata in random order; identical runs shall write identical bytes
        names = json.loads(packed[8:begin].tobytes())
        header = json.dumps({"__metadata__": metadata, **names}, ensure_ascii=False).encode()
    except (SafetensorError, UnicodeError) as error:
        raise CheckpointError(f"cannot save {path}: {error}.") from None
    header += b" " * (-len(header) % 8)  # data begins where any dtype may
    if len(header) > MAX_HEADER:
        raise CheckpointError(
            f"cannot save {path}: names and description take {len(header)} bytes, and {MAX_HEADER} can be read back. "
            "Hint: put long lists of numbers into an array."
        )
    with replacing(path, CheckpointError) as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        file.write(packed[begin:])


def load_tensors(path: str | Path, states: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the description that `save_tensors` wrote; states: or the arrays of a page's state, by role/name, and {}.

    Raises CheckpointError when the file is missing, damaged by as little as a bit, not of this library, of another
    format version, or holds numbers that NumPy has not. Files of version 1 have no checksum: of those, damage within
    the arrays' data is not noticed.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}. Check the path, or train from the start.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            is_state = states and metadata.get("format") == STATE_FORMAT
            if not is_state:
                _check_metadata(path, metadata)
            arrays = {name: _tensor(path, file, name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is no safetensors file, or was cut short: {error}. Hint: take a backup, or train from the start; "
            "shadergrad.interop.read_arrays reads PyTorch's .pt and .pth files."
        ) from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}.") from None
    if "checksum" in metadata and metadata["checksum"] != _checksum(metadata["meta"], arrays):
        raise CheckpointError(
            f"{path} is damaged: its contents do not match its checksum. Hint: take a backup, or train from the start."
        )
    return arrays, {} if is_state else _read_meta(path, metadata["meta"])


def _check_metadata(path: Path, metadata: dict[str, str]) -> None:
    """Whether a file is of this library, of a version that can be read."""
    if metadata.get("format") != FORMAT or "meta" not in metadata:
        raise CheckpointError(
            f"{path} is a safetensors file, but not one that shadergrad wrote. Check the path. "
            "Hint: shadergrad.interop.read_arrays reads those of others."
        )
    version = metadata.get("version")
    if version not in (str(VERSION), str(VERSION_WITHOUT_CHECKSUM)):
        raise CheckpointError(
            f"{path} has format version {version}; this shadergrad reads versions {VERSION_WITHOUT_CHECKSUM} and "
            f"{VERSION}. Hint: load it with the shadergrad that wrote it."
        )
    if version == str(VERSION) and "checksum" not in metadata:
        raise CheckpointError(f"{path} is damaged: it lacks its checksum. Hint: take a backup.")


def _tensor(path: Path, file: Any, name: str) -> np.ndarray:
    try:
        return in_numpys_own(file.get_tensor(name))
    except (AttributeError, TypeError):  # what safetensors raises for types such as bfloat16 and float8
        kind = file.get_slice(name).get_dtype()
        raise CheckpointError(
            f"{path} holds {name} in {kind}, which NumPy has not; shadergrad did not write it."
        ) from None


def _checksum(meta: str, arrays: Arrays) -> str:
    """SHA-256 of all that a file means: the description, and each array's name, dtype, shape and data."""
    names = sorted(arrays)
    described = [meta, [[name, arrays[name].dtype.name, arrays[name].shape] for name in names]]
    digest = hashlib.sha256(json.dumps(described).encode())
    for name in names:
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _read_meta(path: Path, text: str) -> dict[str, Any]:
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} has a damaged description ({error}). Hint: take a backup.") from None
    if not isinstance(meta, dict):
        raise CheckpointError(f"{path} has a damaged description (a {type(meta).__name__}). Hint: take a backup.")
    return meta


HALF = "bfloat16"  # which NumPy and so an array has not: of such a tensor, float32 is in the file
_MARKS = ("array", "dict", "tuple", HALF)


def pack(value: Any, name: str = "") -> tuple[Arrays, Any]:
    """Take the arrays out of nested dicts, lists and tuples: (arrays by name, the rest as JSON data).

    Arrays are NumPy arrays and tensors; {"array": name} replaces each. JSON has neither
    tuples nor keys other than strings, so {"tuple": [...]} and {"dict": [[key, value], ...]} represent them. {"bfloat16": name} is a
    tensor of that dtype, whose array is of float32.
    Raises CheckpointError for other objects than these and None, bool, int, float, str, and for containers that contain themselves.
    """
    packing = _Packing()
    try:
        return packing.arrays, packing.plain(value, name)
    except RecursionError:
        raise CheckpointError(f"cannot save {name or 'this'}: it is nested too deeply, or contains itself.") from None


class _Packing:
    """The arrays met so far, by name. Paths are of keys and positions: "layers/0/weight"."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def plain(self, node: Any, path: str) -> Any:
        """A value as JSON data, its arrays put aside."""
        if isinstance(node, np.ndarray) or hasattr(node, "detach"):
            mark = HALF if getattr(node.dtype, "name", "") == HALF else "array"
            return {mark: self._put_aside(node, path or "tensor")}
        if isinstance(node, dict):
            return _plain_dict({k: self.plain(child, _inside(path, k)) for k, child in node.items()}, path)
        if isinstance(node, list | tuple):
            items = [self.plain(child, _inside(path, i)) for i, child in enumerate(node)]
            return items if isinstance(node, list) else {"tuple": items}
        if isinstance(node, np.generic):
            return node.item()
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        raise CheckpointError(f"cannot save {path or 'this'}: a {type(node).__name__} is no tensor and no plain data.")

    def _put_aside(self, array: Any, label: str) -> str:
        """The name under which an array is kept."""
        while label in self.arrays:  # of keys 0 and "0", or "a/b" and "b" within "a"
            label += "'"
        self.arrays[label] = array if isinstance(array, np.ndarray) else array.detach().numpy()
        return label


def _plain_dict(node: dict[Any, Any], path: str) -> Any:
    for key in node:
        if not isinstance(key, (bool, int, str)):
            raise CheckpointError(f"cannot save {path or 'this'}: its key {key!r} is neither string nor integer.")
    plain = all(isinstance(key, str) for key in node) and not (len(node) == 1 and next(iter(node)) in _MARKS)
    return node if plain else {"dict": [[key, child] for key, child in node.items()]}


def _inside(path: str, key: Any) -> str:
    return f"{path}/{key}" if path else str(key)


def unpack(arrays: Mapping[str, Any], structure: Any) -> Any:
    """What `pack` was given, with the values of `arrays` in the places of its tensors.

    Raises CheckpointError for a structure that `pack` does not make, or that names an array which is not there.
    """
    try:
        return _unpack(arrays, structure)
    except RecursionError:
        raise CheckpointError("the structure of the data is nested too deeply.") from None


def _unpack(arrays: Mapping[str, Any], structure: Any) -> Any:
    if isinstance(structure, list):
        return [_unpack(arrays, child) for child in structure]
    if not isinstance(structure, dict):
        return structure
    if len(structure) == 1:
        ((mark, content),) = structure.items()
        if mark in ("array", HALF):
            if not isinstance(content, str) or content not in arrays:
                raise CheckpointError(f"the structure of the data names an array {content!r}, which is not there.")
            found = arrays[content]
            return found.to(HALF) if mark == HALF and hasattr(found, "to") else found
        if mark == "tuple" and isinstance(content, list):
            return tuple(_unpack(arrays, child) for child in content)
        if mark == "dict" and isinstance(content, list) and all(map(_is_item, content)):
            return {key: _unpack(arrays, child) for key, child in content}
        if mark in _MARKS:
            raise CheckpointError(f"the structure of the data is damaged: no {mark} is {str(content)[:40]!r}.")
    return {key: _unpack(arrays, child) for key, child in structure.items()}


def _is_item(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str | int)
