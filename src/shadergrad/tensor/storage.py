"""What tensors share: values that change in place, and the views through which they are seen and written.

    Storage  the present value, without history; who holds it holds a version of it
    Base     a tensor of its own for the tape, over all of a storage or a part: a leaf, a result, a detached alias
    Tensor   a base seen through a path of views: rows, slices, transposes, other shapes

Nodes never change; a write makes the next one. A tensor that writes through its path replaces its base's node by one
in which that part is another, and so the storage's. All others see by the version that theirs is of an earlier value, and
derive it again: a tensor from its base, a base from the storage. What nobody shares has none of this (base.py).

A history goes on through writes as in PyTorch: within no_grad, or through a detached alias, a base that requires grad
takes the value and keeps its gradient function; else that of what was written is put in its place.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass
from operator import mul
from typing import Any

from ..drive import tracing
from ..drive.tracing import current
from ..dtypes import DType, bool_
from ..graph import build
from ..graph import node as nodes
from ..graph.leaves import Alias, Detach, Variable
from ..graph.node import Node, grad_mode, make, mode
from ..graph.primitive import Primitive, Shape
from ..primitives import views as v
from ..primitives.window import Window
from . import pending
from .overwrite import overwrite

Path = tuple[Primitive, ...]

_versions = itertools.count(1)


def new_version() -> int:
    """A number that no storage has had."""
    return next(_versions)


@dataclass(frozen=True, eq=False)
class Overwritten(Primitive):
    """The value of the first input under the history of the second: whose gradient is all of it, or 0 where the value
    has taken the place of what the history computed.

    The compiler looks through it.
    """

    goes_on: bool

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        return None, g if self.goes_on else build.like(g, 0)


Overwritten.kind = "alias"  # said here and not in the class, so that it is no record of the registry: no plan holds one


class Storage:
    """A value that tensors share.

    node: the present value. version: another number after every write. origin: the serial number of the tensor that
    was shared first. tensor: a weak reference to one that shows all of it.
    """

    __slots__ = ("__weakref__", "_serial", "node", "origin", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self._serial = pending.next_serial()
        self.origin: int = tensor._serial
        self.tensor: weakref.ref[Any] = weakref.ref(tensor)
        self.node: Node = tensor._current
        self.version = new_version()
        if self.node.storage is None:
            pending.note(self)

    @property
    def _node(self) -> Node:
        return self.node

    def _holds(self, node: Node) -> bool:
        """Whether a node is the present value."""
        return self.node is node

    def value(self) -> Node:
        """The present value without history, as that of the storage: a leaf that shows it may leave it."""
        value = without_history(self.node)
        if value is not self.node:
            value.owner = weakref.ref(self)
        return value

    def _snapshot(self) -> tuple[Node, int]:
        return self.node, self.version

    def _restore(self, state: tuple[Node, int]) -> None:
        self.node, self.version = state


class Leaf:
    """Where the gradients of a leaf go: the nodes that stand for it on the tape know this, whatever values it has had.

    tensor: the leaf, weakly; storage: what it shows all of, weakly, if it does.
    """

    __slots__ = ("__weakref__", "storage", "tensor")

    def __init__(self, tensor: weakref.ref[Any]) -> None:
        self.tensor = tensor
        self.storage: weakref.ref[Storage] | None = None

    def _holds(self, node: Node) -> bool:
        """Whether a node is the leaf's present value."""
        tensor = self.tensor()
        return tensor is not None and tensor._holds(node)


class Base:
    """What differentiable views are views of: all of a storage, or what a path shows of it, with a history of its own.

    node: the value with its history, as of `version` of the storage. tensor: the one that was made with it, weakly.
    leaf: that of the tensor, if it is one. ambiguous: made under no_grad of a tensor that requires grad, so that what is
    written with gradients recorded has no place on the tape.
    """

    __slots__ = ("__weakref__", "ambiguous", "leaf", "node", "path", "storage", "tensor", "version")

    def __init__(self, storage: Storage, path: Path, node: Node, tensor: Any, ambiguous: bool = False) -> None:
        self.storage = storage
        self.path = path
        self.node = node
        self.tensor: weakref.ref[Any] = weakref.ref(tensor)
        self.version = storage.version
        self.ambiguous = ambiguous
        self.leaf: Leaf | None = None

    def _holds(self, node: Node) -> bool:
        """Whether a node is the value, as of the version that was seen last."""
        return self.node is node

    def current(self) -> Node:
        """The present value with its history."""
        if self.version != self.storage.version:
            with grad_mode(False):
                value = follow(self.path, self.storage.value())
                node = succeeding(self.node, value, self)
            if isinstance(node.primitive, Variable):
                self.own(node)
            self._set(node)
        return self.node

    def _set(self, node: Node) -> None:
        if current.trace is not None:
            current.trace.on_change(self)
        self.node = node
        self.version = self.storage.version

    def own(self, node: Node) -> None:
        """Say of a node that it is the value of this base; all of the storage, and a leaf, may outlive it."""
        if isinstance(node.primitive, Variable):
            if self.leaf is None:
                self.leaf = Leaf(self.tensor)
            self.leaf.storage = None if self.path else weakref.ref(self.storage)
            node.owner = weakref.ref(self.leaf)
        else:
            node.owner = weakref.ref(self if self.path else self.storage)

    def write(self, path: Path, node: Node) -> None:
        """Let what `path` shows of the base be `node`."""
        before = self.current()
        storage = self.storage
        if current.trace is not None:
            current.trace.on_change(storage)
        if self.path:
            with grad_mode(False):
                value = put(storage.value(), (*self.path, *path), without_history(node))
                storage.node = value if value.owner is None else renamed(value)
            storage.node.owner = weakref.ref(storage)
        if _repeats(self.path):  # what is written in one place is seen in others
            with grad_mode(False):
                after = succeeding(before, follow(self.path, storage.node), self)
        else:
            after = succeeding(before, put(before, path, node), self)
        owner = None if after.owner is None else after.owner()
        if owner is not None and owner is not self and (self.path or owner is not storage):
            after = renamed(after)  # it stays the value of that, too
        if not self.path:
            storage.node = after
        storage.version = new_version()
        if after.requires_grad != before.requires_grad:
            tracing.changes += 1
        self._set(after)
        self.own(after)
        if storage.node.storage is None:
            pending.note(storage)
            pending.changed(storage)

    def _snapshot(self) -> tuple[Node, int]:
        return self.node, self.version

    def _restore(self, state: tuple[Node, int]) -> None:
        self.node, self.version = state


def without_history(node: Node) -> Node:
    """The same value, which requires no gradient."""
    if not node.requires_grad:
        return node
    if node.storage is not None:
        result = nodes.leaf(node.storage, node.shape, node.dtype, node.device)
    else:
        with grad_mode(False):
            result = make(Detach(), node)
    result.owner = node.owner  # it is the value of the same tensor
    return result


def renamed(node: Node) -> Node:
    """A node of its own with the value, and the history, of another's; in a capture one that leads to it."""
    if node.storage is not None and not (node.requires_grad and mode.grad) and current.trace is None:
        return nodes.leaf(node.storage, node.shape, node.dtype, node.device)
    return make(Alias(), node)


def succeeding(before: Node, value: Node, owner: Any) -> Node:
    """`value` as what a tensor holds that held `before`: a leaf stays one, and a history goes on."""
    if isinstance(before.primitive, Variable):
        value = without_history(value)
        if current.trace is not None and value.storage is not None:  # still whose value it is
            value = make(Alias(), value)
        return nodes.variable(value, owner, before.hooks)
    if not mode.grad:
        value = without_history(value)
    if before.requires_grad and not value.requires_grad:
        is_hidden = not mode.grad  # from the tape
        if is_hidden and isinstance(before.primitive, Overwritten) and before.inputs and before.hooks is None:
            before = before.inputs[1] if before.primitive.goes_on else before
        with grad_mode(True):
            return make(Overwritten(is_hidden), value, before)
    return make(Alias(), value) if isinstance(value.primitive, Variable) else value


# -- paths


def follow(path: Path, node: Node) -> Node:
    """What a path shows of a value."""
    for step in path:
        node = make(step, node)
    return node


def between(whole: Node, part: Node) -> Path:
    """The path from one node to another that was made of it by views alone."""
    steps: list[Primitive] = []
    while part is not whole:
        steps.append(part.primitive)
        (part,) = part.inputs
    return tuple(reversed(steps))


def joined(path: Path) -> Path:
    """The path with each slice of a slice as one: plans would be made for the size of what lies between them."""
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


def _shape_after(step: Primitive, shape: Shape) -> Shape:
    """What shape a view gives to a value of a shape."""
    described = Node(step, (), shape, bool_, "")
    return step.infer(described)[0]


def _repeats(path: Path) -> bool:
    """Whether a path may show an element twice."""
    return any(isinstance(step, v.Expand | Window) for step in path)


def put(whole: Node, path: Path, part: Node) -> Node:
    """`whole` with `part` in the place of what the path shows."""
    if _repeats(path):
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


def _scattered(whole: Node, path: Path, part: Node) -> Node:
    """`put` where a path may show elements twice: by their numbers."""
    places = follow(path, build.reshape(build.iota(whole.size, whole.device), whole.shape))
    flat = build.reshape(whole, (whole.size,))
    written = overwrite(flat, 0, build.reshape(places, (part.size,)), build.reshape(part, (part.size,)))
    return build.reshape(written, whole.shape)


def with_block(x: Node, block: v.Slice, part: Node) -> Node:
    """x with a strided block replaced: the block padded to the whole, chosen where it lies."""
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


def strides(path: Path, shape: Shape, given: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """How many elements lie from one to the next along every axis of what a path shows of a value of that shape that lies by
    `given`, and before the first; None where no such numbers tell (a reshape that its strides cannot express).

    Those are PyTorch's, with which it decides where `reshape` copies.
    """
    found, offset = given, 0
    left = list(reversed(path))
    while left:
        step = left.pop()
        if isinstance(step, v.Slice):
            offset += sum(map(mul, step.starts, found))
            found, shape = tuple(map(mul, step.steps, found)), step.sizes
            continue
        if isinstance(step, v.Permute):
            found, shape = tuple([found[a] for a in step.axes]), tuple([shape[a] for a in step.axes])
            continue
        after = _shape_after(step, shape)
        if isinstance(step, v.Expand):
            found = tuple(0 if n != m else s for n, m, s in zip(shape, after, found, strict=True))
        elif isinstance(step, Window):
            more = [found[a] * d for a, d in zip(step.axes, step.dilations, strict=True)]
            along = dict(zip(step.axes, step.steps, strict=True))
            found = (*(s * along.get(a, 1) for a, s in enumerate(found)), *more)
        else:
            reshaped = strides_of_view(shape, found, after)
            if reshaped is None:
                line = _of_a_matrix_in_a_line(left[-1], shape, found) if left and after[:-1] == shape[:-2] else None
                if line is None:
                    return None
                reshaped, first = line
                after = _shape_after(left.pop(), after)
                offset += first
            found = reshaped
        shape = after
    return found, offset


def _of_a_matrix_in_a_line(step: Primitive, shape: Shape, given: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """The strides and the first element of a slice of what lies by `given`, its rows put one behind the other: of a
    diagonal, for one. None where the elements of the slice are not equally far from each other."""
    if not isinstance(step, v.Slice):
        return None
    columns = shape[-1]
    row, column = divmod(step.starts[-1], columns)
    down, across = divmod(step.steps[-1], columns)
    if column + (step.sizes[-1] - 1) * across >= columns:
        return None
    first = sum(a * s for a, s in zip((*step.starts[:-1], row, column), given, strict=True))
    outer = (a * s for a, s in zip(step.steps[:-1], given[:-2], strict=True))
    return (*outer, down * given[-2] + across * given[-1]), first


def overlaps(shape: Shape, layout: tuple[int, ...]) -> bool:
    """Whether two elements may lie in one place: an axis does not step over all that the finer ones reach."""
    reach = 0
    for step, n in sorted((s, n) for n, s in zip(shape, layout, strict=True) if n > 1):
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False


def lies_row_by_row(shape: Shape, layout: tuple[int, ...]) -> bool:
    """Whether elements with such strides lie row by row, one behind the other."""
    whole = row_major(shape)
    return layout == whole or 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, layout, whole, strict=True))


def is_run_of_rows(step: Primitive, shape: Shape) -> bool:
    """Whether a view shows what lies one behind the other: indices along the first axis of a shape, without gaps."""
    return isinstance(step, v.Slice) and step.sizes[1:] == shape[1:] and step.steps[:1] == (1,)


def row_major(shape: Shape) -> tuple[int, ...]:
    """The strides of a value whose elements lie row by row."""
    found: list[int] = []
    step = 1
    for n in reversed(shape):
        found.append(step)
        step *= max(n, 1)
    return tuple(reversed(found))


def strides_of_view(shape: Shape, given: tuple[int, ...], wanted: Shape) -> tuple[int, ...] | None:
    """The strides with which elements that lie by `given` show in another shape; None where none do.

    Axes that lie within each other as one run of memory are cut anew; no new axis may reach over two runs.
    """
    if 0 in shape:
        return row_major(wanted)
    runs: list[list[int]] = []  # [elements, stride] of each, outermost first
    for n, s in zip(shape, given, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * s:
            runs[-1] = [runs[-1][0] * n, s]
        else:
            runs.append([n, s])
    result: list[int] = []
    left, step = 1, 1  # of the innermost run that is not used up: elements, stride of the next axis
    for n in reversed(wanted):
        if n == 1:
            result.append(step)
            continue
        if left == 1:
            left, step = runs.pop()
        if left % n:
            return None
        result.append(step)
        left //= n
        step *= n
    return tuple(reversed(result))
