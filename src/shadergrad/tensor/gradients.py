"""What happens to a tensor's gradient: backward(), .grad, hooks.

A hook lives on the node that the tensor held when it was registered, and a leaf's on every value that the leaf takes
later. The gradient that a hook gets is pending: reading it computes it. In a compiled step a hook runs once, while the
step is captured, and what it computes becomes part of the step.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self

from ..arguments import checked, type_name
from ..drive import tracing
from ..drive.tracing import current
from ..errors import (
    ArgumentTypeError,
    AutogradError,
    CompileError,
    DeviceError,
    DTypeError,
    NotTensorsError,
    ShapeError,
)
from ..graph import autodiff, build
from ..graph import node as nodes
from ..graph.leaves import Detached, Variable
from ..graph.node import Node, grad_mode, mode
from .base import TensorBase, wrap
from .storage import Leaf, succeeding, without_history

_ids = itertools.count()


class RemovableHandle:
    """What registering a hook gives; `remove()` takes the hook out, as does leaving a `with` block."""

    def __init__(self, table: dict[int, Any], id: int, changed: Callable[[], None]) -> None:
        self._table = table
        self.id = id
        self._changed = changed

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
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
        self.retainer: weakref.ref[Any] | None = None

    def ids(self) -> tuple[int, ...]:
        return (*self.before, *self.after)

    def on_gradient(self, g: Node) -> Node:
        """The gradient that goes on; the backward pass calls this once, with all of it."""
        for hook in list(self.before.values()):
            g = _checked(hook, hook(wrap(g)), g)
        tensor = None if self.retainer is None else self.retainer()
        if tensor is not None:
            before = tensor.grad
            tensor.grad = wrap(g) if before is None else wrap(before._node + g)
        return g


def _checked(hook: Any, found: Any, g: Node) -> Node:
    if found is None:
        return g
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(found, TensorBase):
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
        """The operation's name as PyTorch writes it, without the number: 'MulBackward', or 'AccumulateGrad' for a leaf."""
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


class GradientTensor(TensorBase):
    """A tensor that may require a gradient."""

    __slots__ = ()

    @property
    def grad(self) -> Self | None:
        """The gradient accumulated by backward(), for leaves, and for what retain_grad() was called on.

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

    @property
    def data(self) -> Self:
        """The value without history, in the same memory: what is written to it is in the tensor, and not on the tape. Set,
        the tensor shares the memory of what it is set to.

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
        """The value is taken, where no one can see that the memory is not; what it was taken of shares this tensor's, or is
        not to be written any more."""
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
        """Add d(self)/d(leaf) to .grad of every leaf that requires it, or of `inputs` only, which may be computed ones.

        gradient: the cotangent, of the shape of self; may be left out where self has one element. retain_graph: keep
        what a second pass needs; create_graph: record the gradients, so that they can be differentiated again. Raises
        AutogradError where self requires no gradient, has more than one element and no cotangent, or where the graph
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
        """Call hook(gradient) when a backward pass has the whole gradient of this tensor; what it returns, if not None,
        takes the gradient's place. Hooks run in the order in which they were registered.

        Gives a handle whose remove() takes the hook out. Raises AutogradError for a tensor that requires no gradient;
        in the backward pass ShapeError or DTypeError where the hook returns other than a tensor of the gradient's shape
        and dtype.

        >>> w = sg.ones(2, requires_grad=True)
        >>> handle = w.register_hook(lambda gradient: 10 * gradient)
        >>> w.sum().backward()
        >>> w.grad
        tensor([10., 10.])
        """
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        return self._register(_hooks_of(self._node).before, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call hook(tensor) when backward() has brought the .grad of this leaf up to date.

        Gives a handle with remove(). Raises AutogradError for a tensor that requires no gradient, or is no leaf.

        >>> w = sg.ones(2, requires_grad=True)
        >>> handle = w.register_post_accumulate_grad_hook(lambda tensor: print(tensor.grad))
        >>> w.sum().backward()
        tensor([1., 1.])
        """
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return self._register(_hooks_of(self._node).after, hook)

    def _register(self, table: dict[int, Any], hook: Any) -> RemovableHandle:
        if current.trace is not None:
            current.trace.on_hook(self)
        number = next(_ids)
        table[number] = hook
        _changed()
        return RemovableHandle(table, number, _changed)

    @property
    def _hook_ids(self) -> tuple[int, ...]:
        """What a compiled step looks at to see that hooks came or went."""
        return () if self._node.hooks is None else self._node.hooks.ids()

    def retain_grad(self) -> None:
        """Let backward() put the gradient of this computed tensor into .grad too. Nothing happens for a leaf.

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
            _hooks_of(self._node).retainer = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether retain_grad() makes this computed tensor keep its gradient.

        >>> y = sg.ones(2, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.retains_grad
        True
        """
        hooks = self._node.hooks
        return hooks is not None and hooks.retainer is not None and hooks.retainer() is self


def _hooks_of(node: Node) -> GradientHooks:
    if node.hooks is None:
        node.hooks = GradientHooks()
    return node.hooks


def tensors_of(value: Any, what: str, name: str) -> list[Any]:
    """One tensor or a sequence of them, as a list."""
    if isinstance(value, TensorBase):
        return [value]
    given = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    for each in given:
        if not isinstance(each, TensorBase):
            raise NotTensorsError(
                f"{what}(): argument '{name}' must be Tensor or tuple of Tensors, not {type_name(each)}."
            )
    return given


def cotangent(output: TensorBase, gradient: TensorBase | None) -> Node:
    if gradient is not None and not isinstance(gradient, TensorBase):
        raise ArgumentTypeError(f"gradients can be either Tensors or None, but got {type_name(gradient)}.")
    if not output.requires_grad:
        raise AutogradError(
            f"element 0 of tensors does not require grad and does not have a grad_fn{_where_it_stayed(output._node)}"
        )
    if current.trace is not None:
        for node in nodes.topological([output._node], lambda n: [i for i in n.inputs if i.requires_grad]):
            if isinstance(node.primitive, Variable) and (leaf := leaf_of(node)) is not None:
                note_flag(leaf)  # without it there would be no history
    if gradient is None:
        if output._node.size != 1:
            raise AutogradError("grad can be implicitly created only for scalar outputs")
        if output.dtype.is_complex:
            raise AutogradError(
                f"grad can be implicitly created only for real scalar outputs but got {output.dtype!r}. Hint: .abs() or .real."
            )
        return build.like(output._node, 1)
    if gradient.shape != output.shape:
        raise ShapeError(
            f"Mismatch in shape: grad_output[0] has a shape of {list(gradient.shape)} and output[0] has a shape of {list(output.shape)}."
        )
    if gradient.dtype is not output.dtype:
        raise DTypeError(f"[backward] the gradient is {gradient.dtype.name}, the output {output.dtype.name}.")
    return gradient._node


def _where_it_stayed(node: Node) -> str:
    """A hint, where a value comes from a compiled step whose function gave it a history."""
    made = nodes.topological([node], lambda n: n.inputs)
    if not any(isinstance(n.primitive, Detached) for n in made):
        return ""
    return (
        ": it comes from a compiled step, whose results are detached. Hint: call backward() within the step, or compile the "
        "model alone, as in model = sg.compile(model)."
    )


def leaf_of(node: Node) -> Any:
    """The tensor of which a Variable is a value, or was one; None if it is gone."""
    owner = None if node.owner is None else node.owner()
    return owner.tensor() if isinstance(owner, Leaf) else owner


@checked
def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Tensor.backward of several tensors at once: a tensor, or a sequence of them, each with its cotangent or None.

    Raises AutogradError where the numbers of both differ, where `inputs` is empty or one requires no gradient, and as
    Tensor.backward.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> sg.autograd.backward([w.sum(), w[0]])
    >>> w.grad
    tensor([2., 1.])
    """
    roots = tensors_of(tensors, "backward", "tensors")
    given = [grad_tensors] * len(roots) if not isinstance(grad_tensors, list | tuple) else list(grad_tensors)
    if len(given) != len(roots):
        raise AutogradError(f"[backward] got {len(roots)} tensors and {len(given)} gradients.")
    targets = None if inputs is None else tensors_of(inputs, "backward", "inputs")
    if targets is not None:
        if not targets:
            raise AutogradError("`inputs` argument to `backward()` cannot be empty.")
        if not all(t.requires_grad for t in targets):
            raise AutogradError("[backward] one of `inputs` does not require grad.")
        for t in targets:
            note_flag(t)
    owners = {id(t._node): t for t in targets or ()}  # of views other nodes, once their history is used up
    asked = None if targets is None else [t._node for t in targets]
    found = autodiff.backward(
        [t._node for t in roots],
        [cotangent(t, g) for t, g in zip(roots, given, strict=True)],
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=asked,
        leaf_of=leaf_of,
    )
    for node, _ in found.values():
        owner = leaf_of(node) if isinstance(node.primitive, Variable) else None
        if owner is not None and not owner.is_leaf:
            raise AutogradError(
                "leaf variable has been moved into the graph interior: a tensor that this gradient is of was written to in place, "
                "with gradients recorded. Hint: clone() it before."
            )
    with grad_mode(create_graph):
        for node, grad in found.values():
            owner = owners.get(id(node))
            if owner is None and node.owner is not None:
                owner = leaf_of(node)
            if owner is not None and owner.requires_grad:
                _accumulate(owner, wrap(grad))
                owners[id(node)] = owner
    together([t._grad for t in owners.values()])


def note_flag(target: Any) -> None:
    """A gradient is asked for: a capture holds while the tensor requires one, though nothing may read the gradient."""
    trace = current.trace
    if trace is not None and target._serial <= trace.began:
        trace.on_attribute(target, "requires_grad", True)


def together(tensors: Iterable[Any]) -> None:
    """Tensors that came from one backward pass: reading one computes all that are alive, in one plan, rather than the
    whole pass again for each."""
    group = [t for t in tensors if t is not None]
    references: list[weakref.ref[Any]] = [weakref.ref(t) for t in group]
    for t in group:
        t._siblings = references


def _accumulate(owner: Any, grad: TensorBase) -> None:
    if current.trace is not None and owner._serial <= current.trace.began:
        current.trace.on_attribute(owner, "_hook_ids", owner._hook_ids)
    if not owner.retains_grad:  # then .grad has it already
        before = owner.grad
        if before is None:
            owner.grad = grad
        elif mode.grad:
            owner.grad = wrap(before._node + grad._node)
        else:  # whoever holds the gradient sees it grow
            before._assign(before._node + grad._node, "backward")
    if owner._hook_ids:
        for hook in list(owner._node.hooks.after.values()):
            hook(owner)
