"""The wheels that a page's Python needs in addition to Pyodide's own: this library and its imports. In: installed packages. Out: files.

All are pure Python; they are packed from the installed files, so that nothing is downloaded.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterable, Sequence
from importlib import metadata
from io import BytesIO
from pathlib import Path

import shadergrad as sg

from .errors import WebError

NEEDED = ("rich", "markdown-it-py", "mdurl", "pygments")  # distributions beside NumPy, which Pyodide has
DATE = (1980, 1, 1, 0, 0, 0)  # of every file: the same files give the same wheel
REQUIRES = "Requires-Dist: numpy>=1.26\nRequires-Dist: rich>=13\n"


def write_wheels(folder: Path, more: Sequence[str] = ()) -> list[str]:
    """Write the wheels into a folder, also those of `more` installed distributions; returns their names. Raises WebError
    if a package is not installed."""
    folder.mkdir(parents=True, exist_ok=True)
    wheels = dict([_own(), *map(_installed, (*NEEDED, *more))])
    for old in folder.glob("*.whl"):
        old.unlink()
    for name, data in wheels.items():
        (folder / name).write_bytes(data)
    return list(wheels)


def _own() -> tuple[str, bytes]:
    """The wheel of the library itself, wherever it was imported from."""
    root = Path(sg.__file__).parent
    files = sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    entries = [(path.relative_to(root.parent).as_posix(), path.read_bytes()) for path in files]
    about = f"Metadata-Version: 2.1\nName: shadergrad\nVersion: {sg.__version__}\n{REQUIRES}".encode()
    return _wheel("shadergrad", sg.__version__, [*entries, (f"shadergrad-{sg.__version__}.dist-info/METADATA", about)])


def _installed(name: str) -> tuple[str, bytes]:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise WebError(f"[playground] {name} is not installed. Hint: pip install {name}") from None
    entries = []
    for file in found.files or ():
        path = file.locate()
        if (
            file.suffix in (".pyc", ".exe")
            or ".." in file.parts
            or file.name in ("RECORD", "WHEEL", "INSTALLER", "direct_url.json")
        ):
            continue
        entries.append((file.as_posix(), Path(str(path)).read_bytes()))
    return _wheel(name.replace("-", "_"), found.version, entries)


def _wheel(name: str, version: str, entries: Iterable[tuple[str, bytes]]) -> tuple[str, bytes]:
    """A file name, and the bytes of a wheel: a zip with a list of its files' digests."""
    about = f"{name}-{version}.dist-info"
    wheel = b"Wheel-Version: 1.0\nGenerator: shadergrad\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    everything = [*entries, (f"{about}/WHEEL", wheel)]
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in everything]
    record = "\n".join([*lines, f"{about}/RECORD,,\n"]).encode()
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in [*everything, (f"{about}/RECORD", record)]:
            archive.writestr(zipfile.ZipInfo(path, DATE), data, zipfile.ZIP_DEFLATED)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
