"""A folder, to the browsers of this machine: any static host does the same."""

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
    """Files with their types; asked for anew each time, since an export may have replaced them."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **TYPES}  # noqa: RUF012 (as its base has it)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: a page asks for a dozen files."""


def serve(folder: str | Path, port: int = 8000) -> ThreadingHTTPServer:
    """A server of a folder on this machine alone; port 0 takes a free one. Call serve_forever() on it, and server_close().

    Raises WebError where there is no page in the folder, or the port is taken.

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
