"""Folders of files that only this user may write, because their contents are executed. In: a folder, and bytes by name. Out: the bytes.

A file is written completely or not at all, and begins with a digest of its contents. The digest detects damage; it does not prove who wrote
the file. So a folder or file that another user owns, or that others may write, is not used, with one warning per process. Windows has no
such permission bits; there the user's folders are trusted.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from contextlib import suppress
from pathlib import Path

from ..errors import ShadergradError
from . import atomic_files

DIGEST = hashlib.sha256().digest_size
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def why_not_private(status: os.stat_result) -> str | None:
    """Why others may have written a file or folder: it is another user's, or others may write it. None where neither is so."""
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return f"belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may be written by others"
    return None


class PrivateFiles:
    """A folder's files of one kind.

    words: the warning about an unusable folder or file; its two "{}" are the path and the fault.
    warned: the paths in warnings so far; a list that is not empty suppresses further ones.
    """

    def __init__(self, words: str, warning: type[UserWarning], error: type[ShadergradError]) -> None:
        self.words, self.warning, self.error = words, warning, error
        self.warned: list[Path] = []

    def usable(self, folder: Path) -> Path | None:
        """A folder, there or to be made; None where others may have written it."""
        try:
            complaint = why_not_private(folder.stat())
        except OSError:
            return folder  # it is not there yet
        if complaint is None:
            return folder
        self._warn(folder, complaint)
        return None

    def _warn(self, path: Path, complaint: str) -> None:
        if not self.warned:
            self.warned.append(path)
            hint = "look into it or delete it, then chmod 700 the folder and 600 its files; or set SHADERGRAD_CACHE."
            warnings.warn(f"{self.words.format(path, complaint)} Hint: {hint}", self.warning, stacklevel=2)

    def read(self, path: Path) -> bytes | None:
        """The content of a file, which counts as used now; None where there is no whole one."""
        try:
            with open(os.open(path, os.O_RDONLY | _NO_LINK), "rb") as file:
                if (complaint := why_not_private(os.fstat(file.fileno()))) is not None:
                    self._warn(path, complaint)
                    return None
                data = file.read()
            os.utime(path)
        except OSError:
            return None
        digest, content = data[:DIGEST], data[DIGEST:]
        return content if hashlib.sha256(content).digest() == digest else None

    def write(self, path: Path, content: bytes) -> None:
        """Keep content in a file. Raises the error where the disk does not take it."""
        with suppress(OSError):  # the user's alone, whatever the umask; what cannot be made is said below
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700)
        with atomic_files.replacing(path, self.error) as file:
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o600)
            file.write(hashlib.sha256(content).digest() + content)


def make_room(folder: Path, most_bytes: int) -> None:
    """Take away the files of a folder used longest ago, while all take more than they may."""
    files = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):  # another process took it away
            status = entry.stat()
            files.append((status.st_mtime, status.st_size, entry))
    total = sum(size for _, size, _ in files)
    for _, size, entry in sorted(files, key=lambda f: f[0]):
        if total <= most_bytes:
            break
        with suppress(OSError):
            entry.unlink()
            total -= size
