"""Counts the loop iterations of a kernel in its source, and refuses more than a device allows.

A software rasteriser leaves every loop of an invocation once its loops have made 65,535 iterations together (Mesa's
LP_MAX_TGSI_LOOP_ITERATIONS). It drops the remaining iterations silently, and nested loops count, too. So choices keep all loops of a
kernel below MOST_ITERATIONS on every target, and `check` refuses a kernel that such a device would cut short (`Traits.limits_iterations`).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from ..errors import CompileError
from ..symbolic_sizes import MARK

MOST_ITERATIONS = 60000  # iterations of all loops of an invocation: slightly below the smallest known limit

# loops whose end depends on data: the beginning of each, and its maximum number of iterations
OF_DATA = {
    "while (y != 0u)": 48,  # Euclid's algorithm on 32 bits: the golden ratio's powers
    "while (steps >= 8)": 34,  # sg_fmod: exponents differ by at most 276
    "while (exponent > 0)": 32,
    "while (exponent > 0u)": 33,
    "while (low < high)": 33,  # halving
    "for (var j = first + i32(lid)": 32768,  # sorting.SegmentSum, which uses enough threads (LONGEST_LOOP)
}
HEAD = re.compile(r"\b(for|while|loop)\b\s*([({])")
FUNCTION = re.compile(r"\bfn (\w+)\(")
LET = re.compile(r"\b(?:let|const|var) (\w+)(?:: \w+)? = ([^;]+);")


def check(source: str, name: str) -> None:
    """Raises CompileError, which names the kernel, if its loops make more iterations than such a device allows per invocation."""
    found = iterations_of(source)
    if found > MOST_ITERATIONS:
        raise CompileError(
            f"[{name}] the loops of one invocation make {found:,} iterations; this device, a rasteriser in software, silently stops "
            f"after 65,535. Hint: compute it in parts, along the longest axis, or on another device."
        )


@lru_cache(maxsize=4096)
def iterations_of(source: str) -> int:
    """An upper bound of the iterations of all loops of an invocation. A loop whose end is not known from the text counts once."""
    if not HEAD.search(source):
        return 0
    bodies = _functions(re.sub(r"//[^\n]*", "", source.replace(MARK, "")))
    known: dict[str, int] = {}
    return (
        _of_function("main", bodies, known) if "main" in bodies else sum(_of_function(f, bodies, known) for f in bodies)
    )


@lru_cache(maxsize=4096)
def _iterations_of_functions(names: tuple[str, ...], library: tuple[str, ...]) -> int:
    bodies = _functions("".join(library))
    known: dict[str, int] = {}
    return sum(_of_function(name, bodies, known) for name in names)


def iterations_within(expression: str, library: Mapping[str, str]) -> int:
    """The loop iterations in the functions of `library` (name to text) that an expression calls."""
    names = tuple(n for n in re.findall(r"sg_\w+", expression) if n in library)
    return _iterations_of_functions(names, tuple(library.values())) if names else 0


def _functions(source: str) -> dict[str, str]:
    """The bodies of functions, by name."""
    found = {}
    for match in FUNCTION.finditer(source):
        start = source.index("{", _closing(source, match.end() - 1))
        found[match[1]] = source[start + 1 : _closing(source, start)]
    return found


def _closing(text: str, at: int) -> int:
    """The position of the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] in "({") - (text[place] in ")}")
        if not depth:
            return place
    return len(text)


def _of_function(name: str, bodies: dict[str, str], known: dict[str, int]) -> int:
    if name not in known:
        known[name] = 0
        known[name] = _of_text(bodies[name], bodies, known, dict(LET.findall(bodies[name])))
    return known[name]


def _of_text(text: str, bodies: dict[str, str], known: dict[str, int], lets: dict[str, str]) -> int:
    total = 0
    outside = []
    end = 0
    for head, inner, start, stop in _loops(text):
        outside.append(text[end:start])
        end = stop
        # plus one, for the test that ends the loop
        total += (_most(head, lets) + 1) * (1 + _of_text(inner, bodies, known, lets))
    outside.append(text[end:])
    calls = re.findall(r"\b(\w+)\(", "".join(outside))
    return total + sum(_of_function(c, bodies, known) for c in calls if c in bodies)


def _loops(text: str) -> Iterator[tuple[str, str, int, int]]:
    """The outermost loops: head, body, start and end."""
    at = 0
    while match := HEAD.search(text, at):
        opening = match.end() - 1
        if match[2] == "(":
            closing = _closing(text, opening)
            head = text[match.start() : closing + 1]
            opening = text.index("{", closing)
        else:
            head = "loop"
        stop = _closing(text, opening)
        yield head, text[opening + 1 : stop], match.start(), stop
        at = stop


def _most(head: str, lets: dict[str, str]) -> int:
    """The most iterations of a loop with this head; 1 if the text does not tell."""
    for key, most in OF_DATA.items():
        if head.startswith(key):
            return most
    parts = re.fullmatch(
        r"for \((?:var (\w+)(?:: \w+)? = ([^;]*))?; ?(\w+) < ([^;]*); ?\w+ ?(\+\+|\+=|\*=) ?([^)]*)\)", head, flags=re.S
    )
    if parts is None:
        return 1
    _, start, _, limit, change, by = parts.groups()
    step = 1 if change == "++" else _bound(by, lets, least=True)
    span = _span(start, limit, lets)
    if span is None or step is None or step < 1:
        return 1
    if change == "*=":
        return max(span, 1).bit_length()
    return max(0, math.ceil(span / step))


def _span(start: str | None, limit: str, lets: dict[str, str]) -> int | None:
    """The largest difference between the start and the end of a loop."""
    beyond = re.fullmatch(r"(\w+)( / \d+)?", limit.strip())
    by = beyond[2] or "" if beyond is not None else ""
    whole = lets.get(beyond[1], limit) if beyond is not None else limit
    after = re.fullmatch(r"min\((\w+) \+ (\d+)u?, .*\)", whole.strip())
    if start is not None and after is not None and after[1] + by == start.strip():
        return int(after[2]) // int(by[3:] or 1)
    high = _bound(limit, lets)
    low = None if start is None else _bound(start, lets, least=True)
    return None if high is None else high - max(low or 0, 0)


def _bound(text: str, lets: dict[str, str], *, least: bool = False, depth: int = 8) -> int | None:
    """An upper, or lower, bound of an expression; None if none is known."""
    try:
        tree = ast.parse(re.sub(r"(\d)[ui]\b", r"\1", text.strip()), mode="eval").body
    except SyntaxError:
        return None
    return _of_tree(tree, lets, least, depth)


def _of_tree(node: ast.expr, lets: dict[str, str], least: bool, depth: int) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return _bound(lets[name], lets, least=least, depth=depth - 1) if name in lets and depth else None
        case ast.Call(func=ast.Name(id="i32" | "u32"), args=[inner]):
            return _of_tree(inner, lets, least, depth)
        case ast.Call(func=ast.Name(id="min"), args=args) if not least:
            return min((n for n in (_of_tree(a, lets, False, depth) for a in args) if n is not None), default=None)
        case ast.BinOp(left=a, op=op, right=b):
            x, y = _of_tree(a, lets, least, depth), _of_tree(b, lets, least != isinstance(op, ast.Sub | ast.Div), depth)
            if x is None or y is None:
                return None
            match op:
                case ast.Add():
                    return x + y
                case ast.Sub():
                    return x - y
                case ast.Mult():
                    return x * y
                case ast.Div() if y:
                    return x // y
    return None
