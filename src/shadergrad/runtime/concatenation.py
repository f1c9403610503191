"""Concatenation without copies. In: steps. Out: steps without the concatenations whose parts can be written into the result.

The parts of `cat` along the first axis are adjacent in the result. Kernels write them there, and nothing copies them. So a part is a range of bytes
of another row. The result's memory is reserved from the first write of a part to the last read of any of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from ..compile.native.program import Step, Steps
from ..compile.native.slots import ALIGNMENT, slots_of
from ..primitives.views import Cat, Reshape


class Part(NamedTuple):
    """The memory of a row: in the row `whole`, `offset` bytes after its start."""

    whole: int
    offset: int


Parts = dict[int, Part]


def concatenated_in_place(steps: Steps, movable: Collection[int]) -> tuple[Steps, Parts]:
    """The program without such concatenations, and the memory of their parts. movable: rows that may have any offset in memory that programs share."""
    parts: Parts = {}
    removed: set[int] = set()
    dying = {row for dead in steps.dies for row in dead}  # the others are kept, because an output may show them
    for k, step in enumerate(steps.steps):
        found = _parts_of(steps, step, movable)
        if found and not found.keys() & parts.keys() and {*found, *step.writes} <= dying:
            parts |= found
            removed.add(k)
    if not removed:
        return steps, {}
    last = _last_reads(steps, parts)
    new: list[Step] = []
    dies: list[tuple[int, ...]] = []
    for k, (step, dead) in enumerate(zip(steps.steps, steps.dies, strict=True)):
        rows = {row for row in dead if row not in parts and row not in last}
        rows |= {whole for whole, at in last.items() if at == k}
        if k in removed:
            dies[-1] = (*dies[-1], *rows)
        else:
            new.append(step)
            dies.append(tuple(rows))
    return replace(steps, steps=tuple(new), dies=tuple(dies)), parts


def offsets_of(steps: Steps, rows: Collection[int], parts: Parts) -> tuple[dict[int, int], int]:
    """The offset of each row in bytes, and the size of the memory. A part has an offset in its whole."""
    taken: set[int] = set()
    written = []
    for step in steps.steps:
        writes = dict.fromkeys(parts[row].whole if row in parts else row for row in step.writes)
        written.append(replace(step, writes=tuple(row for row in writes if row not in taken)))
        taken |= writes.keys()
    wholes = {part.whole for part in parts.values()}
    offsets, nbytes = slots_of(replace(steps, steps=tuple(written)), {*rows, *wholes})
    return offsets | {row: offsets[part.whole] + part.offset for row, part in parts.items()}, nbytes


def _parts_of(steps: Steps, step: Step, movable: Collection[int]) -> Parts:
    """The parts of a concatenation that can be stored in its result; none if one of them cannot."""
    if step.hosted is None or not isinstance(step.hosted.of, Cat):
        return {}
    (whole,) = step.writes
    if whole in steps.outputs or math.prod(steps.rows[whole].shape[: step.hosted.of.axis]) != 1:
        return {}
    found: Parts = {}
    begin = 0
    for row, views in zip(step.reads, step.hosted.views, strict=True):
        nbytes = steps.rows[row].nbytes
        fits = row in movable and row not in found and nbytes % ALIGNMENT == 0
        if not fits or not all(isinstance(view, Reshape) for view in views):
            return {}
        found[row] = Part(whole, begin)
        begin += nbytes
    return found if begin == steps.rows[whole].nbytes else {}


def _last_reads(steps: Steps, parts: Parts) -> dict[int, int]:
    """The step after which nothing reads a whole or a part of it."""
    wholes = {part.whole for part in parts.values()}
    last: dict[int, int] = {}
    for k, dead in enumerate(steps.dies):
        for row in dead:
            whole = parts[row].whole if row in parts else row
            if whole in wholes:
                last[whole] = k
    return last
