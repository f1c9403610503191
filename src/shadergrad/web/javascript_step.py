"""A step as plain JavaScript on typed arrays, for comparison with the GPU.

In: a step node by node. Out: the source of a module whose `load(state)` returns `run(inputs)`. Reshapes, permutations,
broadcasts, slices and windows copy nothing: their strides are part of the loops. Every other operation is a loop of its own, as
in NumPy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..primitives.attention import kept_from, place_of_result
from ..run.portable import PortableStep
from .errors import WebError

ARRAYS = {
    "float32": "Float32Array",
    "uint32": "Uint32Array",
    "bool": "Uint8Array",
    "uint8": "Uint8Array",
    "int8": "Int8Array",
    "uint16": "Uint16Array",
    "int16": "Int16Array",
}  # others: Int32
UNARY = {
    "Neg": "-a", "Exp": "Math.exp(a)", "Log": "Math.log(a)", "Expm1": "Math.expm1(a)", "Log1p": "Math.log1p(a)",
    "Exp2": "2 ** a", "Log2": "Math.log2(a)", "Log10": "Math.log10(a)",
    "Sqrt": "Math.sqrt(a)", "Rsqrt": "1 / Math.sqrt(a)", "Abs": "Math.abs(a)", "Sin": "Math.sin(a)", "Cos": "Math.cos(a)",
    "Tanh": "Math.tanh(a)", "Sigmoid": "1 / (1 + Math.exp(-a))", "Relu": "a > 0 || a !== a ? a : 0", "Not": "a ? 0 : 1",
    "IsNan": "a !== a ? 1 : 0", "Floor": "Math.floor(a)", "Cast": "a", "Reciprocal": "1 / a", "Sign": "Math.sign(a)",
    "Trunc": "Math.trunc(a)", "Asin": "Math.asin(a)", "Acos": "Math.acos(a)", "IsFinite": "Number.isFinite(a) ? 1 : 0",
    "Erf": "erf(a)", "Round": "a % 1 === 0.5 || a % 1 === -0.5 ? 2 * Math.round(a / 2) : Math.round(a)",
}  # fmt: skip
BINARY = {
    "Add": "a + b", "Sub": "a - b", "Mul": "a * b", "Div": "a / b", "Pow": "a ** b", "Maximum": "Math.max(a, b)",
    "Minimum": "Math.min(a, b)", "Equal": "a === b ? 1 : 0", "NotEqual": "a !== b ? 1 : 0", "Less": "a < b ? 1 : 0",
    "LessEqual": "a <= b ? 1 : 0", "Greater": "a > b ? 1 : 0", "GreaterEqual": "a >= b ? 1 : 0", "And": "a & b", "Or": "a | b",
    "Xor": "a ^ b", "ShiftRight": "a >> Math.min(b, 31)", "ShiftLeft": "b >>> 0 > 31 ? 0 : a << b", "Atan2": "Math.atan2(a, b)", "Fmod": "a % b",
}  # fmt: skip
OTHERWISE = {  # of results that are no floats
    ("Add", "bool"): "a | b", ("Mul", "bool"): "a & b", ("Cast", "bool"): "a !== 0 ? 1 : 0", ("Mul", "int32"): "Math.imul(a, b)",
    ("Mul", "uint32"): "Math.imul(a, b)", ("Not", "int32"): "~a", ("Not", "uint32"): "~a",
    ("ShiftRight", "uint32"): "b > 31 ? 0 : a >>> b",
}  # fmt: skip
REDUCE = {
    "ReduceSum": ("0", "s + a"),
    "ReduceMax": ("-Infinity", "Math.max(s, a)"),
    "ReduceMin": ("Infinity", "Math.min(s, a)"),
}


# what JavaScript has no function for: Abramowitz and Stegun 7.1.26, to 1.5e-7
HELPERS = """function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}
function threefry(k, a, b) {
  const keys = [k[0], k[1], k[0] ^ k[1] ^ 0x1bd11bda];
  let x = (a + keys[0]) | 0, y = (b + keys[1]) | 0;
  for (let g = 0; g < 5; g++) {
    for (const r of g % 2 ? [17, 29, 16, 24] : [13, 15, 26, 6]) { x = (x + y) | 0; y = ((y << r) | (y >>> (32 - r))) ^ x; }
    x = (x + keys[(g + 1) % 3]) | 0; y = (y + keys[(g + 2) % 3] + g + 1) | 0;
  }
  return [x >>> 0, y >>> 0];
}"""
# one row i of a head's weights: scores, what is left of them by masks, and what dropout leaves of each
SCORES = """const score = (i0, i1, i2, i3) => {{
    let s = 0; for (let e = 0; e < {d}; e++) s += Q[{q}] * K[{k}]; s *= {scale};
    {mask} return {causal};
  }};
  const kept = (i0, i1, i2, i3) => {kept};
  const all = Array.from({{ length: {columns} }}, (_, k) => k);"""
OVER_ROWS = "for (let i0 = 0; i0 < {0}; i0++) for (let i1 = 0; i1 < {1}; i1++) for (let i2 = 0; i2 < {2}; i2++)"


@dataclass(frozen=True)
class View:
    """The location of a plan row's elements: array t[memory], element i at offset + the sum of i * strides."""

    memory: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def is_contiguous(self) -> bool:
        return not self.offset and all(
            n == 1 or s == c for n, s, c in zip(self.shape, self.strides, contiguous(self.shape), strict=True)
        )

    def at(self, index: Sequence[str]) -> str:
        parts = [i if s == 1 else f"{i} * {s}" for i, s in zip(index, self.strides, strict=True) if s and i != "0"]
        return " + ".join([*parts, *([str(self.offset)] if self.offset or not parts else [])])

    def part(self, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> View:
        """Elements from `starts` on, `steps` apart, along every axis."""
        offset = self.offset + sum(a * s for a, s in zip(starts, self.strides, strict=True))
        return View(self.memory, tuple(shape), tuple(s * k for s, k in zip(self.strides, steps, strict=True)), offset)

    def windows(
        self, axes: Sequence[int], shape: Sequence[int], steps: Sequence[int], dilations: Sequence[int]
    ) -> View:
        """Windows along axes; the positions within a window are axes at the end. shape: that of the result."""
        strides = list(self.strides)
        for axis, step, dilation in zip(axes, steps, dilations, strict=True):
            strides.append(self.strides[axis] * dilation)
            strides[axis] *= step
        return View(self.memory, tuple(shape), tuple(strides), self.offset)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in row-major order."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def render(step: PortableStep) -> str:
    """The module. Raises a WebError that names unsupported operations."""
    plan = step.plan
    unknown = {plan.kernels[d.kernel].primitive for d in plan.dispatches} - KNOWN
    if unknown:
        raise WebError(f"[compare] {', '.join(sorted(unknown))} cannot be written in JavaScript yet.")
    return _Writer(plan).text()


class _Writer:
    def __init__(self, plan: Any) -> None:
        self.plan = plan
        self.views: dict[int, View] = {}
        self.functions: dict[str, str] = {}  # name by text
        self.made: list[str] = []  # arrays
        self.calls: list[str] = []

    def text(self) -> str:
        for row in self.plan.inputs:
            self.array(row)
        for d in self.plan.dispatches:
            kernel = self.plan.kernels[d.kernel]
            self.write(kernel.primitive, json.loads(kernel.parameters), *d.buffers)
        specs = self.plan.buffers
        inputs = {f"{specs[row].role}/{specs[row].name}": self.views[row].memory for row in self.plan.inputs}
        carried, results = [], {}
        for row in self.plan.outputs:
            view, key = self.views[row], f"{specs[row].role}/{specs[row].name}"
            if specs[row].role == "result":
                results[specs[row].name] = [self.packed(view).memory, bool(view.shape)]
            elif key in inputs:
                carried.append([self.packed(view).memory, inputs[key]])
        functions = "\n".join(f"const {name} = {text};" for text, name in self.functions.items())
        newline = "\n  "
        return f"""// A training step, node by node, on typed arrays. Written by shadergrad.
{HELPERS}
{functions}
const INPUTS = {json.dumps(inputs)};
const CARRIED = {json.dumps(carried)};
const RESULTS = {json.dumps(results)};
const t = [
  {f",{newline}".join(self.made)},
];
function nodes() {{
  {newline.join(self.calls)}
}}
export function load(state) {{
  for (const [key, at] of Object.entries(INPUTS)) if (state.has(key)) t[at].set(state.get(key).data);
  return {{
    run(inputs) {{
      for (const [name, data] of Object.entries(inputs)) t[INPUTS[`argument/${{name}}`]].set(data);
      nodes();
      for (const [from, to] of CARRIED) t[to].set(t[from]);
      return Object.fromEntries(
        Object.entries(RESULTS).map(([name, [at, isArray]]) => [name.replace(/^result\\['(.*)'\\]$/, "$1"), isArray ? t[at].slice() : t[at][0]]),
      );
    }},
  }};
}}
"""

    # -- arrays and loops

    def array(self, row: int) -> View:
        """A new array for a row."""
        spec = self.plan.buffers[row]
        self.made.append(f"new {ARRAYS.get(spec.dtype.name, 'Int32Array')}({spec.size})")
        self.views[row] = View(len(self.made) - 1, spec.shape, contiguous(spec.shape))
        return self.views[row]

    def packed(self, view: View) -> View:
        """The same elements in row-major order, copied if they have another order."""
        if view.is_contiguous and self.made[view.memory].partition("(")[2].startswith(f"{math.prod(view.shape)})"):
            return view
        kind = self.made[view.memory].partition("(")[0]
        self.made.append(f"{kind}({math.prod(view.shape)})")
        copy = View(len(self.made) - 1, view.shape, contiguous(view.shape))
        self.loop(copy, [view], "a")
        return copy

    def call(self, text: str, *views: View) -> None:
        name = self.functions.setdefault(text, f"f{len(self.functions)}")
        self.calls.append(f"{name}({', '.join(f't[{v.memory}]' for v in views)});")

    def loop(self, out: View, inputs: Sequence[View], expression: str, sign: str = "=") -> None:
        """out = expression of a, b, c, the inputs' elements at the same index."""
        index = _indices(out.shape)
        reads = " ".join(f"const {n} = {n.upper()}[{v.at(index)}];" for n, v in zip("abc", inputs, strict=False))
        names = ", ".join(["o", *"ABC"[: len(inputs)]])
        self.call(
            f"({names}) => {{ {_loops(out.shape)} {{ {reads} o[{out.at(index)}] {sign} {expression}; }} }}",
            out,
            *inputs,
        )

    # -- primitives

    def write(self, name: str, parameters: dict[str, Any], *rows: int) -> None:
        *read, row = rows
        shape = self.plan.buffers[row].shape
        views = [self.views[k] for k in read]
        if name in VIEWS:
            self.views[row] = getattr(self, f"_{name.lower()}")(views[0], shape, parameters)
            return
        out = self.array(row)
        if name in UNARY or name in BINARY:
            dtype = self.plan.buffers[row].dtype.name
            self.loop(out, views, OTHERWISE.get((name, dtype), (UNARY | BINARY)[name]))
        elif name in REDUCE:
            self._reduce(out, views[0], *REDUCE[name], parameters["axes"])
        else:
            getattr(self, f"_{name.lower()}")(out, *views, **parameters)

    def _reshape(self, view: View, shape: tuple[int, ...], _: Any) -> View:
        if [n for n in view.shape if n != 1] == [n for n in shape if n != 1]:  # axes of one come and go
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

    def _inrange(self, view: View, _shape: tuple[int, ...], _: Any) -> View:
        return view  # the GPU's side says what is out of range

    def _constant(self, out: View, value: Any, **_: Any) -> None:
        text = value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN")
        self.made[out.memory] += f".fill({float(text) if isinstance(text, bool) else text})"

    def _iota(self, out: View, size: int) -> None:
        self.made[out.memory] += ".map((_, k) => k)"

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
        index = _indices(a.shape)
        at = out.at([*index[:axis], f"P[{places.at(index)}]", *index[axis + 1 :]])
        self.call(f"(o, P, A) => {{ o.fill(0); {_loops(a.shape)} o[{at}] += A[{a.at(index)}]; }}", out, places, a)

    def _bitcast(self, out: View, a: View, **_: Any) -> None:
        self.call("(o, A) => new Uint8Array(o.buffer).set(new Uint8Array(A.buffer))", out, self.packed(a))

    def _threefry(self, out: View, key: View, x0: View, x1: View, joined: bool) -> None:
        index = _indices(x0.shape)
        words = (
            f"o[{out.at(index)}] = x ^ y;"
            if joined
            else f"o[{out.at(['0', *index])}] = x; o[{out.at(['1', *index])}] = y;"
        )
        drawn = f"const [x, y] = threefry(K, A[{x0.at(index)}], B[{x1.at(index)}]);"
        self.call(f"(o, K, A, B) => {{ {_loops(x0.shape)} {{ {drawn} {words} }} }}", out, self.packed(key), x0, x1)

    def _scores(
        self, q: View, k: View, others: Sequence[View], scale: float, causal: bool, masked: bool, dropped: float
    ) -> str:
        """JavaScript's score(i0, i1, i2, i3) and kept(i0, i1, i2, i3) of a call of attention, from Q, K, [M], [R]."""
        mask = ""
        if masked:
            m = others[0]
            read = f"M[{m.at(['0' if n == 1 else f'i{a}' for a, n in enumerate(m.shape)])}]"
            of_bools = self.made[m.memory].startswith("new Uint8Array")
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
            kept=f"{word} >= {kept_from(dropped)} ? {1 / (1 - dropped)} : 0" if dropped else "1",
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
        self.made.append(f"new Float32Array({2 * n * heads * rows})")
        out = View(len(self.made) - 1, (2, n, heads, rows), contiguous((2, n, heads, rows)))
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
        """Writes zeros between and around the elements first. Of positions and window elements, the more numerous form the
        inner loops."""
        rank = len(steps)
        if any(low) or any(high) or set(spread) != {1}:
            whole = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
            sizes = [(n - 1) * s + 1 + a + b for n, s, (a, b) in zip(x.shape[3:], spread, whole, strict=True)]
            shape = (*x.shape[:3], *sizes)
            self.made.append(f"new Float32Array({math.prod(shape)})")
            wide = View(len(self.made) - 1, shape, contiguous(shape))
            self.loop(wide.part((0, 0, 0, *(a for a, _ in whole)), x.shape, (1, 1, 1, *spread)), [x], "a")
            left = [max(-a, 0) for a in low]
            kept = [n - a - max(-b, 0) for n, a, b in zip(sizes, left, high, strict=True)]
            x = wide.part((0, 0, 0, *left), (*x.shape[:3], *kept), (1,) * (3 + rank))
        counts, window = out.shape[3:], w.shape[3:]
        places = x.windows(range(3, 3 + rank), (*x.shape[:3], *counts, *window), steps, dilations)
        # i0 group, i1 batch, i2 of the outputs, i3 … their places, then channel and the window's places
        n = 3 + rank
        index = _indices((*out.shape, x.shape[2], *window))
        into, c, within = index[:n], index[n], index[n + 1 :]
        read = f"A[{places.at([index[0], index[1], c, *index[3:n], *within])}] * W[{w.at([index[0], index[2], c, *within])}]"
        head = _loops(out.shape[:3])
        over = _loops((1, 1, 1, *counts))
        inner = _loops((*(1,) * n, x.shape[2], *window))
        if math.prod(window) > math.prod(counts):
            body = f"{head} {over} {{ let s = 0; {inner} s += {read}; o[{out.at(into)}] = s; }}"
        else:
            body = f"o.fill(0); {head} {inner} {over} o[{out.at(into)}] += {read};"
        self.call(f"(o, A, W) => {{ {body} }}", out, x, w)

    def _gather(self, out: View, a: View, places: View, axis: int) -> None:
        index = _indices(out.shape)
        at = a.at([*index[:axis], f"P[{places.at(index)}]", *index[axis + 1 :]])
        self.call(f"(o, A, P) => {{ {_loops(out.shape)} o[{out.at(index)}] = A[{at}]; }}", out, a, places)

    def _reduce(self, out: View, a: View, first: str, sum_: str, axes: Sequence[int]) -> None:
        index = _indices(a.shape)
        kept = ["0" if k in axes else i for k, i in enumerate(index)]
        outer = _loops([1 if k in axes else n for k, n in enumerate(a.shape)])
        inner = _loops([n if k in axes else 1 for k, n in enumerate(a.shape)])
        self.call(
            f"(o, A) => {{ {outer} {{ let s = {first}; {inner} {{ const a = A[{a.at(index)}]; s = {sum_}; }} o[{out.at(kept)}] = s; }} }}",
            out,
            a,
        )

    def _dot(self, out: View, a: View, b: View, window: int = 1, chunk: int = 0) -> None:
        """The inner loop runs along n if the second operand is contiguous there, else along k. window: a hint for tiles."""
        assert not chunk, "products in stretches are the compiler's, and the page runs what it compiles of"
        batch, m, n = out.shape
        k = a.shape[2]
        (i, j, h, r) = ("i0", "i1", "i2", "k")
        head = f"for (let i0 = 0; i0 < {batch}; i0++) for (let i1 = 0; i1 < {m}; i1++)"
        if b.strides[2] == 1:
            body = (
                f"for (let k = 0; k < {k}; k++) {{ const x = A[{a.at([i, j, r])}]; "
                f"for (let i2 = 0; i2 < {n}; i2++) o[{out.at([i, j, h])}] += x * B[{b.at([i, r, h])}]; }}"
            )
            self.call(f"(o, A, B) => {{ o.fill(0); {head} {body} }}", out, a, b)
        else:
            body = (
                f"for (let i2 = 0; i2 < {n}; i2++) {{ let s = 0; for (let k = 0; k < {k}; k++) "
                f"s += A[{a.at([i, j, r])}] * B[{b.at([i, r, h])}]; o[{out.at([i, j, h])}] = s; }}"
            )
            self.call(f"(o, A, B) => {{ {head} {body} }}", out, a, b)


VIEWS = frozenset({"Reshape", "Expand", "Permute", "InRange", "Slice", "Flip", "Window"})
MADE = {"Constant", "Iota", "Where", "Gather", "ScatterAdd", "Cat", "Pad", "Fold", "Conv", "Dot", "Bitcast", "Threefry"}
MADE |= {"Attention", "AttentionGradient"}
KNOWN = VIEWS | UNARY.keys() | BINARY.keys() | REDUCE.keys() | MADE


def _indices(shape: Sequence[int]) -> list[str]:
    return ["0" if n == 1 else f"i{k}" for k, n in enumerate(shape)]


def _result_in(flat: View, shape: tuple[int, ...], by_row: bool) -> View:
    """The result (n, heads, l, d) inside the result array of an attention call."""
    start, *strides = place_of_result(shape, by_row)
    return View(flat.memory, shape, (*strides, 1), start)


def _loops(shape: Sequence[int]) -> str:
    return " ".join(f"for (let i{k} = 0; i{k} < {n}; i{k}++)" for k, n in enumerate(shape) if n != 1)
