"""What can go wrong between this library and others."""

from __future__ import annotations

from ..errors import ShadergradError


class InteropError(ShadergradError, ValueError, RuntimeError):
    """A file that cannot be read, or weights that do not fit the model."""
