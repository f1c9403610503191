"""Hooks of optimizers: functions that run before and after a step, a state_dict and a load_state_dict.

A step's hook is Python: in a compiled step it runs once, during capture, and its operations become part of the
step. Registering or removing one compiles the step again. Names and arguments: torch.optim.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..drive import tracing
from ..tensor.hooks import RemovableHandle
from .checks import OptimizerError

StepHook = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
Table = dict[int, Any]

_ids = iter(range(1, 1 << 62)).__next__
_before_all: Table = {}  # the hooks of all optimizers' steps
_after_all: Table = {}


def _noted() -> None:
    tracing.changes += 1


def register(table: Table, hook: Any, prepend: bool = False) -> RemovableHandle:
    """Add a hook at the end of a table, or at its front."""
    key = _ids()
    rest = dict(table) if prepend else {}
    if prepend:
        table.clear()
    table[key] = hook
    table.update(rest)
    _noted()
    return RemovableHandle(table, key, _noted)


def register_optimizer_step_pre_hook(hook: StepHook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) before every step of every optimizer. Returns a handle with remove()."""
    return register(_before_all, hook)


def register_optimizer_step_post_hook(hook: StepHook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) after every step of every optimizer. Returns a handle with remove()."""
    return register(_after_all, hook)


class Hooks:
    """The hooks of one optimizer."""

    _optimizer_step_pre_hooks: Table
    _optimizer_step_post_hooks: Table
    _optimizer_state_dict_pre_hooks: Table
    _optimizer_state_dict_post_hooks: Table
    _optimizer_load_state_dict_pre_hooks: Table
    _optimizer_load_state_dict_post_hooks: Table
    _is_stepping = False
    _opt_called: bool

    def _begin_hooks(self) -> None:
        for name in Hooks.__annotations__:
            if name.endswith("_hooks"):
                self.__dict__.setdefault(name, {})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("step")
        if callable(own) and not hasattr(own, "hooked"):
            cls.step = hooked(own)

    def register_step_pre_hook(self, hook: StepHook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step; args begins with the optimizer. A pair that it returns takes the
        place of both. Returns a handle with remove().

        >>> w = sg.ones(1, requires_grad=True)
        >>> optimizer = sg.optim.SGD([w], lr=0.5)
        >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
        >>> optimizer.step()
        before
        """
        return register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: StepHook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step. Returns a handle with remove()."""
        return register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[[Any], None], prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) before each state_dict(). Returns a handle with remove()."""
        return register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Any, dict[str, Any]], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer, state_dict) with the result of each state_dict(); its result, unless None, replaces it."""
        return register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Any, dict[str, Any]], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before each load_state_dict(); its result, unless None, is loaded instead."""
        return register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[[Any], None], prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) after each load_state_dict(). Returns a handle with remove()."""
        return register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    @property
    def _step_hooks(self) -> tuple[int, ...]:
        """The hooks that a step runs, on which a compiled step depends."""
        tables = (_before_all, self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks, _after_all)
        return tuple(key for table in tables for key in table)


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step with the hooks around it, called once if one step calls another's."""

    @functools.wraps(step)
    def stepped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            self._is_stepping or "_optimizer_step_pre_hooks" not in self.__dict__
        ):  # the step of a wrapper, which calls another one
            return step(self, *args, **kwargs)
        if tracing.current.trace is not None:
            tracing.current.trace.on_attribute(self, "_step_hooks", self._step_hooks)
        args = (self, *args)
        for hook in [*_before_all.values(), *self._optimizer_step_pre_hooks.values()]:
            result = hook(self, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise OptimizerError(
                        f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                args, kwargs = result
        self._is_stepping = True
        try:
            found = step(*args, **kwargs)
        finally:
            self._is_stepping = False
        self._opt_called = True
        for hook in [*self._optimizer_step_post_hooks.values(), *_after_all.values()]:
            hook(self, args, kwargs)
        return found

    stepped.hooked = True  # type: ignore[attr-defined]
    return stepped
