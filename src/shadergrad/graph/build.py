"""The builder of graphs, for gradients, tensors and rewrite rules.

A Builder defines how to make a node and how to make a source node of its device; all other methods derive from these. The
recording builder makes nodes as they are; the compiler's rewriter shares equal nodes and applies rules. The builder knows
primitives by name, because they lie above the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType, float32
from ..errors import ArgumentError
from ..symbolic_sizes import Varying
from .leaves import Constant
from .node import Node, hear, make, mode
from .primitive import Primitive, Shape, named

Number = bool | int | float | complex


class Builder:
    """Makes nodes. Operands are nodes of one shape and dtype, or, beside a node, Python numbers."""

    def make(self, primitive: Primitive, *inputs: Node) -> Node:
        """The node `primitive(*inputs)`, or another node with the same value."""
        raise NotImplementedError

    def source(self, primitive: Primitive, device: str) -> Node:
        """A node without inputs."""
        raise NotImplementedError

    # -- constants

    def constant(self, value: Number, dtype: DType, device: str, shape: Shape = ()) -> Node:
        """A number, in every element of `shape`."""
        try:
            if (
                dtype.category == 1
                and type(value) is int
                and value < 0
                and -value <= dtype.range[1]
                and not dtype.is_signed
            ):
                value += dtype.range[1] + 1  # as PyTorch has it: -1 is the largest
            plain = dtype.numpy.type(value).item() if dtype.category != 2 else float(value)  # type: ignore[arg-type]
            if isinstance(value, Varying) and dtype.category in (1, 2):
                plain = value
        except (ValueError, OverflowError):
            raise ArgumentError(f"value {value} cannot be converted to {dtype.name} without overflow.") from None
        return self.broadcast(self.source(Constant(plain, dtype), device), shape)

    def like(self, node: Node, value: Node | Number) -> Node:
        """`value` as a node of the shape, dtype and device of `node`."""
        return value if isinstance(value, Node) else self.constant(value, node.dtype, node.device, node.shape)

    def iota(self, size: int, device: str, dtype: DType | None = None) -> Node:
        """0, 1, ..., size - 1, by default as int32."""
        counter = self.source(named("Iota", size), device)
        return counter if dtype is None else self.cast(counter, dtype)

    def iota_along(self, x: Node, axis: int, dtype: DType | None = None) -> Node:
        """0, 1, ... along `axis`, the same along all others, in the shape of x."""
        counter = self.iota(x.shape[axis], x.device, dtype)
        counter = self.reshape(counter, tuple(n if a == axis else 1 for a, n in enumerate(x.shape)))
        return self.broadcast(counter, x.shape)

    # -- views

    def reshape(self, x: Node, shape: Shape) -> Node:
        return x if x.shape == shape else self.make(named("Reshape", shape), x)

    def permute(self, x: Node, axes: tuple[int, ...]) -> Node:
        return x if axes == tuple(range(x.ndim)) else self.make(named("Permute", axes), x)

    def transpose(self, x: Node) -> Node:
        """The last two axes swapped."""
        axes = list(range(x.ndim))
        axes[-2:] = axes[-1], axes[-2]
        return self.permute(x, tuple(axes))

    def broadcast(self, x: Node, shape: Shape) -> Node:
        """NumPy broadcasting of `x` to `shape`."""
        if x.shape == shape:
            return x
        x = self.reshape(x, (1,) * (len(shape) - x.ndim) + x.shape)
        return x if x.shape == shape else self.make(named("Expand", shape), x)

    def cat(self, parts: Sequence[Node], axis: int) -> Node:
        """Nodes of one dtype along an axis, in groups, so that no kernel needs more buffers than a device has."""
        while len(parts) > 1:
            groups = [parts[k : k + 4] for k in range(0, len(parts), 4)]
            parts = [self.make(named("Cat", axis), *group) if len(group) > 1 else group[0] for group in groups]
        return parts[0]

    # -- elements

    def elementwise(self, name: str, *operands: Any) -> Node:
        """The elementwise operation of that name; numbers take shape and dtype from the first operand that is a node."""
        first = next(o for o in operands if isinstance(o, Node))
        return self.make(named(name), *(self.like(first, o) for o in operands))

    def add(self, a: Any, b: Any) -> Node:
        return self.elementwise("Add", a, b)

    def sub(self, a: Any, b: Any) -> Node:
        return self.elementwise("Sub", a, b)

    def mul(self, a: Any, b: Any) -> Node:
        return self.elementwise("Mul", a, b)

    def div(self, a: Any, b: Any) -> Node:
        return self.elementwise("Div", a, b)

    def neg(self, x: Node) -> Node:
        return self.elementwise("Neg", x)

    def equal(self, a: Any, b: Any) -> Node:
        return self.elementwise("Equal", a, b)

    def less(self, a: Any, b: Any) -> Node:
        return self.elementwise("Less", a, b)

    def greater(self, a: Any, b: Any) -> Node:
        return self.elementwise("Greater", a, b)

    def both(self, a: Node, b: Node) -> Node:
        """a & b."""
        return self.elementwise("And", a, b)

    def either(self, a: Node, b: Node) -> Node:
        """a | b."""
        return self.elementwise("Or", a, b)

    def inverted(self, x: Node) -> Node:
        """Not x, of bools."""
        return self.elementwise("Not", x)

    def where(self, condition: Node, a: Node | Number, b: Node | Number) -> Node:
        """a where the condition holds, else b; a number takes its shape and dtype from the other branch."""
        branch = a if isinstance(a, Node) else b
        assert isinstance(branch, Node), "one branch of where must be a node"
        return self.make(named("Where"), condition, self.like(branch, a), self.like(branch, b))

    def cast(self, x: Node, dtype: DType) -> Node:
        return x if x.dtype is dtype else self.make(named("Cast", dtype), x)

    # -- over axes

    def sum(self, x: Node, axes: tuple[int, ...]) -> Node:
        """The sum over `axes`, which stay with size 1."""
        return self.make(named("ReduceSum", axes), x)

    def conjugate(self, x: Node) -> Node:
        """The complex conjugate; x itself if it is real."""
        return self.elementwise("Conj", x) if x.dtype.category == 3 else x

    def dot(self, a: Node, b: Node) -> Node:
        """a (batch, m, k) times b (batch, k, n): (batch, m, n)."""
        return self.make(named("Dot"), a, b)


class _Recorded(Builder):
    """Makes nodes as they are, for tensors and gradients."""

    def make(self, primitive: Primitive, *inputs: Node) -> Node:
        return make(primitive, *inputs)

    def source(self, primitive: Primitive, device: str) -> Node:
        shape, dtype = primitive.infer()
        node = Node(primitive, (), shape, dtype, device)
        if mode.heard:
            hear(node)
        return node


recorded = _Recorded()
Node._builder = recorded
constant, like, iota, iota_along = recorded.constant, recorded.like, recorded.iota, recorded.iota_along
reshape, permute, transpose, broadcast = recorded.reshape, recorded.permute, recorded.transpose, recorded.broadcast
elementwise, where, cast = recorded.elementwise, recorded.where, recorded.cast
equal, less, greater = recorded.equal, recorded.less, recorded.greater
both, either, inverted = recorded.both, recorded.either, recorded.inverted
sum_over, dot, conjugate, cat = recorded.sum, recorded.dot, recorded.conjugate, recorded.cat

# -- halves: only casts, and primitives that move elements, have float16 and bfloat16 operands (docs/decisions/0029)

UNROUNDED = ("mul", "div")  # operations in which PyTorch uses a Python number beside a half as float32


def in_single(primitive: Primitive, inputs: tuple[Node, ...], dtype: DType) -> Node:
    """The node of a primitive with 16-bit operands: computed in float32, the result rounded once to `dtype`."""
    exact = primitive.name in UNROUNDED
    widened = [((_number(x) if exact else None) or cast(x, float32)) if x.dtype.is_half else x for x in inputs]
    return cast(make(primitive, *widened), dtype)


def _number(node: Node) -> Node | None:
    """A number in every element of a node, in float32; None for other nodes."""
    source = node
    while source.storage is None and source.primitive.name in ("reshape", "expand"):
        (source,) = source.inputs
    if source.storage is not None or not isinstance(source.primitive, Constant):
        return None
    return recorded.constant(source.primitive.value, float32, node.device, node.shape)


Node._in_single = staticmethod(in_single)
