"""Exports a step as WebAssembly: for browsers without a GPU, several times as fast as plain JavaScript (javascript_step.py).

In: a step node by node. Out: a WebAssembly module with 128-bit vectors, whose kernels come from the cpu device's compiler
(compile/native) for another target; and the source of a JavaScript module whose `load(state, module)` returns `run(inputs)`, as with
plain JavaScript. Its arrays are in the memory of the WebAssembly module. Operations without a kernel, such as sorting,
are functions in plain JavaScript.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..compile.native.program import Row, Step, Steps, steps_of
from ..compile.native.registers import WASM
from ..compile.native.slots import room_of, slots_of
from ..compile.native.webassembly import Layout, layout_of, module_of
from ..dtypes import int32, int64
from ..graph.primitive import Primitive, to_data
from ..plan import Label, Plan
from ..primitives.indexing import InRange
from ..runtime import llvm
from .errors import WebError
from .javascript_step import Array, Writer, keyed, refuse_unknown
from .javascript_view import View
from .wasm_object import data_end, linked

TRIPLE, FEATURES = "wasm32-unknown-unknown", "+simd128,+bulk-memory"
KINDS = {"float32": "Float32Array", "int32": "Int32Array", "uint32": "Uint32Array", "bool": "Uint8Array"}
MOST_BYTES = 1 << 31  # of a memory


@dataclass(frozen=True)
class WasmStep:
    """module: the WebAssembly. script: the JavaScript that runs it."""

    module: bytes
    script: str


def render(plan: Plan, labels: Sequence[Label]) -> WasmStep:
    """The step of a plan for the interpreter. labels: of its outputs. Raises a WebError for unsupported operations, and if
    llvmlite is missing.
    """
    plan = _in_32_bits(plan)
    steps = steps_of(plan, WASM)
    if steps is None:
        raise WebError("[wasm] the step computes nothing, or holds arrays without elements.")
    unknown = {row.dtype.name for row in steps.rows} - KINDS.keys()
    if unknown:
        raise WebError(f"[wasm] {', '.join(sorted(unknown))} cannot be computed in WebAssembly yet.")
    hosted = [s.hosted for s in steps.steps if s.hosted is not None]
    refuse_unknown({type(p).__name__ for h in hosted for p in (h.of, *(v for views in h.views for v in views))})
    return _Module(steps, keyed(plan), labels).render()


def _in_32_bits(plan: Plan) -> Plan:
    """The plan with int32 in place of int64, as on a GPU: the page's arrays have no other integers of 64 bits."""
    narrow = {"dtype": int32.name}
    kernels = []
    for kernel in plan.kernels:
        given = json.loads(kernel.parameters or "null")
        found = json.loads(
            kernel.parameters or "null", object_hook=lambda d: narrow if d == {"dtype": int64.name} else d
        )
        large = (
            [v for v in found.values() if type(v) is int and not -(1 << 31) <= v < 1 << 31] if found != given else []
        )
        if large:
            raise WebError(f"[wasm] {large[0]} does not fit into 32 bits.")
        kernels.append(kernel if found == given else replace(kernel, parameters=json.dumps(found)))
    buffers = tuple(replace(spec, dtype=int32) if spec.dtype is int64 else spec for spec in plan.buffers)
    return replace(plan, buffers=buffers, kernels=tuple(kernels))


@dataclass
class _Placed(Array):
    """An array in WebAssembly's memory."""

    place: int = 0

    @property
    def text(self) -> str:
        if self.then:
            raise WebError("[wasm] an array that is filled once has no place in memory that others use, too.")
        return f"new {self.kind}(memory, {self.place}, {self.size})"


class _Writer(Writer):
    """Writes the operations without a kernel. offsets: of rows in memory."""

    def __init__(self, rows: Sequence[Row], offsets: Mapping[int, int]) -> None:
        super().__init__(rows)
        self.rows: list[Row] = [*rows]  # and those of views, which have no place
        self.offsets = offsets

    def array(self, row: int) -> View:
        view = super().array(row)
        self.made[view.memory] = _Placed(
            KINDS[self.rows[row].dtype.name], self.made[view.memory].size, "", self.offsets[row]
        )
        return view

    def view(self, row: int) -> View:
        return self.views[row] if row in self.views else self.array(row)


class _Module:
    def __init__(self, steps: Steps, keys: Sequence[str], labels: Sequence[Label]) -> None:
        self.steps, self.keys, self.labels = steps, keys, labels
        self.same = self._same()  # rows that are other rows, by number
        self.offsets, self.layout = self._place()
        self.writer = _Writer(steps.rows, self.offsets)

    def _same(self) -> dict[int, int]:
        """Results that equal their operand: checked positions."""
        found: dict[int, int] = {}
        for step in self.steps.steps:
            if _is_check(step):
                found[step.writes[0]] = found.get(step.reads[0], step.reads[0])
        return found

    def _place(self) -> tuple[dict[int, int], Layout]:
        """Allocates inputs and outputs in separate memory that nothing else uses."""
        steps = self.steps
        written = [row for s in steps.steps for row in s.writes if row not in self.same]
        kept = [*range(steps.inputs), *dict.fromkeys(row for row in steps.outputs if row in {*written})]
        offsets, end = {}, 0
        for row in kept:
            offsets[row] = end
            end += room_of(steps.rows[row].nbytes)
        slots, more = slots_of(steps, {*written} - {*kept})
        offsets |= {row: end + at for row, at in slots.items()}
        layout = layout_of(steps, end + more)
        if layout.end > MOST_BYTES:
            raise WebError(f"[wasm] the step takes {layout.end:,} bytes; a module may have {MOST_BYTES:,}.")
        offsets = {row: layout.arrays + at for row, at in offsets.items()}
        return offsets | {row: offsets[source] for row, source in self.same.items()}, layout

    def render(self) -> WasmStep:
        names = self._calls()
        text = module_of(self.steps, self.offsets)
        try:
            code = llvm.code().object_for(text, TRIPLE, FEATURES)
        except llvm.NativeCodeError as error:
            raise WebError(f"[wasm] {error}") from error
        if data_end(code) > self.layout.stack:
            raise WebError("[wasm] LLVM's constants lie where the stack does.")
        return WasmStep(linked(code, names, self.layout.arrays, self.layout.end), self._script())

    def _calls(self) -> list[str]:
        """Writes the calls of a run; returns the names of the module's functions."""
        w, names, in_run = self.writer, [], False
        for row in range(self.steps.inputs):
            w.array(row)
        for step in self.steps.steps:
            if step.hosted is None:
                if not in_run:
                    names.append(f"run{len(names)}")
                    w.calls.append(f"wasm.{names[-1]}();")
                in_run = True
                continue
            in_run = False
            self._host(step)
        for row in self.steps.outputs:
            w.view(row)
        return names

    def _host(self, step: Step) -> None:
        """An operation of plain JavaScript, with the views of its operands."""
        w, hosted, (row,) = self.writer, step.hosted, step.writes
        assert hosted is not None
        given = [self._seen(self.same.get(r, r), views) for r, views in zip(step.reads, hosted.views, strict=True)]
        w.write(*_described(hosted.of), *given, row)
        if row in self.same:
            w.views[row] = w.views[self.same[row]]
        elif isinstance(hosted.of, InRange):
            checked = w.views[row]  # of a view, which kernels do not know
            w.loop(w.array(row), [checked], "a")

    def _seen(self, row: int, views: Sequence[Primitive]) -> int:
        """A row for a view of another row, as an operation reads it."""
        w = self.writer
        w.view(row)
        for view in views:
            made = len(w.rows)
            w.rows.append(Row(*view.infer(w.rows[row])))
            w.write(*_described(view), row, made)
            row = made
        return row

    def _script(self) -> str:
        w = self.writer
        inputs = {key: row for row, key in enumerate(self.keys)}
        parts = w.parts(inputs, self.steps.outputs, self.labels)
        newline, arrays = "\n", ",\n".join(a.text for a in w.made)
        return f"""// A training step: kernels in WebAssembly, other operations on typed arrays. Written by shadergrad.
{parts}
/** adopted: keys of the state that live in the module's memory from now on. Others are copied before and after each run. */
export function load(state, module, adopted = []) {{
  const wasm = new WebAssembly.Instance(module).exports, memory = wasm.memory.buffer;
  const t = [
{arrays},
  ];
  const guests = new Map();
  for (const [key, at] of Object.entries(INPUTS)) {{
    if (!state.has(key)) continue;
    t[at].set(state.get(key).data);
    if (!adopted.includes(key)) guests.set(at, state.get(key).data);
  }}
  const nodes = () => {{
{newline.join(w.calls)}
  }};
  return {{
    home: (key) => t[INPUTS[key]],
    run(inputs) {{
      for (const [name, data] of Object.entries(inputs)) t[INPUTS[`argument/${{name}}`]]?.set(data);
      for (const [at, data] of guests) t[at].set(data);
      nodes();
      for (const [from, to] of CARRIED) {{
        t[to].set(t[from]);
        guests.get(to)?.set(t[to]);
      }}
      return Object.fromEntries(
        Object.entries(RESULTS).map(([name, [at, isArray]]) => [name, isArray ? t[at].slice() : t[at][0]]),
      );
    }},
  }};
}}
"""


def _is_check(step: Step) -> bool:
    """Whether a step only checks an array and returns it unchanged."""
    return step.hosted is not None and isinstance(step.hosted.of, InRange) and not any(step.hosted.views)


def _described(primitive: Primitive) -> tuple[str, dict[str, Any]]:
    """A primitive's name and parameters, as in plans."""
    data = to_data(primitive)
    return data.pop("primitive"), data
