"""Files from a mirror. In: a file's name, checksum and size, a folder. Out: the whole file in the folder, or an error.

A download goes to NAME.part, which is renamed to NAME when its checksum is right, so NAME is complete or absent. The next
download continues an interrupted one (HTTP Range), or starts over if the server does not support that. It never reads more than
the size that the data set states. It tries the data set's official mirrors one after the other, or only the user's mirror.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ..config import config
from .errors import DataError, DownloadError
from .known_files import KnownFile

CHUNK = 1 << 18
ATTEMPTS = 3  # requests without progress or with a wrong result, before giving up
SECONDS = 60.0  # seconds without data after which a connection fails


def find_or_fetch(
    folder: Path,
    file: str,
    known: KnownFile,
    *,
    download: bool = False,
    mirror: str | None = None,
    official: tuple[str, ...] = (),
) -> Path:
    """The path of `file` in `folder`, or of the same without .gz; fetched if missing.

    known: checksum and size of the fetched file.
    mirror: the address that contains FOLDER/FILE; default SHADERGRAD_DATA_MIRROR.
    official: the addresses that contain the file itself, tried in this order if there is no mirror.
    Raises DownloadError if the file is missing and must not or cannot be fetched.
    """
    for path in (folder / file, folder / file.removesuffix(".gz")):
        if path.is_file():
            return path
    base = mirror or config.data_mirror
    by_hand = f"put {file} into {folder} by hand"
    if not download:
        raise DownloadError(f"there is no {folder / file}. Hint: download=True fetches it from a mirror, or {by_hand}.")
    if not base:
        return _fetch_from_any(official, folder / file, known, by_hand)
    if not base.startswith(("http://", "https://")):
        raise DownloadError(f"the mirror {base!r} is no http:// or https:// address.")
    return fetch(f"{base.rstrip('/')}/{folder.name}/{file}", folder / file, known)


def _fetch_from_any(addresses: tuple[str, ...], path: Path, known: KnownFile, by_hand: str) -> Path:
    """Fetch the file from the first of `addresses` that delivers it completely. Raises a DownloadError that names each failure."""
    problems = []
    for address in addresses:
        try:
            return fetch(f"{address}/{path.name}", path, known)
        except DownloadError as error:
            problems.append(str(error))
    told = " ".join(problems) or "no mirror is known."
    raise DownloadError(
        f"there is no {path}, and no mirror gave it. Hint: set SHADERGRAD_DATA_MIRROR to the address of one that has "
        f"{path.parent.name}/{path.name} (or pass mirror=), or {by_hand}. Asked: {told}"
    )


def fetch(url: str, path: Path, known: KnownFile, *, seconds: float = SECONDS) -> Path:
    """Download `url` to `path`, continuing an earlier download. Returns `path`.

    Raises DownloadError: the server does not have the file, does not answer, breaks off each time (the received part is kept),
    or sends another checksum or too many bytes (nothing is kept, and the excess is not read).
    """
    checksum, size = known
    part = path.with_name(path.name + ".part")
    if checksum.partition(":")[0] not in ("md5", "sha256"):
        raise DataError(f"{checksum!r} is no checksum: write md5:... or sha256:...")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        failures, problem, most = 0, "", _size(part)
        while failures < ATTEMPTS:
            before = _size(part)
            try:
                _continue_download(url, part, size, seconds)
            except _TooLong as error:
                problem = str(error)
                part.unlink(missing_ok=True)
                failures = ATTEMPTS if before == 0 else failures + 1  # as for a wrong checksum, below
                continue
            except (http.client.HTTPException, urllib.error.URLError, TimeoutError, ConnectionError) as error:
                _raise_refusal(url, error)
                problem = str(getattr(error, "reason", error)) or type(error).__name__
                failures = 0 if _size(part) > most else failures + 1
                most = max(most, _size(part))
                continue
            except ValueError as error:  # urllib's error for an invalid address
                raise DownloadError(f"cannot fetch {url}: {error}.") from None
            found = _checksum(part, checksum.partition(":")[0])
            if found == checksum:
                os.replace(part, path)
                return path
            problem = f"its checksum is {found}, not {checksum}"
            part.unlink()
            # the part may belong to another version or file: try once more, from the start
            failures = ATTEMPTS if before == 0 else failures + 1
    except OSError as error:
        if isinstance(error, DownloadError):
            raise
        raise DownloadError(f"cannot fetch {url} to {path}: {error.strerror or error}.") from None
    kept = (
        f"{_size(part)} bytes are kept in {part}; the same call goes on from there."
        if _size(part)
        else "Nothing is kept."
    )
    raise DownloadError(f"cannot fetch {url}: {problem}. {kept}")


class _TooLong(Exception):
    """The server sends more than the file has."""


def _continue_download(url: str, part: Path, size: int, seconds: float) -> None:
    """One request for the bytes that `part` lacks. Raises HTTPException if the connection ends before the file."""
    start = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=seconds)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            error.close()
            return  # the server has no more bytes; the checksum decides whether the file is complete
        raise
    with response, _progress(part.name.removesuffix(".part")) as bar:
        resumed = response.status == http.client.PARTIAL_CONTENT
        if resumed and not (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
            part.unlink(missing_ok=True)
            raise http.client.HTTPException("the server sent another range than was asked for")
        begun = start if resumed else 0
        length = _length(response.headers.get("Content-Length"))
        total = size if length is None else begun + length
        if total > size:
            raise _TooLong(f"the server has {total} bytes, and the file has {size}")
        task = bar.add_task("", total=total, completed=begun)
        with part.open("ab" if resumed else "wb") as file:
            left = size - begun
            while chunk := response.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise _TooLong(f"the server sends more than the {size} bytes of the file")
                file.write(chunk)
                bar.advance(task, len(chunk))
            file.flush()
            os.fsync(file.fileno())
    if _size(part) < total:
        raise http.client.HTTPException(f"the connection ended after {_size(part)} of {total} bytes")


def _length(header: str | None) -> int | None:
    """The number of bytes that a server announces, or None. Raises HTTPException if it is not a number."""
    if header is None:
        return None
    if not (header.isascii() and header.isdigit() and len(header) < 20):
        raise http.client.HTTPException(f"the server says that the length is {header[:40]!r}")
    return int(header)


def _raise_refusal(url: str, error: Exception) -> None:
    """Raises an error for an answer that every request would get."""
    if isinstance(error, urllib.error.HTTPError) and error.code < http.client.INTERNAL_SERVER_ERROR:
        raise DownloadError(
            f"cannot fetch {url}: the server says {error.code} {error.reason}. "
            "Hint: is SHADERGRAD_DATA_MIRROR the address that the data set's folder lies in?"
        ) from None


def _checksum(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _progress(name: str) -> Progress:
    """A bar on a terminal; nothing elsewhere."""
    columns = (
        TextColumn(f"downloading {name}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, transient=True, disable=not sys.stderr.isatty())
