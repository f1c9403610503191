"""The graph: immutable operations with shape, dtype, device and inputs. This module runs nothing.

In: primitives and nodes. Out: nodes. Making a node checks shapes and dtypes, so an error points at the user's line. A node
whose value has been computed holds it in `storage`; the compiler then treats it as a leaf.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ..dtypes import DType
from ..errors import DeviceError, ShapeError
from .leaves import STORED, Stored, Variable
from .origin import Origins, Spot, users_line
from .primitive import Primitive, Shape

MOST_AXES = 32  # of a tensor: the limit of NumPy's iterators, on which the cpu device runs
nodes_made = 0  # incremented for each node; the runtime compares it to see whether anything was recorded


class _Mode(threading.local):
    grad: bool = True
    heard: bool = False  # whether there is a listener for new nodes
    made: list[Node] | None = None  # the nodes made, for nodes_of
    origins: Origins | None = None  # the recording of origins
    inspect: Callable[[Node, Sequence[Node | None]], None] | None = None  # called with the gradients of each rule
    written: list[tuple[weakref.ref[Any], Node]] | None = None  # the tensors that got another value, with its node
    # in a backward pass that rules make, the ids of the nodes that lead to targets
    visiting: Container[int] | None = None
    # during a capture, the nodes that backward passes freed, with their primitives and inputs
    let_go: list[tuple[Node, Primitive, tuple[Node, ...]]] | None = None


mode = _Mode()


@contextmanager
def grad_mode(enabled: bool) -> Iterator[None]:
    """A context that sets whether new nodes record that they need gradients."""
    before = mode.grad
    mode.grad = enabled
    try:
        yield
    finally:
        mode.grad = before


@contextmanager
def nodes_of() -> Iterator[list[Node]]:
    """A context that lists the operations recorded inside, in order. Nested contexts both list them."""
    before, mode.made = mode.made, []
    made, heard = mode.made, mode.heard
    mode.heard = True
    try:
        yield made
    finally:
        mode.made, mode.heard = before, heard
        if before is not None:
            before += made


@contextmanager
def origins_of(origins: Origins) -> Iterator[None]:
    """A context that notes the origin of each operation recorded inside."""
    before, heard = mode.origins, mode.heard
    mode.origins, mode.heard = origins, True
    try:
        yield
    finally:
        mode.origins, mode.heard = before, heard


def hear(node: Node) -> None:
    """Notify the listeners of a recorded operation."""
    if mode.made is not None:
        mode.made.append(node)
    origins = mode.origins
    if origins is not None:
        here = origins.here
        node.origin = here if here.line else Spot(here.owner, users_line(), here.phase)


class Node:
    """One operation applied to nodes.

    storage: the computed value, or None while it is pending.
    requires_grad: whether the backward pass visits it.
    released: whether a backward pass has been through it without retain_graph.
    owner: a weak reference to the present or former holder of the node (`_holds` tells), a tensor or a storage that tensors
    share; for a Variable, the object that accumulates its gradient.
    hooks: None, or the functions that the backward pass calls with the node's gradient (tensor/hooks.py).
    origin: the place of its creation, if recorded (origin.py).
    serial: increases with each new node; the backward pass visits the newer of two nodes first (completion.py).
    """

    __slots__ = (
        "__weakref__",
        "device",
        "dtype",
        "hooks",
        "inputs",
        "origin",
        "owner",
        "primitive",
        "released",
        "requires_grad",
        "serial",
        "shape",
        "storage",
    )

    def __init__(
        self,
        primitive: Primitive,
        inputs: tuple[Node, ...],
        shape: Shape,
        dtype: DType,
        device: str,
        requires_grad: bool = False,
    ) -> None:
        if len(shape) > MOST_AXES:
            raise ShapeError(
                f"[{primitive.name}] a tensor has at most {MOST_AXES} axes, and this one would have {len(shape)}. Hint: merge axes with"
                " flatten()."
            )
        self.primitive = primitive
        self.inputs: tuple[Node, ...] = inputs
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.requires_grad = requires_grad
        self.released = False
        self.storage: Any = None
        self.owner: weakref.ref[Any] | None = None
        self.hooks: Any = None
        self.origin: Spot | None = None
        self.serial = nodes_made

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"{self.primitive.name}{list(self.shape)}:{self.dtype.name}"

    def materialize(self, storage: Any) -> None:
        """Store a computed value. Releases the inputs, unless a backward pass may still need them."""
        self.storage = storage
        if not self.requires_grad or self.released or isinstance(self.primitive, Variable):
            if not isinstance(self.primitive, Variable):
                self.primitive = STORED
            self.inputs = ()

    _in_single: ClassVar[Any]  # set by graph/build.py: makes nodes with 16-bit operands
    _builder: ClassVar[Any]  # set by graph/build.py: the builder that operators use

    # Arithmetic between nodes of one shape, or with Python numbers, for gradient rules.

    def __add__(self, other: Node | float) -> Node:
        return Node._builder.add(self, other)

    def __sub__(self, other: Node | float) -> Node:
        return Node._builder.sub(self, other)

    def __mul__(self, other: Node | float) -> Node:
        return Node._builder.mul(self, other)

    def __truediv__(self, other: Node | float) -> Node:
        return Node._builder.div(self, other)

    def __radd__(self, other: float) -> Node:
        return Node._builder.add(other, self)

    def __rsub__(self, other: float) -> Node:
        return Node._builder.sub(other, self)

    def __rmul__(self, other: float) -> Node:
        return Node._builder.mul(other, self)

    def __rtruediv__(self, other: float) -> Node:
        return Node._builder.div(other, self)

    def __neg__(self) -> Node:
        return Node._builder.neg(self)


def make(primitive: Primitive, *inputs: Node) -> Node:
    """The node `primitive(*inputs)`; raises an error if shapes, dtypes or devices do not fit."""
    global nodes_made
    nodes_made += 1
    device = inputs[0].device
    requires_grad = False
    for other in inputs:
        if other.device != device:
            raise DeviceError(
                f"[{primitive.name}] operands are on different devices: {', '.join(f'{list(i.shape)} on {i.device}' for i in inputs)}."
                f" Hint: move one with .to({device!r})."
            )
        if other.requires_grad:
            requires_grad = True
    shape, dtype = primitive.infer(*inputs)
    if (
        inputs[0].dtype.is_half
        or inputs[-1].dtype.is_half
        or (len(inputs) > 2 and any(i.dtype.is_half for i in inputs))
    ):
        if not primitive.moves and primitive.kind != "alias":
            return Node._in_single(primitive, inputs, dtype)
        primitive = primitive.of_half(inputs[0].dtype)
    if requires_grad:
        requires_grad = mode.grad and primitive.differentiable and dtype.category >= 2
    node = Node(primitive, inputs, shape, dtype, device, requires_grad)
    if mode.heard:
        hear(node)
    return node


def leaf(storage: Any, shape: Shape, dtype: DType, device: str, primitive: Stored = STORED) -> Node:
    """A node with a value."""
    node = Node(primitive, (), shape, dtype, device)
    node.storage = storage
    return node


def variable(node: Node, owner: Any, hooks: Any = None) -> Node:
    """A leaf of the tape over `node`: gradients stop here and belong to its owner. hooks: those of the owner's previous
    leaf."""
    result = Node(Variable(), (node,), node.shape, node.dtype, node.device, requires_grad=True)
    result.owner = weakref.ref(owner)
    result.hooks = hooks
    if node.storage is not None:
        result.materialize(node.storage)
    return result


def is_alias(node: Node) -> bool:
    """Whether `node` is only another name for the value of its input."""
    return node.storage is None and node.primitive.kind == "alias"


def resolve(node: Node) -> Node:
    """The node behind aliases."""
    while node.storage is None and node.primitive.kind == "alias":
        node = node.inputs[0]
    return node


def topological(roots: Iterable[Node], inputs_of: Callable[[Node], Sequence[Node]]) -> list[Node]:
    """Every node reachable from `roots` through `inputs_of`, inputs first. Iterative: graphs are deep."""
    order: list[Node] = []
    seen: set[Node] = set()
    entered: list[Node] = []  # nodes whose inputs must be visited first
    stack: list[Node | None] = [*roots]
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # all inputs of the node that was entered last are in the order
            order.append(entered.pop())
            continue
        if node in seen:
            continue
        seen.add(node)
        inputs = inputs_of(node)
        if not inputs:
            order.append(node)
            continue
        entered.append(node)
        stack.append(None)
        for source in reversed(inputs):
            if source not in seen:
                stack.append(source)
    return order
