"""Serves a folder to browsers on this machine, as a static host would, and refuses requests from pages of other sites."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from .errors import WebError
from .lite import origin_of_notebooks
from .playground import origin_of_python

HOST = "127.0.0.1"  # WebGPU needs https, or this machine
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".safetensors": "application/octet-stream",
    ".mjs": "text/javascript; charset=utf-8",
    ".wasm": "application/wasm",
}


# what a page may load: its own files, WebAssembly that it makes, pictures and programs from its memory
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{hashes}{python}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:{python}; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PYPI = "https://pypi.org https://files.pythonhosted.org"
_INLINE = re.compile(rb"<script(?![^>]*\ssrc\s*=)[^>]*>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)


class Handler(SimpleHTTPRequestHandler):
    """Serves the files of a folder with their types, without caching, because an export may replace them.

    Pages of other sites must not read them. They could use a host name of their own that leads to this machine, so
    requests for other hosts are refused. Links that lead out of the folder, hidden files, and directory listings are not served.
    """

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **TYPES}  # noqa: RUF012 (as its base has it)

    def send_head(self) -> Any:
        """Answer with a file, or with an error."""
        hosts = self.headers.get_all("Host") or [""]
        if len(hosts) > 1:  # a proxy and this server might believe different ones
            self.send_error(HTTPStatus.BAD_REQUEST, "more than one Host header")
            return None
        if not _is_here(hosts[0]):
            self.send_error(HTTPStatus.FORBIDDEN, "this server answers for localhost alone")
            return None
        name = unquote(urlsplit(self.path).path, errors="replace")
        if any(ord(letter) < 32 for letter in name):
            self.send_error(HTTPStatus.BAD_REQUEST, "a control character in the address")
            return None
        if not self._may_be_seen(name):
            self.send_error(HTTPStatus.NOT_FOUND, "there is no such file")
            return None
        return super().send_head()

    def _may_be_seen(self, name: str) -> bool:
        if any(part.startswith(".") for part in re.split(r"[/\\]", name)):
            return False
        folder = Path(self.directory).resolve()
        try:
            path = Path(self.translate_path(self.path)).resolve()
            files = [path / page for page in ("index.html", "index.htm")] if path.is_dir() else [path]
            return path.is_relative_to(folder) and all(_is_within(folder, file) for file in files if file.exists())
        except (OSError, RuntimeError):  # a circle of links
            return False

    def list_directory(self, path: Any) -> None:
        """A folder without a page has no list of its files."""
        self.send_error(HTTPStatus.NOT_FOUND, "there is no page")

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Security-Policy", self._policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        super().end_headers()

    def _inline_scripts(self) -> str:
        """The digests of the page's inline scripts, so that no injected script runs."""
        try:
            path = Path(self.translate_path(self.path))
            path = path / "index.html" if path.is_dir() else path
            if path.suffix not in (".html", ".htm") or not self._may_be_seen(unquote(urlsplit(self.path).path)):
                return ""
            text = path.read_bytes().replace(b"\r\n", b"\n")  # as browsers read it
        except (OSError, ValueError, AttributeError):  # of a request that has no path
            return ""
        digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE.findall(text))
        return "".join(f" 'sha256-{digest}'" for digest in digests)

    def _policy(self) -> str:
        origin = origin_of_notebooks(self.directory)
        if not origin:
            return POLICY.format(hashes=self._inline_scripts(), python=self._python())
        # JupyterLite compiles schemas to JavaScript, outputs of cells hold scripts, and its Python may install from PyPI
        policy = POLICY.format(hashes=f" 'unsafe-eval' 'unsafe-inline' {origin}", python="")
        return policy.replace("connect-src 'self'", f"connect-src 'self' {origin} {PYPI}")

    def _python(self) -> str:
        """The host of the page's Python, if it is another one, from the files beside the page."""
        try:
            path = Path(self.translate_path(self.path))
            seen = self._may_be_seen(unquote(urlsplit(self.path).path))
            origin = origin_of_python(path if path.is_dir() else path.parent) if seen else ""
        except (OSError, ValueError, AttributeError):  # of a request that has no path
            origin = ""
        return f" {origin}" if origin else ""

    def version_string(self) -> str:
        return "shadergrad"

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because a page requests a dozen files."""


def _is_within(folder: Path, file: Path) -> bool:
    """Whether it is a file, not a pipe, which might never end, and no link that leads out of the folder."""
    return file.is_file() and file.resolve().is_relative_to(folder)


def _is_here(host: str | None) -> bool:
    """Whether a Host header names this machine, with any port, because a tunnel may change the port."""
    name = re.sub(r":\d*$", "", (host or "").strip()).lower().removesuffix(".")
    return name in ("localhost", HOST, "[::1]")


def serve(folder: str | Path, port: int = 8000) -> ThreadingHTTPServer:
    """A server of a folder for this machine only; port 0 takes a free port. Call its serve_forever() and server_close().

    Raises WebError if the folder contains no page, or the port is in use.

    >>> try:
    ...     sg.web.serve("no-such-folder")
    ... except sg.web.WebError as error:
    ...     print(error)
    no-such-folder has no index.html. Hint: shadergrad export RECIPE no-such-folder, or sg.web.export.
    """
    if not (Path(folder) / "index.html").is_file():
        raise WebError(f"{folder} has no index.html. Hint: shadergrad export RECIPE {folder}, or sg.web.export.")
    try:
        return ThreadingHTTPServer((HOST, port), partial(Handler, directory=str(folder)))
    except OSError as error:
        raise WebError(
            f"cannot serve on port {port}: {error.strerror}. Hint: another --port, or 0 for a free one."
        ) from None
