"""Reads and writes safetensors files in Python, as far as this library uses that package. In: arrays. Out: bytes, and the reverse.

A file is 8 bytes with the length of its header, the header as JSON, and the data of all arrays without gaps:
https://github.com/huggingface/safetensors#format. Like the package, this module refuses truncated headers, overlaps, gaps, and sizes that
do not fit their shapes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

MOST_HEADER = 100_000_000  # bytes
# By name; None: NumPy has no such numbers. In the package's order: files hold the last ones first.
DTYPES: dict[str, tuple[int, str | None]] = {
    "BOOL": (1, "?"),
    "U8": (1, "u1"),
    "I8": (1, "i1"),
    "F8_E5M2": (1, None),
    "F8_E4M3": (1, None),
    "F8_E8M0": (1, None),
    "F8_E4M3FNUZ": (1, None),
    "F8_E5M2FNUZ": (1, None),
    "I16": (2, "<i2"),
    "U16": (2, "<u2"),
    "F16": (2, "<f2"),
    "BF16": (2, None),
    "I32": (4, "<i4"),
    "U32": (4, "<u4"),
    "F32": (4, "<f4"),
    "C64": (8, "<c8"),
    "F64": (8, "<f8"),
    "I64": (8, "<i8"),
    "U64": (8, "<u8"),
}
NAMES = {np.dtype(text): name for name, (_, text) in DTYPES.items() if text is not None}


class SafetensorError(Exception):
    """No sound file, or a dtype that it has not."""


def save(tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    order = list(DTYPES)
    names = {name: _name_of(name, array) for name, array in tensors.items()}
    parts, end = [], 0
    for name in sorted(tensors, key=lambda name: (-order.index(names[name]), name)):
        array = np.asarray(tensors[name], DTYPES[names[name]][1], order="C")
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": names[name], "shape": list(array.shape), "data_offsets": [begin, end]}
        parts.append(array.tobytes())
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def _name_of(name: str, array: np.ndarray) -> str:
    kind = array.dtype.newbyteorder("<")
    if kind not in NAMES:
        raise SafetensorError(f"{name!r} is of dtype {array.dtype}, which safetensors has not")
    return NAMES[kind]


def load_file(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file, by name."""
    with safe_open(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


class safe_open:
    """`with safe_open(path) as file`: its names, metadata and arrays. Raises SafetensorError, and OSError where it cannot be read."""

    def __init__(self, path: str | Path, framework: str = "numpy") -> None:
        self._data = Path(path).read_bytes()
        self._metadata, self._entries, self._begin = parse(self._data)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def metadata(self) -> dict[str, str] | None:
        return self._metadata

    def keys(self) -> list[str]:
        return list(self._entries)

    def get_slice(self, name: str) -> Slice:
        return Slice(self._entry(name))

    def get_tensor(self, name: str) -> np.ndarray:
        """TypeError for numbers that NumPy has not."""
        entry = self._entry(name)
        kind = DTYPES[entry["dtype"]][1]
        if kind is None:
            raise TypeError(f"NumPy has no {entry['dtype']}")
        begin, end = (self._begin + at for at in entry["data_offsets"])
        array = np.frombuffer(self._data[begin:end], kind).reshape(entry["shape"])
        return array.astype(array.dtype.newbyteorder("="))

    def _entry(self, name: str) -> dict[str, Any]:
        if name not in self._entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        return self._entries[name]


class Slice:
    """What the header says of an array."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self._entry = entry

    def get_dtype(self) -> str:
        return self._entry["dtype"]

    def get_shape(self) -> list[int]:
        return self._entry["shape"]


def parse(data: bytes) -> tuple[dict[str, str] | None, dict[str, dict[str, Any]], int]:
    """The metadata, the entries by name in the order of the data, and where the data begins. Raises SafetensorError."""
    if len(data) < 8:
        raise SafetensorError("the header is too small")
    length = int.from_bytes(data[:8], "little")
    if length > MOST_HEADER:
        raise SafetensorError("the header is too large")
    if length > len(data) - 8:
        raise SafetensorError("the header is cut short")
    header = _read_json(data[8 : 8 + length])
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not _is_texts(metadata):
        raise SafetensorError("the metadata is not a list of texts by name")
    for name, entry in header.items():
        _check(name, entry)
    ordered = dict(sorted(header.items(), key=lambda item: item[1]["data_offsets"]))
    end = 0
    for name, entry in ordered.items():
        begin, after = entry["data_offsets"]
        if begin != end or after < begin:
            raise SafetensorError(f"the data of {name!r} does not follow the one before it")
        end = after
        size, _ = DTYPES[entry["dtype"]]
        if math.prod(entry["shape"]) * size != after - begin:
            raise SafetensorError(f"{name!r} of shape {entry['shape']}, {entry['dtype']}, has {after - begin} bytes")
    if 8 + length + end != len(data):
        raise SafetensorError("the data is cut short, or followed by more")
    return metadata, ordered, 8 + length


def _read_json(text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise SafetensorError("the header has a name twice")
        return found

    if not text.startswith(b"{"):
        raise SafetensorError("the header does not begin with {")
    try:
        return json.loads(text.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"the header is no JSON: {error}") from None


def _is_texts(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())


def _check(name: str, entry: Any) -> None:
    """Whether the header's entry of an array has the parts that it must have, and no other."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorError(f"the header's entry of {name!r} does not consist of dtype, shape and data_offsets")
    if entry["dtype"] not in DTYPES:
        raise SafetensorError(f"{name!r} is of the unknown dtype {entry['dtype']!r}")
    if not all(_is_sizes(entry[part]) for part in ("shape", "data_offsets")) or len(entry["data_offsets"]) != 2:
        raise SafetensorError(f"the header's entry of {name!r} has no sound shape and data_offsets")


def _is_sizes(found: Any) -> bool:
    return isinstance(found, list) and all(type(size) is int and 0 <= size < 1 << 63 for size in found)
