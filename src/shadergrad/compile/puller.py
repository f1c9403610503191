"""The recursive walk over single elements, and the operations with which the rules of elements.py are written.

`pull(node, index)` gives the expression of one element. A view only rewrites the index, an elementwise operation pulls its
operands at the same index, and a node with a buffer becomes a load. There are three `Puller`s: the `Renderer` (render.py) writes
WGSL; the `Recorder` (recorder.py) writes nothing and lists which buffers are read, and at which index; the native writer
(native/writer.py) writes LLVM IR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..dtypes import DType
from ..graph.index import Index, unflatten, variable
from ..graph.node import Node
from ..primitives.elementwise import Elementwise

Indices = tuple[Index, ...]
LANE = "lane"
LANES = 4


def lane_variable() -> Index:
    return variable(LANE, LANES)


class Puller:
    """The walk, and the operations with which the rules of ELEMENT are written. A value is an expression; so is a condition.

    is_buffer: whether a node is loaded from memory rather than computed here.
    """

    def __init__(self, is_buffer: Callable[[Node], bool]) -> None:
        self.is_buffer = is_buffer
        self.local: dict[int, Callable[[Indices], str | None]] = {}

    def pull(self, node: Node, index: Indices) -> str:
        """One element of `node`, at an index of its rank."""
        raise NotImplementedError

    def pull_flat(self, node: Node, flat: Index) -> str:
        """One element, by row-major position."""
        return self.pull(node, unflatten(flat, node.shape))

    def count(self, operations: int) -> None:
        """Adds scalar operations to the cost of the element."""

    def apply(self, primitive: Elementwise, node: Node, values: list[str]) -> str:
        """The result of an elementwise operation."""
        raise NotImplementedError

    def literal(self, value: float, dtype: DType) -> str:
        raise NotImplementedError

    def index_value(self, index: Index) -> str:
        """An index as a value (i32)."""
        raise NotImplementedError

    def inside(self, i: Index, by: int, size: int) -> tuple[Index, str | None]:
        """i / by, and the condition that i is a multiple of `by` within `size` elements, None if it always holds; if it does
        not hold, the index is some other valid one.
        """
        raise NotImplementedError

    def below(self, i: Index, end: int) -> str:
        """The condition i < end."""
        raise NotImplementedError

    def position(self, value: str, size: int) -> tuple[Index, str]:
        """An index that comes from data, clamped, and the condition that it lies within `size` elements."""
        raise NotImplementedError

    def offset(self, value: str, highest: int) -> Index:
        """A number (i32) that comes from data, as a position from 0 to `highest`."""
        raise NotImplementedError

    def report(self, fault: int, value: str, size: int, low: int = 0) -> None:
        """Report a position outside [low, size) to the device."""
        raise NotImplementedError

    def choose(self, conditions: Sequence[str], value: str, otherwise: str, dtype: DType) -> str:
        """`value` if all conditions hold, else `otherwise`."""
        raise NotImplementedError

    def guarded(
        self, conditions: Sequence[str], value: Callable[[], str], fill: Callable[[], str], dtype: DType
    ) -> str:
        """The element that `value` pulls if all conditions hold, else `fill`."""
        return self.choose(conditions, value(), fill(), dtype)

    def random_word(self, values: list[str], index: Index | None) -> str:
        """Word `index` (0 or 1) of threefry2x32 for two key words and two counter words, or one xor the other."""
        raise NotImplementedError

    def note_packed(self, flat: Index) -> None:
        """Record that elements at this position are parts of words: neighbours are contiguous in memory, although one word is read."""

    def depends_on_lane(self, indices: Iterable[Index]) -> bool:
        """Whether the index differs between the elements that are computed at once."""
        return False

    def is_vector(self, value: str) -> bool:
        return False

    def lane_by_lane(self, node: Node, index: Indices) -> str:
        """Four elements, one by one, for an expression that depends on the lane and has no vector form."""
        raise NotImplementedError
