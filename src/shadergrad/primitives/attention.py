"""Attention without its matrix: softmax(q k^T scale + mask) v by blocks of queries and keys, forward and backward.

Dao, "FlashAttention-2" (2023). q (n, heads, l, d), k and v (n, heads, s, d), d a multiple of four. The forward pass keeps
for each row the logarithm of the sum of its exponentials, from which the backward pass computes the weights anew; its three
gradients are sums in a fixed order, without atomics. attention_shader.py writes the kernels, here are the NumPy twins.
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
from ..plan import Target
from . import attention_shader as shader
from .attention_tiles import (
    LANES,
    Layout,
    Problem,
    Shares,
    choose_shares,
    kept_from,
    place_of_result,
    size_of_result,
)
from .call import Call, CallKernel
from .random import Threefry, threefry2x32
from .reduce import ReduceMax
from .strides import Strided, is_covered, row_major, strided
from .views import Slice


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
        """The kernel, which reads q, k and v where they lie."""
        laid = [_in_place(x) for x in inputs[:3]]
        call = LaidAttention(self.problem(inputs), tuple(of for _, of in laid), self.logs)
        return r.make(call, *(x for x, _ in laid), *inputs[3:])

    def vjp(self, g, node):
        inputs = node.inputs
        q, k = inputs[:2]
        upper = self.result_of(g, q.shape)
        others = (None,) * (len(inputs) - 3)
        if mode.grad:  # a gradient that is to be differentiated itself
            return (*self._composed(upper, inputs), *others)
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

    def _composed(self, g: Node, inputs: tuple[Node, ...]) -> tuple[Node, Node, Node]:
        """The gradients with the whole matrix of weights, of operations that have gradients themselves."""
        q, k, v = inputs[:3]
        n, heads, rows, d = q.shape
        columns = k.shape[2]
        whole = (n * heads, rows, columns)
        q3, k3, v3, g3 = (build.reshape(x, (n * heads, x.shape[2], d)) for x in (q, k, v, g))
        scores = build.dot(q3, build.transpose(k3)) * self.scale
        if self.masked:
            mask = build.reshape(build.broadcast(inputs[3], (n, heads, rows, columns)), whole)
            scores = build.where(mask, scores, -math.inf) if mask.dtype is bool_ else scores + mask
        if self.causal:
            row, column = (build.iota_along(scores, a) for a in (1, 2))
            scores = build.where(build.less(row, column), -math.inf, scores)
        top = make(ReduceMax((2,)), scores)
        top = build.where(build.equal(top, -math.inf), 0.0, top)
        powers = build.elementwise("Exp", scores - build.broadcast(top, whole))
        total = build.sum_over(powers, (2,))
        total = build.where(build.equal(total, 0.0), 1.0, total)
        weights = powers / build.broadcast(total, whole)
        kept = self._kept_node(inputs[-1], whole, q) if self.dropped else None
        to_weights = build.dot(g3, build.transpose(v3))
        used = weights
        if kept is not None:
            to_weights, used = to_weights * kept, weights * kept
        delta = build.sum_over(to_weights * weights, (2,))
        to_scores = weights * (to_weights - build.broadcast(delta, whole)) * self.scale
        found = (
            build.dot(to_scores, k3),
            build.dot(build.transpose(to_scores), q3),
            build.dot(build.transpose(used), g3),
        )
        return tuple(build.reshape(x, of.shape) for x, of in zip(found, (q, k, v), strict=True))  # type: ignore[return-value]

    def _kept_node(self, key: Node, whole: Shape, like: Node) -> Node:
        """`kept`, of nodes."""
        batch, rows, columns = whole
        half = -(-columns // 2)
        pairs = (batch, rows * half)
        place = build.broadcast(build.reshape(build.iota(rows * half, key.device, uint32), (1, rows * half)), pairs)
        row = build.broadcast(build.reshape(build.iota(batch, key.device, uint32), (batch, 1)), pairs)
        words = build.permute(make(Threefry(), key, place, row), (1, 2, 0))
        words = make(Slice((0, 0, 0), whole, (1, 1, 1)), build.reshape(words, (batch, rows, 2 * half)))
        zero = build.constant(0.0, like.dtype, like.device, whole)
        return build.where(build.less(words, kept_from(self.dropped)), zero, 1.0 / (1.0 - self.dropped))


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
        """One kernel, or three: the sums of rows, shares of the gradient of q, and what adds them."""
        laid = [_in_place(x) for x in (inputs[0], *inputs[2:5])]
        layouts, (g, *qkv) = tuple(of for _, of in laid), (x for x, _ in laid)
        problem = self.problem(inputs[2:])
        shares = choose_shares(problem, target)
        if shares is None:
            return r.make(LaidGradient(problem, layouts, self.places, self.shape), g, inputs[1], *qkv, *inputs[5:])
        sums = r.make(LaidSums(problem, layouts[0]), g, inputs[1])
        found = r.make(LaidShares(problem, layouts, shares), g, sums, *qkv, *inputs[5:])
        return r.make(JoinShares(problem, shares, self.places, self.shape), found)


def _writable(result: np.ndarray, place: Layout, shape: Shape) -> np.ndarray:
    """The part of an array at a layout."""
    flat = result.reshape(-1)[place[0] :]
    return np.lib.stride_tricks.as_strided(flat, shape, [flat.itemsize * s for s in (*place[1:], 1)])


# -- where things lie


def _layout(found: Strided) -> Layout | None:
    """Of (n, heads, l, d) with neighbours along d, in whole vec4s; None where it is not so."""
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

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        return shader.forward(self.problem, self.layouts, self.logs, target)


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

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        return shader.backward(self.problem, self.layouts, self.places, target)


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

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
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

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        return shader.shares(self.problem, self.layouts, self.shares, target)


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

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        return shader.join(self.problem, self.shares, self.places)


def _laid(p: Problem, layouts: Sequence[Layout], *arrays: np.ndarray) -> list[np.ndarray]:
    """g, q, k and v, from where they lie."""
    return [_writable(x, of, s) for x, of, s in zip(arrays, layouts, (p.shape, *p.shapes), strict=True)]


def _parameters(p: Problem) -> tuple[float, bool, bool, float, bool]:
    return p.scale, p.causal, p.mask is not None, p.dropped, p.by_row
