"""Assigns offsets in one block of memory to arrays. In: steps, and the rows that share the block. Out: the offset of each row."""

from __future__ import annotations

from collections.abc import Collection

from .program import Steps

ALIGNMENT = 64  # bytes


def slots_of(steps: Steps, rows: Collection[int]) -> tuple[dict[int, int], int]:
    """The offset of each row in bytes, and the size of the block. Rows with disjoint live ranges share memory (first fit)."""
    offsets: dict[int, int] = {}
    taken: list[tuple[int, int, int]] = []  # begin, end, row
    total = 0
    for step, dead in zip(steps.steps, steps.dies, strict=True):
        for row in step.writes:
            if row not in rows:
                continue
            size = room_of(steps.rows[row].nbytes)
            begin = 0
            for low, high, _ in sorted(taken):
                if low - begin >= size:
                    break
                begin = max(begin, high)
            offsets[row] = begin
            taken.append((begin, begin + size, row))
            total = max(total, begin + size)
        taken = [t for t in taken if t[2] not in dead]
    return offsets, total


def room_of(nbytes: int) -> int:
    """The size of an array, rounded up so that the next one is aligned for vectors."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
