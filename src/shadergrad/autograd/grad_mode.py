"""Contexts that switch recording for backward on and off."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..arguments import check_constructors, checked
from ..graph.node import mode


class _GradContext:
    """A context manager and a decorator."""

    enabled = True

    def __new__(cls, function: Any = None, *args: Any, **options: Any) -> Any:
        made = super().__new__(cls)
        if function is not None and not isinstance(function, bool) and callable(function):  # @no_grad without brackets
            made.__init__()
            return made(function)
        return made

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
    """Disable recording for backward: `with sg.no_grad():` or `@sg.no_grad()`.

    >>> w = sg.ones(2, requires_grad=True)
    >>> with sg.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    enabled = False


class inference_mode(_GradContext):
    """The same as no_grad. PyTorch's version also saves bookkeeping, which does not exist here.

    mode: False records, as enable_grad.

    >>> w = sg.ones(2, requires_grad=True)
    >>> with sg.inference_mode():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.enabled = not mode


class enable_grad(_GradContext):
    """Enable recording inside no_grad; a context or a decorator.

    >>> w = sg.ones(2, requires_grad=True)
    >>> with sg.no_grad(), sg.enable_grad():
    ...     y = w * 2
    >>> y.requires_grad
    True
    """

    enabled = True


class set_grad_enabled(_GradContext):
    """Enable or disable recording by a flag: from the call on, within `with`, or within a decorated function.

    >>> with sg.set_grad_enabled(False):
    ...     sg.is_grad_enabled()
    False
    """

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


@checked
def is_grad_enabled() -> bool:
    """Whether operations are recorded for backward.

    >>> sg.is_grad_enabled()
    True
    """
    return mode.grad


check_constructors(no_grad, inference_mode, enable_grad, set_grad_enabled)


@checked
def is_inference_mode_enabled() -> bool:
    """Whether nothing is recorded for backward; inference_mode is no_grad here.

    >>> sg.is_inference_mode_enabled()
    False
    """
    return not mode.grad
