"""Sums of the values of several processes, which each process computes on its own device.

In: storages of one shape and dtype, in the same order in all processes. Out: a storage with their sum, bitwise equal in all processes. Values of 16 bits
are added in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dtypes import DType, float32
from ..graph.capture import Graph
from ..graph.leaves import Placeholder
from ..graph.node import Node, make
from ..graph.primitive import named
from ..primitives.elementwise import Cast
from ..runtime.device import Program, Storage


class Sums:
    """A cache of programs for sums. load: compiles a graph to a program."""

    def __init__(self, load: Callable[[Graph], Program]) -> None:
        self._load = load
        self._programs: dict[tuple[int, tuple[int, ...], DType, str], Program] = {}

    def add(self, values: Sequence[Storage], like: Node, into: Storage | None = None) -> Storage:
        """The sum of values with the shape, dtype and device of a node. into: the storage of the result, by default a new one."""
        key = len(values), like.shape, like.dtype, like.device
        if key not in self._programs:
            self._programs[key] = self._load(graph_of(len(values), like))
        return self._programs[key].run(values, None if into is None else [into])[0]


def graph_of(count: int, like: Node) -> Graph:
    """The graph that adds `count` inputs from the first to the last."""
    inputs = [
        Node(Placeholder(k, like.shape, like.dtype), (), like.shape, like.dtype, like.device) for k in range(count)
    ]
    nodes = [*inputs]

    def then(primitive: object, *operands: Node) -> Node:
        nodes.append(make(primitive, *operands))  # type: ignore[arg-type]
        return nodes[-1]

    wide = [then(Cast(float32), node) for node in inputs] if like.dtype.is_half else inputs
    total = wide[0]
    for value in wide[1:]:
        total = then(named("Add"), total, value)
    if like.dtype.is_half:
        total = then(Cast(like.dtype), total)
    return Graph(inputs, [total], [], {}, like.device, nodes)
