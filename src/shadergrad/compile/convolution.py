"""Rules that turn convolutions, forward and both gradients, into matrix multiplications over views (implicit im2col).

In: Conv, whose gradients are Convs again (primitives/window.py). Out: matrix multiplications of the weights with windows of the input
that are never stored. The input gradient of a strided convolution is a convolution of a dilated input, most of whose elements are zero.
It is split into one convolution for each residue of the output position modulo the stride; none of these reads the zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtypes import float32
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape
from ..primitives.dot import Dot
from ..primitives.strides import strided
from ..primitives.views import Cat, Flip, Pad, Permute, Slice
from ..primitives.window import Conv, Window
from ..primitives.winograd import POINTS, TILE, WINDOW, FromPoints, Tiling, ToPoints
from ..symbolic_sizes import hint, varies
from ..target import Target
from .choices import Shape as Sizes
from .rewrite import Inputs, Rewriter
from .tiles import chunk_of, estimated

# For adapters with slow loads. TRANSFORMS: the multiplications that take as long as Winograd's transforms and their compilation.
# SHARE: the algorithm is used if its multiplications and TRANSFORMS are less than this share of a plain matrix multiplication's.
TRANSFORMS, SHARE = 1 << 29, 0.7
# The maximum bytes of transformed values (points), for up to MANY_SAMPLES samples; for more samples it grows in proportion. The points need
# memory in addition to the values that are kept for a backward pass, which also grow with the samples.
MOST_POINTS, MANY_SAMPLES = 1 << 27, 128


def winograd_pays(m: int, n: int, k: int, plain: Sizes, samples: int, target: Target) -> bool:
    """Whether Winograd's algorithm, m x n results over k at each point (primitives/winograd.py), takes less than
    `Traits.winograd` times as long as a plain matrix multiplication. Its operands and results at the points are read and written twice;
    if loads are slow, the number of multiplications is compared instead of the time.
    """
    traits = target.traits
    if traits.winograd <= 0 and not traits.slow_loads:
        return False
    operands, results = 4 * POINTS**2 * (m * k + k * n), 4 * POINTS**2 * m * n
    moved = 2 * (operands + results)
    most = MOST_POINTS * max(samples, MANY_SAMPLES) // MANY_SAMPLES
    if max(operands, results) > min(most, target.max_binding_bytes):
        return False
    if traits.slow_loads:
        return POINTS**2 * m * n * k + TRANSFORMS < (traits.winograd or SHARE) * math.prod(plain)
    costs = traits.costs
    seconds = estimated(Sizes(POINTS**2, m, n, k), target) + moved / costs.bandwidth + 2 * costs.launch
    return seconds < traits.winograd * estimated(plain, target)


@dataclass(frozen=True)
class Residue:
    """One residue class of a convolution's output positions along an axis: the window elements that they use, every `every`-th from
    `first`, and the remaining convolution. Without window elements, the positions are zero.
    """

    first: int
    every: int
    places: int
    step: int
    dilation: int
    low: int
    high: int


def spread_to_residues(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Computes each output position from those window elements that meet an input element; the others meet dilation zeros."""
    if not isinstance(p, Conv) or max(p.spread) == 1:
        return None
    if any(s > 1 and step > 1 for s, step in zip(p.spread, p.steps, strict=True)):
        return None
    x, w = inputs
    return _joined(r, x, w, residues_of(p, x.shape, w.shape), [], p.counts(x.shape[3:], w.shape[3:]))


def residues_of(p: Conv, x: Shape, w: Shape) -> list[list[Residue]]:
    """The residue classes of a convolution along each axis; one along axes that are not dilated."""
    counts = p.counts(x[3:], w[3:])
    return [_residues(p, axis, x[3 + axis], w[3 + axis], counts[axis]) for axis in range(len(p.steps))]


def _residues(p: Conv, axis: int, size: int, window: int, count: int) -> list[Residue]:
    """The residue classes along an axis: position s q + r meets input elements where r + k dilation - low is
    a multiple of the spread s.
    """
    spread, dilation, low = p.spread[axis], p.dilations[axis], p.low[axis]
    if spread == 1:
        return [Residue(0, 1, window, p.steps[axis], dilation, low, p.high[axis])]
    every = spread // math.gcd(spread, dilation)
    found = []
    for residue in range(spread):
        first = next((k for k in range(min(every, window)) if (residue + k * dilation - low) % spread == 0), None)
        if first is None:
            found.append(Residue(0, 1, 0, 1, 1, 0, 0))
            continue
        places = -(-(window - first) // every)
        apart = every * dilation // spread
        before = -(residue + first * dilation - low) // spread
        after = -(-count // spread) + (places - 1) * apart - size - before
        found.append(Residue(first, every, places, 1, apart, before, after))
    return found


def _joined(
    r: Rewriter, x: Node, w: Node, axes: list[list[Residue]], chosen: list[Residue], counts: tuple[int, ...]
) -> Node:
    """The result for the residues chosen along the first axes, and all residues along the others."""
    axis = len(chosen)
    if axis == len(axes):
        return _of_residues(r, x, w, chosen, tuple(-(-n // len(a)) for n, a in zip(counts, axes, strict=True)))
    parts = [_joined(r, x, w, axes, [*chosen, residue], counts) for residue in axes[axis]]
    if len(parts) == 1:
        return parts[0]
    at = 3 + axis
    shape = parts[0].shape
    parts = [r.reshape(part, (*shape[: at + 1], 1, *shape[at + 1 :])) for part in parts]
    joined = r.make(Cat(at + 1), *parts)
    joined = r.reshape(joined, (*shape[:at], shape[at] * len(parts), *shape[at + 1 :]))
    return _sliced(r, joined, (0,) * len(shape), (*shape[:at], counts[axis], *shape[at + 1 :]))


def _of_residues(r: Rewriter, x: Node, w: Node, chosen: list[Residue], counts: Shape) -> Node:
    """The convolution with the window elements that a residue along each axis uses."""
    places = tuple(c.places for c in chosen)
    if 0 in places:
        return r.constant(0, x.dtype, x.device, (*x.shape[:2], w.shape[1], *counts))
    steps = (1, 1, 1, *(c.every for c in chosen))
    part = r.make(Slice((0, 0, 0, *(c.first for c in chosen)), (*w.shape[:3], *places), steps), w)
    words = zip(*((c.step, c.dilation, c.low, c.high) for c in chosen), strict=True)
    return r.make(Conv(*words), x, part)


def _sliced(r: Rewriter, x: Node, starts: Shape, sizes: Shape) -> Node:
    return x if sizes == x.shape else r.make(Slice(starts, sizes, (1,) * x.ndim), x)


def conv_to_dot(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A matrix multiplication of the weights with window views: for every sample separately, so that the result has the layout of the
    convolution's, or, if windows are larger than results (a gradient of the weights), for all samples together.
    """
    if not isinstance(p, Conv):
        return None
    x, w = inputs
    rank = len(p.steps)
    groups, batch, channels = x.shape[:3]
    out, window = w.shape[1], math.prod(w.shape[3:])
    axes = tuple(range(3, 3 + rank))
    places = tuple(range(3 + rank, 3 + 2 * rank))
    windows = r.make(Window(axes, w.shape[3:], p.steps, p.dilations), _moved(r, p, x))
    counts = windows.shape[3 : 3 + rank]
    count = math.prod(counts)
    weights = r.reshape(w, (groups, out, channels * window))
    if hint(count) > hint(window) or batch == 1:
        columns = r.permute(windows, (0, 1, 2, *places, *axes))
        columns = r.reshape(columns, (groups * batch, channels * window, count))
        rows = r.reshape(weights, (groups, 1, out, channels * window))
        rows = r.broadcast(rows, (groups, batch, out, channels * window))
        rows = r.reshape(rows, (groups * batch, out, channels * window))
        return r.reshape(r.make(Dot(window), rows, columns), (groups, batch, out, *counts))
    columns = r.permute(windows, (0, 2, *places, 1, *axes))
    columns = r.reshape(columns, (groups, channels * window, batch * count))
    product = r.reshape(r.dot(weights, columns), (groups, out, batch, *counts))
    return r.permute(product, (0, 2, 1, *axes))


def conv_to_points(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """Winograd's algorithm for a convolution with 3x3 windows, or with 3x3 results (a weight gradient), if it is faster."""
    if not isinstance(p, Conv) or len(p.steps) != 2 or {*p.steps, *p.dilations, *p.spread} != {1}:
        return None
    x, w = inputs
    sizes = (*x.shape, *w.shape)
    if x.shape[0] > 1 or x.dtype is not float32 or 0 in sizes or any(map(varies, sizes)):
        return None
    if w.shape[3:] == (WINDOW, WINDOW):
        return _by_points(r, p, x, w)
    if p.counts(x.shape[3:], w.shape[3:]) == (WINDOW, WINDOW):
        return _weight_gradient_by_points(r, p, x, w)
    return None


def _by_points(r: Rewriter, p: Conv, x: Node, w: Node) -> Node | None:
    """Matrix multiplications of the weights with the tiles of all samples, which sum over the channels."""
    _, batch, channels, *_ = x.shape
    out, sizes = w.shape[1], p.counts(x.shape[3:], w.shape[3:])
    tiles = _tiles_over(sizes)
    plain = Sizes(1, out, batch * math.prod(sizes), channels * WINDOW**2)
    unturned, turned = _unturned(r, w)
    if not winograd_pays(out, batch * math.prod(tiles), channels, plain, batch, r.target):
        return None
    rows = Tiling("turned weight" if turned else "weight", (0, 0), (1, 1), *_laid(unturned))
    columns = Tiling("input", p.low, tiles, *_laid(r.permute(x, (0, 2, 1, 3, 4))))
    a, b = _points(r, rows, unturned, columns, x)
    made = r.make(FromPoints("result", sizes, batch, False, 1), r.dot(a, b))
    return r.reshape(made, (1, *made.shape))


def _weight_gradient_by_points(r: Rewriter, p: Conv, x: Node, w: Node) -> Node | None:
    """Matrix multiplications that sum over the tiles: w is the cotangent, with batch and channels swapped. Partial sums are added in the
    transform back to weights. If all samples would need too much memory, and a plain multiplication is slow, half of them are processed at a time.
    """
    _, batch, channels, *_ = x.shape
    out, window = w.shape[1], w.shape[3:]
    tiles = _tiles_over(window)
    k = channels * math.prod(tiles)
    plain = Sizes(1, out, batch * WINDOW**2, channels * math.prod(window))
    if not winograd_pays(out, batch, k, plain, channels, r.target):
        in_halves = r.target.traits.slow_loads and channels > 1
        if in_halves and winograd_pays(out, batch, k // 2, plain, channels, r.target):
            return _of_halves(r, p, x, w)
        return None
    rows, columns = Tiling("cotangent", (0, 0), tiles, *_laid(w)), Tiling("input", p.low, tiles, *_laid(x))
    a, b = _points(r, rows, w, columns, x)
    chunk = chunk_of(POINTS**2, out, batch, k, 1, r.target)
    dot = Dot(1, chunk if chunk < k else 0)
    back = FromPoints("weight's gradient", (WINDOW, WINDOW), batch, True, dot.parts(k))
    made = r.make(back, r.make(dot, a, r.transpose(b)))
    return r.permute(r.reshape(made, (1, *made.shape)), (0, 2, 1, 3, 4))


def _of_halves(r: Rewriter, p: Conv, x: Node, w: Node) -> Node:
    """The sum of the convolutions of each half of the channels."""
    middle, channels = x.shape[2] // 2, x.shape[2]
    parts = []
    for start, end in ((0, middle), (middle, channels)):
        a, b = (
            _sliced(r, node, (0, 0, start, 0, 0), (*node.shape[:2], end - start, *node.shape[3:])) for node in (x, w)
        )
        parts.append(r.make(p, a, b))
    return r.add(*parts)


def _tiles_over(sizes: Shape) -> Shape:
    return tuple(-(-n // TILE) for n in sizes)


def _laid(x: Node) -> tuple[Shape, Shape, int]:
    """Sizes, strides and the offset of (1, rows, columns, height, width) in the array of which it is a view."""
    found = strided(x)
    return x.shape[1:], found.strides[1:], found.offset


def _points(r: Rewriter, of_a: Tiling, a: Node, of_b: Tiling, b: Node) -> tuple[Node, Node]:
    """Both operands of the multiplications at the points, made by one kernel if its workgroups may take different branches."""
    bases, (first, second) = (strided(a).base, strided(b).base), (math.prod(t.shape) for t in (of_a, of_b))
    if r.target.takes_branches(first + second):
        both = r.make(ToPoints((of_a, of_b)), *bases)
        parts = [r.make(Slice((start,), (n,), (1,)), both) for start, n in ((0, first), (first, second))]
    else:
        parts = [r.make(ToPoints((of,)), base) for of, base in zip((of_a, of_b), bases, strict=True)]
    left, right = (r.reshape(part, t.shape) for part, t in zip(parts, (of_a, of_b), strict=True))
    return left, right


def _unturned(r: Rewriter, w: Node) -> tuple[Node, bool]:
    """The weights before a reversal, as in an input gradient, and whether they were reversed."""
    primitive = w.primitive
    if isinstance(primitive, Flip) and primitive.axes == (3, 4):
        return w.inputs[0], True
    if isinstance(primitive, Permute) and primitive.axes == (0, 2, 1, 3, 4):
        inner, turned = _unturned(r, w.inputs[0])
        return r.permute(inner, primitive.axes), turned
    return w, False


MOST_TERMS = 32  # multiply-adds per element of the result, for a convolution that becomes a map


def depthwise_to_map(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A sum that is written out element by element. With one output channel per group and few multiplications per element there is
    nothing that a tile could share.
    """
    if not isinstance(p, Conv) or max(p.spread) > 1:
        return None
    x, w = inputs
    terms = math.prod(w.shape[2:])
    if w.shape[1] > 1 or terms > MOST_TERMS:
        return None
    rank, (groups, batch) = len(p.steps), x.shape[:2]
    axes = tuple(range(3, 3 + rank))
    windows = r.make(Window(axes, w.shape[3:], p.steps, p.dilations), _moved(r, p, x))
    counts = windows.shape[3 : 3 + rank]
    order = (1, 0, *axes, 2, *range(3 + rank, 3 + 2 * rank))  # samples along the outermost axis, as in memory
    windows = r.reshape(r.permute(windows, order), (batch, groups, *counts, terms))
    weights = r.reshape(w, (1, groups, *(1,) * rank, terms))
    total: Node | None = None
    for k in range(terms):
        left, right = (_term(r, node, k) for node in (windows, weights))
        product = r.mul(left, r.broadcast(right, left.shape))
        total = product if total is None else r.add(total, product)
    assert total is not None
    result = r.reshape(total, (batch, groups, 1, *counts))
    return r.permute(result, (1, 0, 2, *axes))


def _term(r: Rewriter, x: Node, k: int) -> Node:
    """Element k along the last axis."""
    part = r.make(Slice((*(0,) * (x.ndim - 1), k), (*x.shape[:-1], 1), (1,) * x.ndim), x)
    return r.reshape(part, x.shape[:-1])


def _moved(r: Rewriter, p: Conv, x: Node) -> Node:
    """x with zeros between and around its elements, or without the elements beyond the borders."""
    low, high = (tuple(max(n, 0) for n in words) for words in (p.low, p.high))
    between = tuple(s - 1 for s in p.spread)
    if any((*low, *high, *between)):
        lead = (0, 0, 0)
        x = r.make(Pad((*lead, *low), (*lead, *high), (*lead, *between), 0), x)
    starts = (0, 0, 0, *(max(-n, 0) for n in p.low))
    sizes = (n - a - max(-b, 0) for n, a, b in zip(x.shape[3:], starts[3:], p.high, strict=True))
    return _sliced(r, x, starts, (*x.shape[:3], *sizes))


RULES = (spread_to_residues, depthwise_to_map, conv_to_points, conv_to_dot)
