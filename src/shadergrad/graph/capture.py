"""From pending nodes to a closed graph: values become numbered inputs. In: nodes to compute. Out: key and graph.

The key identifies the structure: two captures with equal keys and equal numbers share a plan. Captures with other numbers share
a plan that reads the numbers from memory (numbers.py). The key is cheap to build; the graph itself is built only for compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..dtypes import DType
from .leaves import Placeholder
from .node import Node, is_alias, resolve
from .numbers import NO_SLOTS, Kind, Slots
from .primitive import Number, Primitive


@dataclass
class Graph:
    """A closed graph.

    keep: nodes whose values are kept if the plan stores them anyway.
    in_place: output position -> input position whose memory it should reuse.
    nodes: all of them, by position in the capture.
    """

    inputs: list[Node]
    outputs: list[Node]
    keep: list[Node] = field(default_factory=list)
    in_place: dict[int, int] = field(default_factory=dict)
    device: str = "cpu"
    nodes: list[Node] = field(default_factory=list)


class Numbered:
    """The numbers of a structure.

    numbered: the primitives that have numbers, in order. They are interned: equal if each number is the same.
    dtypes: of their results.
    """

    def __init__(self, numbered: Sequence[Primitive], dtypes: Sequence[DType], device: str) -> None:
        self.numbered = tuple(numbered)
        self.dtypes = dtypes
        self.device = device

    def numbers(self) -> list[Number]:
        """All numbers; captures of one key have equally many."""
        return [n for p, dtype in zip(self.numbered, self.dtypes, strict=True) for n, _ in p.numbers(dtype)]

    def kinds(self) -> list[Kind]:
        """The kind of each number."""
        return [
            Kind(dtype, type(p), k)
            for p, result in zip(self.numbered, self.dtypes, strict=True)
            for k, (_, dtype) in enumerate(p.numbers(result))
        ]


class Capture(Numbered):
    """The nodes that `roots` need, in order, with their structure.

    sources: the nodes with values that it reads, one for each value.
    identity: identifies the value of such a node; by default its memory.
    key: hashable structure, without the numbers. with_numbers: the nodes whose primitives have some.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        *,
        keep: bool = False,
        first: Iterable[Node] = (),
        identity: Callable[[Node], int] = lambda node: id(node.storage),
    ) -> None:
        self.roots = self._ends(roots)
        self.sources: list[Node] = []
        self._position: dict[Any, int] = {}  # place in the order
        self._by_identity: dict[int, int] = {}
        self.order: list[Node] = []
        numbered: list[Node] = []
        entries: list[Any] = []
        for node in first:
            entries.append(self._source(node, identity(node)))
        self._walk(entries, numbered, identity)
        super().__init__([n.primitive for n in numbered], [n.dtype for n in numbered], self.roots[0].device)
        self.with_numbers = numbered
        self.outputs = [self._position[r] for r in self.roots]
        self.keep = self._asked_again() if keep else []
        self.key = (self.device, tuple(entries), tuple(self.outputs), tuple(self.keep))

    def _ends(self, roots: Sequence[Node]) -> list[Node]:
        """The nodes that are computed for the roots."""
        return [resolve(r) for r in roots]

    def _walk(self, entries: list[Any], numbered: list[Node], identity: Callable[[Node], int]) -> None:
        """Inputs first, like `topological`, but inlined, because an uncompiled step spends much of its time here. An alias has
        the position of its input.
        """
        position, order = self._position, self.order
        stack: list[Node | None] = [*self.roots]
        stack.reverse()
        while stack:
            node = stack.pop()
            if node is None:  # all inputs of this node are in the order
                node = cast(Node, stack.pop())
                inputs = node.inputs
            elif node in position:
                continue
            elif node.storage is not None:
                entry = self._source(node, identity(node))
                if entry is not None:
                    entries.append(entry)
                continue
            else:
                inputs = node.inputs
                if node.primitive.kind == "alias":
                    inputs = inputs[:1]  # the other inputs are only for the tape
                missing: list[Node | None] = [i for i in inputs if i not in position]
                if missing:
                    missing += (None, node)
                    missing.reverse()
                    stack += missing
                    continue
            primitive = node.primitive
            if primitive.kind == "alias":
                position[node] = position[inputs[0]]
                continue
            form = primitive.form
            entries.append((form or primitive, tuple([position[i] for i in inputs])))
            if form is not None:
                numbered.append(node)
            position[node] = len(order)
            order.append(node)

    def _source(self, node: Node, identity: int) -> Any:
        """The entry of a node with a value; None if its value is known already."""
        known = self._by_identity.get(identity)
        if known is not None and self.order[known].shape == node.shape and self.order[known].dtype is node.dtype:
            self._position[node] = known
            return None
        self._by_identity[identity] = self._position[node] = len(self.order)
        self.order.append(node)
        self.sources.append(node)
        return (node.shape, node.dtype)

    def _asked_again(self) -> list[int]:
        """The positions of nodes, besides the outputs, that may be needed later: by a backward pass, by a living tensor, or by the gradient of
        an extremum. Views and constants cost nothing, so a view is replaced by its base; joined arrays have no single base, and each part would
        be computed again.
        """
        asked: set[int] = set()
        for node, place in self._position.items():
            owner = None if node.owner is None else node.owner()
            if owner is not None and owner._holds(node):
                asked.add(place)
            if node.requires_grad and len(node.inputs) > 1 and not node.released and node.primitive.kind == "alias":
                asked.update([self._position[i] for i in node.inputs[1:] if i in self._position])  # for its gradient
        found: list[int] = []
        outputs = set(self.outputs)
        given = outputs | asked  # or their bases
        for place in range(len(self.order) - 1, -1, -1):
            node = self.order[place]
            if node.storage is not None:
                continue
            if node.primitive.kind == "view":
                parts = len(node.inputs)
                if place in asked and parts > 1:
                    found.append(place)
                elif place in asked:
                    asked.add(self._position[node.inputs[0]])
                if place in given:
                    given.add(self._position[resolve(node.inputs[0])])
            elif node.inputs and (place in asked or (node.requires_grad and not node.released)):
                found.append(place)
            if node.primitive.selects and (place in given or found[-1:] == [place]):
                asked.add(self._position[resolve(node.inputs[0])])  # the gradient will search the extremum in it
        return [place for place in reversed(found) if place not in outputs]

    def position_of_source(self, node: Node) -> int | None:
        """The input number of a node with a value, or None."""
        place = None if is_alias(node) else self._position.get(node)
        if place is None:
            return None
        return next(k for k, s in enumerate(self.sources) if s is self.order[place])

    def operations(self) -> list[tuple[Primitive, tuple[int, ...], int]]:
        """The computation of each node without a value: a primitive, the positions of its operands, and its own."""
        position = self._position
        return [
            (node.primitive, tuple([position[resolve(i)] for i in node.inputs]), place)
            for place, node in enumerate(self.order)
            if node.storage is None
        ]

    def graph(self, in_place: dict[int, int] | None = None, slots: Slots = NO_SLOTS) -> Graph:
        """The structure with placeholders for values.

        slots: the numbers that are read from inputs; these inputs come after all others.
        """
        built: list[Node] = []
        inputs: list[Node] = []
        arrays = slots.inputs(len(self.sources), self.device)
        read = slots.nodes(arrays)
        of = iter(slots.of)
        for node in self.order:
            if node.storage is not None:
                made = Node(Placeholder(len(inputs), node.shape, node.dtype), (), node.shape, node.dtype, node.device)
                inputs.append(made)
            else:
                sources = tuple(built[self._position[resolve(i)]] for i in node.inputs)
                primitive = node.primitive
                numbers: list[Any] = []
                if slots.of and primitive.form is not None:
                    values = primitive.numbers(node.dtype)
                    numbers = [v if (slot := next(of)) is None else read[slot] for v, _ in values]
                if any(isinstance(n, Node) for n in numbers):
                    made = primitive.opened(sources, numbers)
                else:
                    made = Node(primitive, sources, node.shape, node.dtype, node.device)
            built.append(made)
        return Graph(
            inputs + arrays,
            [built[k] for k in self.outputs],
            [built[k] for k in self.keep],
            in_place or {},
            self.device,
            built,
        )
