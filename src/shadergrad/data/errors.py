"""What can go wrong with data, as exceptions."""

from __future__ import annotations

from ..errors import ShadergradError


class DataError(ShadergradError, ValueError):
    """Data, a file of data, or a request for data that does not fit."""


class DownloadError(DataError, OSError):
    """A file that could not be fetched whole."""


class LoaderTimeoutError(ShadergradError, RuntimeError, TimeoutError):
    """A batch that a worker did not finish in time."""
