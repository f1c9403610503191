"""Functions of many inputs as decision diagrams: equal functions have the same number.

In: gates over diagrams. Out: diagrams, or DiagramLimit if a function exceeds the allowed number of nodes. A diagram
is a literal, 2 * node + inverted, so that an inverse costs nothing; node 0 is true. Inputs are decided in the order of their
numbers. Source: Bryant, "Graph-based algorithms for Boolean function manipulation", 1986; inverted edges: Brace, Rudell and
Bryant, "Efficient implementation of a BDD package", 1990.
"""

from __future__ import annotations

from .gate_kinds import value_of

TRUE, FALSE = 0, 1
MOST_INPUTS = 256  # of a function: its diagram is made by a recursion over them


class DiagramLimit(Exception):
    """A function needs more nodes than allowed."""


class Diagrams:
    """Diagrams that share their nodes. most: the largest number of nodes and cached results."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._nodes: list[tuple[int, int, int]] = [(1 << 62, TRUE, TRUE)]  # (input, where it is 0, where it is 1)
        self._known: dict[tuple[int, int, int], int] = {}
        self._results: dict[tuple[int, int, int], int] = {}

    @property
    def size(self) -> int:
        """How many nodes and cached results there are."""
        return len(self._results) + len(self._nodes)

    def input(self, number: int) -> int:
        """The function of an input. Raises DiagramLimit if there are too many nodes."""
        if number >= MOST_INPUTS:
            raise DiagramLimit
        return self._node(number, FALSE, TRUE)

    def gate(self, kind: int, a: int, b: int) -> int:
        """A gate of the sixteen over two functions. Raises DiagramLimit."""
        one, zero = (self._constant_in_a(kind, x, b) for x in (1, 0))
        return self._choose(a, one, zero)

    def example(self, function: int) -> dict[int, bool]:
        """Values of inputs for which a function other than FALSE is true; the other inputs are arbitrary."""
        found: dict[int, bool] = {}
        while function > FALSE:
            number, *branches = self._nodes[function >> 1]
            low, high = (branch ^ (function & 1) for branch in branches)
            found[number] = low == FALSE
            function = high if low == FALSE else low
        return found

    def _constant_in_a(self, kind: int, a: int, b: int) -> int:
        """A gate whose first operand is the constant a."""
        match value_of(kind, a, 0), value_of(kind, a, 1):
            case (0, 0):
                return FALSE
            case (1, 1):
                return TRUE
            case (0, 1):
                return b
            case _:
                return b ^ 1

    def _choose(self, test: int, one: int, zero: int) -> int:
        """one where test is true, else zero."""
        if test <= FALSE or one == zero:
            return one if test == TRUE or one == zero else zero
        if test & 1:
            test, one, zero = test ^ 1, zero, one
        if one == test or zero == test ^ 1:  # each branch knows the value of test
            one = TRUE if one == test else one
            zero = TRUE if zero == test ^ 1 else zero
        if (one, zero) == (TRUE, FALSE):
            return test
        if (one, zero) == (FALSE, TRUE):
            return test ^ 1
        inverted = one & 1
        key = (test, one ^ inverted, zero ^ inverted)
        if key not in self._results:
            if self.size > self._most:
                raise DiagramLimit
            top = min(self._nodes[x >> 1][0] for x in key)
            low, high = (self._choose(*(self._branch(x, top, side) for x in key)) for side in (0, 1))
            self._results[key] = self._node(top, low, high)
        return self._results[key] ^ inverted

    def _branch(self, function: int, number: int, side: int) -> int:
        """The cofactor of a function: its input `number` has the value `side`."""
        top, *branches = self._nodes[function >> 1]
        return branches[side] ^ (function & 1) if top == number else function

    def _node(self, number: int, low: int, high: int) -> int:
        """A node; `high` is not inverted, as _choose puts inverses outside, so that a function has one form."""
        if low == high:
            return low
        key = (number, low, high)
        if key not in self._known:
            self._known[key] = len(self._nodes)
            self._nodes.append(key)
        return 2 * self._known[key]
