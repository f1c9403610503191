"""Rules that turn convolutions of float16, forward and both gradients, into matrix multiplications for matrix units.

In: Conv whose operands are casts of float16 to float32, for a target with matrix units. Out: matrix multiplications over views of images that
are copied once with their channels last and zeros around them (primitives/channels_last.py). A window element is then eight neighbouring
channels, which are one load of 16 bytes, and no load is tested against a border. Forward and input gradient sum over window elements
and channels, a weight gradient over the positions of all images; the copies are shared between the three.
"""

from __future__ import annotations

import math

from ..dtypes import float16, float32
from ..graph.leaves import Placeholder
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape
from ..primitives.channels_last import ChannelsLast
from ..primitives.dot import Dot
from ..primitives.elementwise import Cast
from ..primitives.strides import strided
from ..primitives.views import Flip, Slice, View
from ..primitives.window import Conv, Window
from ..symbolic_sizes import varies
from . import matrix_units
from .matrix_units import OCTET
from .products import Product
from .rewrite import Inputs, Rewriter

HALF = 2  # bytes
MOST_ZEROS = 4  # a padded copy of large images may have this many times their size; most copies are only a little larger than the images
LARGE = 1 << 20  # elements


def conv_to_units(r: Rewriter, p: Primitive, inputs: Inputs) -> Node | None:
    """A convolution of images with one group, if matrix units suit it."""
    if not isinstance(p, Conv) or not matrix_units.takes_halves(r.target):
        return None
    x, w = inputs
    sizes = (*x.shape, *w.shape)
    if len(p.steps) != 2 or x.shape[0] > 1 or 0 in sizes or any(map(varies, sizes)):
        return None
    if max(p.spread) > 1 or HALF * max(x.size, w.size) > r.target.max_binding_bytes:
        return None
    halves, weights = matrix_units.halves_of(r, x), matrix_units.halves_of(r, w)
    if halves is None or weights is None:
        return None
    counts = p.counts(x.shape[3:], w.shape[3:])
    if math.prod(counts) > math.prod(w.shape[3:]):
        return _over_channels(r, p, halves, weights, counts)
    return _over_places(r, p, halves, weights, counts)


def _over_channels(r: Rewriter, p: Conv, x: Node, w: Node, counts: Shape) -> Node | None:
    """The sum over window elements and channels. x: (1, batch, channels, height, width). w: (1, out, channels, rows, columns)."""
    _, batch, channels, *_ = x.shape
    _, out, _, *window = w.shape
    k, places = channels * math.prod(window), math.prod(counts)
    if channels % OCTET or not matrix_units.suits(Product(1, out, batch * places, k, k, 1, 1), r.target):
        return None
    images = _images(r, p, r.reshape(x, x.shape[1:]), w.shape[3:], counts)
    if images is None:
        return None
    windows = r.make(Window((1, 2), w.shape[3:], p.steps, p.dilations), images)
    columns = r.reshape(r.permute(windows, (0, 4, 5, 3, 1, 2)), (batch, k, places))
    rows = r.reshape(r.cast(_weights(r, r.reshape(w, w.shape[1:])), float32), (1, out, k))
    product = r.make(Dot(), r.broadcast(rows, (batch, out, k)), columns)
    return r.reshape(product, (1, batch, out, *counts))


def _over_places(r: Rewriter, p: Conv, x: Node, w: Node, counts: Shape) -> Node | None:
    """A weight gradient: the sum over the positions of all images. x: (1, channels, batch, height, width). w, the cotangent: (1, out, batch,
    rows, columns).
    """
    _, channels, batch, *_ = x.shape
    out, places = w.shape[1], w.shape[3:]
    k, n = batch * math.prod(places), channels * math.prod(counts)
    if channels % OCTET or out % OCTET or not matrix_units.suits(Product(1, out, n, k, k, 1, 1), r.target):
        return None
    images = _images(r, p, _swapped(r, x), places, counts)
    if images is None:
        return None
    windows = r.make(Window((1, 2), places, p.steps, p.dilations), images)
    columns = r.reshape(r.permute(windows, (0, 4, 5, 1, 2, 3)), (1, k, n))
    cotangents = r.reshape(r.cast(_cotangents(r, p, _swapped(r, w), x.shape[3:], counts), float32), (1, k, out))
    product = r.reshape(r.dot(r.transpose(cotangents), columns), (out, *counts, channels))
    return r.reshape(r.permute(product, (3, 0, 1, 2)), (1, channels, out, *counts))


def _swapped(r: Rewriter, x: Node) -> Node:
    """(1, a, b, height, width) as (b, a, height, width)."""
    return r.permute(r.reshape(x, x.shape[1:]), (1, 0, 2, 3))


def _images(r: Rewriter, p: Conv, x: Node, window: Shape, counts: Shape) -> Node | None:
    """The elements of (batch, channels, height, width) that windows cover, with zeros around them, as a view (batch, height, width, channels) in
    float32 of a copy in float16. None if the copy would be too large.
    """
    covered = tuple(
        (n - 1) * step + (size - 1) * dilation + 1
        for n, step, size, dilation in zip(counts, p.steps, window, p.dilations, strict=True)
    )
    low, starts = (tuple(max(sign * n, 0) for n in p.low) for sign in (1, -1))
    high = tuple(
        max(start + n - size - a, 0) for start, n, size, a in zip(starts, covered, x.shape[2:], low, strict=True)
    )
    if _is_too_large(r, x, low, high):
        return None
    return r.cast(_cut(r, _channels_last(r, x, low, high), starts, covered), float32)


def _cotangents(r: Rewriter, p: Conv, g: Node, sizes: Shape, window: Shape) -> Node:
    """Cotangents (batch, out, rows, columns) as (batch, rows, columns, out). sizes: those of the convolution's images. If its stride is one,
    the cotangents are a part of the zero-padded copy over which the input gradient's windows move.
    """
    low = tuple((n - 1) * step - a for n, step, a in zip(window, p.steps, p.low, strict=True))
    high = tuple(
        size + (n - 1) * step - a - count
        for size, n, step, a, count in zip(sizes, window, p.steps, low, g.shape[2:], strict=True)
    )
    if max(p.dilations) > 1 or min((*low, *high)) < 0 or _is_too_large(r, g, low, high):
        return _channels_last(r, g, (0, 0), (0, 0))
    return _cut(r, _channels_last(r, g, low, high), low, g.shape[2:])


def _weights(r: Rewriter, w: Node) -> Node:
    """(out, channels, rows, columns) as (out, rows, columns, channels). A parameter in float32 is cast and moved by one kernel."""
    moved = (0, 2, 3, 1)
    views, source = [], w
    while isinstance(source.primitive, View):
        views.append(source.primitive)
        source = source.inputs[0]
    if isinstance(source.primitive, Cast) and isinstance(source.inputs[0].primitive, Placeholder):
        wide = source.inputs[0]
        for view in reversed(views):
            wide = r.make(view, wide)
        return r.cast(r.permute(wide, moved), float16)
    if isinstance(w.primitive, Flip):
        turned = _weights(r, w.inputs[0])
        return r.make(Flip(tuple(moved.index(a) for a in w.primitive.axes)), turned)
    return _channels_last(r, w, (0, 0), (0, 0))


def _channels_last(r: Rewriter, x: Node, low: Shape, high: Shape) -> Node:
    found = strided(x)
    return r.make(ChannelsLast(x.shape, found.strides, found.offset, low, high), found.base)


def _is_too_large(r: Rewriter, x: Node, low: Shape, high: Shape) -> bool:
    """Whether a copy of (batch, channels, height, width) with zeros around takes too much memory, as for windows of distant elements."""
    size = x.shape[0] * x.shape[1] * math.prod(n + a + b for n, a, b in zip(x.shape[2:], low, high, strict=True))
    return size > max(MOST_ZEROS * x.size, LARGE) or HALF * size > r.target.max_binding_bytes


def _cut(r: Rewriter, x: Node, starts: Shape, sizes: Shape) -> Node:
    """The given rows and columns of (batch, height, width, channels)."""
    batch, *within, channels = x.shape
    if tuple(within) == tuple(sizes):
        return x
    return r.make(Slice((0, *starts, 0), (batch, *sizes, channels), (1, 1, 1, 1)), x)


RULES = (conv_to_units,)
