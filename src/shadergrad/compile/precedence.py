"""The transitive order of groups, under merges and added edges. In: direct predecessors. Out: whether one group runs before another."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Precedence(Generic[T]):
    """A transitive partial order as bit sets: each key has a bit, and the bits of all keys before it. A path search for each
    question would grow with the square of the graph. Merged keys share a number, which has the bits of all of them.

    Raises graphlib.CycleError if keys wait for each other.
    """

    def __init__(self, waits: Mapping[T, Iterable[T]]) -> None:
        self._number: dict[T, int] = {}
        self._before: list[int] = []  # for each number, the bits of itself and of all that run before it
        self._after: list[set[int]] = []  # the numbers that wait for each number; some of these are outdated by merges
        self._now: list[int] = []  # the number into which each was merged; its own if it was not
        for key in TopologicalSorter(waits).static_order():
            number = self._number[key] = len(self._now)
            self._now.append(number)
            self._before.append(1 << number)
            self._after.append(set())
            self.wait(key, waits.get(key, ()))

    def runs_after(self, key: T, other: T) -> bool:
        """Whether `key` waits for `other`, or is the same."""
        return self._before[self._number[key]] >> self._number[other] & 1 == 1

    def ordered(self, a: T, b: T) -> bool:
        """Whether one of them waits for the other."""
        m, n = self._number[a], self._number[b]
        return (self._before[m] >> n | self._before[n] >> m) & 1 == 1

    def wait(self, key: T, others: Iterable[T]) -> None:
        """Make `key` wait for others, none of which waits for it."""
        number, more = self._number[key], 0
        for other in others:
            self._after[self._number[other]].add(number)
            more |= self._before[self._number[other]]
        self._spread(number, more)

    def merge(self, a: T, b: T, both: T) -> None:
        """Replace a and b by `both`; neither waits for the other through a third."""
        kept, left = self._number.pop(a), self._number.pop(b)
        self._number[both] = self._now[left] = kept
        more = self._before[kept] | self._before[left]
        waiting = self._after[kept] | self._after[left]
        self._after[kept] = {n for n in map(self._present, waiting) if n != kept}
        self._before[kept] = more
        for number in self._after[kept]:
            self._spread(number, more)

    def _present(self, number: int) -> int:
        while self._now[number] != number:
            number = self._now[number]
        return number

    def _spread(self, number: int, more: int) -> None:
        """Add the bits `more` to the predecessors of a number, and of all numbers that wait for it."""
        stack = [number]
        while stack:
            number = self._present(stack.pop())
            if self._before[number] | more != self._before[number]:
                self._before[number] |= more
                stack += self._after[number]
