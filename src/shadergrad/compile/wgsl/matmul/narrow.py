"""A multiplication of a few rows with windows, such as a convolution to the three colours of an image: a thread computes a whole column.

No other thread needs the elements of the right operand that it reads. The whole left operand is in workgroup memory.
"""

from __future__ import annotations

from ....graph.index import ZERO, number, variable
from ....symbolic_sizes import divides
from ...kernel import store_results
from ..functions import narrowed
from .product import ProductWriter


def declaration(w: ProductWriter) -> str:
    """The left operand in workgroup memory; "" for other kinds of multiplication."""
    return "" if w.choice.method != "narrow" else f"var<workgroup> rows: array<{_column(w)}, {w.k}>;\n"


def _column(w: ProductWriter) -> str:
    """The type of a thread's results."""
    return f"vec{w.m}<{w.element}>" if w.m > 1 else w.element


def columns(w: ProductWriter) -> None:
    """Loads all of the left operand into workgroup memory, then loops over the windows; each window is unrolled."""
    t, r = w.tile, w.r
    a, b = w.dot.inputs
    kind = _column(w)
    r.open("at")
    with w.single():
        parts = [r.pull(a, w.index.left(number(i), variable("at", w.k))) for i in range(w.m)]
    r.line(f"rows[at] = {kind}({', '.join(parts)});")
    w.close_loop(f"for (var at = id; at < {w.k}; at += {t.threads})")
    r.line("workgroupBarrier();")
    exact = divides(t.bn, w.columns)
    column = w.clamped("n0 + id", w.columns, exact, "column")[0]
    r.line(f"var c = {kind}();")
    r.open("channel")
    for place in range(w.window):
        k = variable("channel", w.k // w.window) * w.window + place
        with w.single():
            value = r.pull(b, w.index.right(column, k))
        left = f"rows[channel * {w.window} + {place}]"
        r.line(f"c = fma({kind}({value}), {left}, c);" if w.is_float else f"c = c + {value} * {left};")
    w.close_loop(f"for (var channel = 0; channel < {w.k // w.window}; channel++)")
    if not exact:
        r.line(f"if (n0 + id >= {w.columns}) {{ return; }}")
    batch, _, n = w.index.right(column, ZERO)
    for i in range(w.m):
        value = narrowed(f"c[{i}]" if w.m > 1 else "c", w.dot.dtype, False)
        store_results(r, w.group, w.dot, value, (batch * w.m + i) * w.n + n)
