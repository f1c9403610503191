"""The exception of circuits."""

from ...errors import ShadergradError


class CircuitError(ShadergradError, ValueError):
    """An invalid circuit, or one that does not fit its use."""
