"""A `Puller` without output: it records which buffers a kernel reads, at which index, and the cost of an element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dtypes import DType
from ..graph.index import Index, flatten, opaque
from ..graph.node import Node
from ..primitives.elementwise import Elementwise
from .elements import element_rule, needs_check
from .puller import Indices, Puller

UNKNOWN = "?"  # the first character of names of positions that come from data


class Recorder(Puller):
    """Lists reads as (node, row-major index) pairs, and counts the scalar operations of an element."""

    def __init__(self, is_buffer: Callable[[Node], bool]) -> None:
        super().__init__(is_buffer)
        self.reads: dict[tuple[int, Index], Node] = {}
        self.packed: list[Index] = []
        self.cost = 0
        self._seen: set[tuple[int, Indices]] = set()
        self._names = 0

    def pull(self, node: Node, index: Indices) -> str:
        if (id(node), index) in self._seen:
            return ""
        self._seen.add((id(node), index))
        if self.is_buffer(node):
            flat = flatten(index, node.shape)
            self.reads[id(node), flat] = node
            return ""
        primitive = node.primitive
        return element_rule(type(primitive))(self, primitive, node, index)

    @property
    def places(self) -> list[Index]:
        """The positions at which neighbouring elements may be contiguous in memory: in buffers, and in packed words."""
        return [*(flat for _, flat in self.reads), *self.packed]

    def note_packed(self, flat: Index) -> None:
        self.packed.append(flat)

    def count(self, operations: int) -> None:
        self.cost += operations

    def apply(self, primitive: Elementwise, node: Node, values: list[str]) -> str:
        return ""

    def literal(self, value: float, dtype: DType) -> str:
        return ""

    def index_value(self, index: Index) -> str:
        return ""

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        return (self._unknown(size), "") if needs_check(i, by, size) else (i, None)

    def below(self, i: Index, end: int) -> str:
        return ""

    def position(self, value: str, size: int) -> tuple[Index, str]:
        return self._unknown(size), ""

    def offset(self, value: str, highest: int) -> Index:
        return self._unknown(highest + 1)

    def report(self, fault: int, value: str, size: int, low: int = 0) -> None:
        pass

    def choose(self, conditions: Sequence[str], value: str, otherwise: str, dtype: DType) -> str:
        return ""

    def random_word(self, values: list[str], index: Index | None) -> str:
        return ""

    def _unknown(self, size: int) -> Index:
        self._names += 1
        return opaque(f"{UNKNOWN}{self._names}", 0, max(size - 1, 0))
