"""A classifier run by machine code: a fixed C program walks the tables of the circuit, 512 images at a time.

The system's compiler builds the program once for a process, in about a second, for all circuits; to compile a function with a
statement a gate would take minutes. One thread; calls release Python's lock, so several threads may call one classifier.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from .classifier import CircuitClassifier
from .errors import check_kind
from .level_schedule import schedule
from .native_board import build

_POINTERS = ("inputs", "outputs", "run", "gates")
_SIZES = ("numbers", "bits", "slots", "runs", "classes", "group", "planes", "digits")


class _Tables(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _SIZES] + [(name, ctypes.c_void_p) for name in _POINTERS]


class NativeClassifier:
    """A CircuitClassifier that machine code runs, with the same `votes`, `scores` and `predict`.

    compiler: its path or name; by default the first available of cc, gcc and clang. Raises CircuitError if there is none, or if it fails.

    >>> circuit = sg.logic.circuit.Circuit(2, [(1, 0, 1), (14, 0, 1)], [2, 3])
    >>> classifier = sg.logic.circuit.CircuitClassifier(circuit, 2)
    >>> sg.logic.circuit.NativeClassifier(classifier, compiler="no-such-compiler")
    Traceback (most recent call last):
        ...
    shadergrad.logic.circuit.errors.CircuitError: [NativeClassifier] cannot run no-such-compiler: ...
    """

    def __init__(self, classifier: CircuitClassifier, compiler: str | None = None) -> None:
        check_kind(classifier, CircuitClassifier, "NativeClassifier")
        self.classifier, self._compiler = classifier, compiler
        self._run: Any = _program(compiler).run_tables
        tables = schedule(classifier.circuit)
        kept = {
            "inputs": tables.inputs,
            "outputs": tables.outputs,
            "run": np.ascontiguousarray(tables.runs),
            "gates": np.ascontiguousarray(tables.gates),
        }
        limits = classifier.thresholds
        bits = 1 if limits is None else limits.shape[1]
        sizes = {
            "numbers": classifier.numbers,
            "bits": bits,
            "slots": tables.slots,
            "runs": len(tables.runs),
            "classes": classifier.classes,
            "group": classifier.group,
            "planes": max(1, classifier.group.bit_length()),
            "digits": max(1, (classifier.classes - 1).bit_length()),
        }
        self._kept = kept  # alive as long as their addresses
        self._tables = _Tables(**sizes, **{name: kept[name].ctypes.data for name in _POINTERS})
        self._limits = None if limits is None else np.ascontiguousarray(limits.T)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, as in another process, compiles the program anew, and has tables of its own."""
        return NativeClassifier, (self.classifier, self._compiler)

    def votes(self, images: Any) -> np.ndarray:
        """The counts (n, classes) of ones, int64."""
        return self._called(images, True).astype(np.int64)

    def scores(self, images: Any) -> np.ndarray:
        """The votes divided by tau, float32 (n, classes)."""
        return (self.votes(images) / self.classifier.tau).astype(np.float32)

    def predict(self, images: Any) -> np.ndarray:
        """The classes (n,) with the most votes, the first of equals, int64."""
        return self._called(images, False).astype(np.int64)

    def _called(self, images: Any, counts: bool) -> np.ndarray:
        rows = self.classifier.rows(images)
        out = np.zeros((len(rows), self.classifier.classes) if counts else len(rows), np.int32)
        rows, limits = self._comparable(rows)
        given = ctypes.c_void_p(rows.ctypes.data), int(rows.dtype == np.uint8), ctypes.c_void_p(limits.ctypes.data)
        if len(rows) and self._run(
            ctypes.byref(self._tables),
            *given,
            ctypes.c_size_t(len(rows)),
            ctypes.c_void_p(out.ctypes.data),
            int(counts),
        ):
            raise MemoryError("[NativeClassifier] no memory for the values of the gates.")
        return out

    def _comparable(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows, and thresholds of their dtype. Bytes are compared as bytes if the result is the same."""
        limits = self._limits
        if limits is None:
            return rows, np.zeros(self.classifier.numbers, np.uint8)
        if rows.dtype != np.uint8:
            return rows, limits
        if (limits >= 0).all():  # above t is above its whole part; nothing is above 255
            return rows, np.minimum(np.floor(limits), 255).astype(np.uint8)
        return rows.astype(np.float32), limits


@lru_cache(maxsize=4)
def _program(compiler: str | None) -> ctypes.CDLL:
    source = files("shadergrad.logic.circuit").joinpath("tables.c").read_text(encoding="utf-8")
    return build(source, compiler, "NativeClassifier", ("-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared"))
