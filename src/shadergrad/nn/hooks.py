"""Hooks: functions that a module calls around its forward and backward pass.

Nothing has been computed when a hook runs: it sees pending tensors, whose values it may read, keep or replace.
In a compiled step a hook runs once, while the step is captured, and what it computes becomes part of the step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..drive.tracing import current
from ..graph.node import mode
from ..tensor import RemovableHandle, Tensor, joint
from .errors import ModuleError

FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD = "forward pre", "forward", "backward pre", "backward"

_ids = itertools.count()


class HookTables:
    """The hooks of a module by kind, in order: id to (function, whether it takes keyword arguments, always called)."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.tables: dict[str, dict[int, tuple[Callable[..., Any], bool, bool]]] = {
            kind: {} for kind in (FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD)
        }
        self.after_load: dict[int, Callable[..., Any]] = {}  # no part of a call

    def add(
        self, kind: str, hook: Callable[..., Any], prepend: bool, with_kwargs: bool = False, always: bool = False
    ) -> RemovableHandle:
        table = self.tables[kind]
        if current.trace is not None:
            current.trace.on_table(table)
        number = next(_ids)
        if prepend:
            others = list(table.items())
            table.clear()
            table[number] = (hook, with_kwargs, always)
            table.update(others)
        else:
            table[number] = (hook, with_kwargs, always)
        self._changed()
        return RemovableHandle(table, number, self._changed)

    def ids(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(t) for t in self.tables.values())

    def __bool__(self) -> bool:
        return any(self.tables.values())

    # -- the call

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """module.forward with all hooks around it."""
        called: set[int] = set()
        result: Any = None
        try:
            args, kwargs = self._before(module, args, kwargs)
            watch = _Watch(module, self) if self.tables[BACKWARD] or self.tables[BACKWARD_PRE] else None
            if watch is not None:
                args = watch.inputs(args)
            result = module.forward(*args, **kwargs)
            for number, (hook, with_kwargs, _) in list(self.tables[FORWARD].items()):
                called.add(number)
                changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
                result = result if changed is None else changed
        except Exception:
            for number, (hook, with_kwargs, always) in list(self.tables[FORWARD].items()):
                if always and number not in called:
                    hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
            raise
        return result if watch is None else watch.outputs(result)

    def _before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        for hook, with_kwargs, _ in list(self.tables[FORWARD_PRE].values()):
            if with_kwargs:
                changed = hook(module, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise ModuleError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(module, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs


class HookMethods:
    """The part of Module that registers hooks."""

    _hooks: HookTables

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """hook(module, args) before forward; what it returns, unless None, takes the place of args.

        with_kwargs: hook(module, args, kwargs), which returns None or (args, kwargs), else ModuleError. prepend: before
        the hooks that are there. In a compiled step hooks run once, while it is captured. handle.remove() ends it.
        """
        return self._hooks.add(FORWARD_PRE, hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """hook(module, args, output) after forward; what it returns, unless None, takes the place of the output.

        with_kwargs: hook(module, args, kwargs, output). always_call: also where forward raised, with output None.
        prepend: before the hooks that are there. In a compiled step hooks run once, while it is captured.
        handle.remove() ends it.
        """
        return self._hooks.add(FORWARD, hook, prepend, with_kwargs, always_call)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, incompatible_keys) after load_state_dict of the module, or of one that holds it.

        incompatible_keys: (missing_keys, unexpected_keys), lists that it may change. handle.remove() ends it.
        """
        number = next(_ids)
        self._hooks.after_load[number] = hook
        return RemovableHandle(self._hooks.after_load, number, self._hooks._changed)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) when backward() has been through the module.

        Both are tuples: gradients of the positional arguments and of the output tensors, None where there is none.
        A tuple that it returns takes the place of grad_input. It runs while backward() records, so the gradients are
        pending; reading one (print, item()) computes it then. In a compiled step it runs once, when the step is
        captured, and must not read. prepend: before the hooks that are there. handle.remove() ends it.
        """
        return self._hooks.add(BACKWARD, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) before backward() goes through; what it returns takes the place of grad_output.

        grad_output is a tuple; pending as in register_full_backward_hook. handle.remove() ends it.
        """
        return self._hooks.add(BACKWARD_PRE, hook, prepend)


class _Watch:
    """The backward hooks of one call: gradients of all outputs meet, then those of all inputs."""

    def __init__(self, module: Any, hooks: HookTables) -> None:
        self.module = module
        self.hooks = hooks
        self.n_inputs = 0
        self.has_input_grads = False
        self.grad_output: tuple[Tensor | None, ...] | None = None  # while a backward pass is between the two

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.n_inputs = len(args)
        replaced = _rewired(args, self._on_inputs)
        self.has_input_grads = replaced is not None
        return args if replaced is None else tuple(replaced)

    def outputs(self, result: Any) -> Any:
        is_sequence = isinstance(result, tuple | list)
        replaced = _rewired(tuple(result) if is_sequence else (result,), self._on_outputs)
        if replaced is None:
            return result
        if not is_sequence:
            return replaced[0]
        return type(result)(*replaced) if hasattr(result, "_fields") else type(result)(replaced)

    def _on_outputs(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        for hook, _, _ in list(self.hooks.tables[BACKWARD_PRE].values()):
            grads = _checked(hook(self.module, grads), grads, "Backward pre hook", "grad_output")
        self.grad_output = grads
        if not self.has_input_grads:
            self._on_inputs((None,) * self.n_inputs)
        return grads

    def _on_inputs(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        grad_output, self.grad_output = self.grad_output, None
        if grad_output is None:  # a second derivative that comes from within: as in PyTorch, not the hook's business
            return grads
        for hook, _, _ in list(self.hooks.tables[BACKWARD].values()):
            grads = _checked(hook(self.module, grads, grad_output), grads, "Backward hook", "grad_input")
        return grads


def _rewired(values: tuple[Any, ...], on_grads: Callable[..., tuple[Tensor | None, ...]]) -> list[Any] | None:
    """`values` with the tensors that require grad exchanged for aliases; on_grads sees the gradients of all values,
    None where there is none, and may replace them. None where no value requires grad."""
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
