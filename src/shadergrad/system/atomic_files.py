"""Writes files completely or not at all. In: the contents, and a path. Out: the file, or an error and the old file.

The contents go to a temporary file, are flushed to the disk, and the temporary file is renamed over the old one. So a reader, also after
the process was killed, finds either the old file or the new one. Temporary names are unique, so writers of one path do not interfere; the
last to rename wins. A writer locks its temporary file. A temporary file without a lock belongs to a dead writer, and the next writer of
that path removes it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..errors import ShadergradError

try:
    import fcntl
except ImportError:  # Windows has other locks
    fcntl = None
else:
    if not hasattr(fcntl, "flock"):  # an empty module of that name in JupyterLite
        fcntl = None

ABANDONED_AFTER = 3600.0  # seconds without a write, where there are no locks to ask


@contextmanager
def replacing(path: str | Path, error: type[ShadergradError]) -> Iterator[BinaryIO]:
    """`with replacing(path, error) as file`: the contents of `file` replace `path` completely, or not at all.

    Missing folders are made. Raises `error`, in one line, if the disk refuses the write; `path` is then unchanged.
    """
    path = Path(path)
    replaced = False
    try:
        _make_folder(path.parent)
        _clear_orphans(path)
        aside, file = _open_aside(path)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is not None:
                    os.replace(aside, path)  # while it is locked, so that no writer takes it for an orphan
            if fcntl is None:  # Windows renames no open file
                os.replace(aside, path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        replaced = True
        _flush_folder(path.parent)
    except OSError as failure:
        reason = failure.strerror or failure
        if replaced:
            raise error(
                f"{path} is written, but the disk did not confirm it: {reason}. It may be gone after a power cut."
            ) from None
        raise error(f"cannot write {path}: {reason}. What was there before is unchanged.") from None


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they outlast a power cut."""
    made = [f for f in (folder, *folder.parents) if not f.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for new in reversed(made):
        _flush_folder(new.parent)


def _flush_folder(folder: Path) -> None:
    """Wait until the disk holds a folder's entries."""
    if os.name == "nt":
        return  # Windows cannot open a folder; its renames are journalled
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that cannot flush a folder say so
            raise
    finally:
        os.close(descriptor)


def _open_aside(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside `path`, locked as far as the file system knows locks."""
    while True:
        aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        file = aside.open("xb")
        if fcntl is None:
            return aside, file
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            return aside, file  # a file system without locks, on which no writer can detect orphans, either
        if os.fstat(file.fileno()).st_nlink:
            return aside, file
        file.close()  # another writer took it for an orphan before it was locked


def _clear_orphans(path: Path) -> None:
    """Take away what dead writers of `path` left."""
    pattern = re.compile(rf"\.{re.escape(path.name)}(\.[0-9a-f]{{16}})?\.part")
    with os.scandir(path.parent) as entries:
        found = [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    for name in found:
        try:
            with open(name, "rb") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name)
                    continue
                abandoned = time.time() - os.fstat(file.fileno()).st_mtime > ABANDONED_AFTER
            if abandoned:
                os.unlink(name)
        except OSError:
            pass  # its writer lives, or has just ended, or it is not ours to delete
