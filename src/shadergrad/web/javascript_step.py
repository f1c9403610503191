"""Exports a step as plain JavaScript on typed arrays: for browsers without a GPU, and for comparison with one.

In: a step node by node. Out: the source of a module whose `load(state)` returns `run(inputs)`. A run changes the arrays of `state` in
place. An out-of-range index throws an error whose `fault` is [number, index, size]. Reshapes, permutations,
broadcasts, slices and windows copy nothing: their strides are part of the loops. Every other operation is a loop of its own, as
in NumPy.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..extend import Spec
from ..graph.primitive import from_data
from ..plan import Label, Plan
from ..primitives.attention_tiles import keep_threshold, place_of_result
from ..run.portable import PortableStep
from .errors import WebError
from .javascript_order import argsort, indices, loops, running_sum, scatter_reduce
from .javascript_tables import ARRAYS, BINARY, HELPERS, OTHERWISE, OVER_ROWS, REDUCE, ROUNDED, SCORES, UNARY
from .javascript_view import View, collapsed, contiguous

MOST_UNROLLED = 16  # places of a window


def render(step: PortableStep, labels: Sequence[Label]) -> str:
    """The module. labels: of its outputs, of which two may be one array. Raises a WebError that names unsupported operations."""
    plan = step.plan
    kernels = [plan.kernels[d.kernel] for d in plan.dispatches]
    refuse_unknown({k.primitive for k in kernels})
    writer = Writer(plan.buffers)
    for row in plan.inputs:
        writer.array(row)
    for d in plan.dispatches:
        kernel = plan.kernels[d.kernel]
        writer.write(kernel.primitive, json.loads(kernel.parameters), *d.buffers)
    parts = writer.parts(dict(zip(keyed(plan), plan.inputs, strict=True)), plan.outputs, labels)
    newline, arrays = "\n", ",\n".join(a.text for a in writer.made).replace("new Float32Array(", "F(")
    return f"""// A training step, node by node, on typed arrays. Written by shadergrad.
{parts}
const F = (n) => new Float32Array(n);
const t = [
{arrays},
];
function nodes() {{
{newline.join(writer.calls)}
}}
export function load(state) {{
  for (const [key, at] of Object.entries(INPUTS)) if (state.has(key)) t[at] = state.get(key).data;
  return {{
    run(inputs) {{
      for (const [name, data] of Object.entries(inputs)) t[INPUTS[`argument/${{name}}`]]?.set(data);
      nodes();
      for (const [from, to] of CARRIED) t[to].set(t[from]);
      return Object.fromEntries(
        Object.entries(RESULTS).map(([name, [at, isArray]]) => [name, isArray ? t[at].slice() : t[at][0]]),
      );
    }},
  }};
}}
"""


def refuse_unknown(names: Collection[str]) -> None:
    """Raises a WebError for primitives without a JavaScript implementation."""
    unknown = {*names} - KNOWN
    if unknown:
        raise WebError(f"{', '.join(sorted(unknown))} cannot be written in JavaScript yet.")


def keyed(plan: Plan) -> list[str]:
    """The keys `role/name` of a plan's inputs."""
    return [f"{plan.buffers[row].role}/{plan.buffers[row].name}" for row in plan.inputs]


@dataclass
class Array:
    """A typed array of a module. then: statements after its creation."""

    kind: str
    size: int
    then: str = ""

    @property
    def text(self) -> str:
        return f"new {self.kind}({self.size}){self.then}"


class Writer:
    """Writes operations as functions of typed arrays, and calls of them. rows: shapes and dtypes of operands and results."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        self.views: dict[int, View] = {}
        self.functions: dict[str, str] = {}  # name by text
        self.made: list[Array] = []
        self.calls: list[str] = []
        self.preambles: dict[str, None] = {}  # of operations, in order

    def parts(self, inputs: Mapping[str, int], outputs: Sequence[int], labels: Sequence[Label]) -> str:
        """The beginning of a module: functions, and the arrays of its inputs, kept values and results. inputs: rows by key."""
        places = {key: self.views[row].memory for key, row in inputs.items()}
        carried, results = [], {}
        for row, (role, name) in zip(outputs, labels, strict=True):
            view, key = self.views[row], f"{role}/{name}"
            if role == "result":
                results[_short(name)] = [self.outside_inputs(view, places).memory, bool(view.shape)]
            elif key in places:
                carried.append([self.outside_inputs(view, places).memory, places[key]])
        functions = "\n".join(f"const {name} = {text};" for text, name in self.functions.items())
        helpers = ""
        for name, text in HELPERS.items():  # those that others call come last
            if f"{name}(" in helpers + functions:
                helpers = f"{text}\n{helpers}"
        preambles = "\n".join(self.preambles)
        return f"""{helpers}
{preambles}
{functions}
const INPUTS = {json.dumps(places)};
const CARRIED = {json.dumps(carried)};
const RESULTS = {json.dumps(results)};"""

    # -- arrays and loops

    def array(self, row: int) -> View:
        """A new array for a row."""
        spec = self.rows[row]
        self.views[row] = self.new(ARRAYS.get(spec.dtype.name, "Int32Array"), spec.shape)
        return self.views[row]

    def new(self, kind: str, shape: tuple[int, ...]) -> View:
        """A new array of a kind."""
        self.made.append(Array(kind, math.prod(shape)))
        return View(len(self.made) - 1, shape, contiguous(shape))

    def copied(self, view: View) -> View:
        """The same elements in a new array."""
        copy = self.new(self.made[view.memory].kind, view.shape)
        self.loop(copy, [view], "a")
        return copy

    def packed(self, view: View) -> View:
        """The same elements in row-major order, copied if they have another order."""
        whole = view.is_contiguous and self.made[view.memory].size == math.prod(view.shape)
        return view if whole else self.copied(view)

    def outside_inputs(self, view: View, inputs: Mapping[str, int]) -> View:
        """The same, copied if they are in an input's memory, which the end of a step overwrites."""
        return self.copied(view) if view.memory in inputs.values() else self.packed(view)

    def call(self, text: str, *views: View) -> None:
        name = self.functions.setdefault(text, f"f{len(self.functions)}")
        self.calls.append(f"{name}({', '.join(f't[{v.memory}]' for v in views)});")

    def loop(self, out: View, inputs: Sequence[View], expression: str, sign: str = "=") -> None:
        """out = expression of a, b, c, the inputs' elements at the same index."""
        out, *inputs = collapsed([out, *inputs])
        index = indices(out.shape)
        reads = " ".join(f"const {n} = {n.upper()}[{v.at(index)}];" for n, v in zip("abc", inputs, strict=False))
        names = ", ".join(["o", *"ABC"[: len(inputs)]])
        self.call(
            f"({names}) => {{ {loops(out.shape)} {{ {reads} o[{out.at(index)}] {sign} {expression}; }} }}",
            out,
            *inputs,
        )

    # -- primitives

    def write(self, name: str, parameters: dict[str, Any], *rows: int) -> None:
        *read, row = rows
        shape = self.rows[row].shape
        views = [self.views[k] for k in read]
        if name in VIEWS:
            self.views[row] = getattr(self, f"_{name.lower()}")(views[0], shape, parameters)
            return
        out = self.array(row)
        dtype = self.rows[row].dtype.name
        half = ROUNDED.get(dtype)
        reads_bits = name == "Bitcast" and self.rows[read[0]].dtype.is_half
        if reads_bits or (half is not None and name not in OF_HALVES):
            raise WebError(f"{name} of {dtype} cannot be written in JavaScript yet.")
        if name in UNARY or name in BINARY:
            expression = OTHERWISE.get((name, dtype), (UNARY | BINARY)[name])
            self.loop(out, views, expression if half is None else half % expression)
        elif name in REDUCE:
            first, sum_ = REDUCE[name]
            sum_ = OTHERWISE.get((name, self.rows[row].dtype.name), sum_)
            self._reduce(out, views[0], first, sum_, parameters["axes"])
        elif name == OPERATION:
            specs = [Spec(view.shape, self.rows[k].dtype) for view, k in zip(views, read, strict=True)]
            self._operation(out, views, specs, from_data({"primitive": name, **parameters}))
        else:
            if name == "ScatterReduce":
                parameters["dtype"] = self.rows[row].dtype.name
            getattr(self, f"_{name.lower()}")(out, *views, **parameters)
            if half is not None and "value" in parameters:
                self.loop(out, [out], half % "a")

    def _reshape(self, view: View, shape: tuple[int, ...], _: Any) -> View:
        if [n for n in view.shape if n != 1] == [n for n in shape if n != 1]:  # only axes of size 1 differ
            strides = iter([s for n, s in zip(view.shape, view.strides, strict=True) if n != 1])
            return View(view.memory, shape, tuple(0 if n == 1 else next(strides) for n in shape), view.offset)
        return View(self.packed(view).memory, shape, contiguous(shape))

    def _expand(self, view: View, shape: tuple[int, ...], _: Any) -> View:
        new = (0,) * (len(shape) - len(view.shape)) + view.strides
        old = (1,) * (len(shape) - len(view.shape)) + view.shape
        strides = tuple(s if n == o else 0 for s, n, o in zip(new, shape, old, strict=True))
        return View(view.memory, shape, strides, view.offset)

    def _permute(self, view: View, shape: tuple[int, ...], parameters: dict[str, Any]) -> View:
        return View(view.memory, shape, tuple(view.strides[axis] for axis in parameters["axes"]), view.offset)

    def _slice(self, view: View, shape: tuple[int, ...], parameters: dict[str, Any]) -> View:
        return view.part(parameters["starts"], shape, parameters["steps"])

    def _flip(self, view: View, shape: tuple[int, ...], parameters: dict[str, Any]) -> View:
        back = [axis in parameters["axes"] for axis in range(len(shape))]
        starts = [n - 1 if b else 0 for n, b in zip(shape, back, strict=True)]
        return view.part(starts, shape, [-1 if b else 1 for b in back])

    def _window(self, view: View, shape: tuple[int, ...], parameters: dict[str, Any]) -> View:
        return view.windows(parameters["axes"], shape, parameters["steps"], parameters["dilations"])

    def _inrange(self, view: View, shape: tuple[int, ...], parameters: dict[str, Any]) -> View:
        low, size, fault = (parameters[name] for name in ("low", "size", "fault"))
        wrong = f"if (!(A[{view.at(indices(shape))}] >= {low} && A[{view.at(indices(shape))}] < {size}))"
        thrown = f'throw Object.assign(new Error("out of range"), {{ fault: [{fault}, A[{view.at(indices(shape))}], {size}] }});'
        self.call(f"(A) => {{ {loops(shape)} {wrong} {thrown} }}", view)
        return view

    def _constant(self, out: View, value: Any, **_: Any) -> None:
        text = value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN")
        self.made[out.memory].then = f".fill({float(text) if isinstance(text, bool) else text})"

    def _iota(self, out: View, size: int) -> None:
        self.made[out.memory].then = ".map((_, k) => k)"

    def _where(self, out: View, *views: View) -> None:
        self.loop(out, views, "a ? b : c")

    def _cat(self, out: View, *views: View, axis: int) -> None:
        start = 0
        for view in views:
            starts = [start if a == axis else 0 for a in range(len(out.shape))]
            self.loop(out.part(starts, view.shape, [1] * len(out.shape)), [view], "a")
            start += view.shape[axis]

    def _pad(self, out: View, a: View, low: Sequence[int], interior: Sequence[int], value: Any, **_: Any) -> None:
        """Padding. The border is written once, when the array is created."""
        self._constant(out, value)
        self.loop(out.part(low, a.shape, [k + 1 for k in interior]), [a], "a")

    def _fold(self, out: View, g: View, axes: Sequence[int], steps: Any, dilations: Any, **_: Any) -> None:
        self.call("(o) => o.fill(0)", out)
        self.loop(out.windows(axes, g.shape, steps, dilations), [g], "a", "+=")

    def _scatteradd(self, out: View, places: View, a: View, axis: int, **_: Any) -> None:
        index = indices(a.shape)
        at = out.at([*index[:axis], f"P[{places.at(index)}]", *index[axis + 1 :]])
        self.call(f"(o, P, A) => {{ o.fill(0); {loops(a.shape)} o[{at}] += A[{a.at(index)}]; }}", out, places, a)

    def _argsort(self, out: View, a: View, axis: int, descending: bool) -> None:
        self.call(argsort(out, a, axis, descending), out, a)

    def _runningsum(self, out: View, a: View, back: bool) -> None:
        self.call(running_sum(out, a, back), out, a)

    def _scatterreduce(self, out: View, places: View, a: View, axis: int, reduction: str, dtype: str, **_: Any) -> None:
        self.call(scatter_reduce(out, places, a, axis, reduction, dtype), out, places, a)

    def _bitcast(self, out: View, a: View, **_: Any) -> None:
        self.call("(o, A) => new Uint8Array(o.buffer).set(new Uint8Array(A.buffer))", out, self.packed(a))

    def _threefry(self, out: View, key: View, x0: View, x1: View, joined: bool) -> None:
        index = indices(x0.shape)
        words = (
            f"o[{out.at(index)}] = x ^ y;"
            if joined
            else f"o[{out.at(['0', *index])}] = x; o[{out.at(['1', *index])}] = y;"
        )
        drawn = f"const [x, y] = threefry(K, A[{x0.at(index)}], B[{x1.at(index)}]);"
        self.call(f"(o, K, A, B) => {{ {loops(x0.shape)} {{ {drawn} {words} }} }}", out, self.packed(key), x0, x1)

    def _scores(
        self, q: View, k: View, others: Sequence[View], scale: float, causal: bool, masked: bool, dropped: float
    ) -> str:
        """JavaScript's score(i0, i1, i2, i3) and kept(i0, i1, i2, i3) of a call of attention, from Q, K, [M], [R]."""
        mask = ""
        if masked:
            m = others[0]
            read = f"M[{m.at(['0' if n == 1 else f'i{a}' for a, n in enumerate(m.shape)])}]"
            of_bools = self.made[m.memory].kind == "Uint8Array"
            mask = f"if (!{read}) return -Infinity;" if of_bools else f"s += {read};"
        heads, columns = q.shape[1], k.shape[2]
        word = f"threefry(R, i2 * {-(-columns // 2)} + (i3 >> 1), i0 * {heads} + i1)[i3 & 1]"
        return SCORES.format(
            d=q.shape[3],
            q=q.at(["i0", "i1", "i2", "e"]),
            k=k.at(["i0", "i1", "i3", "e"]),
            scale=scale,
            mask=mask,
            causal="i3 > i2 ? -Infinity : s" if causal else "s",
            kept=f"{word} >= {keep_threshold(dropped)} ? {1 / (1 - dropped)} : 0" if dropped else "1",
            columns=columns,
        )

    def _attention(
        self, out: View, q: View, k: View, v: View, *others: View, by_row: bool, logs: bool, **settings: Any
    ) -> None:
        n, heads, rows, d = q.shape
        row = ["i0", "i1", "i2"]
        result = _result_in(out, q.shape, by_row)
        at, end, of_e = (result.at([*row, e]) for e in ("0", f"{d}", "e"))
        log = (
            f"o[{math.prod(q.shape)} + (i0 * {heads} + i1) * {rows} + i2] = total ? top + Math.log(total) : -Infinity;"
        )
        text = f"""{self._scores(q, k, others, **settings)}
  {OVER_ROWS.format(n, heads, rows)} {{
    const s = all.map((i3) => score(i0, i1, i2, i3)), top = Math.max(...s.filter((x) => x > -Infinity), -3e38);
    const total = s.reduce((sum, x) => sum + Math.exp(x - top), 0);
    o.fill(0, {at}, {end}); {log if logs else ""}
    for (const i3 of all) if (s[i3] > -Infinity) {{
      const w = (Math.exp(s[i3] - top) / total) * kept(i0, i1, i2, i3);
      for (let e = 0; e < {d}; e++) o[{of_e}] += w * V[{v.at(["i0", "i1", "i3", "e"])}];
    }}
  }}"""
        self._call_attention("o, Q, K, V", text, (out, q, k, v), others, settings["masked"])

    def _sums_of_rows(self, g: View, flat: View, by_row: bool) -> View:
        """The log-sum-exps of attention, and the sums of gradient times result: (2, n, heads, l)."""
        n, heads, rows, d = g.shape
        out = self.new("Float32Array", (2, n, heads, rows))
        logs = f"(i0 * {heads} + i1) * {rows} + i2"
        flat = self.packed(flat)
        result = _result_in(flat, g.shape, by_row)
        self.call(
            f"""(o, G, F) => {{ {OVER_ROWS.format(n, heads, rows)} {{
    let s = 0; for (let e = 0; e < {d}; e++) s += G[{g.at(["i0", "i1", "i2", "e"])}] * F[{result.at(["i0", "i1", "i2", "e"])}];
    o[{logs}] = F[{math.prod(g.shape)} + {logs}]; o[{n * heads * rows} + {logs}] = s;
  }} }}""",
            out,
            g,
            flat,
        )
        return out

    def _attentiongradient(
        self,
        out: View,
        g: View,
        flat: View,
        q: View,
        k: View,
        v: View,
        *others: View,
        places: Any,
        shape: Any,
        by_row: bool,
        **settings: Any,
    ) -> None:
        n, heads, rows, d = q.shape
        into = [
            View(out.memory, x.shape, (*place[1:], 1), place[0]) for x, place in zip((q, k, v), places, strict=True)
        ]
        row, column = ["i0", "i1", "i2", "e"], ["i0", "i1", "i3", "e"]
        at = [x.at(index) for x, index in zip(into, (row, column, column), strict=True)]
        scale = settings["scale"]
        text = f"""{self._scores(q, k, others, **settings)}
  o.fill(0);
  {OVER_ROWS.format(n, heads, rows)} for (const i3 of all) {{
    const s = score(i0, i1, i2, i3); if (s === -Infinity) continue;
    const row = (i0 * {heads} + i1) * {rows} + i2, w = Math.exp(s - D[row]), left = kept(i0, i1, i2, i3);
    let to = 0; for (let e = 0; e < {d}; e++) to += G[{g.at(row)}] * V[{v.at(column)}];
    const ds = w * (to * left - D[{n * heads * rows} + row]) * {scale};
    for (let e = 0; e < {d}; e++) {{
      o[{at[0]}] += ds * K[{k.at(column)}]; o[{at[1]}] += ds * Q[{q.at(row)}]; o[{at[2]}] += w * left * G[{g.at(row)}];
    }}
  }}"""
        self._call_attention(
            "o, G, D, Q, K, V", text, (out, g, self._sums_of_rows(g, flat, by_row), q, k, v), others, settings["masked"]
        )

    def _call_attention(
        self, names: str, text: str, views: Sequence[View], others: Sequence[View], masked: bool
    ) -> None:
        """others: the mask, if there is one, and the key of the random words."""
        mask, key = (others[:1], others[1:]) if masked else ((), others)
        names += ", M" * len(mask) + ", R" * len(key)
        self.call(f"({names}) => {{ {text} }}", *views, *mask, *map(self.packed, key))

    def _conv(self, out: View, x: View, w: View, steps: Any, dilations: Any, low: Any, high: Any, spread: Any) -> None:
        """Writes zeros between and around the elements first."""
        rank = len(steps)
        if any(low) or any(high) or set(spread) != {1}:
            whole = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
            sizes = [(n - 1) * s + 1 + a + b for n, s, (a, b) in zip(x.shape[3:], spread, whole, strict=True)]
            wide = self.new("Float32Array", (*x.shape[:3], *sizes))
            self.loop(wide.part((0, 0, 0, *(a for a, _ in whole)), x.shape, (1, 1, 1, *spread)), [x], "a")
            left = [max(-a, 0) for a in low]
            kept = [n - a - max(-b, 0) for n, a, b in zip(sizes, left, high, strict=True)]
            x = wide.part((0, 0, 0, *left), (*x.shape[:3], *kept), (1,) * (3 + rank))
        counts, window = out.shape[3:], w.shape[3:]
        places = x.windows(range(3, 3 + rank), (*x.shape[:3], *counts, *window), steps, dilations)
        # i0 group, i1 batch, i2 of the outputs, i3 … their places, then channel and the window's places, of which the last are unrolled
        n = 3 + rank
        flat = next(k for k in range(rank + 1) if math.prod(window[k:]) <= MOST_UNROLLED)
        looped = (*window[:flat], *(1,) * (rank - flat))
        index = indices((*out.shape, x.shape[2], *looped))
        into, c, within = index[:n], index[n], index[n + 1 :]
        steps_of = [(places.strides[n + k], w.strides[3 + k]) for k in range(flat, rank)]
        terms = [
            " * ".join(
                f"{a}[{a.lower()} + {sum(i * s[side] for i, s in zip(at, steps_of, strict=True))}]"
                for side, a in enumerate("AW")
            )
            for at in itertools.product(*map(range, window[flat:]))
        ]
        reads = f"const a = {places.at([index[0], index[1], c, *index[3:n], *within])}, w = {w.at([index[0], index[2], c, *within])};"
        inner = loops((*(1,) * n, x.shape[2], *looped))
        sums = f"let s = 0; {inner} {{ {reads} s += {' + '.join(terms)}; }} o[{out.at(into)}] = s;"
        body = f"{loops(out.shape)} {{ {sums} }}"
        self.call(f"(o, A, W) => {{ {body} }}", out, x, w)

    def _operation(self, out: View, views: Sequence[View], specs: Sequence[Spec], call: Any) -> None:
        found = call.operation.javascript(*specs)
        if found is None:
            raise WebError(f"{call.name} cannot be written in JavaScript yet.")
        self.preambles[found.preamble] = None
        self.call(found.function, out, *map(self.packed, views))

    def _gather(self, out: View, a: View, places: View, axis: int) -> None:
        index = indices(out.shape)
        at = a.at([*index[:axis], f"P[{places.at(index)}]", *index[axis + 1 :]])
        self.call(f"(o, A, P) => {{ {loops(out.shape)} o[{out.at(index)}] = A[{at}]; }}", out, a, places)

    def _reduce(self, out: View, a: View, first: str, sum_: str, axes: Sequence[int]) -> None:
        index = indices(a.shape)
        kept = ["0" if k in axes else i for k, i in enumerate(index)]
        outer = loops([1 if k in axes else n for k, n in enumerate(a.shape)])
        inner = loops([n if k in axes else 1 for k, n in enumerate(a.shape)])
        self.call(
            f"(o, A) => {{ {outer} {{ let s = {first}; {inner} {{ const a = A[{a.at(index)}]; s = {sum_}; }} o[{out.at(kept)}] = s; }} }}",
            out,
            a,
        )

    def _dot(self, out: View, a: View, b: View, window: int = 1, chunk: int = 0) -> None:
        """The inner loop runs along n if the second operand is contiguous there, and takes several k; else along k, for several n.
        window: a hint for tiles."""
        assert not chunk, "products in stretches are the compiler's, and the page runs what it compiles of"
        batch, m, n = out.shape
        k = a.shape[2]
        i, j = ("0" if batch == 1 else "i0"), ("0" if m == 1 else "i1")
        head = loops((batch, m))
        if b.strides[2] == 1:
            at_once = next(u for u in (4, 2, 1) if k % u == 0)
            xs = " ".join(f"const x{u} = A[{a.at([i, j, f'(k + {u})'])}];" for u in range(at_once))
            sums = " + ".join(f"x{u} * B[{b.at([i, f'(k + {u})', 'h'])}]" for u in range(at_once))
            body = f"for (let k = 0; k < {k}; k += {at_once}) {{ {xs} for (let h = 0; h < {n}; h++) o[{out.at([i, j, 'h'])}] += {sums}; }}"
            body = f"o.fill(0); {head} {body}"
        else:
            at_once = next(u for u in (4, 2, 1) if n % u == 0)
            sums = [f"s{u}" for u in range(at_once)]
            start = ", ".join(f"{x} = 0" for x in sums)
            add = " ".join(f"{x} += x * B[{b.at([i, 'k', f'(h + {u})'])}];" for u, x in enumerate(sums))
            end = " ".join(f"o[{out.at([i, j, f'(h + {u})'])}] = {x};" for u, x in enumerate(sums))
            over_k = f"for (let k = 0; k < {k}; k++) {{ const x = A[{a.at([i, j, 'k'])}]; {add} }}"
            body = f"{head} for (let h = 0; h < {n}; h += {at_once}) {{ let {start}; {over_k} {end} }}"
        self.call(f"(o, A, B) => {{ {body} }}", out, a, b)


OPERATION = "OperationCall"  # of extend.py
VIEWS = frozenset({"Reshape", "Expand", "Permute", "InRange", "Slice", "Flip", "Window"})
MADE = {"Constant", "Iota", "Where", "Gather", "ScatterAdd", "Cat", "Pad", "Fold", "Conv", "Dot", "Bitcast", "Threefry"}
MADE |= {"Attention", "AttentionGradient", "ArgSort", "RunningSum", "ScatterReduce", OPERATION}
# primitives whose results may be halves: elementwise operations, which are rounded, and moves
OF_HALVES = UNARY.keys() | BINARY.keys() | {"Constant", "Where", "Cat", "Pad", "Gather", "ReduceMax", "ReduceMin"}
KNOWN = VIEWS | UNARY.keys() | BINARY.keys() | REDUCE.keys() | MADE


def _short(name: str) -> str:
    """A result's name as the step's author calls it, as in runtime.js: `result['loss']` is loss."""
    found = re.fullmatch(r"result\[(?:'([^'\]]*)'|(\d+))\]", name)
    return name if found is None else found[1] or found[2] or name


def _result_in(flat: View, shape: tuple[int, ...], by_row: bool) -> View:
    """The result (n, heads, l, d) inside the result array of an attention call."""
    start, *strides = place_of_result(shape, by_row)
    return View(flat.memory, shape, (*strides, 1), start)
