"""Choices for hand-written kernels (calls): the parameters of their shader, for given shapes and a target.

A kind of call without an entry is always emitted in the same way. `chooses` registers a kind; `extend.py` registers users' operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph.node import Node
from ..primitives.call import Call
from ..primitives.radix import OWN, OWN_OF_MANY, SLOTS
from ..primitives.sorting import LANES, LONGEST_LOOP, THREADS, SegmentChoice, SegmentSum
from ..symbolic_sizes import hint
from ..target import Target
from . import attention

Chooses = Callable[[Any, Target, Sequence[Node]], Any]
"""A call, the target and the inputs → plain data for `Call.kernel`, whose text `explain(choices=True)` shows."""

LEAST_TILES = 192  # workgroups of a radix sort: with fewer, a large GPU is partly idle
FEW_TERMS = 4  # terms of a scattered sum that one thread adds


def options_of(p: Call, target: Target, inputs: Sequence[Node]) -> Any:
    """The options of a call's shader; None if there is nothing to choose."""
    rule = CHOOSE.get(type(p))
    return None if rule is None else rule(p, target, inputs)


def own_of(elements: int, target: Target) -> int:
    """Elements per thread of a radix sort. The elements of a tile are sorted in workgroup memory, with a counter per digit."""
    tile = THREADS * OWN_OF_MANY
    fits = 4 * (tile + SLOTS) <= target.max_workgroup_storage
    return OWN_OF_MANY if fits and elements >= LEAST_TILES * tile else OWN


def _segment_sum(p: SegmentSum, target: Target, inputs: Sequence[Node]) -> SegmentChoice:
    index, _, source = inputs
    _, rows, n = index.shape
    lanes = LANES if rows == 1 and source.shape[2] % LANES == 0 else 1
    helpers = min(THREADS, _power_of_two_below(max(n // (FEW_TERMS * p.size), -(-n // LONGEST_LOOP), 1)))
    return SegmentChoice(lanes, helpers, unrolled=max(1, -(-hint(n) // (helpers * LONGEST_LOOP))))


def _power_of_two_below(n: int) -> int:
    """The largest power of two that is at most n, at least 1."""
    return 1 << (n.bit_length() - 1)


CHOOSE: dict[type[Call], Chooses] = {SegmentSum: _segment_sum, **attention.CHOICES}


def chooses(kind: type[Call]) -> Callable[[Chooses], Chooses]:
    """Registers the rule for a kind of call."""

    def add(rule: Chooses) -> Chooses:
        CHOOSE[kind] = rule
        return rule

    return add
