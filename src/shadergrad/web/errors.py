"""The exception of exporting and serving pages."""

from __future__ import annotations

from ..errors import ShadergradError


class WebError(ShadergradError, ValueError):
    """A step, a folder or a file that does not suit a page."""
