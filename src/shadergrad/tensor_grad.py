# pyright: reportGeneralTypeIssues=false
# Why: in a mixin, self is the whole Tensor, and pyright cannot know that the mixin is used nowhere else.
"""Tensor methods that look into the backward pass: hooks, retained gradients, grad_fn.

A hook lives on the node that the tensor held when it was registered, and a leaf's on every value that the leaf takes
later. The gradient that a hook gets is pending: reading it computes it. In a compiled step a hook runs once, while the
step is captured, and what it computes becomes part of the step.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import AutogradError, DTypeError, ShapeError
from .graph.leaves import Variable
from .graph.node import Node
from .run import tracing

if TYPE_CHECKING:
    from .tensor import Tensor

_ids = itertools.count()


class RemovableHandle:
    """What registering a hook gives; `remove()` takes the hook out, as does leaving a `with` block."""

    def __init__(self, table: dict[int, Any], id: int, changed: Callable[[], None]) -> None:
        self._table = table
        self.id = id
        self._changed = changed

    def remove(self) -> None:
        if self._table.pop(self.id, None) is not None:
            self._changed()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class GradientHooks:
    """The hooks of a node.

    before: called with the gradient, and may replace it; after: with a leaf, once its .grad is up to date.
    retainer: the tensor, not a leaf, whose .grad shall hold the gradient.
    """

    def __init__(self) -> None:
        self.before: dict[int, Callable[[Any], Any]] = {}
        self.after: dict[int, Callable[[Any], Any]] = {}
        self.retainer: weakref.ref[Tensor] | None = None

    def ids(self) -> tuple[int, ...]:
        return (*self.before, *self.after)

    def on_gradient(self, g: Node) -> Node:
        """The gradient that goes on; the backward pass calls this once, with all of it."""
        from .tensor import Tensor

        for hook in list(self.before.values()):
            g = _checked(hook, hook(Tensor._of(g)), g)
        tensor = None if self.retainer is None else self.retainer()
        if tensor is not None:
            before = tensor.grad
            tensor.grad = Tensor._of(g) if before is None else before + Tensor._of(g)
        return g


def _checked(hook: Any, found: Any, g: Node) -> Node:
    from .tensor import Tensor

    if found is None:
        return g
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(found, Tensor):
        raise DTypeError(f"expected a Tensor or None, but the hook {name!r} returned a {type(found).__name__}.")
    if found.shape != g.shape:
        raise ShapeError(f"hook {name!r} has changed the size of value: from {list(g.shape)} to {list(found.shape)}.")
    if found.dtype is not g.dtype:
        raise DTypeError(f"hook {name!r} has changed the type of value: from {g.dtype.name} to {found.dtype.name}.")
    return found._node


def _changed() -> None:
    tracing.changes += 1


class GradFn:
    """The operation that made a tensor. Two are equal if they are of one tensor's value."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self) -> str:
        if isinstance(self._node.primitive, Variable):
            return "AccumulateGrad"
        is_result = len(self._node.inputs) == 2 and self._node.primitive.name == "result"
        name = self._node.inputs[1].primitive.name if is_result else self._node.primitive.name
        return f"{name[:1].upper()}{name[1:]}Backward"

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """Those of the operands, None for one that requires no gradient."""
        if isinstance(self._node.primitive, Variable):
            return ()
        return tuple((GradFn(i) if i.requires_grad else None, 0) for i in self._node.inputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and other._node is self._node

    def __hash__(self) -> int:
        return hash(id(self._node))

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class GradMethods:
    """What happens to a tensor's gradient on its way."""

    __slots__ = ()

    @property
    def grad_fn(self: Tensor) -> GradFn | None:
        """The operation that made the tensor; None for leaves."""
        return None if self.is_leaf else GradFn(self._node)

    def register_hook(self: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call hook(gradient) when a backward pass has the whole gradient of this tensor; what it returns, if not None,
        takes the gradient's place. Hooks run in the order in which they were registered."""
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        return self._register(_hooks_of(self._node).before, hook)

    def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call hook(tensor) when backward() has brought the .grad of this leaf up to date."""
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return self._register(_hooks_of(self._node).after, hook)

    def _register(self: Tensor, table: dict[int, Any], hook: Any) -> RemovableHandle:
        number = next(_ids)
        table[number] = hook
        _changed()
        return RemovableHandle(table, number, _changed)

    @property
    def _hook_ids(self: Tensor) -> tuple[int, ...]:
        """What a compiled step looks at to see that hooks came or went."""
        return () if self._node.hooks is None else self._node.hooks.ids()

    def retain_grad(self: Tensor) -> None:
        """Let backward() put the gradient of this computed tensor into .grad too. Nothing happens for a leaf."""
        if not self.requires_grad:
            raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.is_leaf:
            _hooks_of(self._node).retainer = weakref.ref(self)

    @property
    def retains_grad(self: Tensor) -> bool:
        """Whether retain_grad() makes this computed tensor keep its gradient."""
        hooks = self._node.hooks
        return hooks is not None and hooks.retainer is not None and hooks.retainer() is self


def _hooks_of(node: Node) -> GradientHooks:
    if node.hooks is None:
        node.hooks = GradientHooks()
    return node.hooks
