"""Compares the engines of the backward pass. In: the times of their steps. Out: the fastest engine, and a line of text with its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TRIALS = 2  # steps of each; the last of them counts, for the first compiles


class Trial:
    """The trial steps by which `auto` finds the fastest engine.

    names: those of the engines, in the order of the trial. remark: the end of the verdict. Only steps with batches of the first
    shapes count, because others take another time and may need compilation.
    """

    def __init__(self, names: Sequence[str], remark: str = "") -> None:
        self._names, self._remark = names, remark
        self._seconds: dict[str, float] = {}
        self._taken = 0
        self._shapes: Any = None

    @property
    def is_over(self) -> bool:
        """Whether each engine has had its steps."""
        return self._taken == TRIALS * len(self._names)

    @property
    def engine(self) -> str:
        """The engine of the next step; at the end, the fastest."""
        if self.is_over:
            return min(self._seconds, key=self._seconds.__getitem__)
        return self._names[self._taken // TRIALS]

    def add(self, seconds: float, shapes: Any) -> None:
        """Takes the time of a step with a batch of these shapes."""
        if self._shapes is None:
            self._shapes = shapes
        if shapes != self._shapes:
            return
        self._seconds[self.engine] = seconds
        self._taken += 1

    def verdict(self, sequences: int) -> str:
        """A line that names the fastest engine for batches of this many sequences."""
        speeds = ", ".join(f"{name} {sequences / seconds:,.1f}/s" for name, seconds in self._seconds.items())
        return f"backward auto: {self.engine} ({speeds}{self._remark})"
