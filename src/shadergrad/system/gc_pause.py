"""Pauses of Python's garbage collector. It looks again and again through all that is alive, the user's objects among it,
while thousands of objects are made that all stay: up to a fifth of the time that a step takes to capture and compile.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_waits() -> Iterator[None]:
    """No collection begins by itself inside; afterwards it is as before."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def full_collections_are_rare() -> Iterator[None]:
    """A context in which the garbage collector ignores all earlier objects, and runs full collections a tenth as often.

    The library holds some 100,000 objects, and an uncompiled loop makes so many in a step that full collections took a quarter of its time.
    Collections of young objects stay as frequent, so short-lived cycles are freed as early.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(before[0], before[1], 10 * before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
