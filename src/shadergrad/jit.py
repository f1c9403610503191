"""torch.jit's names, for programs that decorate with them: functions and modules are returned unchanged.

Use sg.compile to compile a function.
"""

from __future__ import annotations

from typing import Any


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The function, class or module itself.

    >>> @sg.jit.script
    ... def doubled(x):
    ...     return x * 2
    >>> doubled(sg.ones(1))
    tensor([2.])
    """
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function or module itself; nothing is run.

    >>> sg.jit.trace(sg.exp, sg.ones(1)) is sg.exp
    True
    """
    return func


def ignore(fn: Any = None, **kwargs: Any) -> Any:
    """The function itself; also as @ignore(drop=True).

    >>> sg.jit.ignore(sg.exp) is sg.exp
    True
    """
    return (lambda f: f) if fn is None or isinstance(fn, bool) else fn


def export(fn: Any) -> Any:
    """The function itself.

    >>> sg.jit.export(sg.exp) is sg.exp
    True
    """
    return fn


def is_scripting() -> bool:
    """False.

    >>> sg.jit.is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """False.

    >>> sg.jit.is_tracing()
    False
    """
    return False


unused = ignore

__all__ = ["export", "ignore", "is_scripting", "is_tracing", "script", "trace", "unused"]
