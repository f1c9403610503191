"""Notes on a plan's dispatches: the nodes of the captured graph that each computes, and why it is a separate kernel.

In: the groups in execution order, and the fuser's reasons for pairs that it did not merge. Out: a Note for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..explanation import Note, Refusal, Separation, Why
from ..graph.node import Node
from .fuse import Fuser
from .groups import Group


def notes_of(groups: Sequence[Group], fuser: Fuser, places: Mapping[int, int]) -> tuple[Note, ...]:
    """The notes of dispatches, one per group. places: positions of nodes in the captured graph, by id."""
    number = {id(part): k for k, group in enumerate(groups) for part in (group, *group.parts)}

    def dispatch(group: int) -> int | None:
        while group in fuser.became:
            group = id(fuser.became[group])
        return number.get(group)

    readers: dict[int, set[int]] = {}
    for k, group in enumerate(groups):
        for key in fuser.buffers_read(group):
            readers.setdefault(key, set()).add(k)
    separations: list[dict[int, Separation]] = [{} for _ in groups]
    for (a, b), refusal in fuser.refused.items():
        before, after = dispatch(a), dispatch(b)
        if before is not None and after is not None and before != after:
            separations[after][before] = Separation(
                before, *_reason(groups[before], groups[after], refusal, fuser, readers)
            )
    return tuple(
        Note(tuple(sorted({places[id(n)] for n in _heads(group) if id(n) in places})), tuple(reasons.values()))
        for group, reasons in zip(groups, separations, strict=True)
    )


def _heads(group: Group) -> list[Node]:
    """The main nodes of a kernel: its matrix multiplications or calls, or its reductions, or else its outputs."""
    return group.products or group.reduces or group.roots


def _reason(before: Group, after: Group, refusal: Refusal, fuser: Fuser, readers: Mapping[int, set[int]]) -> Refusal:
    """The fuser's reason for two separate kernels, or the reason for a buffer between them: several kernels read a map's value, or a kernel
    would bind too many buffers.
    """
    if before.archetype != "map" or refusal.why in (Why.CALL, Why.PRODUCT):
        return refusal
    read = [n for n in before.roots if id(n) in fuser.buffers_read(after)]
    if any(id(n) in fuser.narrowed for n in read):
        return Refusal(Why.BUFFERS, fuser.limit)
    times = max((len(readers[id(n)]) for n in read if id(n) in fuser.buffers.shared), default=0)
    return Refusal(Why.SHARED, times) if times > 1 else refusal
