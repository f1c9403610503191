"""Outputs that overwrite the inputs that they replace: parameters and their optimizer's state. In: steps. Out: which outputs can, and in which steps.

An update reads each element of a parameter and computes its new value, so it can overwrite the old one: half the memory, and no new page for the
system to clear. This requires that the kernel goes over elements and reads the input only at its own one (`Step.own`), and that nothing reads the
input afterwards. No operation of the interpreter may follow either, because it may raise an error, after which all inputs must have their old
values.

Gradients are written over those of the run before, which the program does not read.

Whether an output does overwrite is decided in each run: its storage must be the input's, and nobody else may refer to the array (`is_free`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import cpython
from ..compile.native import overwriting
from ..compile.native.program import Row, Step, Steps, may_alias
from ..primitives.dot import Dot
from ..primitives.indexing import InRange, ScatterAdd
from ..primitives.views import Cat
from ..primitives.window import Conv
from .device import Storage

FEWEST = 1 << 16  # bytes of an array for which it pays


class Overwriting(NamedTuple):
    """A step that may overwrite inputs. words: the description of its kernel (compile/native/overwriting.py). outputs: the position of each
    among the buffers. inputs: those that an output may overwrite."""

    words: np.ndarray
    outputs: dict[int, int]
    inputs: frozenset[int]


def overwriting_steps(steps: Steps) -> dict[int, Overwriting]:
    """The steps that may overwrite inputs, by number."""
    last: dict[int, int] = {}
    hosted = -1
    for k, step in enumerate(steps.steps):
        last |= dict.fromkeys(step.reads, k)
        if step.hosted is not None:
            hosted = k
    kept = {*steps.outputs}
    for step in steps.steps:  # rows that views show must stay, too
        kept |= {*step.reads} if step.hosted is not None and may_alias(step.hosted) else set()
    found = {}
    for k, step in enumerate(steps.steps):
        if k <= hosted or len(step.buffers) > overwriting.MOST_BUFFERS or len(step.writes) > overwriting.MOST:
            continue
        inputs = {r for r in step.own if r < steps.inputs and last[r] == k and r not in kept}
        writes = [
            r
            for r in step.writes
            if r in steps.outputs and any(_can_replace(steps.rows[r], steps.rows[i]) for i in inputs)
        ]
        if writes:
            words = np.array([len(step.buffers), *(0 for _ in step.buffers)], np.int64)
            found[k] = Overwriting(words, {r: step.buffers.index(r) for r in writes}, frozenset(inputs))
    return found


def written_late(steps: Steps) -> set[int]:
    """Rows that are written after the last operation that may raise an error. A gradient among them may be written over the one before, which no step reads."""
    checked = {r for s in steps.steps if s.hosted is not None and isinstance(s.hosted.of, InRange) for r in s.writes}
    found: set[int] = set()
    for step in steps.steps:
        if step.hosted is not None and not _is_safe(step, checked):
            found.clear()
        found |= {*step.writes}
    return found


def _is_safe(step: Step, checked: set[int]) -> bool:
    """Whether an operation of the interpreter can raise no error except for lack of memory."""
    assert step.hosted is not None
    of = step.hosted.of
    return isinstance(of, Dot | Conv | Cat) or (isinstance(of, ScatterAdd) and step.reads[0] in checked)


def _can_replace(a: Row, b: Row) -> bool:
    return a.shape == b.shape and a.dtype is b.dtype and a.nbytes >= FEWEST and a.dtype.itemsize <= overwriting.WIDEST


def is_free(storage: Storage, spec: Row, given: np.ndarray | None = None) -> bool:
    """Whether a storage's array may be overwritten by a row: nobody else refers to it, except `given`, the view of it that a program reads as an input."""
    array = storage.handle
    if (
        array.base is not None
        or array.shape != spec.shape
        or array.dtype != spec.dtype.numpy
        or not array.flags.writeable
    ):
        return False
    if given is not None and given.base is not array:
        return False
    del array
    return cpython.references(storage.handle) <= 1 + (given is not None) + cpython.ASKING
