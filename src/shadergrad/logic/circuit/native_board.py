"""A board stepped by compiled C: the system's compiler builds the output of `cell_to_c`, and ctypes calls it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .cell import CellCircuit
from .errors import CircuitError
from .export_c import cell_to_c
from .packed_board import Board

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O3", "-march=native", "-fPIC", "-shared")

_WORDS = np.ctypeslib.ndpointer(np.uint64, flags="C_CONTIGUOUS")


def find_compiler() -> str | None:
    """The path of the first available C compiler."""
    return next((path for path in map(shutil.which, COMPILERS) if path), None)


class NativeBoard(Board):
    """A board that machine code steps; otherwise like BoardRunner. Minimize the automaton first.

    cell: a CellCircuit; CircuitError for anything else. compiler: its path or name; by default the first available of cc, gcc and clang. Raises CircuitError if there is none,
    or if it fails.

    >>> cell = sg.logic.circuit.CellCircuit(sg.logic.circuit.Circuit(9, [], [3]))
    >>> sg.logic.circuit.NativeBoard(cell, 1, 3, compiler="no-such-compiler")
    Traceback (most recent call last):
        ...
    shadergrad.logic.circuit.errors.CircuitError: [NativeBoard] cannot run no-such-compiler: ...
    """

    def __init__(self, cell: CellCircuit, height: int, width: int, compiler: str | None = None) -> None:
        super().__init__(cell, height, width)
        self._step = build(cell_to_c(cell), compiler, "NativeBoard").automaton_step
        self._step.restype = None
        self._step.argtypes = [_WORDS, ctypes.c_void_p, _WORDS, ctypes.c_size_t, ctypes.c_size_t]

    def _advance(self, fire: np.ndarray | None) -> None:
        mask = None if fire is None else np.ascontiguousarray(fire)
        self._step(self.words, None if mask is None else mask.ctypes.data, self._next, *self.shape)


def build(source: str, compiler: str | None, what: str, flags: tuple[str, ...] = FLAGS) -> ctypes.CDLL:
    """The library that a C compiler makes of a source. Raises CircuitError that begins with `what`."""
    path = compiler or find_compiler()
    if path is None:
        raise CircuitError(
            f"[{what}] none of {', '.join(COMPILERS)} is on the path.\n  Hint: apt-get install gcc, or run it by NumPy or on a device."
        )
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder, "automaton.c"), Path(folder, "automaton.so")
        text.write_text(source, encoding="utf-8")
        try:
            result = subprocess.run([path, *flags, "-o", library, text], capture_output=True, text=True, check=False)
        except OSError as error:
            raise CircuitError(f"[{what}] cannot run {path}: {error.strerror or error}.") from None
        if result.returncode:
            raise CircuitError(f"[{what}] {path} failed:\n{result.stderr[:2000]}")
        return ctypes.CDLL(str(library))  # stays mapped when the file is deleted
