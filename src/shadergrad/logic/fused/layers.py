"""Layers of gates in one kernel: the shared parts of automata's and networks' kernels.

A workgroup computes one, two or four samples (cells of an automaton), as the components of vectors. Workgroup memory holds the
values of two layers; a thread evaluates the gates of its column in every layer. The gradient kernel keeps the inputs of every
gate in registers and walks the layers back. For the gradient of the coefficients it adds up g, g a, g b and g a b for every
gate, one set per workgroup. The gradient of a wire is gathered from the gates that read it, by an index that the host builds
once, so nothing races. Loads are issued before the barriers that would delay them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...extend import PORTABLE, Limits
from .cell import PATCH, LayersCall

MOST_THREADS = 256
FEWEST_THREADS = 64


@dataclass(frozen=True)
class Layout:
    """The layout of a workgroup's memory, in values of `lanes` floats.

    The patches begin at 0, one layer at `first`, another, or the source of the backward pass's gather, at `second`; unchanged
    values of a cell at `stays`. chunk: the number of perception networks whose gradients are gathered together.
    """

    threads: int
    lanes: int
    chunk: int
    first: int
    second: int
    stays: int
    size: int


def layout(
    channels: int, pairs: int, widths: Sequence[int], lanes: int, limits: Limits, back: bool = True
) -> Layout | None:
    """The best layout within a device's limits with at most that many lanes; None if not even one fits. back: for the gradient
    kernel, which gathers in workgroup memory. The forward kernel uses no more than its layers need, because browsers zero the
    memory, on a software adapter word by word."""
    most = min(MOST_THREADS, limits.max_workgroup_invocations, 1 << (max(widths[1:]) - 1).bit_length())
    threads = max(FEWEST_THREADS, most)
    first = PATCH * channels
    second = first + max(widths if back else widths[0::2])
    while lanes:
        chunk = min(threads, 1 << (pairs - 1).bit_length())
        while True:
            stays = second + (max(max(widths), 2 * max(widths[1:]) + 1, PATCH * chunk) if back else max(widths[1::2]))
            size = stays + (channels if back else 0)
            if 4 * lanes * size <= limits.max_workgroup_storage:
                return Layout(threads, lanes, chunk, first, second, stays, size)
            if chunk <= 32:
                break
            chunk //= 2
        lanes //= 2
    return None


def fits(channels: int, pairs: int, widths: Sequence[int]) -> bool:
    """Whether a sample's values fit into the workgroup memory of every device, and its wires into 16 bits.

    channels: of a patch; pairs: perception networks; both 0 for a plain network.
    """
    return layout(channels, pairs, widths, 1, PORTABLE) is not None and 2 * max(widths) < 1 << 16


class Writer:
    """Writes the shared parts of the kernels. back: for a gradient kernel."""

    def __init__(self, call: LayersCall, limits: Limits, back: bool = False) -> None:
        found = layout(*call.perceived, call.widths, call.lanes, limits, back)
        assert found is not None, "who makes a call asks `fits` first"
        self.call, self.at = call, found
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.type = {1: "f32", 2: "vec2<f32>", 4: "vec4<f32>"}[found.lanes]
        self.zero = f"{self.type}()"
        self.groups = -(-call.cells // found.lanes)  # of cells that are computed together

    def add(self, text: str) -> None:
        self.lines += text.strip("\n").split("\n")

    def lane(self, v: str) -> str:
        """One component of a value in workgroup memory."""
        return "" if self.at.lanes == 1 else f"[{v}]"

    def define(self, name: str, body: str, returns: str = "f32") -> None:
        """A function of i and `own`, the cell, for `of_all_lanes`."""
        lines = "\n  ".join(body.strip("\n").split("\n"))
        self.functions.append(f"fn {name}(i: i32, own: i32) -> {returns} {{\n  {lines}\n}}\n")

    def of_all_lanes(self, name: str, returns: str = "f32") -> str:
        """The results of a defined function for i and the cell of each lane.

        A thread writes whole values, because WGSL lets a compiler write all components for one, and then threads would race.
        """
        lanes = self.at.lanes
        calls = [f"{name}(i, group * {lanes} + {v})" for v in range(lanes)] if lanes > 1 else [f"{name}(i, group)"]
        return f"vec{lanes}<{returns}>({', '.join(calls)})" if lanes > 1 else calls[0]

    def for_all_lanes(self, count: int, body: str) -> None:
        """body for i below count."""
        lines = "\n  ".join(body.strip("\n").split("\n"))
        self.add(f"for (var i = t; i < {count}; i += {self.at.threads}) {{\n  {lines}\n}}")

    def for_each(self, count: int, body: str) -> None:
        """body for i below count and v, the lane, and `own`, the cell; the lanes of one i are consecutive."""
        lanes = self.at.lanes
        split = f"let i = j / {lanes};\n  let v = j % {lanes};" if lanes > 1 else "let i = j;"
        own = f"let own = group * {lanes} + v;" if lanes > 1 else "let own = group;"
        lines = "\n  ".join(body.strip("\n").split("\n"))
        self.add(f"for (var j = t; j < {count * lanes}; j += {self.at.threads}) {{\n  {split}\n  {own}\n  {lines}\n}}")

    def exists(self) -> str:
        """Whether the lane has a cell: the last group may be short."""
        return f"own < {self.call.cells}" if self.call.cells % self.at.lanes else "true"

    def text(self) -> str:
        """The source before the entry point."""
        return self.preamble + "".join(self.functions)

    @property
    def preamble(self) -> str:
        return f"""var<workgroup> pool: array<{self.type}, {self.at.size}>;
fn gate(c: vec4<f32>, a: {self.type}, b: {self.type}) -> {self.type} {{ return c.x + c.y * a + (c.z + c.w * a) * b; }}
"""

    # -- the layers

    def parts(self, layer: int) -> range:
        """A thread has a gate in each part of a layer."""
        return range(-(-self.call.widths[layer + 1] // self.at.threads))

    def first_gate(self, layer: int) -> int:
        return sum(self.call.widths[1 : layer + 1])

    def column(self, part: int, count: int) -> str:
        """The element of this thread in a part of `count`; the last one again if there are fewer."""
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
        """All layers; returns the offset of the last layer's values. Inputs of gates stay in a<layer>_<part>
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


class GradientWriter(Writer):
    """Writes the additional parts of gradient kernels.

    last: whether the given gradient is that of the result; else it is the kernel's output for the next step, which holds the
    sums so far.
    """

    def __init__(self, call: LayersCall, limits: Limits, last: bool) -> None:
        super().__init__(call, limits, back=True)
        self.last = last
        self.loops = call.workgroups < self.groups
        self.sums = call.inputs_size // 4  # where the sums of all workgroups begin, in vec4s

    @property
    def preamble(self) -> str:
        type_ = self.type
        total = {1: "x", 2: "x.x + x.y", 4: "dot(x, vec4<f32>(1.0))"}[self.at.lanes]
        fetch = f"return {'vec4<f32>()' if self.last else 'gradient[at]'};"
        if self.loops:  # later cells of a workgroup add to the sums that it has written
            written = ", ".join(f"result[4 * at + {k}]" for k in range(4))
            fetch = f"if (again) {{ return vec4<f32>({written}); }}\n  {fetch}"
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
fn keep_sums(at: i32, sums: vec4<f32>) {{
  result[4 * at] = sums.x;
  result[4 * at + 1] = sums.y;
  result[4 * at + 2] = sums.z;
  result[4 * at + 3] = sums.w;
}}
"""
        )

    def fetch_back(self, layer: int, starts: Sequence[int]) -> None:
        """Coefficients, sums so far and readers of a layer, before the barrier that its gradients wait for."""
        call = self.call
        n_in = call.widths[layer]
        before = self.first_gate(layer)
        slot = self.sums + call.perception_slots + before
        for i in self.parts(layer):
            name = f"{layer}_{i}"
            self.add(f"let c{name} = coefficients[{call.perception_gates + before} + g{name}];")
            self.add(f"let s{name} = sums_before({slot} + wg * {call.slots} + g{name}, group != wg);")
        for i in range(-(-n_in // self.at.threads)):
            for word in range(-(-call.readers[layer] // 2)):
                self.add(f"let r{layer}_{i}_{word} = readers[{starts[layer] + word * n_in} + {self.column(i, n_in)}];")

    def layers_back(self) -> None:
        """The layers backwards: from the gradient of its outputs to that of its inputs, both at `first`."""
        call, at = self.call, self.at
        words = [-(-most // 2) * n_in for most, n_in in zip(call.readers, call.widths, strict=False)]
        starts = [sum(words[:layer]) for layer in range(len(words))]
        for layer in reversed(range(len(call.widths) - 1)):
            n_in, n_out = call.widths[layer], call.widths[layer + 1]
            self.fetch_back(layer, starts)
            self.add("workgroupBarrier();")
            slot = self.sums + call.perception_slots + self.first_gate(layer)
            for i in self.parts(layer):
                name = f"{layer}_{i}"
                self.add(f"let d{name} = pool[{at.first} + g{name}];")
                self.guarded(
                    i,
                    n_out,
                    f"pool[{at.second} + g{name}] = d{name} * (c{name}.y + c{name}.w * b{name}); "
                    f"pool[{at.second + n_out} + g{name}] = d{name} * (c{name}.z + c{name}.w * a{name}); "
                    f"keep_sums({slot} + wg * {call.slots} + g{name}, s{name} + sums_of(d{name}, a{name}, b{name}));",
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
