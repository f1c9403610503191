"""Which temporaries share memory. In: the buffer table and the dispatches in order. Out: slots.

Two temporaries share a slot when the last reader of one runs before the writer of the other, or when a kernel overwrites
the one with the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..plan import BufferSpec, Dispatch


@dataclass
class Slot:
    """Bytes, and the spans (first dispatch, last dispatch) in which they are taken."""

    nbytes: int
    taken: list[tuple[int, int]] = field(default_factory=list)

    def is_free(self, first: int, last: int) -> bool:
        return all(last < start or end < first for start, end in self.taken)


def plan_slots(
    buffers: Sequence[BufferSpec], dispatches: Sequence[Dispatch], overwritten: Mapping[int, int]
) -> tuple[list[BufferSpec], tuple[int, ...]]:
    """The table with slots assigned to temporaries, and the bytes of each slot. The largest first, each into the smallest slot
    that is free while it lives. overwritten: a temporary that takes over the memory of another → that one."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, d in enumerate(dispatches):
        for row in d.buffers:
            first.setdefault(row, step)
            last[row] = step
    chains: dict[int, list[int]] = {}  # of temporaries in one place, by the first of them
    for row, spec in enumerate(buffers):
        if spec.role == "temporary":
            home = row
            while home in overwritten:
                home = overwritten[home]
            chains.setdefault(home, []).append(row)
    table, slots = list(buffers), list[Slot]()
    for rows in sorted(chains.values(), key=lambda rows: -max(buffers[row].bound for row in rows)):
        used = [row for row in rows if row in first]  # by a dispatch
        span = (min((first[row] for row in used), default=0), max((last[row] for row in used), default=-1))
        fitting = [k for k, slot in enumerate(slots) if slot.is_free(*span)]
        if not fitting:
            slots.append(Slot(max(buffers[row].bound for row in rows)))
        number = fitting[-1] if fitting else len(slots) - 1  # slots before it are no smaller
        slots[number].taken.append(span)
        for row in rows:
            table[row] = replace(table[row], slot=number)
    return table, tuple(slot.nbytes for slot in slots)
