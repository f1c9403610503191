"""How a program uses a name that it looks up: whether it only tests that the name exists, or decorates with it.

In: the frame that looks up a name. Out: the use, from the frame's current instruction and from the source around it.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass, field
from functools import cache
from types import FrameType

from ..cpython import instruction_at, is_calling, span_at

CATCHING = {
    "import": {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"},
    "attribute": {"AttributeError", "Exception", "BaseException"},
}
Span = tuple[int, int, int, int]  # first line, last line, first column, last column


@dataclass
class _Source:
    """A source file: the lines that each try statement protects, with the exceptions that it catches, and the positions of decorators."""

    protected: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    functions: list[tuple[int, int]] = field(default_factory=list)
    decorators: dict[Span, bool] = field(default_factory=dict)  # whether the decorator is a call


def asks_whether(frame: FrameType, how: str) -> bool:
    """Whether the frame only tests that a name exists: by hasattr or getattr, or in a try statement that catches the error.

    how: "import" or "attribute".
    """
    if is_calling(frame):
        return True
    source, line = _source(frame.f_code.co_filename), frame.f_lineno
    around = [f for f in source.functions if f[0] <= line <= f[1]]
    inmost = max((first for first, _ in around), default=0)
    return any(
        first <= line <= last
        and first >= inmost
        and caught & CATCHING[how]  # a try statement around a function protects its definition, not its calls
        for first, last, caught in source.protected
    )


def decorates(frame: FrameType) -> str | None:
    """Whether the call that the frame makes is a decorator's: "applied" (`@name`), "made" (`@name(...)`), or None."""
    span = span_at(frame.f_code, instruction_at(frame))
    is_call = _source(frame.f_code.co_filename).decorators.get(span) if span else None
    return None if is_call is None else "made" if is_call else "applied"


@cache
def _source(path: str) -> _Source:
    found = _Source()
    text = "".join(linecache.getlines(path))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            found.protected.append((node.body[0].lineno, _end(node.body[-1]), _caught(node)))
        elif isinstance(node, ast.With) and any(_suppresses(item.context_expr) for item in node.items):
            names = frozenset(n for i in node.items for a in getattr(i.context_expr, "args", []) for n in _names(a))
            found.protected.append((node.body[0].lineno, _end(node.body[-1]), names))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.functions.append((node.body[0].lineno, _end(node)))
        for decorator in getattr(node, "decorator_list", []):
            span = (decorator.lineno, _end(decorator), decorator.col_offset, decorator.end_col_offset or 0)
            found.decorators[span] = isinstance(decorator, ast.Call)
    return found


def _end(node: ast.AST) -> int:
    return getattr(node, "end_lineno", None) or getattr(node, "lineno", 0)


def _caught(node: ast.Try) -> frozenset[str]:
    """The names of the exceptions that a try statement catches; a bare except catches BaseException."""
    return frozenset(name for h in node.handlers for name in (["BaseException"] if h.type is None else _names(h.type)))


def _names(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Tuple):
        return [name for element in node.elts for name in _names(element)]
    return [node.attr] if isinstance(node, ast.Attribute) else [node.id] if isinstance(node, ast.Name) else []


def _suppresses(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _names(node.func) == ["suppress"]
