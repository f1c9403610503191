"""The exception of exchange with other libraries."""

from __future__ import annotations

from ..errors import ShadergradError


class InteropError(ShadergradError, ValueError, RuntimeError):
    """A file that cannot be read, or weights that do not fit the model."""
