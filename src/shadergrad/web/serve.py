"""Serves a folder to browsers on this machine, as any static host does."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .errors import WebError

HOST = "127.0.0.1"  # WebGPU needs https, or this machine
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".safetensors": "application/octet-stream",
}


class Handler(SimpleHTTPRequestHandler):
    """Serves files with their types, without caching, because an export may replace them."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **TYPES}  # noqa: RUF012 (as its base has it)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because a page requests a dozen files."""


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
