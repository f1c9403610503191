"""A step as plain JavaScript on typed arrays: what the pages' GPU is compared with.

In: a step node by node. Out: the text of a module, whose `load(state)` gives `run(inputs)`. Reshapes, permutations and
broadcasts are no copies but strides, written into the loops; everything else is a loop of its own, as in NumPy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..run.portable import PortableStep
from .errors import WebError

ARRAYS = {
    "float32": "Float32Array",
    "uint32": "Uint32Array",
    "bool": "Uint8Array",
    "uint8": "Uint8Array",
}  # others: Int32
UNARY = {
    "Neg": "-a", "Exp": "Math.exp(a)", "Log": "Math.log(a)", "Expm1": "Math.expm1(a)", "Log1p": "Math.log1p(a)",
    "Sqrt": "Math.sqrt(a)", "Rsqrt": "1 / Math.sqrt(a)", "Abs": "Math.abs(a)", "Sin": "Math.sin(a)", "Cos": "Math.cos(a)",
    "Tanh": "Math.tanh(a)", "Sigmoid": "1 / (1 + Math.exp(-a))", "Relu": "a > 0 || a !== a ? a : 0", "Not": "a ? 0 : 1",
    "IsNan": "a !== a ? 1 : 0", "Floor": "Math.floor(a)", "Cast": "a", "Reciprocal": "1 / a", "Sign": "Math.sign(a)",
}  # fmt: skip
BINARY = {
    "Add": "a + b", "Sub": "a - b", "Mul": "a * b", "Div": "a / b", "Pow": "a ** b", "Maximum": "Math.max(a, b)",
    "Minimum": "Math.min(a, b)", "Equal": "a === b ? 1 : 0", "NotEqual": "a !== b ? 1 : 0", "Less": "a < b ? 1 : 0",
    "LessEqual": "a <= b ? 1 : 0", "Greater": "a > b ? 1 : 0", "GreaterEqual": "a >= b ? 1 : 0", "And": "a && b ? 1 : 0",
    "Or": "a || b ? 1 : 0",
}  # fmt: skip
REDUCE = {
    "ReduceSum": ("0", "s + a"),
    "ReduceMax": ("-Infinity", "Math.max(s, a)"),
    "ReduceMin": ("Infinity", "Math.min(s, a)"),
}


@dataclass(frozen=True)
class View:
    """Where the elements of a row of the plan lie: array t[memory], element i at the sum of i * strides."""

    memory: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        return all(n == 1 or s == c for n, s, c in zip(self.shape, self.strides, contiguous(self.shape), strict=True))

    def at(self, index: Sequence[str]) -> str:
        parts = [i if s == 1 else f"{i} * {s}" for i, s in zip(index, self.strides, strict=True) if s and i != "0"]
        return " + ".join(parts) or "0"


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in row-major order."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def render(step: PortableStep) -> str:
    """The module. Raises WebError, which names them, for operations that it cannot write."""
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
        """An array of its own for a row."""
        spec = self.plan.buffers[row]
        self.made.append(f"new {ARRAYS.get(spec.dtype.name, 'Int32Array')}({spec.size})")
        self.views[row] = View(len(self.made) - 1, spec.shape, contiguous(spec.shape))
        return self.views[row]

    def packed(self, view: View) -> View:
        """The same elements in row-major order, copied where they are not."""
        if view.is_contiguous:
            return view
        kind = self.made[view.memory].partition("(")[0]
        self.made.append(f"{kind}({math.prod(view.shape)})")
        copy = View(len(self.made) - 1, view.shape, contiguous(view.shape))
        self.loop(copy, [view], "a")
        return copy

    def call(self, text: str, *views: View) -> None:
        name = self.functions.setdefault(text, f"f{len(self.functions)}")
        self.calls.append(f"{name}({', '.join(f't[{v.memory}]' for v in views)});")

    def loop(self, out: View, inputs: Sequence[View], expression: str) -> None:
        """out = expression of a, b, c, the inputs' elements at the same index."""
        index = _indices(out.shape)
        reads = " ".join(f"const {n} = {n.upper()}[{v.at(index)}];" for n, v in zip("abc", inputs, strict=False))
        names = ", ".join(["o", *"ABC"[: len(inputs)]])
        self.call(
            f"({names}) => {{ {_loops(out.shape)} {{ {reads} o[{out.at(index)}] = {expression}; }} }}", out, *inputs
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
            self.loop(out, views, (UNARY | BINARY)[name])
        elif name in REDUCE:
            self._reduce(out, views[0], *REDUCE[name], parameters["axes"])
        else:
            getattr(self, f"_{name.lower()}")(out, *views, **parameters)

    def _reshape(self, view: View, shape: tuple[int, ...], _: Any) -> View:
        if [n for n in view.shape if n != 1] == [n for n in shape if n != 1]:  # axes of one come and go
            strides = iter([s for n, s in zip(view.shape, view.strides, strict=True) if n != 1])
            return View(view.memory, shape, tuple(0 if n == 1 else next(strides) for n in shape))
        return View(self.packed(view).memory, shape, contiguous(shape))

    def _expand(self, view: View, shape: tuple[int, ...], _: Any) -> View:
        new = (0,) * (len(shape) - len(view.shape)) + view.strides
        old = (1,) * (len(shape) - len(view.shape)) + view.shape
        return View(view.memory, shape, tuple(s if n == o else 0 for s, n, o in zip(new, shape, old, strict=True)))

    def _permute(self, view: View, shape: tuple[int, ...], parameters: dict[str, Any]) -> View:
        return View(view.memory, shape, tuple(view.strides[axis] for axis in parameters["axes"]))

    def _inrange(self, view: View, _shape: tuple[int, ...], _: Any) -> View:
        return view  # the GPU's side says what is out of range

    def _constant(self, out: View, value: Any, **_: Any) -> None:
        self.made[out.memory] += (
            f".fill({value if math.isfinite(value) else str(value).replace('inf', 'Infinity').replace('nan', 'NaN')})"
        )

    def _iota(self, out: View, size: int) -> None:
        self.made[out.memory] += ".map((_, k) => k)"

    def _where(self, out: View, *views: View) -> None:
        self.loop(out, views, "a ? b : c")

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
        """Along n where the second operand's rows lie so in memory, else along k. window: a hint for tiles."""
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


VIEWS = frozenset({"Reshape", "Expand", "Permute", "InRange"})
KNOWN = VIEWS | UNARY.keys() | BINARY.keys() | REDUCE.keys() | {"Constant", "Iota", "Where", "Gather", "Dot"}


def _indices(shape: Sequence[int]) -> list[str]:
    return ["0" if n == 1 else f"i{k}" for k, n in enumerate(shape)]


def _loops(shape: Sequence[int]) -> str:
    return " ".join(f"for (let i{k} = 0; i{k} < {n}; i{k}++)" for k, n in enumerate(shape) if n != 1)
