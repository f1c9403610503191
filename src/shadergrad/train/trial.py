"""A trial of several ways to take a step. In: how long each took. Out: the fastest, and a line that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TRIALS = 2  # steps of each; the last of them counts, for the first compiles


class Trial:
    """The steps by which `auto` finds out which engine is the fastest here.

    names: of the engines, in the order in which they are tried. remark: what the verdict ends in. Only steps with
    batches of the shapes that came first count: others take another time, and may have to be compiled.
    """

    def __init__(self, names: Sequence[str], remark: str = "") -> None:
        self._names, self._remark = names, remark
        self._seconds: dict[str, float] = {}
        self._taken = 0
        self._shapes: Any = None

    @property
    def is_over(self) -> bool:
        """Whether each has had its steps."""
        return self._taken == TRIALS * len(self._names)

    @property
    def engine(self) -> str:
        """Whose turn it is; at the end, the fastest."""
        if self.is_over:
            return min(self._seconds, key=self._seconds.__getitem__)
        return self._names[self._taken // TRIALS]

    def add(self, seconds: float, shapes: Any) -> None:
        """A step took so long, with a batch of these shapes."""
        if self._shapes is None:
            self._shapes = shapes
        if shapes != self._shapes:
            return
        self._seconds[self.engine] = seconds
        self._taken += 1

    def verdict(self, sequences: int) -> str:
        """A line that says which was the fastest with batches of so many sequences."""
        speeds = ", ".join(f"{name} {sequences / seconds:,.1f}/s" for name, seconds in self._seconds.items())
        return f"backward auto: {self.engine} ({speeds}{self._remark})"
