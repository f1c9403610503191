"""Reverse-mode differentiation: walk the graph from the outputs and add nodes. The graph is the tape.

In: output nodes with their cotangents. Out: a cotangent node for every Variable reached. Gradient rules are the
primitives' own `vjp`, written in nodes, so with create_graph the result can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from .. import symbolic_sizes
from ..errors import AutogradError
from .completion import Completion, share_hooks
from .composition import Composite, is_kind
from .leaves import Variable
from .node import Node, grad_mode, mode, topological
from .segments import Segment, Visited, segments_of
from .tape import Tape, passes

MOST_LOOKED_AT = 64


def backward(
    roots: Sequence[Node],
    cotangents: Sequence[Node],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
    targets: Sequence[Node] | None = None,
    leaf_of: Callable[[Node], Any] = id,
    through: bool = True,
    on_complete: Callable[[Node, Node], None] | None = None,
) -> dict[int, tuple[Node, Node]]:
    """Cotangents by id of node, as (node, cotangent): for all Variables reached, or for `targets` only.

    leaf_of: maps a Variable to its leaf; a target also stands for the earlier values of its leaf.
    through: whether the pass continues behind a target, to other targets from which it was computed. If not, it is part of
    another pass, which continues from there and calls the hooks of targets.
    on_complete: if hooks listen, called with the results one by one, each before any later hook.

    Nodes behind a single target are not visited and keep their history, as do nodes that lead to no target.
    """
    is_passed = targets is None or (through and len(targets) > 1)
    ends = frozenset() if is_passed else frozenset(id(t) for t in targets or ())

    def before(node: Node) -> Sequence[Node]:
        return () if id(node) in ends else _tape_inputs(node)

    origins = mode.origins
    is_known = targets is None and not create_graph and not symbolic_sizes.follows and origins is None
    short = None  # the tape with compositions as they are
    if is_known:
        order = topological(roots, _short_inputs)
        share_hooks(order, leaf_of)
        if any(type(node) is Composite for node in order):
            _refuse_released(order)
            short = Tape(order, roots, cotangents)
        found = (short and passes.find(short)) or _by_parts(order, roots, cotangents)
        if found is not None:
            if not retain_graph:
                _release(order)
            return found
    order = topological(roots, before if ends else _tape_inputs)
    _refuse_released(n for n in order if id(n) not in ends)
    share_hooks(order, leaf_of)
    tape = Tape(order, roots, cotangents) if is_known else None
    found = None if tape is None else passes.find(tape)
    if found is None:
        with grad_mode(create_graph), nullcontext() if origins is None else origins.restored():
            found, order = _evaluated(order, roots, cotangents, targets, ends, leaf_of, not through, on_complete)
        if tape is not None:
            passes.learn(tape, found)
    if short is not None:
        passes.learn(short, found)
    if not (retain_graph or create_graph):
        _release(order)
    return found


def _evaluated(
    order: list[Node],
    roots: Sequence[Node],
    cotangents: Sequence[Node],
    targets: Sequence[Node] | None,
    ends: frozenset[int],
    leaf_of: Callable[[Node], Any],
    is_part: bool,
    on_complete: Callable[[Node, Node], None] | None,
) -> tuple[dict[int, tuple[Node, Node]], list[Node]]:
    """The result of `backward`, computed by the primitives' rules, and the nodes that the pass visits; is_part: as below."""
    earlier = {} if targets is None else _earlier_values(order, targets, leaf_of)
    wanted = None if targets is None else {*(id(t) for t in targets), *earlier}
    needed = _leading_to(order, wanted)
    outer, mode.visiting = mode.visiting, needed
    try:
        if any(node.hooks is not None for node in order):
            found = _by_rules_with_hooks(
                order, roots, cotangents, earlier, wanted, needed, ends, is_part, leaf_of, on_complete
            )
        else:
            found = _by_rules(order, roots, cotangents, earlier, wanted, needed, ends)
    finally:
        mode.visiting = outer
    if wanted is not None:
        order = [n for n in order if id(n) not in ends and any(id(i) in needed for i in _tape_inputs(n))]
    return found, order


def _by_rules(
    order: list[Node],
    roots: Sequence[Node],
    cotangents: Sequence[Node],
    earlier: dict[int, Node],
    wanted: Container[int] | None,
    needed: set[int],
    ends: frozenset[int],
) -> dict[int, tuple[Node, Node]]:
    """The result of `backward`, computed by the primitives' rules. wanted: the targets and their earlier values; needed: the nodes
    that lead there.
    """
    collected: dict[int, Node] = {}
    found: dict[int, tuple[Node, Node]] = {}
    for root, g in zip(roots, cotangents, strict=True):
        _accumulate(collected, root, g)
    origins = mode.origins
    for node in reversed(order):
        g = collected.pop(id(node), None)
        if g is None:
            continue
        if origins is not None:
            origins.derive(node.origin)
        is_end = id(node) in ends  # whose primitive is not read, because that makes the nodes of a composition
        is_leaf = not is_end and isinstance(node.primitive, Variable)
        if is_leaf if wanted is None else id(node) in wanted:
            target = earlier.get(id(node), node)
            before = found.get(id(target))
            found[id(target)] = (target, g if before is None else before[1] + g)
        if is_leaf or is_end:
            continue
        cotangents = node.primitive.vjp(g, node)
        if mode.inspect is not None:
            mode.inspect(node, cotangents)
        for source, cotangent in zip(node.inputs, cotangents, strict=True):
            if cotangent is not None and source.requires_grad and id(source) in needed:
                _accumulate(collected, source, cotangent)
    return found


def _by_parts(
    order: list[Node], roots: Sequence[Node], cotangents: Sequence[Node]
) -> dict[int, tuple[Node, Node]] | None:
    """The result of `backward` for a tape with functions of users; None for others. They are called in each pass, and the segments between them are
    looked up. Afterwards `order` is the tape as they have left it: they may have read nodes of compositions.
    """
    parts = None if mode.inspect is not None else segments_of(order, _short_inputs)
    if parts is None:
        return None
    _refuse_released(order)
    collected: dict[int, Node] = {}
    found: dict[int, tuple[Node, Node]] = {}
    for root, g in zip(roots, cotangents, strict=True):
        _accumulate(collected, root, g)
    outer = mode.visiting
    with grad_mode(False):
        try:
            mode.visiting = Visited(order, lambda: topological(roots, _tape_inputs))
            for part in reversed(parts):
                if isinstance(part, Segment):
                    for node, g in _through(part, collected):
                        if id(node) in part.end_ids:
                            collected[id(node)] = g
                        else:
                            found[id(node)] = (node, g)
                    continue
                g = collected.pop(id(part), None)
                if g is not None:
                    for source, cotangent in zip(part.inputs, part.primitive.vjp(g, part), strict=True):
                        if cotangent is not None and source.requires_grad:
                            _accumulate(collected, source, cotangent)
        finally:
            mode.visiting = outer
    order[:] = topological(roots, _short_inputs)
    return found


def _through(part: Segment, collected: dict[int, Node]) -> Iterable[tuple[Node, Node]]:
    """The ends and Variables of a segment with their cotangents. collected: those of the nodes behind it, which are taken out."""
    if not any(id(n) in collected for n in part.nodes):
        return ()
    begun = [n for n in (*part.ends, *part.nodes) if id(n) in collected]
    cotangents = [collected.pop(id(n)) for n in begun]
    tape = Tape(part.nodes, begun, cotangents, part.ends)
    found = passes.find(tape)
    if found is None:
        order = topological(begun, lambda n: () if id(n) in part.end_ids else _tape_inputs(n))
        wanted = part.end_ids | {id(n) for n in order if is_kind(n, Variable)}
        found = _by_rules(order, begun, cotangents, {}, wanted, {id(n) for n in order}, part.end_ids)
        passes.learn(tape, found)
    return found.values()


def _by_rules_with_hooks(
    order: list[Node],
    roots: Sequence[Node],
    cotangents: Sequence[Node],
    earlier: dict[int, Node],
    wanted: set[int] | None,
    needed: set[int],
    ends: frozenset[int],
    is_part: bool,
    leaf_of: Callable[[Node], Any],
    on_complete: Callable[[Node, Node], None] | None,
) -> dict[int, tuple[Node, Node]]:
    """As `_by_rules`, but in PyTorch's order, and with calls of hooks. is_part: whether another pass continues from the ends."""
    found: dict[int, tuple[Node, Node]] = {}
    walk = Completion(order, needed, lambda n: () if id(n) in ends else _tape_inputs(n), leaf_of)
    for root, g in zip(roots, cotangents, strict=True):
        walk.add(root, g, None)
    origins = mode.origins
    for node in walk:
        if origins is not None:
            origins.derive(node.origin)
        g = walk.take(node)
        if g is None:
            continue
        hooks = None if is_part and id(node) in ends else node.hooks
        if hooks is not None:
            g = hooks.on_gradient(g)
        is_leaf = isinstance(node.primitive, Variable)
        if is_leaf if wanted is None else id(node) in wanted:
            target = earlier.get(id(node), node)
            found[id(target)] = (target, g)
            if on_complete is not None:
                on_complete(target, g)
        if is_leaf or id(node) in ends:
            continue
        for source, cotangent in zip(node.inputs, _of_operands(node, g, needed), strict=True):
            if cotangent is not None:
                walk.add(source, cotangent, node)
    return found


def _of_operands(node: Node, g: Node, needed: set[int]) -> Sequence[Node | None]:
    """The cotangents of the operands that the pass visits, after the hooks on them; None for the others."""
    cotangents = node.primitive.vjp(g, node)
    if mode.inspect is not None:
        mode.inspect(node, cotangents)
    visited = [
        cotangent if source.requires_grad and id(source) in needed else None
        for source, cotangent in zip(node.inputs, cotangents, strict=True)
    ]
    return visited if node.hooks is None or not node.hooks.through else node.hooks.on_operands(visited, g)


def _earlier_values(order: Sequence[Node], targets: Sequence[Node], leaf_of: Callable[[Node], Any]) -> dict[int, Node]:
    """The Variables that are earlier values of the leaves of targets, by id, with the target."""
    leaves = {leaf_of(t): t for t in targets if isinstance(t.primitive, Variable)}
    variables = [node for node in order if isinstance(node.primitive, Variable)]
    return {id(node): leaves[leaf_of(node)] for node in variables if leaf_of(node) in leaves}


def _refuse_released(order: Iterable[Node]) -> None:
    if any(
        not isinstance(node.primitive, Variable)
        if node.released
        else type(node) is Composite and node.composition.released
        for node in order
    ):
        raise AutogradError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
            "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
            "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
            "after calling backward."
        )


def _release(order: Sequence[Node]) -> None:
    """Free the tape: values stay, the nodes from which they were computed do not."""
    noted = mode.let_go
    for node in order:
        if type(node) is Composite:
            node.released = node.composition.released = True
            if node.storage is not None:
                node.materialize(node.storage)
        elif not isinstance(node.primitive, Variable):
            if noted is not None:
                noted.append((node, node.primitive, node.inputs))
            node.released = True
            if node.storage is not None:
                node.materialize(node.storage)


def is_over(node: Node) -> bool:
    """Whether every backward pass from a node would reach nodes that an earlier pass has freed. A node that a tensor holds ends the search,
    because a program may request its gradient. Of long histories only the last nodes are examined.
    """
    stack, left = _short_inputs(node), MOST_LOOKED_AT
    while stack and left:
        before = stack.pop()
        left -= 1
        if before.owner is not None and before.owner() is not None:
            continue  # a tensor's: a pass may end there
        if before.released or (type(before) is Composite and before.composition.released):
            return True
        stack += _short_inputs(before)
    return False


def _tape_inputs(node: Node) -> list[Node]:
    if isinstance(node.primitive, Variable):
        return []
    return [i for i in node.inputs if i.requires_grad]


def _short_inputs(node: Node) -> list[Node]:
    """The inputs of a node; of a Composite those of its composition."""
    if type(node) is Composite:
        return [i for i in node.composition.inputs if i.requires_grad]
    return _tape_inputs(node)


def _leading_to(order: list[Node], wanted: set[int] | None) -> set[int]:
    """The nodes that depend on a target; without targets, all."""
    if wanted is None:
        return {id(n) for n in order}
    needed: set[int] = set()
    for node in order:
        if id(node) in wanted or any(id(i) in needed for i in _tape_inputs(node)):
            needed.add(id(node))
    return needed


def _accumulate(collected: dict[int, Node], node: Node, g: Node) -> None:
    assert g.shape == node.shape, f"gradient of {node!r} has shape {g.shape}"
    before = collected.get(id(node))
    collected[id(node)] = g if before is None else before + g
