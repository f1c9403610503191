"""Whether an export is at work, for modules that have kernels of their own, which no file holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _State(threading.local):
    is_exporting: bool = False


_state = _State()


def is_in_onnx_export() -> bool:
    """Whether an ONNX export calls the model. Functions with their own kernels then compose operations instead.

    >>> sg.onnx.is_in_onnx_export()
    False
    """
    return _state.is_exporting


@contextmanager
def exporting() -> Iterator[None]:
    """Within, an export is at work."""
    before, _state.is_exporting = _state.is_exporting, True
    try:
        yield
    finally:
        _state.is_exporting = before
