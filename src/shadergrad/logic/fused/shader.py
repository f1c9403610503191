"""One step of a logic automaton, and its gradient, as kernels.

A workgroup computes one, two or four cells, the components of vectors. Their patches and the values of two layers are in
workgroup memory; a thread evaluates the gates of its column in every layer. The small perception networks run in
registers, their wires written into the shader. The gradient kernel evaluates the cell anew, keeps the inputs of every gate
in registers, walks the layers back, and adds to the sums that the gradient of the coefficients needs: of g, g a, g b and
g a b for every gate, a set a workgroup, carried from step to step. The gradient of a wire is gathered from the gates that
read it, by an index built once on the host, so nothing races. What a barrier would make wait is fetched before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...dtypes import DType
from ...graph.node import Node
from ...plan import PORTABLE, Target
from ...primitives.base import Shape
from ...primitives.call import CallKernel
from .cell import CENTRE, PATCH, CellCall

MOST_THREADS = 256
FEWEST_THREADS = 64


@dataclass(frozen=True)
class Layout:
    """Where things are in a workgroup's memory, in values of `lanes` floats.

    The patches begin at 0, one layer at `first`, another, or what the backward pass gathers from, at `second`; what a cell
    hands on unchanged at `stays`. chunk: perception networks whose gradients are gathered together.
    """

    threads: int
    lanes: int
    chunk: int
    first: int
    second: int
    stays: int
    size: int


def layout(channels: int, pairs: int, widths: Sequence[int], lanes: int, target: Target) -> Layout | None:
    """The best layout for the target's memory with at most that many lanes; None where not even one fits."""
    most = min(MOST_THREADS, target.max_workgroup_invocations, 1 << (max(widths[1:]) - 1).bit_length())
    threads = max(FEWEST_THREADS, most)
    first = PATCH * channels
    second = first + max(widths)
    while lanes:
        chunk = min(threads, 1 << (pairs - 1).bit_length())
        while True:
            stays = second + max(max(widths), 2 * max(widths[1:]) + 1, PATCH * chunk)
            size = stays + channels
            if 4 * lanes * size <= target.max_workgroup_storage:
                return Layout(threads, lanes, chunk, first, second, stays, size)
            if chunk <= 32:
                break
            chunk //= 2
        lanes //= 2
    return None


def fits(channels: int, kernels: int, widths: Sequence[int]) -> bool:
    """Whether a cell's values fit into the workgroup memory that every device has."""
    return layout(channels, channels * kernels, widths, 1, PORTABLE) is not None and 2 * max(widths) < 1 << 16


class Writer:
    """Writes the parts that both kernels have."""

    def __init__(self, call: CellCall, target: Target) -> None:
        found = layout(call.channels, call.pairs, call.widths, call.lanes, target)
        assert found is not None, "automata.py asks `fits` first"
        self.call, self.at = call, found
        self.lines: list[str] = []
        self.type = {1: "f32", 2: "vec2<f32>", 4: "vec4<f32>"}[found.lanes]
        self.zero = f"{self.type}()"
        self.groups = -(-call.cells // found.lanes)  # of cells that are computed together

    def add(self, text: str) -> None:
        self.lines += text.strip("\n").split("\n")

    def lane(self, v: str) -> str:
        """One component of a value in workgroup memory."""
        return "" if self.at.lanes == 1 else f"[{v}]"

    def for_each(self, count: int, body: str) -> None:
        """body for i below count and v, the lane, and `own`, the cell; the lanes of one i stand together."""
        lanes = self.at.lanes
        split = f"let i = j / {lanes};\n  let v = j % {lanes};" if lanes > 1 else "let i = j;"
        own = f"let own = group * {lanes} + v;" if lanes > 1 else "let own = group;"
        lines = "\n  ".join(body.strip("\n").split("\n"))
        self.add(f"for (var j = t; j < {count * lanes}; j += {self.at.threads}) {{\n  {split}\n  {own}\n  {lines}\n}}")

    def exists(self) -> str:
        """Whether the lane has a cell: the last group may be short."""
        return f"own < {self.call.cells}" if self.call.cells % self.at.lanes else "true"

    @property
    def preamble(self) -> str:
        call = self.call
        if call.periodic:
            place = f"let x = (x0 + {call.width}) % {call.width};\n  let y = (y0 + {call.height}) % {call.height};"
        else:
            place = (
                f"if (x0 < 0 || x0 >= {call.width} || y0 < 0 || y0 >= {call.height}) {{ return -1; }}\n"
                "  let x = x0;\n  let y = y0;"
            )
        area = call.height * call.width
        return f"""var<workgroup> pool: array<{self.type}, {self.at.size}>;
fn gate(c: vec4<f32>, a: {self.type}, b: {self.type}) -> {self.type} {{ return c.x + c.y * a + (c.z + c.w * a) * b; }}
fn neighbour(cell: i32, n: i32) -> i32 {{
  let x0 = cell % {call.width} + n % 3 - 1;
  let y0 = (cell / {call.width}) % {call.height} + n / 3 - 1;
  {place}
  return (cell / {area}) * {area} + y * {call.width} + x;
}}
"""

    def load_patch(self) -> None:
        channels = self.call.channels
        self.for_each(
            PATCH * channels,
            f"""
var value = 0.0;
if ({self.exists()}) {{
  let seen = neighbour(own, i / {channels});
  if (seen >= 0) {{ value = state[seen * {channels} + i % {channels}]; }}
}}
pool[i]{self.lane("v")} = value;
if (i / {channels} == {CENTRE}) {{ pool[{self.at.first} + i % {channels}]{self.lane("v")} = value; }}""",
        )
        self.add("workgroupBarrier();")

    # -- perception

    def networks(self) -> list[tuple[int, int, int, str, str]]:
        """(layer, gate, number of the gate, name of a, name of b) in order; values are named v<layer>_<gate>."""
        result = []
        for layer, (wa, wb) in enumerate(self.call.perception):
            for gate, (a, b) in enumerate(zip(wa, wb, strict=True)):
                names = [f"x{w}" if layer == 0 else f"v{layer - 1}_{w}" for w in (a, b)]
                result.append((layer, gate, len(result), names[0], names[1]))
        return result

    @property
    def cells_seen(self) -> list[int]:
        """The places of a patch that the perception reads."""
        return sorted({w for wires in self.call.perception[0] for w in wires})

    def networks_of_pair(self) -> str:
        """The networks of pair p: c, k, the patch's x<n>, all gates v<layer>_<gate>, their coefficients q<layer>_<gate>."""
        call = self.call
        lines = [f"let c = p / {call.kernels};", f"let k = p % {call.kernels};"]
        lines += [f"let x{n} = pool[{n * call.channels} + c];" for n in self.cells_seen]
        starts = np.cumsum([0, *(n * call.kernels for n in call.seen)])
        for layer, gate, _, a, b in self.networks():
            at = f"{starts[layer]} + k * {call.seen[layer]} + {gate}"
            lines.append(f"let q{layer}_{gate} = coefficients[{at}];")
            lines.append(f"let v{layer}_{gate} = gate(q{layer}_{gate}, {a}, {b});")
        return "\n".join(lines)

    def feature(self, output: int) -> str:
        """Where the update network reads output `output` of pair (c, k)."""
        call = self.call
        return f"{self.at.first + call.channels} + (c * {call.seen[-1]} + {output}) * {call.kernels} + k"

    def perception(self) -> None:
        self.add(f"for (var p = t; p < {self.call.pairs}; p += {self.at.threads}) {{\n{self.networks_of_pair()}")
        for output in range(self.call.seen[-1]):
            self.add(f"pool[{self.feature(output)}] = v{len(self.call.seen) - 1}_{output};")
        self.add("}")

    # -- the update network

    def parts(self, layer: int) -> range:
        """A thread has a gate in each part of a layer."""
        return range(-(-self.call.widths[layer + 1] // self.at.threads))

    def first_gate(self, layer: int) -> int:
        return sum(self.call.widths[1 : layer + 1])

    def column(self, part: int, count: int) -> str:
        """The element of this thread in a part of `count`; the last one again where there are fewer."""
        own = f"t + {part * self.at.threads}" if part else "t"
        return own if (part + 1) * self.at.threads <= count else f"min({own}, {count - 1})"

    def guarded(self, part: int, count: int, statement: str) -> None:
        """The statement in those threads that have an element of their own in the part."""
        if (part + 1) * self.at.threads <= count:
            self.add(statement)
        else:
            self.add(f"if (t < {count - part * self.at.threads}) {{ {statement} }}")

    def fetch(self, layer: int) -> None:
        """Wires and coefficients of a layer, before the barrier that its values wait for."""
        start = self.first_gate(layer)
        for i in self.parts(layer):
            name = f"{layer}_{i}"
            self.add(f"let g{name} = {self.column(i, self.call.widths[layer + 1])};")
            self.add(f"let w{name} = wires[{start} + g{name}];")
            self.add(f"let q{name} = coefficients[{self.call.perception_gates + start} + g{name}];")

    def layers(self, values_of_last: bool = True) -> int:
        """The update network; returns where the values of the last layer are. Inputs of gates stay in a<layer>_<part>
        and b<layer>_<part>."""
        source, goal = self.at.first, self.at.second
        count = len(self.call.widths) - 1
        self.fetch(0)
        self.add("workgroupBarrier();")
        for layer in range(count):
            for i in self.parts(layer):
                name = f"{layer}_{i}"
                self.add(f"let a{name} = pool[{source} + (w{name} & 0xffff)];")
                self.add(f"let b{name} = pool[{source} + ((w{name} >> 16u) & 0xffff)];")
                if values_of_last or layer < count - 1:
                    value = f"pool[{goal} + g{name}] = gate(q{name}, a{name}, b{name});"
                    self.guarded(i, self.call.widths[layer + 1], value)
            if layer < count - 1:
                self.fetch(layer + 1)
            self.add("workgroupBarrier();")
            source, goal = goal, source
        return source

    def changes(self) -> str:
        """Whether cell `own` takes its new state."""
        area = self.call.height * self.call.width
        return f"mask[i32(state[{self.call.state_size}]) * {area} + own % {area}] != 0u"


@dataclass(frozen=True, eq=False)
class CellStep(CellCall):
    """All cells one step on, on a GPU.

    Inputs: state, flat, where masked with the number of the step at the end; coefficients (gates, 4); wires (see
    cell.pack_wires); where masked, mask bool (steps, height, width). Result: the next state, like the state.
    """

    kind = "call"
    differentiable = False

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "coefficients", "wires", *self.optional)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        w = Writer(self, target)
        w.add("let t = i32(lid);\nlet group = wg;")
        w.load_patch()
        w.perception()
        last = w.layers()
        value = f"pool[{last} + i]{w.lane('v')}"
        if self.masked:
            old = f"pool[{CENTRE * self.channels} + i]{w.lane('v')}"
            w.for_each(
                self.channels,
                f"if ({w.exists()}) {{ result[own * {self.channels} + i] = select({old}, {value}, {w.changes()}); }}",
            )
            w.add(f"if (wg == 0 && t == 0) {{ result[{self.state_size}] = state[{self.state_size}] + 1.0; }}")
        else:
            w.for_each(self.channels, f"if ({w.exists()}) {{ result[own * {self.channels} + i] = {value}; }}")
        flops = 6 * self.cells * self.slots
        return CallKernel(
            "\n".join(w.lines), w.at.threads, w.groups, w.preamble, frozenset({"coefficients"}), flops=flops
        )


@dataclass(frozen=True, eq=False)
class CellStepGradient(CellCall):
    """The gradient of CellStep, on a GPU, and the running sums for the coefficients.

    Inputs: the step's state; the gradient: of its result (batch, height, width, channels) where `last`, else what this
    call gave for the step after; coefficients; wires; readers (see cell.inverse_wires); where masked, mask.
    Result, flat: the gradients of all patches (cells, 9, channels), padded to a multiple of 4; then, of each workgroup,
    sums (slots, 4): for gate i of the perception and pair p slot i * pairs + p, then the gates of the update network.
    """

    kind = "call"
    differentiable = False
    last: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "gradient", "coefficients", "wires", "readers", *self.optional)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (self.patches_size + self.workgroups * self.slots * 4,), inputs[0].dtype

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        w = GradientWriter(self, target, self.last)
        w.add("let t = i32(lid);")
        w.add(
            f"for (var group = wg; group < {w.groups}; group += {self.workgroups}) {{"
            if w.loops
            else "let group = wg;\n{"
        )
        w.load_patch()
        w.perception()
        w.layers(values_of_last=False)
        w.upstream()
        w.layers_back()
        w.perception_back()
        w.add("}")
        vectors = {"coefficients", "result"} if self.last else {"coefficients", "result", "gradient"}
        flops = 20 * self.cells * self.slots
        return CallKernel(
            "\n".join(w.lines), w.at.threads, self.workgroups, w.preamble, frozenset(vectors), flops=flops
        )


class GradientWriter(Writer):
    """Writes what the gradient kernel has beyond the other."""

    def __init__(self, call: CellCall, target: Target, last: bool) -> None:
        super().__init__(call, target)
        self.last = last
        self.loops = call.workgroups < self.groups
        self.sums = call.patches_size // 4  # where the sums of all workgroups begin, in vec4s

    @property
    def preamble(self) -> str:
        type_ = self.type
        total = {1: "x", 2: "x.x + x.y", 4: "dot(x, vec4<f32>(1.0))"}[self.at.lanes]
        fetch = f"return {'vec4<f32>()' if self.last else 'gradient[at]'};"
        if self.loops:  # a workgroup's later cells add to what it has written
            fetch = "if (again) { return result[at]; }\n  " + fetch
        return (
            super().preamble
            + f"""fn total(x: {type_}) -> f32 {{ return {total}; }}
fn sums_of(g: {type_}, a: {type_}, b: {type_}) -> vec4<f32> {{
  let ga = g * a;
  return vec4<f32>(total(g), total(ga), total(g * b), total(ga * b));
}}
fn sums_before(at: i32, again: bool) -> vec4<f32> {{
  {fetch}
}}
"""
        )

    def upstream(self) -> None:
        """The gradient of the new state, at `first`."""
        channels = self.call.channels
        if self.last:
            gradient = f"var g = 0.0;\nif ({self.exists()}) {{ g = gradient[own * {channels} + i]; }}"
        else:
            gradient = f"""var g = 0.0;
if ({self.exists()}) {{
  for (var n = 0; n < {PATCH}; n++) {{
    let reader = neighbour(own, {PATCH - 1} - n);
    let at = (reader * {PATCH} + n) * {channels} + i;
    if (reader >= 0) {{ g += gradient[at / 4][at % 4]; }}
  }}
}}"""
        place = f"pool[{self.at.first} + i]{self.lane('v')}"
        if self.call.masked:
            stays = f"pool[{self.at.stays} + i]{self.lane('v')}"
            gradient += f"\nlet changes = {self.changes()};\n{place} = select(0.0, g, changes);\n{stays} = select(g, 0.0, changes);"
        else:
            gradient += f"\n{place} = g;"
        self.for_each(channels, gradient)

    def fetch_back(self, layer: int, starts: Sequence[int]) -> None:
        """Coefficients, sums so far and readers of a layer, before the barrier that its gradients wait for."""
        call = self.call
        n_in = call.widths[layer]
        before = self.first_gate(layer)
        slot = self.sums + sum(call.seen) * call.pairs + before
        for i in self.parts(layer):
            name = f"{layer}_{i}"
            self.add(f"let c{name} = coefficients[{call.perception_gates + before} + g{name}];")
            self.add(f"let s{name} = sums_before({slot} + wg * {call.slots} + g{name}, group != wg);")
        for i in range(-(-n_in // self.at.threads)):
            for word in range(-(-call.readers[layer] // 2)):
                self.add(f"let r{layer}_{i}_{word} = readers[{starts[layer] + word * n_in} + {self.column(i, n_in)}];")

    def layers_back(self) -> None:
        """The update network backwards: from the gradient of its outputs to that of its inputs, both at `first`."""
        call, at = self.call, self.at
        words = [-(-most // 2) * n_in for most, n_in in zip(call.readers, call.widths, strict=False)]
        starts = [sum(words[:layer]) for layer in range(len(words))]
        for layer in reversed(range(len(call.widths) - 1)):
            n_in, n_out = call.widths[layer], call.widths[layer + 1]
            self.fetch_back(layer, starts)
            self.add("workgroupBarrier();")
            slot = self.sums + sum(call.seen) * call.pairs + self.first_gate(layer)
            for i in self.parts(layer):
                name = f"{layer}_{i}"
                self.add(f"let d{name} = pool[{at.first} + g{name}];")
                self.guarded(
                    i,
                    n_out,
                    f"pool[{at.second} + g{name}] = d{name} * (c{name}.y + c{name}.w * b{name}); "
                    f"pool[{at.second + n_out} + g{name}] = d{name} * (c{name}.z + c{name}.w * a{name}); "
                    f"result[{slot} + wg * {call.slots} + g{name}] = s{name} + sums_of(d{name}, a{name}, b{name});",
                )
            self.add(f"if (t == 0) {{ pool[{at.second + 2 * n_out}] = {self.zero}; }}\nworkgroupBarrier();")
            for i in range(-(-n_in // at.threads)):
                terms = []
                for word in range(-(-call.readers[layer] // 2)):
                    r = f"r{layer}_{i}_{word}"
                    terms += [f"pool[{at.second} + ({r} & 0xffff)]", f"pool[{at.second} + (({r} >> 16u) & 0xffff)]"]
                own = f"t + {i * at.threads}"
                self.guarded(i, n_in, f"pool[{at.first} + {own}] = {' + '.join(terms[: call.readers[layer]])};")
        self.add("workgroupBarrier();")

    def perception_back(self) -> None:
        """The perception's gates backwards, and the gradients of the patches."""
        call, at = self.call, self.at
        channels, kernels, chunk = call.channels, call.kernels, at.chunk
        networks, seen = self.networks(), self.cells_seen
        self.add(f"for (var base = 0; base < {call.pairs}; base += {chunk}) {{\nif (t < {chunk}) {{")
        self.add(f"let p = min(base + t, {call.pairs - 1});\n{self.networks_of_pair()}")
        for n in seen:
            self.add(f"var dx{n} = {self.zero};")
        for layer, gate, *_ in networks:
            top = layer == len(call.seen) - 1
            self.add(f"var dv{layer}_{gate} = {f'pool[{self.feature(gate)}]' if top else self.zero};")
        for layer, gate, number, a, b in reversed(networks):
            d, q = f"dv{layer}_{gate}", f"q{layer}_{gate}"
            slot = f"{self.sums + number * call.pairs} + wg * {call.slots} + p"
            self.add(f"d{a} += {d} * ({q}.y + {q}.w * {b});\nd{b} += {d} * ({q}.z + {q}.w * {a});")
            self.add(
                f"if (base + t < {call.pairs}) "
                f"{{ result[{slot}] = sums_before({slot}, group != wg) + sums_of({d}, {a}, {b}); }}"
            )
        for n in range(PATCH):
            self.add(f"pool[{at.second + n * chunk} + t] = {f'dx{n}' if n in seen else self.zero};")
        self.add("}\nworkgroupBarrier();")
        stays = f" + pool[{at.stays} + channel]{self.lane('v')}" if call.masked else ""
        self.for_each(
            PATCH * channels,
            f"""
if ({self.exists()}) {{
  let n = i / {channels};
  let channel = i % {channels};
  let at = own * {PATCH * channels} + i;
  var g = 0.0;
  if (base > 0) {{ g = result[at / 4][at % 4]; }}
  else if (n == {CENTRE}) {{ g = pool[{at.first} + channel]{self.lane("v")}{stays}; }}
  let end = min((channel + 1) * {kernels}, base + {chunk});
  for (var p = max(channel * {kernels}, base); p < end; p++) {{ g += pool[{at.second} + n * {chunk} + p - base]{self.lane("v")}; }}
  result[at / 4][at % 4] = g;
}}""",
        )
        self.add("workgroupBarrier();\n}")
