"""File formats of known data sets. In: files. Out: NumPy arrays. Each error names the file and the mistake.

IDX: a big-endian header (0, 0, element type, number of axes; the axes' sizes), then the elements. From the MNIST page.
CIFAR-10 binary: records of one label byte and 3 x 32 x 32 pixel bytes.
"""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .errors import DataError

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
RECORD = 1 + 3 * 32 * 32
CHUNK = 1 << 16


class _Unpacked(io.RawIOBase):
    """The contents of a file to read once, unpacked if it begins like a gzip file.

    Raises DataError if the file is damaged, and as soon as it exceeds `limit` bytes: a small file can unpack to any size.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit, self.count = path, limit, 0
        with path.open("rb") as file:
            opener = gzip.open if file.read(2) == b"\x1f\x8b" else open
        self._file = opener(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(min(len(buffer), self.limit + 1 - self.count))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{self.path} is a damaged or truncated gzip file: {error}. {_hint(self.path)}") from None
        self.count += len(data)
        if self.count > self.limit:
            raise DataError(
                f"{self.path} holds more than {self.limit} bytes, and so is another file. {_hint(self.path)}"
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextmanager
def _unpacked(path: Path, limit: int) -> Iterator[BinaryIO]:
    """`_Unpacked`, buffered. Raises DataError if the file cannot be read."""
    try:
        with io.BufferedReader(_Unpacked(path, limit), CHUNK) as file:
            yield file
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from None


def read_bytes(path: Path, limit: int) -> bytes:
    """The contents of a file, unpacked if it begins like a gzip file.

    Raises DataError if it is damaged, cannot be read, or exceeds `limit` bytes.
    """
    with _unpacked(path, limit) as file:
        return file.read()


def read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The array in an IDX file, plain or gzipped.

    shape: the largest allowed size of each axis. Raises DataError if the file is incomplete, or has another number of axes or a
    longer one.
    """
    ndim = len(shape)
    begin = 4 + 4 * ndim
    with _unpacked(path, begin + 8 * math.prod(shape)) as file:  # 8 bytes: the largest of the types
        head = file.read(begin)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX_TYPES:
            raise DataError(f"{path} is no IDX file: it begins with {head[:4].hex(' ') or 'nothing'}. {_hint(path)}")
        if head[3] != ndim:
            raise DataError(
                f"{path} holds an array with {head[3]} axes, not {ndim}. Is it another file of the data set?"
            )
        if len(head) < begin:
            raise DataError(f"{path} is truncated: its header has {begin} bytes, there are {len(head)}. {_hint(path)}")
        found = tuple(int.from_bytes(head[k : k + 4], "big") for k in range(4, begin, 4))
        if any(n > most for n, most in zip(found, shape, strict=True)):
            raise DataError(f"{path} holds an array of shape {found}; that of the data set has {shape}. {_hint(path)}")
        dtype = np.dtype(IDX_TYPES[head[2]])
        expected = math.prod(found) * dtype.itemsize
        data = file.read(expected + 1)  # one more byte would show that the file continues
    if len(data) < expected:
        raise DataError(
            f"{path} is truncated: its header says {begin + expected} bytes, there are {begin + len(data)}. {_hint(path)}"
        )
    if len(data) > expected:
        raise DataError(f"{path} has bytes after its end: its header says {begin + expected} bytes. {_hint(path)}")
    return np.frombuffer(data, dtype).reshape(found).astype(dtype.newbyteorder("="))


def read_cifar(data: bytes, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [n, 3, 32, 32] and labels uint8 [n] of a CIFAR-10 batch; `name` is for errors."""
    if not data or len(data) % RECORD:
        raise DataError(f"{name} is truncated, or no CIFAR-10 batch: {len(data)} bytes are no multiple of {RECORD}.")
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0].copy()
    if labels.max() > 9:
        raise DataError(f"{name} is no CIFAR-10 batch: it has a label {labels.max()}, labels go from 0 to 9.")
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), labels


def read_tar(path: Path, members: Iterable[str], limit: int, total: int) -> list[bytes]:
    """The contents of files in a tar archive, gzipped or not, by name, without unpacking the archive to disk.

    limit: the most bytes of each file. total: the most bytes of the unpacked archive. Raises DataError if the archive exceeds
    them, lacks a file, or is damaged.
    """
    import tarfile  # imported here, because only CIFAR-10 needs it

    members, found = list(members), {}
    try:
        with _unpacked(path, total) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                if member.name in members and member.isfile():
                    if member.size > limit:
                        raise DataError(
                            f"{member.name} in {path} has {member.size} bytes; that of the data set has {limit}. "
                            f"{_hint(path)}"
                        )
                    found[member.name] = archive.extractfile(member).read()  # type: ignore[union-attr]
            while file.read(CHUNK):
                pass  # read to the end, because gzip's checksum is there
    except DataError:
        raise
    except (tarfile.TarError, ValueError) as error:
        raise DataError(f"{path} is a damaged or truncated archive: {error}. {_hint(path)}") from None
    missing = [name for name in members if name not in found]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}. {_hint(path)}")
    return [found[name] for name in members]


def _hint(path: Path) -> str:
    return f"Hint: delete {path.name} and fetch it again."
