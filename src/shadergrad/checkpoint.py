"""Named arrays and a description, on disk, never half-written. In: NumPy arrays and JSON data. Out: the same again.

One safetensors file holds everything: the arrays, and the description as JSON in the file's metadata. It is written
aside, flushed to the disk and renamed over the old one, so that a reader (and a run killed at any moment) finds either
the old file or the new one. A checkpoint is a folder with such a file and a JSON copy of its description for people;
nothing reads the copy.

`pack` and `unpack` turn nested dicts and lists with arrays inside (a state_dict) into that form and back.
Format: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .errors import CheckpointError

FORMAT = "shadergrad"
VERSION = 1
TENSORS_FILE = "checkpoint.safetensors"
DESCRIPTION_FILE = "checkpoint.json"

Arrays = dict[str, np.ndarray]


def save_checkpoint(folder: str | Path, tensors: Arrays, meta: dict[str, Any]) -> Path:
    """Write a checkpoint into `folder` (made if missing) and return its safetensors file; see `save_tensors`."""
    folder = Path(folder)
    path = folder / TENSORS_FILE
    save_tensors(path, tensors, meta)
    shapes = {name: f"{array.dtype} {list(array.shape)}" for name, array in tensors.items()}
    text = json.dumps({"format": FORMAT, "version": VERSION, **meta, "tensors": shapes}, indent=2)
    with _replacing(folder / DESCRIPTION_FILE) as aside:
        aside.write_text(text + "\n", encoding="utf-8")
    return path


def load_checkpoint(folder: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """The tensors and the description in `folder`. Raises CheckpointError where there is no whole checkpoint."""
    return load_tensors(Path(folder) / TENSORS_FILE)


def save_tensors(path: str | Path, tensors: Arrays, meta: dict[str, Any]) -> None:
    """Write arrays and their description to one safetensors file, atomically.

    tensors: arrays of any shape, by name. meta: JSON data (no NaN). The folder is made if missing.
    Raises CheckpointError, and leaves an existing file as it was, when the disk does not take it.
    """
    try:
        metadata = {"format": FORMAT, "version": str(VERSION), "meta": json.dumps(meta, allow_nan=False)}
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"cannot save {path}: its description is not JSON data: {error}.") from None
    with _replacing(Path(path)) as aside:
        # safetensors takes an array's memory as it lies, whatever its strides say: only C order comes back as it was
        ordered = {name: np.asarray(array, order="C") for name, array in tensors.items()}
        aside.write_bytes(save(ordered, metadata))


def load_tensors(path: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the description that `save_tensors` wrote.

    Raises CheckpointError when the file is missing, damaged, not of this library, or of another format version.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}. Check the path, or train from the start.")
    try:
        with safe_open(path, framework="numpy") as file:
            meta = _read_meta(path, file.metadata())
            return {name: file.get_tensor(name) for name in file.keys()}, meta  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is no safetensors file, or was cut short: {error}. Remedy: take a backup, or train from the start."
        ) from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}.") from None


def _read_meta(path: Path, metadata: dict[str, str] | None) -> dict[str, Any]:
    metadata = metadata or {}
    if metadata.get("format") != FORMAT or "meta" not in metadata:
        raise CheckpointError(f"{path} is a safetensors file, but not one that shadergrad wrote. Check the path.")
    if metadata.get("version") != str(VERSION):
        raise CheckpointError(
            f"{path} has format version {metadata.get('version')}; this shadergrad reads version {VERSION}. "
            "Remedy: load it with the shadergrad that wrote it."
        )
    try:
        return json.loads(metadata["meta"])
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path} has a damaged description ({error}). Remedy: take a backup.") from None


class _replacing:
    """`with _replacing(path) as aside`: write the file `aside`; it becomes `path` at once, or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.aside = path.with_name(f".{path.name}.part")

    def __enter__(self) -> Path:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failure(error) from None
        return self.aside

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                _flush(self.aside)
                os.replace(self.aside, self.path)
                _flush(self.path.parent)
                return
        except OSError as failure:
            error = failure
        self.aside.unlink(missing_ok=True)
        if isinstance(error, (OSError, SafetensorError)):
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> CheckpointError:
        reason = getattr(error, "strerror", None) or error
        return CheckpointError(f"cannot write {self.path}: {reason}. What was there before is unchanged.")


def _flush(path: Path) -> None:
    """Wait until the disk holds a file, or a folder's entries."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder; its renames are journalled
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MARKS = ("array", "dict", "tuple")


def pack(value: Any, name: str = "") -> tuple[Arrays, Any]:
    """Take the arrays out of nested dicts, lists and tuples: (arrays by name, the rest as JSON data).

    Arrays are NumPy arrays and tensors; {"array": name} stands in their place. JSON has neither
    tuples nor keys other than strings, so {"tuple": [...]} and {"dict": [[key, value], ...]} stand for those.
    Raises CheckpointError on anything but these and None, bool, int, float, str.
    """
    arrays: Arrays = {}

    def visit(node: Any, path: str) -> Any:
        if isinstance(node, np.ndarray) or hasattr(node, "detach"):
            label = unused(path or "tensor")
            arrays[label] = node if isinstance(node, np.ndarray) else node.detach().numpy()
            return {"array": label}
        if isinstance(node, dict):
            return visit_dict({key: visit(child, inside(path, key)) for key, child in node.items()}, path)
        if isinstance(node, list):
            return [visit(child, inside(path, i)) for i, child in enumerate(node)]
        if isinstance(node, tuple):
            return {"tuple": [visit(child, inside(path, i)) for i, child in enumerate(node)]}
        if isinstance(node, np.generic):
            return node.item()
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        raise CheckpointError(f"cannot save {path or 'this'}: a {type(node).__name__} is no tensor and no plain data.")

    def visit_dict(node: dict[Any, Any], path: str) -> Any:
        for key in node:
            if not isinstance(key, (bool, int, str)):
                raise CheckpointError(f"cannot save {path or 'this'}: its key {key!r} is neither string nor integer.")
        plain = all(isinstance(key, str) for key in node) and not (len(node) == 1 and next(iter(node)) in _MARKS)
        return node if plain else {"dict": [[key, child] for key, child in node.items()]}

    def inside(path: str, key: Any) -> str:
        return f"{path}/{key}" if path else str(key)

    def unused(label: str) -> str:
        while label in arrays:  # of keys 0 and "0", or "a/b" and "b" within "a"
            label += "'"
        return label

    return arrays, visit(value, name)


def unpack(arrays: Mapping[str, Any], structure: Any) -> Any:
    """What `pack` was given, with the values of `arrays` in the places of its tensors."""
    if isinstance(structure, list):
        return [unpack(arrays, child) for child in structure]
    if not isinstance(structure, dict):
        return structure
    if len(structure) == 1:
        ((mark, content),) = structure.items()
        if mark == "array":
            return arrays[content]
        if mark == "tuple":
            return tuple(unpack(arrays, child) for child in content)
        if mark == "dict":
            return {key: unpack(arrays, child) for key, child in content}
    return {key: unpack(arrays, child) for key, child in structure.items()}
