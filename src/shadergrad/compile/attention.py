"""Attention on a device: either composed operations, or blockwise kernels with their block sizes and their split of a head's keys.

The rule `attention_to_calls` replaces the two attention calls of a graph by the kernels of primitives/attention_kernels.py, or by the
composition. `CHOICES` lists the choices that calls.py makes for those kernels. Constants were measured on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..graph.build import Builder
from ..graph.node import Node
from ..graph.primitive import Primitive
from ..primitives.attention import Attention, AttentionGradient
from ..primitives.attention_composed import Composed
from ..primitives.attention_kernels import (
    JoinShares,
    LaidAttention,
    LaidGradient,
    LaidShares,
    LaidSums,
    UnitsAttention,
    UnitsGradient,
)
from ..primitives.attention_layouts import in_octets, in_place, laid_out
from ..primitives.attention_tiles import AttentionChoice, Blocks, Layout, Problem, Shares, Tile, size_of_result
from ..primitives.attention_units_writer import (
    SIDE,
    SUBGROUP,
    THREADS,
    Parts,
    UnitsChoice,
    bytes_of_forward,
    bytes_of_gradient,
)
from ..primitives.views import Cat, Slice
from ..symbolic_sizes import hint, varies
from ..target import Target
from . import matrix_units
from .rewrite import Inputs, Rewriter

SHORT = 512 * 512  # weights of a head that may be stored as a whole
MOST_WEIGHTS = 1 << 24  # of all heads together
MUCH = 16  # a composition may have this many times the multiply-adds of one multiplication without tiles

SMALL = 32  # sequences up to this length use the small blocks
FORWARD = (Blocks(128, 64, 256, 16), Blocks(64, 64, 128, 32), Blocks(64, 64, 128, 16), Blocks(64, 32, 128, 16))
BACKWARD = (Blocks(32, 64, 128, 16),)
FORWARD_ON_UNITS = (UnitsChoice(64, 64), UnitsChoice(64, 32))
MOST_SCALE = 1e15  # with a smaller scale, all scores of halves stay above the kernels' smallest number
GRADIENT_ON_UNITS = (UnitsChoice(64, 32), UnitsChoice(32, 32))
MANY_BLOCKS = 4  # blocks of keys: with fewer, a dispatch costs more than two block products
ENOUGH_WORKGROUPS = 384
MOST_SHARES = 8  # partial gradients as large as q
FEW_WORKGROUPS = 512  # with fewer workgroups of the tallest blocks, a large GPU is partly idle
TALL = 64


# -- the nodes that replace the calls


def attention_to_calls(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """The kernels of attention and of its gradients, or the composed form."""
    if isinstance(p, Attention):
        return (
            composed(r, p, inputs)
            if pays_composed(inputs, r.target)
            else _on_units(r, p, inputs) or _kernel(r, p, inputs)
        )
    if isinstance(p, AttentionGradient):
        if pays_composed(inputs[2:], r.target):
            return composed(r, p, inputs)
        return _gradient_on_units(r, p, inputs) or _kernels_of_gradient(r, p, inputs)
    return None


def composed(r: Builder, p: Attention | AttentionGradient, inputs: Inputs) -> Node:
    """Attention and its gradients as composed operations."""
    return _composed_result(r, p, inputs) if isinstance(p, Attention) else _composed_gradient(r, p, inputs)


def pays_composed(inputs: Sequence[Node], target: Target) -> bool:
    """Whether composed operations are faster: if the matrix multiplications need no tiles, and the sequences are so short that the weights
    fit into memory a few times.
    """
    n, heads, rows, d = map(hint, inputs[0].shape)
    columns = hint(inputs[1].shape[2])
    weights = n * heads * rows * columns
    return rows * columns <= SHORT and weights <= MOST_WEIGHTS and target.shuffles(weights * d // MUCH)


def _kernel(r: Rewriter, p: Attention, inputs: Inputs) -> Node:
    """The kernel, which reads q, k and v in place, with their strides."""
    laid = [in_place(x) for x in inputs[:3]]
    call = LaidAttention(p.problem(inputs), tuple(of for _, of in laid), p.logs)
    return r.make(call, *(x for x, _ in laid), *inputs[3:])


def _on_units(r: Rewriter, p: Attention, inputs: Inputs) -> Node | None:
    """The kernel for matrix units; None if its sizes do not suit them, or an operand is no cast of float16."""
    problem = p.problem(inputs)
    if choose_units(problem, r.target, gradient=False) is None:
        return None
    laid = _laid_halves(r, inputs[:3])
    if laid is None:
        return None
    return r.make(UnitsAttention(problem, tuple(of for _, of in laid), p.logs), *(x for x, _ in laid))


def _gradient_on_units(r: Rewriter, p: AttentionGradient, inputs: Inputs) -> Node | None:
    """The kernel for matrix units, which reads the sum of gradient times result of each query; None as for the forward pass."""
    g, flat = inputs[:2]
    problem = p.problem(inputs[2:])
    if choose_units(problem, r.target, gradient=True) is None:
        return None
    laid = _laid_halves(r, (g, *inputs[2:5]))
    if laid is None:
        return None
    n, heads, rows, d = g.shape
    result = r.make(Slice((0,), (g.size,), (1,)), flat)
    result = r.permute(r.reshape(result, (n, rows, heads, d)), (0, 2, 1, 3)) if p.by_row else r.reshape(result, g.shape)
    sums = r.reshape(r.sum(r.mul(g, result), (3,)), (n * heads * rows,))
    (of_g, *qkv), layouts = (x for x, _ in laid), tuple(of for _, of in laid)
    return r.make(UnitsGradient(problem, layouts, p.places, p.shape), of_g, flat, *qkv, sums)


def _laid_halves(r: Rewriter, inputs: Sequence[Node]) -> list[tuple[Node, Layout]] | None:
    """The float16 operands of the casts that make the inputs, each with its layout; None if an input is no such cast."""
    halves = [matrix_units.halves_of(r, x) for x in inputs]
    return [in_octets(x) for x in halves if x is not None] if None not in halves else None


def _composed_result(r: Builder, p: Attention, inputs: Inputs) -> Node:
    """The result of composed operations, and the log-sum-exp of each row."""
    whole = Composed(r, p, inputs)
    tops = whole.tops()
    powers, total = whole.powers(tops)
    result, logs = whole.result(powers, total), whole.logs(tops, total)
    if p.by_row:
        result = r.permute(result, (0, 2, 1, 3))
    parts = [r.reshape(x, (x.size,)) for x in ([result, logs] if p.logs else [result])]
    filling = size_of_result(inputs[0].shape, p.logs) - sum(x.size for x in parts)
    if filling:
        parts.append(r.constant(0.0, result.dtype, result.device, (filling,)))
    return r.make(Cat(0), *parts) if len(parts) > 1 else parts[0]


def _kernels_of_gradient(r: Rewriter, p: AttentionGradient, inputs: Inputs) -> Node:
    """One kernel, or three: the sums of rows, partial gradients of q, and their sum."""
    laid = [in_place(x) for x in (inputs[0], *inputs[2:5])]
    layouts, (g, *qkv) = tuple(of for _, of in laid), (x for x, _ in laid)
    problem = p.problem(inputs[2:])
    shares = choose_shares(problem, r.target)
    if shares is None:
        return r.make(LaidGradient(problem, layouts, p.places, p.shape), g, inputs[1], *qkv, *inputs[5:])
    sums = r.make(LaidSums(problem, layouts[0]), g, inputs[1])
    found = r.make(LaidShares(problem, layouts, shares), g, sums, *qkv, *inputs[5:])
    return r.make(JoinShares(problem, shares, p.places, p.shape), found)


def _composed_gradient(r: Builder, p: AttentionGradient, inputs: Inputs) -> Node:
    """The gradients by composed operations."""
    whole = Composed(r, p, inputs[2:])
    size = inputs[0].size
    logs = r.make(Slice((size,), (size // inputs[0].shape[3],), (1,)), inputs[1])
    powers = whole.powers(r.reshape(logs, (*whole.shape[:2], 1)))
    return laid_out(r, whole.gradients(inputs[0], *powers), p.places, p.shape)


def choose_shares(p: Problem, target: Target) -> Shares | None:
    """The shares into which the keys are split: as few as keep a large GPU busy. None if that takes too many, or there are few keys."""
    blocks = choose_blocks(p, target, BACKWARD)
    count = max(1, -(-ENOUGH_WORKGROUPS // (p.n * p.heads)))
    of_keys = -(-p.columns // blocks.columns)
    nbytes = 4 * p.n * p.heads * p.d * (2 * p.columns + count * p.rows)
    if of_keys < max(MANY_BLOCKS, count) or count > MOST_SHARES or nbytes > target.max_binding_bytes:
        return None
    return Shares(blocks, count)


# -- the parameters of the kernels


def choose_blocks(p: Problem, target: Target, of: Sequence[Blocks]) -> Blocks:
    """The first block sizes that fit the device, are not mostly padding, and give enough workgroups."""
    for blocks in of:
        count = hint(p.n * p.heads * -(-p.rows // blocks.rows))
        if blocks.rows > TALL and count < FEW_WORKGROUPS:
            continue
        fits = 16 * blocks.pool <= target.max_workgroup_storage and blocks.threads <= target.max_workgroup_invocations
        if fits and min(hint(p.rows), hint(p.columns)) > SMALL:
            return replace(blocks, depth=min(p.wide, blocks.depth))
    return Blocks(32, 32, 64, 16)


def choose_tile(rows: int, columns: int, threads: int) -> Tile:
    """The squarest part of a block for each thread, with as many active threads as possible."""
    shapes = [Tile(rows, columns, tall, broad) for tall in (4, 8) for broad in (4, 8, 12, 16) if columns % broad == 0]
    fitting = [t for t in shapes if t.threads <= threads and t.rows % t.tall == 0]
    return max(fitting, key=lambda t: (t.threads, -abs(t.tall - t.broad)))


def _forward(p: LaidAttention, target: Target, inputs: Sequence[Node]) -> AttentionChoice:
    return _of_blocks(p.problem, target, choose_blocks(p.problem, target, FORWARD), gradient=False)


def _backward(p: LaidGradient, target: Target, inputs: Sequence[Node]) -> AttentionChoice:
    return _of_blocks(p.problem, target, choose_blocks(p.problem, target, BACKWARD), gradient=True)


def _shares(p: LaidShares, target: Target, inputs: Sequence[Node]) -> AttentionChoice:
    return _of_blocks(p.problem, target, p.shares.blocks, gradient=True)


def _of_blocks(p: Problem, target: Target, b: Blocks, gradient: bool) -> AttentionChoice:
    """The choice for these blocks. gradient: whether the kernel also sums over queries."""
    return AttentionChoice(
        b,
        scores=choose_tile(b.rows, b.columns, b.threads),
        of_queries=choose_tile(b.rows, p.wide, b.threads),
        of_keys=choose_tile(b.columns, p.wide, b.threads) if gradient else None,
        scalar_pool=not target.traits.component_stores,
    )


def choose_units(p: Problem, target: Target, gradient: bool) -> UnitsChoice | None:
    """The block sizes on matrix units; None if they do not suit the problem."""
    found = matrix_units.instruction(target)
    if found is None or (found.m, found.n, found.k) != (SIDE, SIDE, SIDE) or target.subgroups[0] != SUBGROUP:
        return None
    if (
        p.mask is not None
        or p.dropped
        or p.d % SIDE
        or not abs(p.scale) < MOST_SCALE
        or target.max_workgroup_invocations < THREADS
    ):
        return None
    if any(map(varies, (*p.shape, p.columns))) or min(p.rows, p.columns) <= SMALL:
        return None
    nbytes = bytes_of_gradient if gradient else bytes_of_forward
    for choice in GRADIENT_ON_UNITS if gradient else FORWARD_ON_UNITS:
        own, others = choice.own, choice.others
        parts = (Parts(others, own), Parts(own, p.d)) if gradient else (Parts(own, others), Parts(own, p.d))
        if all(x.fits for x in parts) and nbytes(p.d, choice) <= target.max_workgroup_storage:
            return choice
    return None


def _forward_on_units(p: UnitsAttention, target: Target, inputs: Sequence[Node]) -> UnitsChoice:
    choice = choose_units(p.problem, target, gradient=False)
    assert choice is not None
    return choice


def _gradient_choice_on_units(p: UnitsGradient, target: Target, inputs: Sequence[Node]) -> UnitsChoice:
    choice = choose_units(p.problem, target, gradient=True)
    assert choice is not None
    return choice


CHOICES = {
    LaidAttention: _forward,
    LaidGradient: _backward,
    LaidShares: _shares,
    UnitsAttention: _forward_on_units,
    UnitsGradient: _gradient_choice_on_units,
}
