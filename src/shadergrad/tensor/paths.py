"""Paths of views: the part of a value that a path selects, and the value in which that part is replaced.

In: a node, and the views that lead from it. Out: the node of the part, or of the whole with a new part. Views are slices, reshapes,
transposes, expansions (`may_repeat`: an element occurs several times), and views of the same memory as another dtype (`READINGS`).
"""

from __future__ import annotations

from ..dtypes import DType, bool_
from ..graph import build
from ..graph.node import Node, make
from ..graph.primitive import Primitive
from ..primitives import views as v
from ..primitives.complex import Conj
from ..primitives.dtype_views import AsComplex, AsReal, Reinterpret
from ..primitives.elementwise import Bitcast, Cast
from ..primitives.window import Window
from .overwrite import overwrite

Path = tuple[Primitive, ...]
SINGLY = (Conj, Bitcast, Cast)  # elementwise views, which commute with the selection of elements
READINGS = (AsReal, AsComplex, Reinterpret, *SINGLY)  # views as another dtype; each has an inverse


def follow(path: Path, node: Node) -> Node:
    """The part of a value that a path selects."""
    for step in path:
        node = make(step, node)
    return node


def between(whole: Node, part: Node) -> Path:
    """The path from one node to another that was made from it by views alone."""
    steps: list[Primitive] = []
    while part is not whole:
        steps.append(part.primitive)
        (part,) = part.inputs
    return tuple(reversed(steps))


def joined(path: Path) -> Path:
    """The path, in which consecutive slices are combined, because plans would otherwise be made for the sizes in between."""
    found: list[Primitive] = []
    for step in path:
        last = found[-1] if found else None
        if isinstance(step, v.Slice) and isinstance(last, v.Slice):
            starts = tuple(a + b * s for a, b, s in zip(last.starts, step.starts, last.steps, strict=True))
            steps = tuple(s * t for s, t in zip(last.steps, step.steps, strict=True))
            found[-1] = v.Slice(starts, step.sizes, steps)
        else:
            found.append(step)
    return tuple(found) if len(found) < len(path) else path


def may_repeat(path: Path) -> bool:
    """Whether an element may occur twice in the part that a path selects."""
    return any(isinstance(step, v.Expand | Window) for step in path)


def put(whole: Node, path: Path, part: Node) -> Node:
    """`whole` with `part` in place of the part that the path selects."""
    for k in range(len(path) - 1, -1, -1):
        step = path[k]
        if isinstance(step, READINGS):
            read = follow(path[:k], whole)
            if isinstance(step, SINGLY):
                return put(whole, (*path[:k], *path[k + 1 :]), _unread(step, read.dtype, part))
            return put(whole, path[:k], _unread(step, read.dtype, put(make(step, read), path[k + 1 :], part)))
    if may_repeat(path):
        return _scattered(whole, path, part)
    inputs = []
    shown = whole
    for step in path:
        inputs.append(shown)
        shown = make(step, shown)
    for step, x in zip(reversed(path), reversed(inputs), strict=True):
        if isinstance(step, v.Reshape):
            part = build.reshape(part, x.shape)
        elif isinstance(step, v.Permute):
            part = build.permute(part, tuple(sorted(range(x.ndim), key=step.axes.__getitem__)))
        else:
            assert isinstance(step, v.Slice), step
            part = with_block(x, step, part)
    return part


def _unread(step: Primitive, dtype: DType, part: Node) -> Node:
    """The elements, of a dtype, that `step` reads as `part`."""
    if isinstance(step, Conj):
        return make(step, part)
    if isinstance(step, AsReal):
        return make(AsComplex(), part)
    if isinstance(step, AsComplex):
        return make(AsReal(), part)
    if isinstance(step, Reinterpret):
        return make(Reinterpret(part.dtype, dtype), part)
    return make(Bitcast(dtype) if isinstance(step, Bitcast) else Cast(dtype), part)


def _scattered(whole: Node, path: Path, part: Node) -> Node:
    """`put` for a path in whose part elements may occur twice: by their positions."""
    places = follow(path, build.reshape(build.iota(whole.size, whole.device), whole.shape))
    flat = build.reshape(whole, (whole.size,))
    written = overwrite(flat, 0, build.reshape(places, (part.size,)), build.reshape(part, (part.size,)))
    return build.reshape(written, whole.shape)


def with_block(x: Node, block: v.Slice, part: Node) -> Node:
    """x with a strided block replaced: the block is padded to the whole, and selected at its positions."""
    if part.size == 0:
        return x
    if part.shape == x.shape:
        return part
    ends = zip(x.shape, block.starts, block.sizes, block.steps, strict=True)
    high = tuple(n - a - (k - 1) * s - 1 for n, a, k, s in ends)
    steps = tuple(s - 1 for s in block.steps)
    inside = build.constant(True, bool_, x.device, block.sizes)
    number = False if x.dtype is bool_ else 0
    chosen = make(v.Pad(block.starts, high, steps, False), inside)
    return build.where(chosen, make(v.Pad(block.starts, high, steps, number), part), x)
