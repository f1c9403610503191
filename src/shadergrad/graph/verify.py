"""The invariants of graphs, verified after each compiler pass in the tests and with SHADERGRAD_CHECKED=1.

In: the outputs of a graph, and the stage that it has reached. Out: nothing, or a GraphError that names the node.

    captured   as tensors recorded it: placeholders for values, every shape and dtype what the primitive's rule says
    lowered    after the rewrite rules: no aliases, no primitive that only rules can compute, equal nodes shared
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ..errors import CompileError
from .node import Node, topological

enabled = False  # the tests switch it on

Stage = Literal["captured", "lowered"]
KINDS = ("source", "alias", "elementwise", "view", "index", "reduce", "dot", "call", "host")


class GraphError(CompileError):
    """A graph that violates a rule of its stage: a bug of a rewrite rule or a primitive, not of the program."""


def verify(outputs: Iterable[Node], stage: Stage) -> None:
    """Raises GraphError if a graph violates a rule of its stage."""
    outputs = list(outputs)
    devices = {n.device for n in outputs}
    seen: dict[object, Node] = {}
    for node in topological(outputs, lambda n: n.inputs):
        _verify_node(node, stage)
        devices.add(node.device)
        if stage == "lowered":
            key = (node.primitive, tuple(map(id, node.inputs)))
            twin = seen.setdefault(key, node)
            if twin is not node and node.inputs and not _is_copy(node):
                raise GraphError(f"[verify] {node!r} was made twice from the same inputs: the rewriter must share it.")
    if len(devices) > 1:
        raise GraphError(f"[verify] one graph on several devices: {', '.join(sorted(devices))}.")


def _verify_node(node: Node, stage: Stage) -> None:
    primitive = node.primitive
    if primitive.kind not in KINDS:
        raise GraphError(f"[verify] {node!r} is of the unknown kind {primitive.kind!r}.")
    if primitive.kind == "source" and node.inputs:
        raise GraphError(f"[verify] the source {node!r} has {len(node.inputs)} inputs.")
    if primitive.name != "buffer":
        shape, dtype = primitive.infer(*node.inputs)
        if tuple(shape) != node.shape or dtype is not node.dtype:
            raise GraphError(
                f"[verify] {node!r} says {node.dtype.name}{list(node.shape)}; its rule gives {dtype.name}{list(shape)}."
            )
    if any(not isinstance(n, int) or n < 0 for n in node.shape):
        raise GraphError(f"[verify] {node!r} has the shape {node.shape}.")
    if stage == "lowered" and primitive.kind == "alias":
        raise GraphError(f"[verify] {node!r} is an alias; the rules look through them.")


def _is_copy(node: Node) -> bool:
    """Whether the node is one of the copies that give every output memory of its own."""
    return node.primitive.name == "cast" and node.inputs[0].dtype is node.dtype
