"""The programs of one structure: the first with its numbers in the text of the kernels, and one that reads from memory
those that have changed since.

In: captures of equal keys. Out: the program to run for each, or the numbers that the next plan must read from memory. These numbers only increase:
the third such plan reads all of them, except zeros that never changed. So a structure is compiled a few times at most.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..graph.capture import Capture, Numbered
from ..graph.numbers import NO_SLOTS, Slots, identity
from ..graph.primitive import Number, Primitive
from ..runtime.device import Program, Storage, get_device

MOST_TEXTS = 8  # plans with numbers in the text, for functions that differ in nothing else
MOST_PARTIAL = 2  # plans that read only the numbers that changed, before one reads all

Found = tuple[Program, list[int]]  # a program, and the nodes of capture.keep that it returns after the outputs


class WithNumbers(Program):
    """A program whose last inputs are numbers, with their values."""

    def __init__(self, program: Program, numbers: Sequence[np.ndarray], storages: Sequence[Storage]) -> None:
        self.plan = program.plan
        self.numbers = tuple(numbers)
        self._program = program
        self._storages = tuple(storages)

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        return self._program.run([*inputs, *self._storages], into)


class Structure:
    """See the module.

    The first capture of a compiled function has its numbers in the source, even if other functions of that structure read them
    from memory, so its plan is the same in every process.
    """

    def __init__(self, first: Capture) -> None:
        self._texts: OrderedDict[tuple[Primitive, ...], Found] = OrderedDict()
        self._values = [*map(identity, first.numbers())]
        self._kinds = first.kinds()
        self._slots = NO_SLOTS
        self._reading: Found | None = None  # the program that reads the numbers with slots
        self._latest: tuple[tuple[Primitive, ...], Found] | None = None  # the numbers in its last run
        self._compiled = 0
        self._functions: list[weakref.ref[Any]] = []

    def programs(self) -> list[Program]:
        """The cached programs."""
        return [program for program, _ in (*self._texts.values(), *filter(None, [self._reading]))]

    def has_met(self, function: Any) -> bool:
        """Whether a compiled function was captured before; True for None, which is no compiled function."""
        return function is None or any(known() is function for known in self._functions)

    def meet(self, function: Any) -> None:
        """Record the capture of a function."""
        if not self.has_met(function):
            self._functions = [known for known in self._functions if known() is not None]
            with suppress(TypeError):  # its type has no weak references: each of its captures counts as the first
                self._functions.append(weakref.ref(function))

    def find(self, capture: Numbered, function: Any) -> Found | None:
        """The program to run, if a plan fits."""
        found = self._texts.get(capture.numbered)
        if found is not None or not self.has_met(function):
            return found
        if self._latest is not None and self._latest[0] == capture.numbered:
            return self._latest[1]
        values = capture.numbers()
        return self._bound(capture, values) if self._reading is not None and self._serves(values) else None

    def _serves(self, values: Sequence[Number]) -> bool:
        """Whether the capture has the numbers in the plan's text, and equal numbers for each slot."""
        by_slot: dict[int, str] = {}
        for slot, value, first in zip(self._slots.of, map(identity, values), self._values, strict=True):
            if value != (first if slot is None else by_slot.setdefault(slot, value)):
                return False
        return True

    def _bound(self, capture: Numbered, values: Sequence[Number]) -> Found:
        assert self._reading is not None
        program, kept = self._reading
        device = get_device(capture.device)
        arrays = self._slots.arrays(values)
        storages = [device.upload(array, dtype) for array, dtype in zip(arrays, self._slots.rows, strict=True)]
        found = WithNumbers(program, arrays, storages), kept
        self._latest = capture.numbered, found
        return found

    def slots_for(self, capture: Capture, function: Any) -> Slots:
        """The numbers that the plan to compile must read, for this capture and all earlier ones; none if its numbers go into the text."""
        if not self._texts or not self.has_met(function):
            return NO_SLOTS
        numbers = capture.numbers()
        before = self._slots.of or (None,) * len(numbers)
        all_of_them = self._compiled >= MOST_PARTIAL
        groups: list[Hashable] = []
        for k, (slot, number, first) in enumerate(zip(before, numbers, self._values, strict=True)):
            value = identity(number)
            if slot is None and value == first and not (all_of_them and number):
                groups.append(None)
            else:
                groups.append(k if all_of_them else (first if slot is None else slot, value))
        return Slots.grouped(groups, self._kinds)

    def add(self, capture: Capture, slots: Slots, found: Found) -> Found:
        """Store a plan that reads `slots`, and return the program to run."""
        if slots is NO_SLOTS:
            self._texts[capture.numbered] = found
            if len(self._texts) > MOST_TEXTS:
                self._texts.popitem(last=False)
            return found
        self._slots, self._reading = slots, found
        self._compiled += 1
        return self._bound(capture, capture.numbers())
