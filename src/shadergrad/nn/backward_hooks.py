"""Hooks of a module's backward pass: they get the gradients of all outputs at once, then those of all inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..graph.node import mode
from ..tensor import Tensor, joint
from .errors import ModuleError


class Watch:
    """The backward hooks of one call: collects the gradients of all outputs, then those of all inputs."""

    def __init__(self, module: Any, before: list[Callable[..., Any]], after: list[Callable[..., Any]]) -> None:
        self.module = module
        self.before = before
        self.after = after
        self.n_inputs = 0
        self.has_input_grads = False
        self.grad_output: tuple[Tensor | None, ...] | None = None  # set between outputs and inputs

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.n_inputs = len(args)
        replaced = _rewired(args, self._on_inputs)
        self.has_input_grads = replaced is not None
        return args if replaced is None else tuple(replaced)

    def outputs(self, result: Any) -> Any:
        is_sequence = isinstance(result, tuple | list)
        if not is_sequence and not isinstance(result, Tensor):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=4,
            )
        replaced = _rewired(tuple(result) if is_sequence else (result,), self._on_outputs)
        if replaced is None:
            return result
        if not is_sequence:
            return replaced[0]
        return type(result)(*replaced) if hasattr(result, "_fields") else type(result)(replaced)

    def _on_outputs(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        for hook in self.before:
            grads = _checked(hook(self.module, grads), grads, "Backward pre hook", "grad_output")
        self.grad_output = grads
        if not self.has_input_grads:
            found = self._on_inputs((None,) * self.n_inputs)
            if any(g is not None for g in found):
                raise ModuleError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for all gradients."
                )
        return grads

    def _on_inputs(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        grad_output, self.grad_output = self.grad_output, None
        if grad_output is None:  # a second derivative from within the module: as in PyTorch, the hook does not get it
            return grads
        for hook in self.after:
            grads = _checked(hook(self.module, grads, grad_output), grads, "Backward hook", "grad_input")
        return grads


def _rewired(values: tuple[Any, ...], on_grads: Callable[..., tuple[Tensor | None, ...]]) -> list[Any] | None:
    """`values` with aliases in place of the tensors that require grad; on_grads gets the gradients of all values,
    None for those without, and may replace them. None if no value requires grad.
    """
    places = [k for k, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
    if not places or not mode.grad:
        return None

    def backward(grads: Any) -> list[Tensor | None]:
        full: list[Tensor | None] = [None] * len(values)
        for k, g in zip(places, grads, strict=True):
            full[k] = g
        replaced = on_grads(tuple(full))
        return [replaced[k] for k in places]

    result = list(values)
    aliases = joint([values[k] for k in places], [values[k].detach() for k in places], backward)
    for k, alias in zip(places, aliases, strict=True):
        result[k] = alias
    return result


def _checked(changed: Any, grads: tuple[Any, ...], who: str, what: str) -> tuple[Any, ...]:
    """What a backward hook returned, as one gradient for each of `grads`."""
    if changed is None:
        return grads
    found = changed if isinstance(changed, tuple) else (changed,)
    if len(found) != len(grads):
        raise ModuleError(f"{who} returned an invalid number of {what}, got {len(found)}, but expected {len(grads)}")
    for new, old in zip(found, grads, strict=True):
        if isinstance(new, Tensor) and old is not None and new.shape != old.shape:
            raise ModuleError(f"{who} returned a {what} of shape {list(new.shape)}, expected {list(old.shape)}.")
    return found
