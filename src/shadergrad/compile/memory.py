"""Which temporaries share memory. In: the buffer table and the dispatches in order. Out: slots.

Two temporaries share a slot when the last reader of one runs before the writer of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..plan import BufferSpec, Dispatch


def plan_slots(
    buffers: Sequence[BufferSpec], dispatches: Sequence[Dispatch]
) -> tuple[list[BufferSpec], tuple[int, ...]]:
    """The table with slots assigned to temporaries, and the bytes of each slot. Best fit, by liveness."""
    last_use = {row: step for step, d in enumerate(dispatches) for row in d.buffers}
    table = list(buffers)
    sizes: list[int] = []
    free: list[int] = []

    def place(row: int) -> None:
        if table[row].role == "temporary" and table[row].slot is None:
            table[row] = replace(table[row], slot=_take(free, sizes, table[row].bound))

    for step, d in enumerate(dispatches):
        for row in d.buffers:
            place(row)
        for row in set(d.buffers):
            slot = table[row].slot
            if slot is not None and last_use[row] == step:
                free.append(slot)
    for row in range(len(table)):  # never used: no dispatch writes it
        place(row)
    return table, tuple(sizes)


def _take(free: list[int], sizes: list[int], nbytes: int) -> int:
    """The free slot that wastes least, or that must grow least; a new one where none is free."""
    enough = [s for s in free if sizes[s] >= nbytes]
    if enough:
        slot = min(enough, key=lambda s: sizes[s])
    elif free:
        slot = max(free, key=lambda s: sizes[s])
        sizes[slot] = nbytes
    else:
        sizes.append(nbytes)
        return len(sizes) - 1
    free.remove(slot)
    return slot
