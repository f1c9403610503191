"""What can be wrong with a circuit."""

from ...errors import ShadergradError


class CircuitError(ShadergradError, ValueError):
    """A circuit that is none, or that does not fit what it is used for."""
