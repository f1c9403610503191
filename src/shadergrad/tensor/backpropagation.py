"""The backward pass over tensors: from outputs and their cotangents to the .grad of leaves.

In: tensors. Out: nothing; gradients are accumulated into .grad, and later evaluated together. graph/autodiff.py walks the nodes.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..arguments import checked, type_name
from ..drive.tracing import current
from ..errors import (
    ArgumentTypeError,
    AutogradError,
    DTypeError,
    NotTensorsError,
    ShapeError,
)
from ..graph import autodiff, build
from ..graph import node as nodes
from ..graph.composition import is_kind
from ..graph.leaves import Detached, Variable
from ..graph.node import Node, grad_mode, mode
from .base import TensorBase
from .handle import wrap
from .storage import Leaf


class GradientEdge(NamedTuple):
    """An edge of the graph: a node, and the number of its result.

    >>> x = sg.ones(1, requires_grad=True)
    >>> sg.autograd.graph.get_gradient_edge(x).output_nr
    0
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


@checked
def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Tensor.backward for several tensors at once: a tensor, or a sequence of them, each with its cotangent or None.

    Raises AutogradError if there are not equally many of both, if `inputs` is empty or one requires no gradient, and as
    Tensor.backward.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> sg.autograd.backward([w.sum(), w[0]])
    >>> w.grad
    tensor([2., 1.])
    """
    roots = tensors_of(tensors, "backward", "tensors")
    given: list[Any] = list(grad_tensors) if isinstance(grad_tensors, Iterable) else [grad_tensors] * len(roots)
    if isinstance(grad_tensors, TensorBase):
        given = [grad_tensors] * len(roots)
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
    asked = None if targets is None else [t._node for t in targets]
    arrivals = _Arrivals(targets or ())
    with _callbacks_of_a_pass() as after:
        found = autodiff.backward(
            [t._node for t in roots],
            [cotangent(t, g) for t, g in zip(roots, given, strict=True)],
            retain_graph=create_graph if retain_graph is None else retain_graph,
            create_graph=create_graph,
            targets=asked,
            leaf_of=leaf_of,
            on_complete=arrivals.accumulate_at_once,
        )
        with grad_mode(create_graph):
            arrivals.accumulate_rest(list(found.values()))
        mark_as_siblings([t._grad for t in arrivals.owners.values()])
        while after:
            after.pop(0)()


class _Arrivals:
    """Puts the gradients of a pass into .grad: one by one if there are hooks, which may read it, else all at its end.

    owners: the tensors that have theirs, by id of their node.
    """

    def __init__(self, targets: Iterable[Any]) -> None:
        self.owners = {id(t._node): t for t in targets}  # a view has another node once its history is used up
        self._done: set[int] = set()

    def accumulate_at_once(self, node: Node, grad: Node) -> None:
        _refuse_moved(node)
        self._accumulate(node, grad)

    def accumulate_rest(self, found: Sequence[tuple[Node, Node]]) -> None:
        rest = [pair for pair in found if id(pair[0]) not in self._done]
        for node, _ in rest:
            _refuse_moved(node)
        for node, grad in rest:
            self._accumulate(node, grad)

    def _accumulate(self, node: Node, grad: Node) -> None:
        self._done.add(id(node))
        owner = self.owners.get(id(node))
        if owner is None and node.owner is not None:
            owner = leaf_of(node)
        if owner is not None and owner.requires_grad:
            _accumulate(owner, wrap(grad))
            self.owners[id(node)] = owner


def _refuse_moved(node: Node) -> None:
    owner = leaf_of(node) if is_kind(node, Variable) else None
    if owner is not None and not owner.is_leaf:
        raise AutogradError(
            "leaf variable has been moved into the graph interior: a tensor that this gradient is of was written to in place, "
            "with gradients recorded. Hint: clone() it before."
        )


class _Callbacks(threading.local):
    """The callbacks that hooks registered in this thread's innermost backward pass."""

    def __init__(self) -> None:
        self.after: list[Callable[[], None]] = []


_callbacks = _Callbacks()


@contextmanager
def _callbacks_of_a_pass() -> Iterator[list[Callable[[], None]]]:
    """The callbacks of one pass: those of a pass around it wait for its end, and a pass that fails calls none."""
    outer, _callbacks.after = _callbacks.after, []
    try:
        yield _callbacks.after
    finally:
        _callbacks.after = outer


def after_backward(callback: Callable[[], None]) -> None:
    """For hooks of gradients: call `callback` once, when the backward pass is over and all gradients are accumulated."""
    _callbacks.after.append(callback)


def tensors_of(value: Any, what: str, name: str) -> list[Any]:
    """One tensor or a sequence of them, as a list."""
    if isinstance(value, TensorBase):
        return [value]
    if isinstance(value, GradientEdge):
        return [wrap_edge(value)]
    given = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    given = [wrap_edge(each) if isinstance(each, GradientEdge) else each for each in given]
    for k, each in enumerate(given):
        if not isinstance(each, TensorBase):
            found = f"not {type_name(each)}" if each is value else f"but element {k} is {type_name(each)}"
            raise NotTensorsError(f"{what}(): argument '{name}' must be Tensor or tuple of Tensors, {found}.")
    return given


def wrap_edge(edge: GradientEdge) -> Any:
    """The leaf at an edge of the graph, or a tensor with the value computed there."""
    node = edge.node._node
    leaf = leaf_of(node) if is_kind(node, Variable) else None
    return TensorBase._of(node) if leaf is None else leaf


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
        if gradient.dtype.is_floating_point and output.dtype.is_floating_point:
            return build.cast(gradient._node, output.dtype)
        raise DTypeError(f"[backward] the gradient is {gradient.dtype.name}, the output {output.dtype.name}.")
    return gradient._node


def _where_it_stayed(node: Node) -> str:
    """A hint, if a value comes from a compiled step in whose function it had a history."""
    made = nodes.topological([node], lambda n: n.inputs)
    if not any(isinstance(n.primitive, Detached) for n in made):
        return ""
    return (
        ": it comes from a compiled step, whose results are detached. Hint: call backward() within the step, or compile the "
        "model alone, as in model = sg.compile(model)."
    )


def leaf_of(node: Node) -> Any:
    """The tensor of which a Variable is, or was, the value; None if it no longer exists."""
    owner = None if node.owner is None else node.owner()
    return owner.tensor() if isinstance(owner, Leaf) else owner


def note_flag(target: Any) -> None:
    """Records that a gradient is requested: a capture holds while the tensor requires one, even if nothing reads the gradient."""
    trace = current.trace
    if trace is not None and target._serial <= trace.began:
        trace.on_attribute(target, "requires_grad", True)


def mark_as_siblings(tensors: Iterable[Any]) -> None:
    """Tensors from one backward pass: reading one computes all that are alive, in one plan, instead of the
    whole pass again for each.
    """
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
        else:  # other references to the gradient see it grow
            before._assign(before._node + grad._node, "backward")
    if owner._hook_ids:
        for hook in list(owner._node.hooks.after.values()):
            hook(owner)
