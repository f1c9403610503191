"""Pads rows of halves to multiples of eight, where matrix units multiply them.

In: the nodes of a lowered graph, for a target with matrix units. Out: nodes of the same values. Computed float16 operands of matrix
multiplications get padded rows if their row length is no multiple of eight. Then each row begins at a multiple of 16 bytes, the size of
a load, and no word holds halves of two rows, which would require atomic stores. The nodes from which such an operand is computed element
by element are padded, too, back to a matrix multiplication or to inputs. Examples are GPT-2's logits, the intermediate values of their
cross-entropy, and the float16 copy of the weight.

Padding along a contraction is 0; other padding has arbitrary values. Other readers read a slice without the padding. A reduction
along padded rows replaces the padding by its identity element. Operands with rows along m or n are slices, too: a load of 16 bytes may
reach into the padding (matrix_units.py), but the results of padding are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..dtypes import float16, float32
from ..graph.leaves import Iota
from ..graph.node import Node, topological
from ..graph.primitive import Number, Primitive, Shape
from ..plan import round_up
from ..primitives.dot import Dot
from ..primitives.elementwise import Cast, Elementwise
from ..primitives.reduce import Reduce
from ..primitives.views import Expand, Pad, Permute, Reshape, Slice
from ..symbolic_sizes import varies
from . import matrix_units
from .matrix_units import OCTET
from .products import Product
from .rewrite import Rewriter

Marks = dict[int, int]  # the padded axis of each node, by id


def with_padding(r: Rewriter, outputs: Iterable[Node]) -> dict[int, Node]:
    """The new node for each node that `outputs` need, by id of the old one; empty if no operand needs padding."""
    if not matrix_units.takes_halves(r.target):
        return {}
    found = _Marked(r, list(outputs))
    return _Longer(r, found).build() if found.axes else {}


class _Marked:
    """The nodes that get padding.

    axes: the padded axis of each node. contracted: ids of matrix multiplications whose contraction is padded.
    zeroed: ids of casts to float16 whose padding must be 0.
    """

    def __init__(self, r: Rewriter, outputs: list[Node]) -> None:
        self.order = topological(outputs, lambda n: n.inputs)
        self.axes: Marks = {}
        self.contracted: set[int] = set()
        self.zeroed: set[int] = set()
        self._target = r.target
        self._outputs = {id(n) for n in outputs}
        for node in self.order:
            if isinstance(node.primitive, Dot) and self._is_for_units(node):
                for side in (0, 1):
                    self._mark_operand(node, side)
        self._mark_readers()

    def _is_for_units(self, dot: Node) -> bool:
        p = dot.primitive
        assert isinstance(p, Dot)
        sizes = (*dot.shape, *dot.inputs[0].shape)
        return (
            not p.chunk % OCTET
            and not any(map(varies, sizes))
            and matrix_units.is_for_units(dot.inputs, Product.of(dot), self._target)
        )

    def _mark_operand(self, dot: Node, side: int) -> None:
        """Marks a computed operand whose row length is no multiple of eight; also the other operand, if the rows lie along the contraction."""
        operand = dot.inputs[side]
        base = _base(operand)
        if base is None or base.shape[-1] < matrix_units.LEAST or not base.shape[-1] % OCTET:
            return
        axis = _axis_after(operand, base, base.ndim - 1)
        if axis is None:
            return
        marks, zeroed, contraction = self.axes.copy(), set[int](), (2, 1)
        if not self._mark(operand, axis, marks):
            return
        if axis == contraction[side]:
            other = dot.inputs[1 - side]
            other_base = _base(other)
            if other_base is None or not self._mark(other, contraction[1 - side], marks):
                return
            zeroed = {id(base), id(other_base)}
            if not zeroed <= marks.keys():
                return
        if self._outputs.isdisjoint(marks):
            self.axes = marks
            self.zeroed |= zeroed
            self.contracted |= {id(dot)} if zeroed else set()

    def _mark(self, node: Node, axis: int, marks: Marks) -> bool:
        """Marks a node and the nodes from which it is computed; False if a node would be padded along two axes."""
        stack = [(node, axis)]
        while stack:
            node, axis = stack.pop()
            if id(node) in marks:
                if marks[id(node)] != axis:
                    return False
                continue
            below = self.below(node, axis)
            if below is not None:  # else its result is padded, and its inputs stay
                marks[id(node)] = axis
                stack += below
        return True

    def below(self, node: Node, axis: int) -> list[tuple[Node, int]] | None:
        """The inputs to pad, each with its axis, so that a node can be computed with padding along `axis`; None if that is impossible."""
        p, inputs = node.primitive, node.inputs
        if isinstance(p, Elementwise):
            return [(i, axis) for i in inputs]
        if isinstance(p, Reshape | Permute):
            at = _before(p, inputs[0].shape, node.shape, axis)
            return None if at is None else [(inputs[0], at)]
        if isinstance(p, Expand):
            return [(inputs[0], axis)] if inputs[0].shape[axis] > 1 else []
        if isinstance(p, Reduce) and axis not in p.axes:
            return [(inputs[0], axis)]
        if isinstance(p, Dot) and axis and self._is_for_units(node):
            operand = inputs[axis - 1]  # the padded axis is m of the left operand, or n of the right one
            return [(operand, axis)] if _base(operand) is not None else None
        return None

    def _mark_readers(self) -> None:
        """Marks elementwise operations on padded operands and on values that are constant along a row: their reductions can share a kernel."""
        for node in self.order:
            if not isinstance(node.primitive, Elementwise) or id(node) in self._outputs | self.axes.keys():
                continue
            axes = {self.axes[id(i)] for i in node.inputs if id(i) in self.axes}
            if len(axes) == 1 and all(self._is_longer_along(i, *axes) for i in node.inputs):
                self._mark(node, axes.pop(), self.axes)

    def _is_longer_along(self, node: Node, axis: int) -> bool:
        """Whether a node is marked, or can be padded without padding its inputs."""
        return id(node) in self.axes or (id(node) not in self._outputs and self.below(node, axis) == [])


class _Longer:
    """The rewritten nodes.

    new: the node without padding, by id of the old one. wide: the node with padding, by id of the old one and axis. zero: ids of nodes of
    `wide` whose padding is 0.
    """

    def __init__(self, r: Rewriter, marked: _Marked) -> None:
        self.r, self.marked = r, marked
        self.new: dict[int, Node] = {}
        self.wide: dict[tuple[int, int], Node] = {}
        self.zero: set[int] = set()

    def build(self) -> dict[int, Node]:
        for node in self.marked.order:
            self.r.stand_for(node)
            axis = self.marked.axes.get(id(node))
            self.new[id(node)] = self._plain(node) if axis is None else self._cut(self._longer(node, axis), node)
        return self.new

    def _plain(self, node: Node) -> Node:
        """The new node of one that gets no padding."""
        p, axes = node.primitive, self.marked.axes
        if id(node) in self.marked.contracted:
            return self.r.make(p, *(self.wide[id(i), axes[id(i)]] for i in node.inputs))
        if isinstance(p, Reduce) and axes.get(id(node.inputs[0])) in p.axes:
            (x,) = node.inputs
            axis = axes[id(x)]
            wide = self._without_padding(self.wide[id(x), axis], x.shape[axis], axis, p.identity(x.dtype))
            return self.r.make(p, wide)
        inputs = tuple(self.new[id(i)] for i in node.inputs)
        return node if inputs == node.inputs else self.r.make(p, *inputs)

    def _longer(self, node: Node, axis: int) -> Node:
        """A marked node with padding."""
        p = node.primitive
        below = {id(i): self._operand(i, at) for i, at in self.marked.below(node, axis) or ()}
        inputs = [below.get(id(i), self.new[id(i)]) for i in node.inputs]
        zero = isinstance(p, Cast | Reshape | Permute) and id(inputs[0]) in self.zero
        if id(node) in self.marked.zeroed and not zero:
            inputs, zero = [self._without_padding(inputs[0], node.shape[axis], axis, 0.0)], True
        if isinstance(p, Reshape | Expand):
            p = type(p)(_longer(node.shape, axis))
        wide = self.wide[id(node), axis] = self.r.make(p, *inputs)
        if zero:
            self.zero.add(id(wide))
        return wide

    def _operand(self, node: Node, axis: int) -> Node:
        """An operand of a marked node, with padding; zeros if the operand is not marked."""
        if (id(node), axis) in self.wide:
            return self.wide[id(node), axis]
        shape, zeros = _longer(node.shape, axis), (0,) * node.ndim
        if isinstance(node.primitive, Iota):
            return self.r.iota(shape[0], node.device)
        high = tuple(b - a for a, b in zip(node.shape, shape, strict=True))
        wide = self.r.make(Pad(zeros, high, zeros, node.dtype.numpy.type(0).item()), self.new[id(node)])
        self.wide[id(node), axis] = wide
        self.zero.add(id(wide))
        return wide

    def _cut(self, wide: Node, node: Node) -> Node:
        return self.r.make(Slice((0,) * node.ndim, node.shape, (1,) * node.ndim), wide)

    def _without_padding(self, wide: Node, length: int, axis: int, value: Number) -> Node:
        """`wide`, with a value as its padding."""
        r = self.r
        return r.where(r.less(r.iota_along(wide, axis), length), wide, value)


def _longer(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], round_up(shape[axis], OCTET), *shape[axis + 1 :])


def _base(operand: Node) -> Node | None:
    """The cast to float16 of which an operand of a matrix multiplication is a view, through its cast back to float32."""
    node = operand
    while isinstance(node.primitive, Reshape | Permute | Expand) or _widens(node):
        node = node.inputs[0]
    return (
        node if isinstance(node.primitive, Cast) and node.dtype is float16 and node.inputs[0].dtype is float32 else None
    )


def _widens(node: Node) -> bool:
    return isinstance(node.primitive, Cast) and node.dtype is float32 and node.inputs[0].dtype is float16


def _axis_after(operand: Node, base: Node, axis: int) -> int | None:
    """The axis of an operand that corresponds to an axis of its base; None if there is none."""
    chain = []
    while operand is not base:
        chain.append(operand)
        operand = operand.inputs[0]
    found: int | None = axis
    for node in reversed(chain):
        found = None if found is None else _after(node.primitive, node.inputs[0].shape, node.shape, found)
    return found


def _after(p: Primitive, source: Shape, shape: Shape, axis: int) -> int | None:
    """The axis of a view that corresponds to an axis of its input."""
    if isinstance(p, Permute):
        return p.axes.index(axis)
    return _same_axis(source, shape, axis) if isinstance(p, Reshape) else axis


def _before(p: Primitive, source: Shape, shape: Shape, axis: int) -> int | None:
    """The axis of a view's input that corresponds to an axis of the view."""
    return p.axes[axis] if isinstance(p, Permute) else _same_axis(shape, source, axis)


def _same_axis(shape: Shape, other: Shape, axis: int) -> int | None:
    """The axis of a reshaped array that has the same elements as an axis of the array; None if there is none."""
    before = math.prod(shape[:axis])
    found = (a for a, n in enumerate(other) if n == shape[axis] and math.prod(other[:a]) == before)
    return next(found, None)
