"""The C library's heap gives freed memory back to the system."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from shadergrad.system import heap

PROGRAM = """
import numpy as np
from shadergrad.system import heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

arrays = [np.ones(8_000) for _ in range(3_000)]
last = np.ones(8_000)  # behind the others, so that the heap does not shrink by itself
full = resident()
del arrays
freed = resident()
heap.return_freed_memory()
print(full - freed, freed - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library, which keeps less")
def test_freed_memory_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, check=True)
    by_itself, returned = map(int, done.stdout.split())
    assert by_itself < 50e6
    assert returned > 100e6, "of 192 MB"


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heap._trim.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    heap.return_freed_memory()
    heap._trim.cache_clear()
