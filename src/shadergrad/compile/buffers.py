"""Decides which nodes get a buffer. In: the graph's nodes. Out: the stored nodes, and those at which a kernel ends, with the reason.

Outputs, reductions, matrix multiplications and calls are stored, and values with several readers if recomputing them costs more than
reading them. The fuser (`fuse.py`) removes buffers of values that only their own kernel needs, and adds some to stay within the binding
limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ..dtypes import float16
from ..explanation import Refusal, Why
from ..graph.composition import unpacks
from ..graph.index import Index, variable
from ..graph.leaves import Numbers, Placeholder
from ..graph.node import Node, topological
from ..primitives.elementwise import Cast, Elementwise
from ..primitives.indexing import Gather
from ..primitives.views import Cat, Reshape, SliceAt, View
from ..symbolic_sizes import hint
from ..target import Target
from . import matrix_units
from .comparisons import Compared
from .groups import behind_reshapes, is_anchor, is_call, is_dot
from .layouts import has_windows
from .recorder import Recorder

FEW = 8  # a value that more elements share stays in the caches
CHEAP = 2  # scalar operations that are recomputed instead of stored
RECOMPUTED = 40  # scalar operations that are recomputed if a large array would otherwise be stored beside its operand
LARGE = 1 << 16  # elements of a large array
SMALLER = 16  # an array with so many times fewer elements than another counts as the scalars of its rows
FEW_READS = 4  # buffers that a recomputed value reads
READ_OFTEN = 128  # readers per window element from which on windows are stored if loads are slow
DEEPEST = 100  # operations in a chain before its value is stored, because rendering is recursive


def _count(flat: Index, node: Node) -> int:
    """An upper bound of the number of positions that an index takes over all elements of `node`."""
    names = flat.variables()
    return math.prod(n for a, n in enumerate(node.shape) if f"x{a}" in names or any(m[0] == "?" for m in names))


def widens(node: Node) -> bool:
    """Whether a node is a float16 or bfloat16 value cast to float32, which kernels load in 16 bits and never store."""
    return isinstance(node.primitive, Cast) and node.inputs[0].dtype.is_half


def is_source(node: Node) -> bool:
    """Whether a node is an input of kernels."""
    return isinstance(node.primitive, Placeholder)


class Buffers:
    """The nodes of one graph that get a buffer.

    order: the nodes, inputs first. kept: ids of matrix multiplications whose result may be needed later, whatever is fused with them.
    """

    def __init__(self, outputs: list[Node], target: Target, kept: Iterable[int]) -> None:
        self.target = target
        self.output_ids = {id(n) for n in outputs}
        self.order = topological(outputs, lambda n: n.inputs)
        self.consumers: dict[int, list[Node]] = {id(n): [] for n in self.order}
        for node in self.order:
            for source in {id(i): i for i in node.inputs}.values():
                self.consumers[id(source)].append(node)
        self.stored: dict[int, Node] = {}
        self.cuts: dict[int, Refusal] = {}  # nodes into whose kernels no reader is fused, with the reasons
        self.shared: set[int] = set()  # nodes that get a buffer because several nodes read them
        self.compared = Compared(self.order, is_source, set(kept))

    def choose(self) -> None:
        """Fill `stored`, `cuts` and `shared`."""
        depth: dict[int, int] = {}
        for node in self.order:
            if self._needs_buffer(node):
                self.store(node)
            for operand in self._stored_operands(node):
                self.store(operand)
            below = max((depth[id(i)] for i in node.inputs), default=0)
            if below >= DEEPEST and id(node) not in self.stored:
                self.store(node)
                self.cuts[id(node)] = Refusal(Why.DEEP, DEEPEST)
            depth[id(node)] = 0 if id(node) in self.stored or not node.inputs else below + 1
        self._store_compared()

    def _store_compared(self) -> None:
        """Values whose bits are compared get buffers, in kernels into which no reader is fused, because a fused kernel would recompute them in each
        of its loops.
        """
        while found := {id(n): n for n in self.compared.recomputed(self.cuts)}:
            for node in found.values():
                self.store(node)
                self.cuts[id(node)] = Refusal(Why.COMPARED)

    def store(self, node: Node) -> None:
        self.stored[id(node)] = node

    def _needs_buffer(self, node: Node) -> bool:
        """Outputs, reductions, matrix multiplications and calls do; so do values that cost more to recompute than to read."""
        if node.primitive.kind == "source":
            return id(node) in self.output_ids and not is_source(node)
        if id(node) in self.output_ids or is_anchor(node) or is_call(node) or self._rounds_a_result(node):
            return True
        if isinstance(node.primitive, View) or widens(node) or unpacks(node) or not self.is_shared(node):
            return False
        if self._is_cheap(node, few=True) or self._is_recomputed(node):
            return False
        self.shared.add(id(node))
        return True

    def _rounds_a_result(self, node: Node) -> bool:
        """Whether a node casts the result of a reduction, multiplication or call to halves, and is its only reader: the kernel stores halves."""
        if not isinstance(node.primitive, Cast) or not node.dtype.is_half:
            return False
        below = node.inputs[0]
        while isinstance(below.primitive, Reshape) and len(self.consumers[id(below)]) == 1:
            below = below.inputs[0]
        return (is_anchor(below) or is_call(below)) and len(self.consumers[id(below)]) == 1

    def _stored_operands(self, node: Node) -> Iterator[Node]:
        """The operands that a kernel reads from memory: all inputs of a call, and computed operands of a matrix multiplication, because
        its tiles read each element many times.
        """
        if is_call(node):
            yield from (x for x in map(behind_reshapes, node.inputs) if not is_source(x))
        if is_dot(node):
            in_halves = matrix_units.takes_halves(self.target)
            yield from (
                x
                for x in map(self._behind_views, node.inputs)
                if self._is_computed(x)
                and not unpacks(x)
                and (not self._is_cheap(x) or (in_halves and x.dtype is float16))
            )
            if self._reads_windows_often(node):
                yield node.inputs[1]

    def _reads_windows_often(self, product: Node) -> bool:
        """Whether to store the windows of the right operand: if loads are slow, because four neighbours are then one load."""
        batch, m, k = map(hint, product.inputs[0].shape)
        columns, n = product.inputs[1], hint(product.shape[2])
        return (
            m >= READ_OFTEN
            and self.target.shuffles(batch * m * k * n)
            and 4 * batch * k * n <= self.target.max_binding_bytes
            and has_windows(columns)
        )

    def _is_computed(self, node: Node) -> bool:
        return node.primitive.kind in ("elementwise", "index") or isinstance(node.primitive, Cat)

    def is_shared(self, node: Node) -> bool:
        """Whether more than one computation reads it, looking through views."""
        count = 0
        for user in self.consumers[id(node)]:
            seen_through = isinstance(user.primitive, View | SliceAt) or widens(user)
            count += max(1, len(self.consumers[id(user)])) if seen_through else 1
        return count > 1

    def _is_cheap(self, node: Node, few: bool = False) -> bool:
        """Whether storing a node costs more than recomputing it. few: operands with few elements that all readers share, such as one per
        channel, are not counted as reads.
        """
        recorder = self.recorded(node)
        reads = [(flat, n) for (_, flat), n in recorder.reads.items() if not isinstance(n.primitive, Numbers)]
        if few:
            reads = [(flat, n) for flat, n in reads if hint(_count(flat, node)) * FEW > hint(node.size)]
        return recorder.cost <= CHEAP and len(reads) <= 1

    def _is_recomputed(self, node: Node) -> bool:
        """Whether a large array is an elementwise function of one other array and of scalars of rows, and is
        read element by element: normalised values, log-probabilities, the common part of an activation and its gradient.
        Computing it twice costs less than storing it.
        """
        if hint(node.size) < LARGE or node.primitive.kind != "elementwise" or not self._is_read_by_elements(node):
            return False
        recorder = self.recorded(node)
        sizes = sorted(hint(n.size) for n in recorder.reads.values() if not isinstance(n.primitive, Numbers))
        return (
            recorder.cost <= RECOMPUTED
            and sizes[-1:] == [hint(node.size)]
            and all(n * SMALLER <= hint(node.size) for n in sizes[:-1])
            and len(sizes) <= FEW_READS
        )

    def _is_read_by_elements(self, node: Node) -> bool:
        """Whether its readers, behind reshapes, read each element only a few times."""
        for user in self.consumers[id(node)]:
            if isinstance(user.primitive, Reshape):
                if not self._is_read_by_elements(user):
                    return False
            elif not isinstance(user.primitive, Elementwise | Gather) and user.primitive.kind != "reduce":
                return False
        return True

    def recorded(self, node: Node) -> Recorder:
        """The cost and the reads of one element of a node."""
        recorder = Recorder(lambda n: is_source(n) or id(n) in self.stored)
        recorder.pull(node, tuple(variable(f"x{a}", n) for a, n in enumerate(node.shape)))
        return recorder

    def _behind_views(self, node: Node) -> Node:
        while isinstance(node.primitive, View | SliceAt) or widens(node):
            node = node.inputs[0]
        return node
