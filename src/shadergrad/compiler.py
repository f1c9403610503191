"""torch.compiler's names. This library needs none of their information. To compile a function, use sg.compile."""

from __future__ import annotations

from typing import Any


def is_compiling() -> bool:
    """False: a capture runs the same code.

    >>> sg.compiler.is_compiling()
    False
    """
    return False


def disable(fn: Any = None, recursive: bool = True, **kwargs: Any) -> Any:
    """The function itself; also as @disable(). Inside a compiled step it is captured as all else is.

    >>> sg.compiler.disable(sg.exp) is sg.exp
    True
    """
    return (lambda f: f) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself.

    >>> sg.compiler.allow_in_graph(sg.exp) is sg.exp
    True
    """
    return fn


def reset() -> None:
    """Nothing.

    >>> sg.compiler.reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Nothing.

    >>> sg.compiler.cudagraph_mark_step_begin()
    """


__all__ = ["allow_in_graph", "cudagraph_mark_step_begin", "disable", "is_compiling", "reset"]
