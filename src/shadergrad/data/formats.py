"""File formats of known data sets. In: files. Out: NumPy arrays. Each check says which file is wrong, and how.

IDX: a big-endian header (0, 0, element type, number of axes; the axes' sizes), then the elements. From the MNIST page.
CIFAR-10 binary: records of one label byte and 3 x 32 x 32 pixel bytes.
"""

from __future__ import annotations

import gzip
import math
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .errors import DataError

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
RECORD = 1 + 3 * 32 * 32


def read_bytes(path: Path) -> bytes:
    """The contents of a file, unpacked where it begins like a gzip file. Raises DataError where that is damaged."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is a damaged or truncated gzip file: {error}. {_remedy(path)}") from None


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """The array in an IDX file, plain or gzipped. Raises DataError unless it is whole and has `ndim` axes."""
    data = read_bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES:
        raise DataError(f"{path} is no IDX file: it begins with {data[:4].hex(' ') or 'nothing'}. {_remedy(path)}")
    if data[3] != ndim:
        raise DataError(f"{path} holds an array with {data[3]} axes, not {ndim}. Is it another file of the data set?")
    begin = 4 + 4 * ndim
    dtype = np.dtype(IDX_TYPES[data[2]])
    shape = tuple(int.from_bytes(data[k : k + 4], "big") for k in range(4, begin, 4))
    expected = begin + math.prod(shape) * dtype.itemsize
    if len(data) < begin or len(data) != expected:
        state = "is truncated" if len(data) < expected or len(data) < begin else "has bytes after its end"
        raise DataError(f"{path} {state}: its header says {expected} bytes, there are {len(data)}. {_remedy(path)}")
    return np.frombuffer(data, dtype, offset=begin).reshape(shape).astype(dtype.newbyteorder("="))


def read_cifar(data: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [n, 3, 32, 32] and labels uint8 [n] of a CIFAR-10 batch; `name` is for errors."""
    if not data or len(data) % RECORD:
        raise DataError(f"{name} is truncated, or no CIFAR-10 batch: {len(data)} bytes are no multiple of {RECORD}.")
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0].copy()
    if labels.max() > 9:
        raise DataError(f"{name} is no CIFAR-10 batch: it has a label {labels.max()}, labels go from 0 to 9.")
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), labels


def read_tar(path: Path, members: Iterable[str]) -> list[bytes]:
    """The contents of files in a tar archive, by their names in it, without unpacking it to the disk."""
    try:
        with tarfile.open(path) as archive:
            found = {member.name: member for member in archive if member.isfile()}
            missing = [name for name in members if name not in found]
            if missing:
                raise DataError(f"{path} lacks {', '.join(missing)}. {_remedy(path)}")
            return [archive.extractfile(found[name]).read() for name in members]  # type: ignore[union-attr]
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is a damaged or truncated archive: {error}. {_remedy(path)}") from None


def _remedy(path: Path) -> str:
    return f"Remedy: delete {path.name} and fetch it again."
