"""From a plan of the cpu device to the graph that the fuser divides into groups. In: a Plan whose kernels are primitives. Out: nodes.

Nodes with a form in LLVM IR stay unchanged. Every other node becomes a `Hosted` call: the interpreter's primitive, with the views of its operands,
which NumPy reads without a copy. The fuser treats each of these calls as a separate kernel.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...dtypes import float32
from ...graph.leaves import Constant, Iota, Placeholder
from ...graph.node import Node, topological
from ...graph.primitive import OWN, Primitive, from_data
from ...plan import IN_GATHER, Plan
from ...primitives.attention import Attention, AttentionGradient
from ...primitives.call import Call
from ...primitives.elementwise import Bitcast, Cast, Elementwise
from ...primitives.indexing import Gather, InRange
from ...primitives.random import Threefry
from ...primitives.views import Cat, Expand, Flip, Pad, PadAt, Permute, Reshape, SliceAt, View
from ...target import Target
from .. import convolution
from ..attention import composed
from ..rewrite import Inputs, Rewriter
from . import exact_rules, rules
from .kernel import serves_reduction
from .product import serves_product
from .registers import Tile
from .unpacking import unpacked_late

TARGET = Target("llvm", max_storage_buffers=64, max_binding_bytes=1 << 62)
MOST_WEIGHTS = 1 << 24  # of an attention, stored from the forward to the backward pass
# become matrix multiplications
CONVOLUTIONS = (convolution.spread_to_residues, convolution.depthwise_to_map, convolution.conv_to_dot)
VIEWS = ("Reshape", "Permute", "Expand", "Slice", "Flip")  # NumPy has them without a copy


@dataclass(frozen=True, eq=False)
class Hosted(Call):
    """An operation of the interpreter. views: for each operand, the views from the stored array to the operand."""

    kind = "call"
    of: Primitive
    views: tuple[tuple[Primitive, ...], ...]

    @property
    def name(self) -> str:
        return self.of.name


@dataclass(frozen=True)
class Region:
    """A graph: its inputs, in the plan's order, and its outputs. Equal outputs are one node. An output may be an input.

    places: of nodes, by id, the dispatches of the plan that they come from.
    """

    inputs: list[Node]
    outputs: list[Node]
    places: dict[int, int]


def region_of(plan: Plan, tile: Tile) -> Region | None:
    """The graph of a plan for a processor. None if the plan has an array without elements, which the kernels' loops do not support, or several
    stages: such a plan is only displayed, and each stage has its own plan."""
    if any(0 in spec.shape for spec in plan.buffers):
        return None
    primitives = [from_data({"primitive": k.primitive, **json.loads(k.parameters)}) for k in plan.kernels]
    nodes: dict[int, Node] = {}
    inputs = []
    for position, row in enumerate(plan.inputs):
        spec = plan.buffers[row]
        nodes[row] = Node(Placeholder(position, spec.shape, spec.dtype), (), spec.shape, spec.dtype, "cpu")
        inputs.append(nodes[row])
    operations = [(primitives[d.kernel], d.buffers[:-1], d.buffers[-1:]) for d in plan.dispatches]
    dispatch = {d.buffers[-1]: k for k, d in enumerate(plan.dispatches)}
    made: list[Any] = [None] * len(plan.dispatches)
    for primitive, operands, (row,) in unpacked_late(operations, {*plan.outputs}):
        if any(b not in nodes for b in operands):
            return None
        spec = plan.buffers[row]
        made[dispatch[row]] = nodes[row] = Node(
            primitive, tuple(nodes[b] for b in operands), spec.shape, spec.dtype, "cpu"
        )
    wanted = [nodes[row] for row in plan.outputs]
    written = () if tile.library else CONVOLUTIONS
    rewriter = Rewriter(
        (attention_composed, checked_gather, joined_at_once, *written, *exact_rules.RULES), "cpu", TARGET
    )
    new = rewriter.rewrite(wanted, made)
    outputs, places = _hosted([new[id(n)] for n in wanted], rewriter.places, tile)
    return Region(inputs, outputs, places)


def attention_composed(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Composes attention of matrix multiplications and row kernels, if its weights may be stored."""
    if not isinstance(p, Attention | AttentionGradient):
        return None
    q, k = inputs[-len(p.names) :][:2]
    if q.dtype is not float32 or q.size // q.shape[3] * k.shape[2] > MOST_WEIGHTS:
        return None
    return composed(r, p, inputs)


def checked_gather(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Adds a check of the positions by the interpreter, which raises an error for one out of range before a kernel reads there."""
    if not isinstance(p, Gather):
        return None
    x, positions = inputs
    checked = _checked(r, positions, x.shape[p.axis])
    return None if checked is positions else r.make(p, x, checked)


def joined_at_once(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """One `cat` in place of several: a GPU's kernel takes few arrays, so a plan concatenates many of them in steps."""
    if not isinstance(p, Cat):
        return None
    parts: list[Node] = []
    for x in inputs:
        inner = x.primitive
        parts += x.inputs if isinstance(inner, Cat) and inner.axis == p.axis else (x,)
    return r.make(p, *parts) if len(parts) > len(inputs) else None


def _checked(r: Rewriter, positions: Node, size: int) -> Node:
    """Positions after a check that raises an error. The check is of the whole array of which they are a view."""
    p = positions.primitive
    if isinstance(p, Reshape | Permute | Expand | Flip):
        return r.make(p, _checked(r, positions.inputs[0], size))
    if isinstance(p, InRange) and p.low == 0 and p.size <= size:
        return positions
    return r.make(InRange(size, IN_GATHER), positions)


def serves(node: Node, tile: Tile) -> bool:
    """Whether a node has a form in LLVM IR for a processor."""
    primitive = node.primitive
    if isinstance(primitive, Placeholder):
        return True
    if not type(primitive).__module__.startswith((OWN, "shadergrad.graph.")):
        return False
    if any(n.dtype.name not in rules.SERVED for n in (node, *node.inputs)):
        return False
    if isinstance(primitive, Cast):
        return rules.converts(node.inputs[0].dtype, node.dtype)
    if isinstance(primitive, Bitcast):
        return rules.bitcasts(node.inputs[0].dtype, node.dtype)
    if isinstance(primitive, Elementwise):
        return rules.rule_of(primitive, node.inputs[-1].dtype) is not None
    if primitive.kind == "reduce":
        return serves_reduction(node)
    if primitive.kind == "dot":
        return serves_product(node, tile)
    return isinstance(primitive, Constant | Iota | View | Pad | PadAt | SliceAt | Gather | Threefry)


def _hosted(outputs: list[Node], places: dict[int, int], tile: Tile) -> tuple[list[Node], dict[int, int]]:
    """The graph with `Hosted` calls, and the places of its nodes."""
    new: dict[int, Node] = {}
    found: dict[int, int] = {}
    for node in topological(outputs, lambda n: n.inputs):
        if isinstance(node.primitive, Placeholder):
            new[id(node)] = node
            continue
        given = tuple(new[id(i)] for i in node.inputs)
        primitive = node.primitive
        if not serves(node, tile):
            behind = [_behind_views(i) for i in given]
            primitive = Hosted(node.primitive, tuple(views for _, views in behind))
            given = tuple(n for n, _ in behind)
        copied = new[id(node)] = Node(primitive, given, node.shape, node.dtype, "cpu")
        if id(node) in places:
            found[id(copied)] = places[id(node)]
    return [new[id(n)] for n in outputs], found


def _behind_views(node: Node) -> tuple[Node, tuple[Primitive, ...]]:
    """The node of which a node is a view, and the views in between."""
    views: list[Primitive] = []
    while type(node.primitive).__name__ in VIEWS:
        views.append(node.primitive)
        node = node.inputs[0]
    return node, tuple(reversed(views))
