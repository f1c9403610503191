"""Groups: the nodes that one kernel computes. In: nodes. Out: a record of them, with the domain that the kernel iterates over.

compile/fuse.py makes groups, compile/choose.py and the emitters in compile/wgsl read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ..graph.index import ZERO, Index, unflatten, variable
from ..graph.node import Node
from ..primitives.call import Call
from ..primitives.views import Reshape
from ..symbolic_sizes import form, hint
from .choices import Tile
from .recorder import Recorder

LONG_ROW = 8192  # longer rows are not fused with maps over their elements unless there are many rows
MANY_ROWS = 256


@dataclass(eq=False)
class Group:
    """Nodes that one kernel computes.

    roots: the nodes that it writes. Domain: `size` elements for map and dot; `outer` rows of `inner` for row.
    reduces: the reductions of a row kernel, in order. dot, call: the product of a dot kernel, the call of a call kernel.
    """

    archetype: Literal["map", "row", "dot", "call"]
    roots: list[Node]
    reduces: list[Node] = field(default_factory=list)
    dot: Node | None = None
    call: Node | None = None
    size: int = 0
    outer: int = 0
    inner: int = 0
    trailing: bool = False  # row: whether the reduced axes are the last ones, so that a row is contiguous
    order: Any = None  # row: the key of the order in which elements are combined, if the target has several orders
    parts: list[Group] = field(default_factory=list)  # groups of the same archetype that share a dispatch
    tile: Tile | None = None  # of a product that shares a dispatch

    @property
    def nodes(self) -> list[Node]:
        return [*self.roots, *self.reduces, *(n for n in (self.dot, self.call) if n is not None)]

    @property
    def products(self) -> list[Node]:
        """The matrix multiplications, or calls, of all groups that share its dispatch."""
        return [n for part in self.parts or [self] for n in (part.dot, part.call) if n is not None]

    @property
    def rows(self) -> tuple[Any, Any, bool, Any]:
        """A key that is equal for row kernels over the same rows, regardless of the number of rows."""
        return form(self.outer), form(self.inner), self.trailing, self.order

    def has_rows_of(self, other: Group) -> bool:
        """Whether another kernel iterates over this one's rows: a row kernel with the same rows, or a map over the rows or their elements."""
        if other.archetype == "row":
            return other.rows == self.rows
        if form(other.size) == form(self.outer):
            return True
        pays = hint(self.inner) <= LONG_ROW or hint(self.outer) >= MANY_ROWS
        return self.trailing and form(other.size) == form(self.outer * self.inner) and pays

    def position(self, node: Node) -> Index:
        """The row-major index at which a root is written, in the domain variables."""
        return row_position(node, self.outer, self.inner) if self.archetype == "row" else variable("i", self.size)


def row_position(node: Node, outer: int, inner: int) -> Index:
    """The row-major index of a value of a row, or of an element of a row."""
    o = variable("o", outer)
    return o if node.size == outer else o * inner + variable("r", inner)


def reduce_index(node: Node, o: Index, r: Index) -> tuple[Index, ...]:
    """The index into the input of a reduction, for result o and element r of its row."""
    (x,) = node.inputs
    axes = node.primitive.axes  # type: ignore[attr-defined]
    kept = [a for a in range(x.ndim) if a not in axes]
    index: list[Index] = [ZERO] * x.ndim
    for a, i in zip(kept, unflatten(o, [x.shape[a] for a in kept]), strict=True):
        index[a] = i
    for a, i in zip(axes, unflatten(r, [x.shape[a] for a in axes]), strict=True):
        index[a] = i
    return tuple(index)


def operands_of(group: Group) -> Iterator[tuple[Node, tuple[Index, ...]]]:
    """The inputs of a group's reductions and of its product, with the index of each element."""
    o, r = variable("o", group.outer), variable("r", group.inner)
    for node in group.reduces:
        yield node.inputs[0], reduce_index(node, o, r)
    if group.dot is not None:
        a, b = group.dot.inputs
        sizes = {"b": a.shape[0], "m": a.shape[1], "k": a.shape[2], "n": group.dot.shape[2]}
        at = {name: variable(name, size) for name, size in sizes.items()}
        yield a, (at["b"], at["m"], at["k"])
        yield b, (at["b"], at["k"], at["n"])


def _row_group(node: Node, root: Node) -> Group:
    """The group of a reduction that ends in `root`."""
    (x,) = node.inputs
    axes = node.primitive.axes  # type: ignore[attr-defined]
    wide = [a for a in range(x.ndim) if x.shape[a] > 1]
    reduced = [a for a in wide if a in axes]
    trailing = reduced == wide[len(wide) - len(reduced) :]
    return Group("row", [root], [node], outer=node.size, inner=x.size // node.size, trailing=trailing)


def group_of(anchor: Node, root: Node) -> Group:
    """The group of a reduction, product or call that ends in `root`."""
    if is_dot(anchor):
        return Group("dot", [root], dot=anchor, size=anchor.size)
    if is_call(anchor):
        return Group("call", [root], call=anchor, size=anchor.size)
    return _row_group(anchor, root)


def is_dot(node: Node) -> bool:
    return node.primitive.kind == "dot"


def is_call(node: Node) -> bool:
    return node.primitive.kind == "call"


def is_anchor(node: Node) -> bool:
    return node.primitive.kind == "reduce" or is_dot(node)


def has_epilogue(anchor: Node) -> bool:
    """Whether the kernel of a reduction, matrix multiplication or call also computes elementwise operations on its results."""
    return not isinstance(anchor.primitive, Call) or anchor.primitive.epilogue


def behind_reshapes(node: Node) -> Node:
    """The node behind reshapes, with the same elements in row-major order."""
    while isinstance(node.primitive, Reshape):
        node = node.inputs[0]
    return node


def row_recorder(group: Group, is_buffer: Callable[[Node], bool]) -> Recorder:
    """A recorder that stops at the reductions of a group."""
    recorder = Recorder(is_buffer)
    anchors = {id(n) for n in group.reduces}
    inner = recorder.pull
    recorder.pull = lambda node, index: "" if id(node) in anchors else inner(node, index)  # type: ignore[method-assign]
    return recorder
