"""The autograd graph: its nodes and edges, hooks on several gradients, and contexts for hooks on saved tensors.

Operations save no tensors when they run: a backward pass computes what it needs from the graph. So hooks on saved tensors apply to
`Function.save_for_backward` only. Reference: https://pytorch.org/docs/stable/autograd.html#autograd-graph
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..arguments import checked
from ..errors import ArgumentError, AutogradError
from ..graph.node import mode as recording
from ..tensor import GradFn as Node
from ..tensor import GradientEdge, RemovableHandle, Tensor
from .saving import hooks

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


@checked
def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The place of a tensor in the graph: (node, output_nr). autograd.grad and backward take it in the tensor's place, as input.

    Raises AutogradError for a tensor that requires no gradient.

    >>> x = sg.ones(2, requires_grad=True)
    >>> y = x * 2
    >>> sg.autograd.grad(y.sum(), sg.autograd.graph.get_gradient_edge(x))
    (tensor([2., 2.]),)
    """
    if not tensor.requires_grad:
        raise AutogradError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(Node(tensor._node), 0)


@checked
def increment_version(tensor: Any) -> None:
    """Does nothing: a backward pass uses the values that operations read, and later writes do not change them.

    >>> sg.autograd.graph.increment_version(sg.ones(1))
    """


class _MultiHandle(RemovableHandle):
    """Takes several hooks out."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks out."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Call fn in each backward pass: with mode 'all' once all gradients of the tensors are there, with 'any' at the first.

    'all': fn(list of gradients), None for those that the pass does not reach; 'any': fn(gradient). It changes no gradients. Raises
    ArgumentError for another mode. handle.remove() ends it.

    >>> a, b = sg.ones(1, requires_grad=True), sg.ones(1, requires_grad=True)
    >>> _ = sg.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print([g is not None for g in grads]))
    >>> (a * b).backward()
    [True, True]
    >>> (a * 2).backward()
    [True, False]
    """
    if mode not in ("all", "any"):
        raise ArgumentError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    state: dict[str, Any] = {"pass": None, "found": {}}

    def on_gradient(k: int, g: Tensor) -> None:
        nodes = recording.visiting
        if state["pass"] is not nodes:
            state.update({"pass": nodes, "found": {}})
        found = state["found"]
        found[k] = g if mode == "all" else None
        if mode == "any":
            if len(found) == 1:
                fn(g)
        elif len(found) == sum(nodes is None or id(t._node) in nodes for t in tensors):
            fn([found.get(j) for j in range(len(tensors))])
            state.update({"pass": None, "found": {}})

    return _MultiHandle(
        [
            t.register_hook(lambda g, k=k: on_gradient(k, g))
            for k, t in enumerate(tensors)
            if mode == "all" or t.requires_grad
        ]
    )


class saved_tensors_hooks:
    """A context in which Function.save_for_backward keeps pack_hook(tensor), and its backward gets unpack_hook of that.

    Other operations save no tensors that hooks could see, as a warning says once. Raises AutogradError within
    disable_saved_tensors_hooks.

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> class Square(sg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return 2 * ctx.saved_tensors[0] * g
    >>> x = sg.tensor([3.0], requires_grad=True)
    >>> with sg.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda values: sg.tensor(values)):
    ...     y = Square.apply(x)
    >>> y.backward()
    >>> x.grad
    tensor([6.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if hooks.refusal is not None:
            raise AutogradError(hooks.refusal)
        _warn_once(
            "saved_tensors_hooks sees what Function.save_for_backward is given. Other operations save no tensors: what backward() needs is "
            "computed from the graph, or kept by its plan."
        )
        hooks.stack.append((self.pack_hook, self.unpack_hook))

    def __exit__(self, *_: object) -> None:
        hooks.stack.pop()


class save_on_cpu:
    """A context that changes nothing, as a warning says once: saved values stay on the device. sg.checkpoint saves memory.

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> with sg.autograd.graph.save_on_cpu():
    ...     y = sg.ones(2) * 2
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        self.pin_memory, self.device_type = pin_memory, device_type

    def __enter__(self) -> None:
        _warn_once(
            "save_on_cpu moves nothing: what backward() needs stays on the device. Hint: checkpoint computes it again instead."
        )

    def __exit__(self, *_: object) -> None:
        return


_said: set[str] = set()  # each warning is given once


def _warn_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A context in which saved_tensors_hooks raises AutogradError with the message; as PyTorch, also where they are active.

    >>> with sg.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     y = sg.ones(2) * 2
    """
    if hooks.stack:
        raise AutogradError(error_message)
    before, hooks.refusal = hooks.refusal, error_message
    try:
        yield
    finally:
        hooks.refusal = before


class _AllowMutation:
    """What allow_mutation_on_saved_tensors gives."""

    def clear(self) -> None:
        """Nothing to clear."""


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutation]:
    """A context that does nothing: a backward pass uses the values that operations read, and later writes do not change them.

    >>> with sg.autograd.graph.allow_mutation_on_saved_tensors() as context:
    ...     context.clear()
    """
    yield _AllowMutation()
