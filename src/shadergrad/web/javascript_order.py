"""JavaScript functions of operations along an axis: sorting, cumulative sums, and scatter reductions.

In: the layout of the operands, and a primitive's parameters. Out: the source of a function of the arrays o, A and, with positions, P.
"""

from __future__ import annotations

from collections.abc import Sequence

from .javascript_view import View

# NaN is the largest; JavaScript's sort is stable
COMPARED = (
    "(p, q) => { const x = key(p), y = key(q); return x < y ? -1 : x > y ? 1 : x === y ? 0 : (x !== x) - (y !== y); }"
)
REDUCED = {"prod": ("1", "{} * a"), "amax": ("{low}", "Math.max({}, a)"), "amin": ("{high}", "Math.min({}, a)")}
INFINITE = {"low": "-Infinity", "high": "Infinity"}
LIMITS = {  # of dtypes without infinities
    "int32": {"low": "-2147483648", "high": "2147483647"},
    "uint32": {"low": "0", "high": "4294967295"},
}


def argsort(out: View, a: View, axis: int, descending: bool) -> str:
    """The positions that sort, as NumPy's stable argsort gives them."""
    index = indices(out.shape)
    n = a.shape[axis]
    from_place, into = ([*index[:axis], name, *index[axis + 1 :]] for name in ("p", "k"))
    before = "before(q, p)" if descending else "before(p, q)"
    return f"""(o, A) => {{ {loops_without(out.shape, axis)} {{
    const key = (p) => A[{a.at(from_place)}], before = {COMPARED};
    const order = Array.from({{ length: {n} }}, (_, p) => p).sort((p, q) => {before});
    for (let k = 0; k < {n}; k++) o[{out.at(into)}] = order[k];
  }} }}"""


def running_sum(out: View, a: View, back: bool) -> str:
    """Sums along rows of two axes, from the first on, or from the last on if `back`."""
    count, n = out.shape
    there = ["i0" if count > 1 else "0", "k"]
    along = f"let k = {n - 1}; k >= 0; k--" if back else f"let k = 0; k < {n}; k++"
    return f"(o, A) => {{ {loops((count, 1))} {{ let s = 0; for ({along}) {{ s += A[{a.at(there)}]; o[{out.at(there)}] = s; }} }} }}"


def scatter_reduce(out: View, places: View, a: View, axis: int, reduction: str, dtype: str) -> str:
    """The reductions of all elements with the same position."""
    index = indices(a.shape)
    at = out.at([*index[:axis], f"P[{places.at(index)}]", *index[axis + 1 :]])
    first, term = REDUCED[reduction]
    if dtype in LIMITS and reduction == "prod":
        term = "Math.imul({}, a)"
    begin = first.format(**LIMITS.get(dtype, INFINITE))
    body = f"const a = A[{a.at(index)}], at = {at}; o[at] = {term.format('o[at]')};"
    return f"(o, P, A) => {{ o.fill({begin}); {loops(a.shape)} {{ {body} }} }}"


def indices(shape: Sequence[int]) -> list[str]:
    """The index of an element in its loops."""
    return ["0" if n == 1 else f"i{k}" for k, n in enumerate(shape)]


def loops(shape: Sequence[int]) -> str:
    """Loops over all axes of more than one element."""
    return " ".join(f"for (let i{k} = 0; i{k} < {n}; i{k}++)" for k, n in enumerate(shape) if n != 1)


def loops_without(shape: Sequence[int], axis: int) -> str:
    """Loops over all axes but one."""
    return loops(tuple(1 if k == axis else n for k, n in enumerate(shape)))
