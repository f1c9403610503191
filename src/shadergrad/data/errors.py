"""The exceptions of data sets and loaders."""

from __future__ import annotations

from ..errors import ShadergradError


class DataError(ShadergradError, ValueError):
    """Invalid data, an invalid file, or an invalid request for data."""


class DownloadError(DataError, OSError):
    """A file that could not be downloaded completely."""


class LoaderTimeoutError(ShadergradError, RuntimeError, TimeoutError):
    """A batch that a worker did not finish in time."""
