"""One step of a logic automaton, and its gradient, as kernels: a perception before the layers that layers.py writes.

The small perception networks run in registers, their wires written into the shader. The gradient kernel evaluates the cell
anew, so nothing but states is kept from forward to backward, and its sums are carried from step to step. The text
is made in Python, not kept as .wgsl: every gate is a line of its own, with the wires of this automaton in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...extend import Limits, Shader, Spec
from .cell import CENTRE, PATCH, CellCall
from .layers import GradientWriter, Writer


class CellWriter(Writer):
    """Writes the parts of a cell's kernels that plain layers lack."""

    call: CellCall

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
        return (
            super().preamble
            + f"""fn neighbour(cell: i32, n: i32) -> i32 {{
  let x0 = cell % {call.width} + n % 3 - 1;
  let y0 = (cell / {call.width}) % {call.height} + n / 3 - 1;
  {place}
  return (cell / {area}) * {area} + y * {call.width} + x;
}}
"""
        )

    def load_patch(self) -> None:
        channels = self.call.channels
        self.define(
            "state_seen",
            f"""
if ({self.exists()}) {{
  let seen = neighbour(own, i / {channels});
  if (seen >= 0) {{ return state[seen * {channels} + i % {channels}]; }}
}}
return 0.0;""",
        )
        self.for_all_lanes(
            PATCH * channels,
            f"""
let value = {self.of_all_lanes("state_seen")};
pool[i] = value;
if (i / {channels} == {CENTRE}) {{ pool[{self.at.first} + i % {channels}] = value; }}""",
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

    def changes(self) -> str:
        """Whether cell `own` takes its new state."""
        area = self.call.height * self.call.width
        return f"mask[i32(state[{self.call.state_size}]) * {area} + own % {area}] != 0u"


@dataclass(frozen=True)
class CellStep(CellCall):
    """All cells one step on, on a GPU.

    Inputs: state, flat, where masked with the number of the step at the end; coefficients (gates, 4); wires (see
    cell.pack_wires); where masked, mask bool (steps, height, width). Result: the next state, like the state.
    """

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "coefficients", "wires", *self.optional)

    def infer(self, *inputs: Spec) -> Spec:
        return inputs[0]

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        w = CellWriter(self, limits)
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
        return Shader("\n".join(w.lines), w.at.threads, w.groups, w.text(), frozenset({"coefficients"}), flops=flops)


@dataclass(frozen=True)
class CellStepGradient(CellCall):
    """The gradient of CellStep, on a GPU, and the running sums for the coefficients.

    Inputs: the step's state; the gradient: of its result (batch, height, width, channels) where `last`, else the
    result of this call for the next step; coefficients; wires; readers (see cell.inverse_wires); where masked, mask.
    Result, flat: the gradients of all patches (cells, 9, channels), padded to a multiple of 4; then, of each workgroup,
    sums (slots, 4): for gate i of the perception and pair p slot i * pairs + p, then the gates of the update network.
    """

    last: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "gradient", "coefficients", "wires", "readers", *self.optional)

    def infer(self, *inputs: Spec) -> Spec:
        return Spec((self.inputs_size + self.workgroups * self.slots * 4,), inputs[0].dtype)

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        w = CellGradientWriter(self, limits, self.last)
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
        vectors = {"coefficients"} if self.last else {"coefficients", "gradient"}
        flops = 20 * self.cells * self.slots
        return Shader("\n".join(w.lines), w.at.threads, self.workgroups, w.text(), frozenset(vectors), flops=flops)


class CellGradientWriter(CellWriter, GradientWriter):
    """Writes the additional parts of a cell's gradient kernel."""

    def upstream(self) -> None:
        """The gradient of the new state, at `first`."""
        channels = self.call.channels
        if self.last:
            gradient = f"if ({self.exists()}) {{ return gradient[own * {channels} + i]; }}\nreturn 0.0;"
        else:
            gradient = f"""
var g = 0.0;
if ({self.exists()}) {{
  for (var n = 0; n < {PATCH}; n++) {{
    let reader = neighbour(own, {PATCH - 1} - n);
    let at = (reader * {PATCH} + n) * {channels} + i;
    if (reader >= 0) {{ g += gradient[at / 4][at % 4]; }}
  }}
}}
return g;"""
        self.define("upstream_of", gradient)
        text = f"let g = {self.of_all_lanes('upstream_of')};"
        if self.call.masked:
            self.define("changes_of", f"return {self.changes()};", "bool")
            text += f"\nlet changes = {self.of_all_lanes('changes_of', 'bool')};"
            text += f"\npool[{self.at.first} + i] = select({self.zero}, g, changes);"
            text += f"\npool[{self.at.stays} + i] = select(g, {self.zero}, changes);"
        else:
            text += f"\npool[{self.at.first} + i] = g;"
        self.for_all_lanes(channels, text)

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
                f"{{ keep_sums({slot}, sums_before({slot}, group != wg) + sums_of({d}, {a}, {b})); }}"
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
  if (base > 0) {{ g = result[at]; }}
  else if (n == {CENTRE}) {{ g = pool[{at.first} + channel]{self.lane("v")}{stays}; }}
  let end = min((channel + 1) * {kernels}, base + {chunk});
  for (var p = max(channel * {kernels}, base); p < end; p++) {{ g += pool[{at.second} + n * {chunk} + p - base]{self.lane("v")}; }}
  result[at] = g;
}}""",
        )
        self.add("workgroupBarrier();\n}")
