"""Where arrays lie in one stretch of memory. In: steps, and which of their rows lie in it. Out: where each begins."""

from __future__ import annotations

from collections.abc import Collection

from .program import Steps

ALIGNMENT = 64  # bytes


def slots_of(steps: Steps, rows: Collection[int]) -> tuple[dict[int, int], int]:
    """The byte at which each row begins, first fit by how long rows live, and how many bytes there are."""
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
    """What an array of so many bytes takes, so that the next begins where vectors may."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
