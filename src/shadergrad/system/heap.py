"""The heap of the C library, which keeps the memory of freed arrays for new ones."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """The function of glibc, None where the C library has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return None


def return_freed_memory() -> None:
    """Give memory that nobody uses back to the system, which takes about 10 ms for 500 MB. Only glibc keeps so much."""
    if (trim := _trim()) is not None:
        trim(0)
