"""The programs of one structure: the first with its numbers in the text of the kernels, and one that reads from memory
those that have changed since.

In: captures of equal keys. Out: what to run for each, or which numbers the next plan must read. Numbers that a plan reads
only become more, and from the third such plan on it is all of them but zeros that never changed, so the same structure is
compiled a few times at most.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..graph.capture import Capture
from ..graph.numbers import NO_SLOTS, Slots, identity
from ..graph.primitive import Number
from ..runtime.device import Program, Storage, get_device

MOST_PARTIAL = 2  # plans that read the numbers that changed, before one that reads all

Found = tuple[Program, list[int]]  # a program, and which of capture.keep it gives after the outputs


class WithNumbers(Program):
    """A program whose last inputs are numbers, together with their values."""

    def __init__(self, program: Program, numbers: Sequence[np.ndarray], storages: Sequence[Storage]) -> None:
        self.plan = program.plan
        self.numbers = tuple(numbers)
        self._program = program
        self._storages = tuple(storages)

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        return self._program.run([*inputs, *self._storages], into)


class Structure:
    """See the module."""

    def __init__(self, capture: Capture, found: Found) -> None:
        self._first, self._of_first = capture.numbered, found
        self._latest, self._of_latest = capture.numbered, found
        self._values = [*map(identity, capture.numbers())]  # of the first capture
        self._kinds = capture.kinds()
        self._slots = NO_SLOTS
        self._reading: Found | None = None  # what reads the numbers that have slots
        self._compiled = 0

    def programs(self) -> list[Program]:
        """Those that are kept."""
        return [found[0] for found in (self._of_first, self._reading) if found is not None]

    def find(self, capture: Capture) -> Found | None:
        """What to run, if there is a plan that serves."""
        if capture.numbered == self._first:
            return self._of_first
        if capture.numbered != self._latest:
            values = capture.numbers()
            if self._reading is None or not self._serves(values):
                return None
            self._bind(capture, values)
        return self._of_latest

    def _serves(self, values: Sequence[Number]) -> bool:
        """Whether numbers in the text are the same, and those of one slot equal."""
        by_slot: dict[int, str] = {}
        for slot, value, first in zip(self._slots.of, map(identity, values), self._values, strict=True):
            if value != (first if slot is None else by_slot.setdefault(slot, value)):
                return False
        return True

    def _bind(self, capture: Capture, values: Sequence[Number]) -> None:
        assert self._reading is not None
        program, kept = self._reading
        device = get_device(capture.device)
        arrays = self._slots.arrays(values)
        storages = [device.upload(array, dtype) for array, dtype in zip(arrays, self._slots.rows, strict=True)]
        self._latest, self._of_latest = capture.numbered, (WithNumbers(program, arrays, storages), kept)

    def slots_for(self, capture: Capture) -> Slots:
        """What a plan must read to serve this capture, and all before it."""
        values = [*map(identity, capture.numbers())]
        before = self._slots.of or (None,) * len(values)
        all_of_them = self._compiled >= MOST_PARTIAL
        groups: list[Hashable] = []
        for k, (slot, value, first) in enumerate(zip(before, values, self._values, strict=True)):
            if slot is None and value == first and not (all_of_them and float(first)):
                groups.append(None)
            else:
                groups.append(k if all_of_them else (first if slot is None else slot, value))
        return Slots.grouped(groups, self._kinds)

    def add(self, capture: Capture, slots: Slots, found: Found) -> Found:
        """Take a plan that reads `slots`, and give what to run."""
        self._slots, self._reading = slots, found
        self._compiled += 1
        self._bind(capture, capture.numbers())
        return self._of_latest
