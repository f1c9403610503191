"""The memory layout of q, k, v and their gradients: side by side in one array, or each in its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import build
from ..graph.build import Builder
from ..graph.node import Node, make
from ..graph.primitive import Shape
from .attention_tiles import (
    LANES,
    OCTET,
    Layout,
)
from .strides import Strided, is_covered, row_major, strided
from .views import Cat, Slice


def layout_of(found: Strided) -> Layout | None:
    """The layout of (n, heads, l, d) with d contiguous, in whole vec4s; None if it is not so."""
    *outer, inner = found.strides
    layout = (found.offset, *outer)
    fits = inner == 1 and found.base.size % LANES == 0 and all(s % LANES == 0 for s in layout)
    return layout if fits else None


def in_place(node: Node) -> tuple[Node, Layout]:
    """The node from which a kernel reads this one, and its layout there; this node itself if its elements are scattered."""
    found = strided(node)
    layout = layout_of(found)
    if layout is None:
        return node, (0, *row_major(node.shape)[:3])
    return found.base, layout


def in_octets(node: Node) -> tuple[Node, Layout]:
    """As `in_place`, for halves that are loaded eight at a time."""
    found = strided(node)
    *outer, inner = found.strides
    layout = (found.offset, *outer)
    if inner == 1 and not any(n % OCTET for n in (found.base.size, *layout)):
        return found.base, layout
    return node, (0, *row_major(node.shape)[:3])


def lies_by_row(node: Node) -> bool:
    """Whether the heads (n, heads, l, d) of a row are adjacent in memory."""
    _, of_heads, of_rows, _ = strided(node).strides
    return of_heads < of_rows


def places_of_gradients(qkv: Sequence[Node]) -> tuple[tuple[Layout, ...], Shape]:
    """The layouts of the gradients of q, k and v, chosen so that through the views by which q, k and v were made they are whole
    arrays: in one array of the shape of the base if all three are parts of it, else one after another.
    """
    found = [strided(x) for x in qkv]
    layouts = [layout_of(f) for f in found]
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
    """Whether q, k and v are adjacent parts of one array, with equal layouts, and fill it."""
    q = qkv[0]
    if any(x.shape != q.shape for x in qkv) or any(of[1:] != layouts[0][1:] for of in layouts):
        return False
    starts = sorted(of[0] for of in layouts)
    step = starts[1]
    axes = [*zip(q.shape, (*layouts[0][1:], 1), strict=True), (3, step)]
    return step > 0 and starts == [0, step, 2 * step] and is_covered(base.size, axes)


def view_of(flat: Node, place: Layout, x: Node) -> Node:
    """The gradient of x, in `flat` at `place`: through the views by which x is made from its base, if it was laid out for them."""
    found = strided(x)
    if flat.shape == found.base.shape and place == layout_of(found):
        return _through_views(flat, found)
    part = make(Slice((place[0],), (x.size,), (1,)), flat)
    if place[1:] == row_major(x.shape)[:3]:
        return build.reshape(part, x.shape)
    return _through_views(build.reshape(part, found.base.shape), found)


def _through_views(x: Node, found: Strided) -> Node:
    for view in found.views:
        x = make(view.primitive, x)
    return x


def laid_out(r: Builder, values: Sequence[Node], places: Sequence[Layout], shape: Shape) -> Node:
    """Values at their places, which cover an array of `shape`: side by side in one, or one after another."""
    starts = [of[0] for of in places]
    if places[0][1:] == places[1][1:] == places[2][1:] and values[0].shape == values[1].shape:
        order = sorted(range(3), key=starts.__getitem__)
        stacked = r.make(Cat(0), *(r.reshape(values[i], (1, *values[i].shape)) for i in order))
        return r.reshape(_by_stride(r, stacked, (starts[order[1]] - starts[order[0]], *places[0][1:], 1)), shape)
    flat = [_by_stride(r, x, (*of[1:], 1)) for x, of in zip(values, places, strict=True)]
    return r.reshape(r.make(Cat(0), *(r.reshape(x, (x.size,)) for x in flat)), shape)


def _by_stride(r: Builder, x: Node, strides: Sequence[int]) -> Node:
    """x with its axes in memory order."""
    return r.permute(x, tuple(sorted(range(x.ndim), key=lambda axis: -strides[axis])))


# -- the kernels
