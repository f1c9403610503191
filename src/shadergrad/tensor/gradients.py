"""The gradient attributes of a tensor: .grad, .data, grad_fn, backward(), hooks."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Self

from ..arguments import type_name
from ..drive import tracing
from ..drive.tracing import current
from ..errors import (
    ArgumentTypeError,
    AutogradError,
    CompileError,
    DeviceError,
    DTypeError,
    ShapeError,
)
from ..graph.completion import with_hooks
from ..graph.composition import unpacks
from ..graph.leaves import Variable
from ..graph.node import Node, grad_mode
from .backpropagation import backward
from .base import TensorBase
from .hooks import RemovableHandle, hooks_of
from .storage import Leaf
from .succession import succeeding, without_history

_ids = itertools.count()


def _changed() -> None:
    tracing.changes += 1


def _registered(table: dict[int, Any], hook: Any) -> RemovableHandle:
    number = next(_ids)
    table[number] = hook
    _changed()
    return RemovableHandle(table, number, _changed)


class _Handles(RemovableHandle):
    """A handle for two hooks."""

    def __init__(self, *handles: RemovableHandle) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self.handles:
            handle.remove()


class GradFn:
    """The operation that made a tensor. Two are equal if they belong to one tensor's value.

    >>> w = sg.ones(1, requires_grad=True)
    >>> isinstance((w * 2).grad_fn, sg.autograd.graph.Node)
    True
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self) -> str:
        """The operation's name as PyTorch writes it, without the number: 'MulBackward', or 'AccumulateGrad' for a leaf."""
        if isinstance(self._node.primitive, Variable):
            return "AccumulateGrad"
        is_result = len(self._node.inputs) == 2 and self._node.primitive.name == "result"
        name = self._node.inputs[1].primitive.name if is_result else self._node.primitive.name
        return f"{name[:1].upper()}{name[1:]}Backward"

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The functions of the operands, None for an operand that requires no gradient."""
        if isinstance(self._node.primitive, Variable):
            return ()
        return tuple((GradFn(i) if i.requires_grad else None, 0) for i in self._node.inputs)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for a program's own data about the operation, kept as long as the operation.

        >>> w = sg.ones(1, requires_grad=True)
        >>> y = w * 2
        >>> y.grad_fn.metadata["by"] = "me"
        >>> y.grad_fn.metadata
        {'by': 'me'}
        """
        return hooks_of(self._node).notes

    @property
    def variable(self) -> Any:
        """The leaf whose gradient this accumulates. Raises AttributeError for other operations.

        >>> w = sg.ones(1, requires_grad=True)
        >>> w.view_as(w).grad_fn.next_functions[0][0].variable is w
        True
        """
        if not isinstance(self._node.primitive, Variable):
            raise AttributeError(f"{self.name()!r} object has no attribute 'variable'")
        owner = None if self._node.owner is None else self._node.owner()
        return owner.tensor() if isinstance(owner, Leaf) else owner

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Call hook(gradients of the operands, gradients of the results), two tuples, when a backward pass has both; if it returns a tuple,
        that replaces the first.

        Operands without a gradient have None. For a leaf, whose .grad is up to date by then, the first is empty, and the hook's result is
        ignored. Returns a handle with remove().

        >>> w = sg.tensor([2.0], requires_grad=True)
        >>> y = w.exp()
        >>> handle = y.grad_fn.register_hook(lambda inputs, outputs: (outputs[0] * 3,))
        >>> y.backward()
        >>> w.grad
        tensor([3.])
        """
        hooks = hooks_of(self._node)
        if not isinstance(self._node.primitive, Variable):
            return _registered(hooks.through, hook)
        latest: list[Any] = [None]
        first = _registered(hooks.before, lambda g: latest.__setitem__(0, g))
        second = _registered(hooks.after, lambda _: hook((), (latest[0],)))
        return _Handles(first, second)

    def register_prehook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call hook(gradients of the results), a tuple, before the gradients of the operands are computed; if it returns a tuple, that replaces
        the argument. Returns a handle with remove().

        >>> w = sg.tensor([2.0], requires_grad=True)
        >>> y = w * 5
        >>> handle = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
        >>> y.backward()
        >>> w.grad
        tensor([10.])
        """

        def before(g: Any) -> Any:
            found = hook((g,))
            return found[0] if isinstance(found, tuple) else found

        return _registered(hooks_of(self._node).before, before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and other._node is self._node

    def __hash__(self) -> int:
        return hash(id(self._node))

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class GradientTensor(TensorBase):
    """A tensor that may require a gradient."""

    __slots__ = ()

    @property
    def grad(self) -> Self | None:
        """The gradient accumulated by backward(), for leaves, and for tensors with retain_grad().

        None before. May be set, which raises ShapeError, DTypeError or DeviceError for a gradient of another shape, dtype or device.

        >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
        >>> (w * w).sum().backward()
        >>> w.grad
        tensor([2., 4.])
        """
        if current.trace is not None:
            current.trace.on_grad_read(self)
        return self._grad

    @grad.setter
    def grad(self, value: TensorBase | None) -> None:
        if value is not None:
            if value is self:
                raise AutogradError("can't assign Variable as its own grad")
            if not isinstance(value, TensorBase):
                raise ArgumentTypeError(f"assigned grad expected to be a Tensor or None but got {type_name(value)}.")
            if value.dtype is not self.dtype:
                raise DTypeError(f"[grad] assigned a gradient of {value.dtype.name} to a tensor of {self.dtype.name}.")
            if value.shape != self.shape:
                raise ShapeError(
                    f"[grad] assigned a gradient of shape {tuple(value.shape)} to a tensor of shape {tuple(self.shape)}."
                )
            if value.device != self.device:
                raise DeviceError(f"[grad] assigned a gradient on {value.device} to a tensor on {self.device}.")
        if current.trace is not None:
            current.trace.on_grad_write(self, value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def data(self) -> Self:
        """The value without history, in the same memory: writes to it change the tensor and are not recorded. If it is set,
        the tensor shares the memory of the new value.

        >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
        >>> w.data.zero_()
        tensor([0., 0.])
        >>> w
        tensor([0., 0.], requires_grad=True)
        """
        return self.detach()

    @data.setter
    def data(self, value: TensorBase) -> None:
        if not isinstance(value, TensorBase):
            raise ArgumentTypeError(f"data has to be a Tensor, not {type_name(value)}.")
        if self._is_the_same_memory(value):  # as after p.data += 1
            return
        if unpacks(self._node):
            raise AutogradError(
                "[data] a quantised weight is computed from packed integers, and cannot be set. Hint: load_state_dict() takes floats."
            )
        before, after = self._node, without_history(value._node)
        if before.requires_grad and (after.dtype.category < 2 or (after.shape != before.shape and not self.is_leaf)):
            raise AutogradError(
                f"[data] a tensor that requires grad, {before.dtype.name} of shape {list(before.shape)}, cannot become "
                f"{after.dtype.name} of shape {list(after.shape)}."
            )
        if current.trace is not None:
            self._set_data_in_a_step(value, after)
            return
        tracing.changes += 1
        self._rebound += 1
        with grad_mode(False):
            shared = self._join(value, after)
            self._current = shared.node = succeeding(before, shared.node, shared)
            if self.is_leaf and before.requires_grad:
                shared.own(shared.node)
                self._leaf = shared.leaf

    def _set_data_in_a_step(self, value: TensorBase, after: Node) -> None:
        """Takes the value instead of the memory, if nobody can see the difference: the source shares this tensor's memory, or is
        not written any more.
        """
        trace = current.trace
        assert trace is not None
        former = trace.joined.pop(self._serial, None)
        if former is not None and (joined := former()) is not None:  # has the memory that this tensor leaves
            joined._become(joined._node)
            del joined
        shares = value._serial if value._shared is None else value._shared.storage.origin
        if not self._share_no_more() or shares <= trace.began:
            raise CompileError(
                "a compiled step set the data of a tensor whose memory others share, or to a tensor that exists outside. Hint: "
                "copy_ the values, or exchange the memory before the step."
            )
        if (after.shape, after.dtype) != (self._node.shape, self._node.dtype):
            raise CompileError(
                f"a compiled step cannot set the data of a tensor of {self.dtype.name} {tuple(self.shape)} to one of "
                f"{after.dtype.name} {tuple(after.shape)}."
            )
        trace.on_rebind(self, value)
        with grad_mode(False):
            self._assign(after)
            if value._share_no_more() and not value._node.requires_grad:
                value._move_to(self)
                trace.on_joined(self, value)
            else:
                trace.on_parted(self, value)

    def backward(
        self,
        gradient: TensorBase | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add d(self)/d(leaf) to .grad of every leaf that requires it, or only of `inputs`, which need not be leaves.

        gradient: the cotangent, of the shape of self; optional if self has one element. retain_graph: keep the history
        for a second pass; create_graph: record the gradients, so that they can be differentiated again. Raises
        AutogradError if self requires no gradient, has more than one element and no cotangent, or if the graph
        was used before and not retained; ShapeError or DTypeError for a cotangent of another shape or dtype.

        >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
        >>> (w * w).sum().backward()
        >>> w.grad
        tensor([2., 4.])
        """
        backward([self], None if gradient is None else [gradient], retain_graph, create_graph, inputs)

    @property
    def grad_fn(self) -> GradFn | None:
        """The operation that made the tensor, with name() and next_functions; None for leaves. It runs nothing.

        >>> w = sg.ones(2, requires_grad=True)
        >>> (w * 2).grad_fn
        <MulBackward>
        """
        return None if self.is_leaf else GradFn(self._node)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call hook(gradient) when a backward pass has the complete gradient of this tensor; a result other than None
        replaces the gradient. Hooks run in the order of registration.

        Returns a handle whose remove() removes the hook. Raises AutogradError for a tensor that requires no gradient;
        in the backward pass ShapeError or DTypeError if the hook returns anything but a tensor of the gradient's shape
        and dtype.

        >>> w = sg.ones(2, requires_grad=True)
        >>> handle = w.register_hook(lambda gradient: 10 * gradient)
        >>> w.sum().backward()
        >>> w.grad
        tensor([10., 10.])
        """
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        return self._register(hooks_of(self._node).before, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call hook(tensor) as soon as a backward pass has completed and accumulated the gradient of this leaf.

        The pass goes on afterwards: leaves nearer to its end may have no .grad yet. The hook may use the gradient, set it to None and
        change the leaf, as an optimizer does that steps within the pass.

        Returns a handle with remove(). Raises AutogradError for a tensor that requires no gradient, or is not a leaf.

        >>> w = sg.ones(2, requires_grad=True)
        >>> handle = w.register_post_accumulate_grad_hook(lambda tensor: print(tensor.grad))
        >>> w.sum().backward()
        tensor([1., 1.])
        """
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return self._register(hooks_of(self._node).after, hook)

    def _register(self, table: dict[int, Any], hook: Any) -> RemovableHandle:
        if current.trace is not None:
            current.trace.on_hook(self)
        if self.is_leaf:
            with_hooks[id(self)] = self
        return _registered(table, hook)

    @property
    def _hook_ids(self) -> tuple[int, ...]:
        """The guard of a compiled step on registered hooks."""
        return () if self._node.hooks is None else self._node.hooks.ids()

    def retain_grad(self) -> None:
        """Make backward() store the gradient of this non-leaf tensor in .grad, too. No effect on a leaf.

        Raises AutogradError for a tensor that requires no gradient.

        >>> y = sg.ones(2, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.sum().backward()
        >>> y.grad
        tensor([1., 1.])
        """
        if not self.requires_grad:
            raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.is_leaf:
            hooks_of(self._node).retainer = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether retain_grad() was called on this non-leaf tensor.

        >>> y = sg.ones(2, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.retains_grad
        True
        """
        hooks = self._node.hooks
        return hooks is not None and hooks.retainer is not None and hooks.retainer() is self
