"""The exception of exporting and serving pages."""

from __future__ import annotations

from ..errors import ShadergradError


class WebError(ShadergradError, ValueError):
    """A step, folder or file that is not suitable for a page."""
