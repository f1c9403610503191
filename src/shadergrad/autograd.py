"""Gradients as functions: sg.autograd.grad, and the contexts that switch recording."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .errors import AutogradError
from .graph import autodiff
from .graph.node import mode
from .tensor import Tensor, _cotangent


class _GradContext:
    """A context manager and a decorator."""

    enabled = True

    def __init__(self) -> None:
        self._before: list[bool] = []  # a stack, for one object may be entered again while inside

    def __enter__(self) -> None:
        self._before.append(mode.grad)
        mode.grad = self.enabled

    def __exit__(self, *_: object) -> None:
        mode.grad = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


class no_grad(_GradContext):
    """Nothing inside needs gradients: `with sg.no_grad():` or `@sg.no_grad()`."""

    enabled = False


class enable_grad(_GradContext):
    """Recording on again, inside no_grad."""

    enabled = True


class set_grad_enabled(_GradContext):
    """Recording on or off, by a flag: from the call on, or within `with`, or within a decorated function."""

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        self.enabled = enabled
        self._made_under: bool | None = mode.grad
        mode.grad = enabled

    def __enter__(self) -> None:
        self._before.append(mode.grad if self._made_under is None else self._made_under)
        self._made_under = None
        mode.grad = self.enabled

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self._made_under is not None:  # as a decorator it acts in the function only
            mode.grad = self._made_under
            self._made_under = None
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether operations are recorded for backward."""
    return mode.grad


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """d(sum of outputs . grad_outputs) / d(inputs), without touching .grad."""
    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    cotangents = (
        [None] * len(outs)
        if grad_outputs is None
        else [grad_outputs]
        if isinstance(grad_outputs, Tensor)
        else list(grad_outputs)
    )
    for x in ins:
        if not x.requires_grad:
            raise AutogradError("One of the differentiated Tensors does not require grad")
    found = autodiff.backward(
        [o._node for o in outs],
        [_cotangent(o, g) for o, g in zip(outs, cotangents, strict=True)],
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=[x._node for x in ins],
    )
    result: list[Tensor | None] = []
    for x in ins:
        pair = found.get(id(x._node))
        if pair is None and not allow_unused:
            raise AutogradError(
                "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
            )
        result.append(None if pair is None else Tensor._of(pair[1]))
    return tuple(result)
