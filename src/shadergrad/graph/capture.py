"""From pending nodes to a closed graph: values become numbered inputs. In: nodes to compute. Out: key and graph.

The key identifies the structure: two captures with equal keys have the same plan. Building it is cheap; the graph
itself is only built when the key is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .leaves import Placeholder
from .node import Node, resolve, topological


@dataclass
class Graph:
    """A closed graph.

    keep: nodes worth storing if the plan computes them into a buffer anyway.
    in_place: output position -> input position whose memory it should take over.
    """

    inputs: list[Node]
    outputs: list[Node]
    keep: list[Node] = field(default_factory=list)
    in_place: dict[int, int] = field(default_factory=dict)
    device: str = "cpu"


class Capture:
    """The nodes that `roots` need, in order, with their structure.

    sources: the valued nodes it reads, one for each value. identity: of a valued node, what tells whether its value is
    that of another; by default its memory. key: hashable structure.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        *,
        keep: bool = False,
        first: Iterable[Node] = (),
        identity: Callable[[Node], int] = lambda node: id(node.storage),
    ) -> None:
        self.roots = [resolve(r) for r in roots]
        self.device = self.roots[0].device
        self.sources: list[Node] = []
        self._position: dict[int, int] = {}  # id of node -> place in the order
        self._by_identity: dict[int, int] = {}
        self.order: list[Node] = []
        entries: list[Any] = []
        for node in first:
            entries.append(self._source(node, identity(node)))
        for node in topological(self.roots, _inputs):
            if node.storage is not None:
                entry = self._source(node, identity(node))
                if entry is None:
                    continue
                entries.append(entry)
            else:
                inputs = tuple(self._position[id(resolve(i))] for i in node.inputs)
                entries.append((node.primitive, inputs))
                self._position[id(node)] = len(self.order)
                self.order.append(node)
        self.keep = (
            [k for k, n in enumerate(self.order) if n.requires_grad and not n.released and n.storage is None]
            if keep
            else []
        )
        self.outputs = [self._position[id(r)] for r in self.roots]
        self.key = (self.device, tuple(entries), tuple(self.outputs), tuple(self.keep))

    def _source(self, node: Node, identity: int) -> Any:
        """The entry of a valued node; None where its value is known already."""
        known = self._by_identity.get(identity)
        if known is not None and self.order[known].shape == node.shape and self.order[known].dtype is node.dtype:
            self._position[id(node)] = known
            return None
        self._by_identity[identity] = self._position[id(node)] = len(self.order)
        self.order.append(node)
        self.sources.append(node)
        return (node.shape, node.dtype)

    def position_of_source(self, node: Node) -> int | None:
        """Which input a valued node is, if it is one."""
        place = self._position.get(id(node))
        if place is None:
            return None
        return next(k for k, s in enumerate(self.sources) if s is self.order[place])

    def graph(self, in_place: dict[int, int] | None = None) -> Graph:
        """The structure with placeholders for values."""
        built: list[Node] = []
        inputs: list[Node] = []
        for node in self.order:
            if node.storage is not None:
                made = Node(Placeholder(len(inputs), node.shape, node.dtype), (), node.shape, node.dtype, node.device)
                inputs.append(made)
            else:
                sources = tuple(built[self._position[id(resolve(i))]] for i in node.inputs)
                made = Node(node.primitive, sources, node.shape, node.dtype, node.device)
            built.append(made)
        return Graph(
            inputs, [built[k] for k in self.outputs], [built[k] for k in self.keep], in_place or {}, self.device
        )


def _inputs(node: Node) -> tuple[Node, ...]:
    return () if node.storage is not None else tuple(resolve(i) for i in node.inputs)
