"""The record of a data set's file: its name, checksum, size and folder. Separate from download.py, which imports urllib and rich."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..config import config


class KnownFile(NamedTuple):
    """The known properties of a data set's file. checksum: "md5:..." or "sha256:..."; size: in bytes."""

    checksum: str
    size: int


def data_folder(root: str | Path | None, name: str) -> Path:
    """The folder of the data set `name`: in `root`, else in SHADERGRAD_DATA_DIR, else in the user's cache folder."""
    return Path(root or config.data_dir or Path.home() / ".cache" / "shadergrad").expanduser() / name
