"""Attention without its matrix: softmax(q k^T scale + mask) v by blocks of queries and keys, forward and backward.

Dao, "FlashAttention-2" (2023). q (n, heads, l, d), k and v (n, heads, s, d), d a multiple of four. The forward pass keeps the
log-sum-exp of each row, from which the backward pass recomputes the weights. Its three gradients are sums in a fixed order,
without atomics. attention_shader.py writes the kernels; this module has the NumPy twins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..dtypes import DType, bool_, uint32
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph.build import Builder
from ..graph.node import Node, make, mode
from ..graph.primitive import Shape
from ..symbolic_sizes import hint
from ..target import Target
from . import attention_shader as shader
from .attention_tiles import (
    BACKWARD,
    FORWARD,
    LANES,
    AttentionChoice,
    Layout,
    Problem,
    Shares,
    choose_attention,
    choose_shares,
    kept_from,
    place_of_result,
    size_of_result,
)
from .call import Call, CallKernel
from .random import Threefry, threefry2x32
from .reduce import ReduceMax
from .strides import Strided, is_covered, row_major, strided
from .views import Cat, Slice

SHORT = 512 * 512  # weights of a head that may be kept as a whole
MOST_WEIGHTS = 1 << 24  # of all heads
MUCH = 16  # times the multiplications from which a product needs no tiles, from which on composing pays


@dataclass(frozen=True, eq=False)
class AttentionCall(Call):
    """The base of these calls. dropped: the share of weights set to zero; the others are divided by what is left.

    masked: whether there is a mask (n or 1, heads or 1, l or 1, s or 1) after q, k and v: bools, true where attention is
    allowed, or numbers that are added. The last input, where dropped > 0, is the key (2,) of the random words: word j % 2
    of threefry(i ceil(s / 2) + j / 2, row of n heads) decides about column j of row i. by_row: whether the result lies
    (n, l, heads, d) in memory, as heads are joined, and not (n, heads, l, d).
    """

    scale: float
    causal: bool
    masked: bool
    dropped: float
    by_row: bool

    @property
    def names(self) -> tuple[str, ...]:
        return ("q", "k", "v", *(("mask",) if self.masked else ()), *(("key",) if self.dropped else ()))

    def problem(self, inputs: Sequence[Node]) -> Problem:
        """What is computed, of q, k, v, the mask and the key."""
        q, k = inputs[:2]
        mask = inputs[3] if self.masked else None
        strides = None if mask is None else row_major(mask.shape)
        return Problem(
            q.shape[0],
            q.shape[1],
            q.shape[2],
            k.shape[2],
            q.shape[3],
            self.scale,
            self.causal,
            strides,
            mask is not None and mask.dtype is bool_,
            self.dropped,
            self.by_row,
        )

    def check(self, inputs: Sequence[Node]) -> None:
        q, k, v = inputs[:3]
        if q.ndim != 4 or k.shape != v.shape or (*q.shape[:2], q.shape[3]) != (*k.shape[:2], k.shape[3]):
            raise ShapeError(
                f"[attention] q is {q.shape}, k {k.shape}, v {v.shape}; they must be (n, heads, l or s, d)."
            )
        if q.shape[3] % LANES:
            raise ShapeError(f"[attention] the size of a head is {q.shape[3]}, no multiple of {LANES}.")
        if not q.dtype is k.dtype is v.dtype or q.dtype.category != 2:
            raise DTypeError(f"[attention] q is {q.dtype.name}, k {k.dtype.name}, v {v.dtype.name}.")
        whole = (*q.shape[:3], k.shape[2])
        if self.masked and any(m not in (1, n) for m, n in zip(inputs[3].shape, whole, strict=True)):
            raise ShapeError(f"[attention] the mask is {inputs[3].shape}; it must broadcast to {whole}.")

    def pays_composed(self, inputs: Sequence[Node], target: Target) -> bool:
        """Whether composed operations take less time: where products need no tiles, of sequences so short that their weights may be
        kept, a few times over."""
        n, heads, rows, d = map(hint, inputs[0].shape)
        columns = hint(inputs[1].shape[2])
        weights = n * heads * rows * columns
        return rows * columns <= SHORT and weights <= MOST_WEIGHTS and target.shuffles(weights * d // MUCH)

    # -- the same in NumPy

    def gradients(
        self, g: np.ndarray, flat: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, others: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of q, k and v."""
        sums = row_sums(g, flat, place_of_result(q.shape, self.by_row))
        to_scores, weights = self.slopes(g, sums, q, k, v, others)
        return to_scores @ k, np.swapaxes(to_scores, -2, -1) @ q, np.swapaxes(weights, -2, -1) @ g

    def slopes(
        self, g: np.ndarray, sums: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, others: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of the products q k^T, and the weights after dropout, (n, heads, l, s)."""
        logs, delta = sums[..., None]
        s = self.scores(q, k, others)
        with np.errstate(invalid="ignore"):
            weights = np.where(np.isneginf(s), 0, np.exp(s - np.where(np.isneginf(logs), 0, logs)))
        kept = self.kept(s.shape, others)
        to_scores = weights * (g @ np.swapaxes(v, -2, -1) * kept - delta) * q.dtype.type(self.scale)
        return to_scores, weights * kept

    def scores(self, q: np.ndarray, k: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
        """q k^T scale with the masks, (n, heads, l, s)."""
        result = q @ np.swapaxes(k, -2, -1) * q.dtype.type(self.scale)
        if self.masked:
            mask = others[0]
            result = np.where(mask, result, -np.inf) if mask.dtype == bool else result + mask
        if self.causal:
            result = np.where(np.tri(*result.shape[-2:], dtype=bool), result, -np.inf)
        return result.astype(q.dtype)

    def kept(self, shape: Shape, others: Sequence[np.ndarray]) -> Any:
        """What each weight is multiplied with: 0, or 1 / (1 - dropped)."""
        if not self.dropped:
            return 1
        n, heads, rows, columns = shape
        half = -(-columns // 2)
        pair = np.arange(rows * half, dtype=np.uint32)[None]
        words = np.stack(threefry2x32(others[-1], pair, np.arange(n * heads, dtype=np.uint32)[:, None]), -1)
        words = words.reshape(n, heads, rows, 2 * half)[..., :columns]
        return np.where(words >= kept_from(self.dropped), 1.0 / (1.0 - self.dropped), 0.0)


def row_sums(g: np.ndarray, flat: np.ndarray, place: Layout) -> np.ndarray:
    """Of the rows of attention (2, n, heads, l): the logarithms of the sums, and the sums of gradient times result, which
    lies at `place`."""
    logs = flat[g.size : g.size + g.size // g.shape[-1]].reshape(g.shape[:-1])
    return np.stack([logs, (g * _writable(flat, place, g.shape)).sum(-1)])


@dataclass(frozen=True, eq=False)
class Attention(AttentionCall):
    """q, k, v, [mask], [key] to one flat array: the result, and with `logs`, which a gradient needs, the logarithms of the
    sums (n, heads, l), then up to three elements that fill a vec4."""

    kind = "call"
    logs: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.names

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        self.check(inputs)
        return (size_of_result(inputs[0].shape, self.logs),), inputs[0].dtype

    def numpy(self, q, k, v, *others):
        s = self.scores(q, k, others)
        with np.errstate(invalid="ignore"):
            top = s.max(-1, keepdims=True)
            top = np.where(np.isneginf(top), 0, top)
            powers = np.exp(s - top)
            total = powers.sum(-1, keepdims=True)
            logs = np.where(total == 0, -np.inf, top + np.log(np.where(total == 0, 1, total)))
        weights = powers / np.where(total == 0, 1, total) * self.kept(s.shape, others)
        result = np.zeros(size_of_result(q.shape, self.logs), q.dtype)
        _writable(result, place_of_result(q.shape, self.by_row), q.shape)[:] = weights @ v
        if self.logs:
            result[q.size : q.size + logs.size] = logs.reshape(-1)
        return result

    def expand(self, r: Builder, target: Target, *inputs: Node) -> Node | None:
        """The kernel, which reads q, k and v where they lie; or the composed form."""
        if self.pays_composed(inputs, target):
            return self.composed(r, inputs)
        laid = [_in_place(x) for x in inputs[:3]]
        call = LaidAttention(self.problem(inputs), tuple(of for _, of in laid), self.logs)
        return r.make(call, *(x for x, _ in laid), *inputs[3:])

    def composed(self, r: Builder, inputs: tuple[Node, ...]) -> Node:
        """The result of composed operations, and the logarithms of the sums behind it."""
        whole = Composed(r, self, inputs)
        tops = whole.tops()
        powers, total = whole.powers(tops)
        result, logs = whole.result(powers, total), whole.logs(tops, total)
        if self.by_row:
            result = r.permute(result, (0, 2, 1, 3))
        parts = [r.reshape(x, (x.size,)) for x in ([result, logs] if self.logs else [result])]
        filling = size_of_result(inputs[0].shape, self.logs) - sum(x.size for x in parts)
        if filling:
            parts.append(r.constant(0.0, result.dtype, result.device, (filling,)))
        return r.make(Cat(0), *parts) if len(parts) > 1 else parts[0]

    def vjp(self, g, node):
        inputs = node.inputs
        q, k = inputs[:2]
        upper = self.result_of(g, q.shape)
        others = (None,) * (len(inputs) - 3)
        if mode.grad:  # a gradient that is to be differentiated itself
            whole = Composed(build.recorded, self, inputs)
            return (*whole.gradients(upper, *whole.powers(whole.tops())), *others)
        places, shape = _places_of_gradients(inputs[:3])
        made = AttentionGradient(*(getattr(self, f.name) for f in fields(AttentionCall)), places, shape)
        found = make(made, upper, node, *inputs)
        return (*(_view_of(found, place, x) for place, x in zip(places, (q, k, inputs[2]), strict=True)), *others)

    def result_of(self, flat: Node, shape: Shape) -> Node:
        """The part of the flat array that is the result, (n, heads, l, d)."""
        n, heads, rows, d = shape
        if self.logs:
            flat = make(Slice((0,), (math.prod(shape),), (1,)), flat)
        if not self.by_row:
            return build.reshape(flat, shape)
        return build.permute(build.reshape(flat, (n, rows, heads, d)), (0, 2, 1, 3))


class Composed:
    """Attention with the whole matrix of weights, of operations that have gradients and kernels of their own."""

    def __init__(self, b: Builder, call: AttentionCall, inputs: Sequence[Node]) -> None:
        """inputs: q, k, v, the mask and the key."""
        self.b, self.call, self.of = b, call, tuple(inputs[:3])
        self.n, self.heads, self.rows, self.d = inputs[0].shape
        self.columns = inputs[1].shape[2]
        self.batch = self.n * self.heads
        self.shape = (self.batch, self.rows, self.columns)
        self.q, self.k, self.v = map(self._flat, inputs[:3])
        self.scores = self._scores(inputs[3] if call.masked else None)
        self.kept = self._kept(inputs[-1]) if call.dropped else None

    def tops(self) -> Node:
        """The largest score of each row, (batch, rows, 1)."""
        return self.b.make(ReduceMax((2,)), self.scores)

    def powers(self, tops: Node) -> tuple[Node, Node]:
        """exp(scores - tops), and the sums of rows, 0 where a row sees nothing: the weights are their quotients, for any `tops` near
        the largest scores. exp(scores - logs) alone would be off by the rounding of the logarithms."""
        b = self.b
        tops = b.where(b.equal(tops, -math.inf), 0.0, tops)
        powers = b.elementwise("Exp", b.sub(self.scores, self._across(tops)))
        return powers, b.sum(powers, (2,))

    def logs(self, tops: Node, total: Node) -> Node:
        """The logarithms of the sums of rows, (batch, rows, 1); -inf where a row sees nothing."""
        b = self.b
        return b.where(b.equal(total, 0.0), -math.inf, b.add(tops, b.elementwise("Log", self._some(total))))

    def result(self, powers: Node, total: Node) -> Node:
        used = self.b.div(powers, self._across(self._some(total)))
        if self.kept is not None:
            used = self.b.mul(used, self.kept)
        return self.b.reshape(self.b.dot(used, self.v), (self.n, self.heads, self.rows, self.d))

    def gradients(self, g: Node, powers: Node, total: Node) -> tuple[Node, Node, Node]:
        """Of q, k and v."""
        b = self.b
        g, total = self._flat(g), self._some(total)
        to_weights = b.dot(g, b.transpose(self.v))
        used = weights = b.div(powers, self._across(total))
        if self.kept is not None:
            to_weights, used = b.mul(to_weights, self.kept), b.mul(weights, self.kept)
        delta = b.div(b.sum(b.mul(to_weights, powers), (2,)), total)
        to_scores = b.mul(b.mul(weights, b.sub(to_weights, self._across(delta))), self.call.scale)
        found = (b.dot(to_scores, self.k), b.dot(b.transpose(to_scores), self.q), b.dot(b.transpose(used), g))
        return tuple(b.reshape(x, of.shape) for x, of in zip(found, self.of, strict=True))  # type: ignore[return-value]

    def _some(self, total: Node) -> Node:
        """Sums of rows to divide by."""
        return self.b.where(self.b.equal(total, 0.0), 1.0, total)

    def _flat(self, x: Node) -> Node:
        return self.b.reshape(x, (self.batch, *x.shape[2:]))

    def _across(self, x: Node) -> Node:
        return self.b.broadcast(x, self.shape)

    def _scores(self, mask: Node | None) -> Node:
        b = self.b
        scores = b.mul(b.dot(self.q, b.transpose(self.k)), self.call.scale)
        if mask is not None:
            whole = (self.n, self.heads, self.rows, self.columns)
            mask = b.reshape(b.broadcast(mask, whole), self.shape)
            scores = b.where(mask, scores, -math.inf) if mask.dtype is bool_ else b.add(scores, mask)
        if self.call.causal:
            row, column = (b.iota_along(scores, a) for a in (1, 2))
            scores = b.where(b.less(row, column), -math.inf, scores)
        return scores

    def _kept(self, key: Node) -> Node:
        """What each weight is multiplied with: 0, or 1 / (1 - dropped)."""
        b, dropped = self.b, self.call.dropped
        half = -(-self.columns // 2)
        pairs = (self.batch, self.rows * half)
        place = b.broadcast(b.reshape(b.iota(pairs[1], key.device, uint32), (1, pairs[1])), pairs)
        row = b.broadcast(b.reshape(b.iota(self.batch, key.device, uint32), (self.batch, 1)), pairs)
        words = b.permute(b.make(Threefry(), key, place, row), (1, 2, 0))
        words = b.make(Slice((0, 0, 0), self.shape, (1, 1, 1)), b.reshape(words, (self.batch, self.rows, 2 * half)))
        zero = b.constant(0.0, self.q.dtype, self.q.device, self.shape)
        return b.where(b.less(words, kept_from(dropped)), zero, 1.0 / (1.0 - dropped))


@dataclass(frozen=True, eq=False)
class AttentionGradient(AttentionCall):
    """g (n, heads, l, d), the gradient of the result, `Attention`'s flat array, q, k, v, [mask], [key] to the gradients of q,
    k and v in one array of `shape`, laid out at `places`."""

    kind = "call"
    differentiable = False
    places: tuple[Layout, ...]
    shape: Shape

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("g", "flat", *self.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        self.check(inputs[2:])
        return self.shape, inputs[0].dtype

    def numpy(self, g, flat, q, k, v, *others):
        result = np.zeros(self.shape, q.dtype)
        for value, place in zip(self.gradients(g, flat, q, k, v, others), self.places, strict=True):
            _writable(result, place, value.shape)[:] = value
        return result

    def expand(self, r: Builder, target: Target, *inputs: Node) -> Node | None:
        """One kernel, or three: the sums of rows, shares of the gradient of q, and what adds them; or the composed form."""
        if self.pays_composed(inputs[2:], target):
            return self.composed(r, inputs)
        laid = [_in_place(x) for x in (inputs[0], *inputs[2:5])]
        layouts, (g, *qkv) = tuple(of for _, of in laid), (x for x, _ in laid)
        problem = self.problem(inputs[2:])
        shares = choose_shares(problem, target)
        if shares is None:
            return r.make(LaidGradient(problem, layouts, self.places, self.shape), g, inputs[1], *qkv, *inputs[5:])
        sums = r.make(LaidSums(problem, layouts[0]), g, inputs[1])
        found = r.make(LaidShares(problem, layouts, shares), g, sums, *qkv, *inputs[5:])
        return r.make(JoinShares(problem, shares, self.places, self.shape), found)

    def composed(self, r: Builder, inputs: tuple[Node, ...]) -> Node:
        """The gradients by composed operations."""
        whole = Composed(r, self, inputs[2:])
        size = inputs[0].size
        logs = r.make(Slice((size,), (size // inputs[0].shape[3],), (1,)), inputs[1])
        powers = whole.powers(r.reshape(logs, (*whole.shape[:2], 1)))
        return _laid_out(r, whole.gradients(inputs[0], *powers), self.places, self.shape)


def _writable(result: np.ndarray, place: Layout, shape: Shape) -> np.ndarray:
    """The part of an array at a layout."""
    flat = result.reshape(-1)[place[0] :]
    return np.lib.stride_tricks.as_strided(flat, shape, [flat.itemsize * s for s in (*place[1:], 1)])


# -- where things lie


def _layout(found: Strided) -> Layout | None:
    """Of (n, heads, l, d) with neighbours along d, in whole vec4s; None if it is not so."""
    *outer, inner = found.strides
    layout = (found.offset, *outer)
    fits = inner == 1 and found.base.size % LANES == 0 and all(s % LANES == 0 for s in layout)
    return layout if fits else None


def _in_place(node: Node) -> tuple[Node, Layout]:
    """The node that a kernel reads for this one, and where in it; this one itself where its elements are scattered."""
    found = strided(node)
    layout = _layout(found)
    if layout is None:
        return node, (0, *row_major(node.shape)[:3])
    return found.base, layout


def lies_by_row(node: Node) -> bool:
    """Whether the heads (n, heads, l, d) of a row lie beside each other in memory."""
    _, of_heads, of_rows, _ = strided(node).strides
    return of_heads < of_rows


def _places_of_gradients(qkv: Sequence[Node]) -> tuple[tuple[Layout, ...], Shape]:
    """Where the gradients of q, k and v go so that seen through the views from which q, k and v came they are whole
    arrays: into one of the shape of the base where all three are parts of it, else one after another."""
    found = [strided(x) for x in qkv]
    layouts = [_layout(f) for f in found]
    base = found[0].base
    if all(f.base is base for f in found) and None not in layouts and _share(base, qkv, layouts):
        return tuple(layouts), base.shape  # type: ignore[arg-type]
    places, start = [], 0
    for x, f, layout in zip(qkv, found, layouts, strict=True):
        axes = list(zip(x.shape, f.strides, strict=True))
        alone = layout is not None and layout[0] == 0 and is_covered(f.base.size, axes)
        places.append((start, *(f.strides if alone else row_major(x.shape))[:3]))
        start += x.size
    return tuple(places), (start,)


def _share(base: Node, qkv: Sequence[Node], layouts: Sequence[Any]) -> bool:
    """Whether q, k and v lie in one array beside each other, alike, and fill it."""
    q = qkv[0]
    if any(x.shape != q.shape for x in qkv) or any(of[1:] != layouts[0][1:] for of in layouts):
        return False
    starts = sorted(of[0] for of in layouts)
    step = starts[1]
    axes = [*zip(q.shape, (*layouts[0][1:], 1), strict=True), (3, step)]
    return step > 0 and starts == [0, step, 2 * step] and is_covered(base.size, axes)


def _view_of(flat: Node, place: Layout, x: Node) -> Node:
    """The gradient of x, in `flat` at `place`: through the views that x is of its base, where it was laid out for them."""
    found = strided(x)
    if flat.shape == found.base.shape and place == _layout(found):
        return _through_views(flat, found)
    part = make(Slice((place[0],), (x.size,), (1,)), flat)
    if place[1:] == row_major(x.shape)[:3]:
        return build.reshape(part, x.shape)
    return _through_views(build.reshape(part, found.base.shape), found)


def _through_views(x: Node, found: Strided) -> Node:
    for view in found.views:
        x = make(view.primitive, x)
    return x


def _laid_out(r: Builder, values: Sequence[Node], places: Sequence[Layout], shape: Shape) -> Node:
    """Values at their places, which cover an array of `shape`: side by side in one, or one after another."""
    starts = [of[0] for of in places]
    if places[0][1:] == places[1][1:] == places[2][1:] and values[0].shape == values[1].shape:
        order = sorted(range(3), key=starts.__getitem__)
        stacked = r.make(Cat(0), *(r.reshape(values[i], (1, *values[i].shape)) for i in order))
        return r.reshape(_by_stride(r, stacked, (starts[order[1]] - starts[order[0]], *places[0][1:], 1)), shape)
    flat = [_by_stride(r, x, (*of[1:], 1)) for x, of in zip(values, places, strict=True)]
    return r.reshape(r.make(Cat(0), *(r.reshape(x, (x.size,)) for x in flat)), shape)


def _by_stride(r: Builder, x: Node, strides: Sequence[int]) -> Node:
    """x with its axes in the order in which they lie in memory."""
    return r.permute(x, tuple(sorted(range(x.ndim), key=lambda axis: -strides[axis])))


# -- the kernels


@dataclass(frozen=True, eq=False)
class LaidAttention(Call):
    """`Attention` of q, k and v that lie in their buffers at `layouts`."""

    kind = "call"
    differentiable = False
    problem: Problem
    layouts: tuple[Layout, ...]
    logs: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("q", "k", "v", *self.problem.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (size_of_result(self.problem.shape, self.logs),), inputs[0].dtype

    def numpy(self, q, k, v, *others):
        parts = (
            _writable(x, of, shape) for x, of, shape in zip((q, k, v), self.layouts, self.problem.shapes, strict=True)
        )
        return Attention(*_parameters(self.problem), self.logs).numpy(*parts, *others)

    def choose(self, target: Target, *inputs: Node) -> AttentionChoice:
        return choose_attention(self.problem, target, FORWARD)

    def kernel(self, options: AttentionChoice, *inputs: Node) -> CallKernel:
        return shader.forward(self.problem, self.layouts, self.logs, options)


@dataclass(frozen=True, eq=False)
class LaidGradient(Call):
    """`AttentionGradient` of g, q, k and v that lie in their buffers at `layouts`, into an array of `shape` at `places`."""

    kind = "call"
    differentiable = False
    problem: Problem
    layouts: tuple[Layout, ...]
    places: tuple[Layout, ...]
    shape: Shape

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("g", "flat", "q", "k", "v", *self.problem.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return self.shape, inputs[0].dtype

    def numpy(self, g, flat, q, k, v, *others):
        g, q, k, v = _laid(self.problem, self.layouts, g, q, k, v)
        call = AttentionGradient(*_parameters(self.problem), self.places, self.shape)
        return call.numpy(g, flat, q, k, v, *others)

    def choose(self, target: Target, *inputs: Node) -> AttentionChoice:
        return choose_attention(self.problem, target, BACKWARD)

    def kernel(self, options: AttentionChoice, *inputs: Node) -> CallKernel:
        return shader.backward(self.problem, self.layouts, self.places, options)


@dataclass(frozen=True, eq=False)
class LaidSums(Call):
    """`row_sums` of g, which lies in its buffer at `layout`, and `Attention`'s flat array."""

    kind = "call"
    differentiable = False
    arguments = ("g", "flat")
    problem: Problem
    layout: Layout

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (2, *self.problem.shape[:3]), inputs[0].dtype

    def numpy(self, g, flat):
        p = self.problem
        return row_sums(_writable(g, self.layout, p.shape), flat, place_of_result(p.shape, p.by_row))

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        return shader.sums(self.problem, self.layout)


@dataclass(frozen=True, eq=False)
class LaidShares(Call):
    """g, q, k and v that lie in their buffers at `layouts`, and the sums of `LaidSums`, to one flat array: the gradients of
    k and v, then the shares of that of q, before the scale. Where queries see no later keys, a share holds nothing for the
    queries before its first keys: `JoinShares` does not read them."""

    kind = "call"
    differentiable = False
    problem: Problem
    layouts: tuple[Layout, ...]
    shares: Shares

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("g", "sums", "q", "k", "v", *self.problem.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        q, k, v = map(math.prod, self.problem.shapes)
        return (k + v + self.shares.count * q,), inputs[0].dtype

    def numpy(self, g, sums, q, k, v, *others):
        p, shares = self.problem, self.shares
        g, q, k, v = _laid(p, self.layouts, g, q, k, v)
        to_scores, weights = AttentionCall(*_parameters(p)).slopes(g, sums, q, k, v, others)
        owner = np.arange(p.columns) // shares.blocks.columns % shares.count
        of_q = [np.where(owner == share, to_scores, 0) @ k / q.dtype.type(p.scale) for share in range(shares.count)]
        dk, dv = np.swapaxes(to_scores, -2, -1) @ q, np.swapaxes(weights, -2, -1) @ g
        return np.concatenate([x.reshape(-1) for x in (dk, dv, *of_q)]).astype(q.dtype)

    def choose(self, target: Target, *inputs: Node) -> AttentionChoice:
        return AttentionChoice(self.shares.blocks, scalar_pool=not target.traits.component_stores)

    def kernel(self, options: AttentionChoice, *inputs: Node) -> CallKernel:
        return shader.shares(self.problem, self.layouts, self.shares, options)


@dataclass(frozen=True, eq=False)
class JoinShares(Call):
    """The array of `LaidShares` to the three gradients in an array of `shape`, laid out at `places`."""

    kind = "call"
    differentiable = False
    arguments = ("shares",)
    problem: Problem
    shares: Shares
    places: tuple[Layout, ...]
    shape: Shape

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return self.shape, inputs[0].dtype

    def numpy(self, shares):
        p = self.problem
        q, k, v = map(math.prod, p.shapes)
        dk, dv, of_q = np.split(shares, [k, k + v])
        dq = of_q.reshape(self.shares.count, q).sum(0) * shares.dtype.type(p.scale)
        result = np.zeros(self.shape, shares.dtype)
        for value, place, shape in zip((dq, dk, dv), self.places, p.shapes, strict=True):
            _writable(result, place, shape)[:] = value.reshape(shape)
        return result

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        return shader.join(self.problem, self.shares, self.places)


def _laid(p: Problem, layouts: Sequence[Layout], *arrays: np.ndarray) -> list[np.ndarray]:
    """g, q, k and v, from where they lie."""
    return [_writable(x, of, s) for x, of, s in zip(arrays, layouts, (p.shape, *p.shapes), strict=True)]


def _parameters(p: Problem) -> tuple[float, bool, bool, float, bool]:
    return p.scale, p.causal, p.mask is not None, p.dropped, p.by_row
