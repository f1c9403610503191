"""Compositions: recorded sequences of operations, whose nodes are created on demand.

A training loop adds the same operations in every step: those of a layer, of a loss, of a backward pass. A `Recipe` lists them once. A
`Composition` is a recipe applied to inputs, and a `Composite` is one of its results: a node with shape, dtype and device. When its
primitive or its inputs are first read, all nodes of the composition are created, and the Composite becomes an ordinary node. capture.py
and tape.py avoid this: they identify structures by the recipes, which are compared by identity.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from ..dtypes import DType
from . import node as nodes
from .leaves import STORED
from .node import Node
from .primitive import Primitive, Shape

Row = tuple[
    Primitive, tuple[int, ...], Shape, DType, bool
]  # of a node: its primitive, its inputs, its shape and dtype, requires_grad

_expanding = threading.RLock()


class Hashed:
    """A long key that caches its hash; a tuple computes it at each look-up."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Hashed or self._hash != other._hash:
            return False
        if self.value is not other.value:
            if self.value != other.value:
                return False
            self.value = other.value  # a long value is compared only once
        return True


class Recipe:
    """Operations in order. Places number the inputs, then the nodes of earlier compositions that it uses, then the rows.

    ends: the places of the results. is_structural: whether the gradients of the rows depend only on the recipe. shows: for
    each end, whether it is a view or a number, which costs nothing.
    """

    __slots__ = ("__weakref__", "ends", "first", "is_structural", "rows", "shows")

    def __init__(self, rows: Sequence[Row], ends: Sequence[int], first: int) -> None:
        self.rows = tuple(rows)
        self.ends = tuple(ends)
        self.first = first  # the place of the first row
        self.is_structural = all(row[0].structural for row in rows if row[4])
        self.shows = tuple([self._kind(place) in ("view", "source") for place in ends])

    def _kind(self, place: int) -> str:
        while place >= self.first:
            primitive, places, *_ = self.rows[place - self.first]
            if primitive.kind != "alias":
                return primitive.kind
            place = places[0]
        return ""

    def results(self, inputs: Sequence[Node], device: str, before: Sequence[Composition] = ()) -> list[Node]:
        """The results for these inputs. before: the earlier compositions that it uses."""
        composition = Composition(self, inputs, device, before)
        serial = composition.serial - self.first
        made: list[Node] = []
        for k, place in enumerate(self.ends):
            _, _, shape, dtype, requires_grad = self.rows[place - self.first]
            made.append(Composite(composition, k, shape, dtype, device, requires_grad, serial + place))
        composition.results = [weakref.ref(node) for node in made]
        nodes.nodes_made += len(self.rows)
        return made


class Composition:
    """A recipe with its inputs. results: its Composites; made: all its nodes, once they have been created.
    released: whether a backward pass has been through it without retain_graph. serial: of its first node.
    """

    __slots__ = ("before", "device", "inputs", "made", "recipe", "released", "results", "serial")
    storage: ClassVar[None] = None  # the state of a pending node

    def __init__(self, recipe: Recipe, inputs: Sequence[Node], device: str, before: Sequence[Composition]) -> None:
        self.recipe = recipe
        self.inputs = tuple(inputs)
        self.device = device
        self.before = before
        self.released = False
        self.results: list[weakref.ref[Node]] = []
        self.made: list[Node] | None = None
        self.serial = nodes.nodes_made + 1

    def expand(self) -> list[Node]:
        """Creates the nodes of the rows."""
        with _expanding:
            if self.made is not None:
                return self.made
            made = list(self.inputs)
            for composition in self.before:
                made += composition.expand()
            recipe = self.recipe
            there = {
                place: node for place, r in zip(recipe.ends, self.results, strict=True) if (node := r()) is not None
            }
            for place, (primitive, places, shape, dtype, requires_grad) in enumerate(recipe.rows, recipe.first):
                inputs = tuple([made[k] for k in places])
                node = there.get(place)
                if node is None:
                    node = Node(primitive, inputs, shape, dtype, self.device, requires_grad)
                    node.released = self.released and requires_grad
                    node.serial = self.serial + place - recipe.first
                elif type(node) is Composite:
                    node.become(primitive, inputs)
                made.append(node)
            self.made = made[recipe.first :]
            self.inputs = self.before = ()
            return self.made


_primitive: Any = Node.__dict__["primitive"]
_inputs: Any = Node.__dict__["inputs"]


class Composite(Node):
    """A result of a composition, whose primitive and inputs are created on demand."""

    __slots__ = ()

    def __init__(
        self,
        composition: Composition,
        number: int,
        shape: Shape,
        dtype: DType,
        device: str,
        requires_grad: bool,
        serial: int,
    ) -> None:
        _primitive.__set__(self, number)
        _inputs.__set__(self, composition)
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.requires_grad = requires_grad
        self.released = False
        self.storage = self.owner = self.hooks = self.origin = None
        self.serial = serial

    @property
    def composition(self) -> Composition:
        """The composition of which it is a result."""
        return _inputs.__get__(self)

    @property
    def number(self) -> int:
        """Its number among the results."""
        return _primitive.__get__(self)

    @property
    def shows(self) -> bool:
        """Whether it is a view or a number."""
        return self.composition.recipe.shows[self.number]

    def become(self, primitive: Primitive, inputs: tuple[Node, ...]) -> None:
        """Turn into an ordinary node. Fields are set in this order because other threads may read them."""
        _primitive.__set__(self, primitive)
        _inputs.__set__(self, inputs)
        self.__class__ = Node  # type: ignore[assignment]

    def _expanded(self) -> None:
        composition = _inputs.__get__(self)
        if type(composition) is Composition:
            composition.expand()

    @property
    def primitive(self) -> Primitive:  # type: ignore[override]
        self._expanded()
        return _primitive.__get__(self)

    @property
    def inputs(self) -> tuple[Node, ...]:  # type: ignore[override]
        self._expanded()
        return _inputs.__get__(self)

    def materialize(self, storage: Any) -> None:
        self.storage = storage
        if not self.requires_grad or self.released:
            self.become(STORED, ())


def is_kind(node: Node, primitive: type[Primitive]) -> bool:
    """Whether a node has a primitive of this class. The class must be one that is never the last operation of a composition."""
    return type(node) is not Composite and isinstance(node.primitive, primitive)


def unpacks(node: Node) -> bool:
    """Whether a node unpacks quantised numbers (`Primitive.unpacks`), or is a cast of such a node."""
    while type(node) is not Composite and node.storage is None and node.primitive.name == "cast":
        node = node.inputs[0]
    return type(node) is not Composite and node.storage is None and node.primitive.unpacks


def shown(node: Node) -> Node:
    """The node behind aliases; a Composite is returned as it is."""
    while node.storage is None and type(node) is not Composite and node.primitive.kind == "alias":
        node = node.inputs[0]
    return node
