"""A whole cell of a logic automaton in one kernel: a dispatch a step forward, and one backward.

A workgroup computes a cell. Its patch and the values of two layers are in workgroup memory; a thread evaluates the gates
of its column in every layer. The small perception networks run in registers, their wires written into the shader. The
backward kernel evaluates the cell anew, keeps the inputs of every gate in registers, walks the layers back, and adds to
the sums that the gradient of the coefficients needs: of g, g a, g b and g a b for every gate, a set a workgroup, carried
from step to step. A wire's gradient is gathered from the gates that read it, by an index built once on the host, so
nothing races. Nothing but the states is kept between forward and backward.

`Rollout` and its gradients are the primitives that automata.py uses. On a GPU they become chains of `CellStep` and
`CellStepGradient`; equal steps of a loss and its gradient are one node, so a compiled step computes each state once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import DType
from ..errors import AutogradError
from ..graph import node as nodes
from ..primitives.base import Shape
from ..primitives.call import Call, CallKernel
from ..primitives.elementwise import Add
from ..primitives.reduce import ReduceSum
from ..primitives.source import Constant
from ..primitives.views import Cat, Expand, Pad, Permute, Reshape, Slice

if TYPE_CHECKING:
    from ..compile.rewrite import Rewriter
    from ..graph.node import Node
    from ..plan import Target

Wires = tuple[tuple[int, ...], ...]  # of a perception layer: the a wires, the b wires

PATCH, CENTRE = 9, 4
PORTABLE_FLOATS = 4096  # workgroup memory that every device has
MOST_THREADS = 256
PARTIAL_BYTES = 1 << 26  # of the sums that workgroups carry; fewer workgroups, each with more cells, keep below


@dataclass(frozen=True, eq=False)
class CellCall(Call):
    """What all calls here know: the grid and the network of a cell.

    perception: the wires of each layer, a pair of tuples. widths: inputs of the update network, then each layer's outputs.
    masked: whether an input says which cells change at each step. wires: an int32 buffer with a + 65536 b for every gate of
    the update network. readers: an int32 buffer, the update network's inverse wiring (see `inverse_wires`).
    """

    batch: int
    height: int
    width: int
    channels: int
    kernels: int
    perception: tuple[Wires, ...]
    widths: tuple[int, ...]
    periodic: bool
    masked: bool

    @property
    def cells(self) -> int:
        return self.batch * self.height * self.width

    @property
    def state_size(self) -> int:
        return self.cells * self.channels

    @property
    def state_shape(self) -> Shape:
        return (self.batch, self.height, self.width, self.channels)

    @property
    def pairs(self) -> int:
        """Perception networks of a cell: channels x kernels, the kernel fastest."""
        return self.channels * self.kernels

    @property
    def seen(self) -> tuple[int, ...]:
        """Gates of each perception layer."""
        return tuple(len(a) for a, _ in self.perception)

    @property
    def perception_gates(self) -> int:
        return sum(self.seen) * self.kernels

    @property
    def update_gates(self) -> int:
        return sum(self.widths[1:])

    @property
    def gates(self) -> int:
        return self.perception_gates + self.update_gates

    @property
    def slots(self) -> int:
        """Sums of one workgroup: a gate of every perception network, a gate of the update network."""
        return sum(self.seen) * self.pairs + self.update_gates

    @property
    def workgroups(self) -> int:
        """Of the backward kernel."""
        return max(1, min(self.cells, PARTIAL_BYTES // (16 * self.slots)))

    @property
    def patches_size(self) -> int:
        """Gradients of all patches, padded to vec4s."""
        return -(-self.cells * PATCH * self.channels // 4) * 4

    def cell_of(self, other: type[CellCall], *more: Any) -> Any:
        """Another call of the same cell."""
        return other(*(getattr(self, f.name) for f in fields(CellCall)), *more)


def fits(channels: int, kernels: int, widths: Sequence[int]) -> bool:
    """Whether a cell's values fit into the workgroup memory that every device has."""
    return _pool(channels, kernels, widths, 64)[1] <= PORTABLE_FLOATS and max(widths) < 1 << 16


def pack_wires(layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """a + 65536 b of every gate, layer after layer, int32."""
    packed = [a.astype(np.uint32) | b.astype(np.uint32) << 16 for a, b in layers]
    return np.concatenate(packed).view(np.int32)


def unpack_wires(wires: np.ndarray, widths: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The pairs of wires of each layer."""
    split = np.split(wires.view(np.uint32), np.cumsum(widths[1:-1]))
    return [((w & 0xFFFF).astype(np.intp), (w >> 16).astype(np.intp)) for w in split]


def inverse_wires(layers: Sequence[tuple[np.ndarray, np.ndarray]], widths: Sequence[int]) -> np.ndarray:
    """For each layer: where the readers of every input start (n_in + 1), then the readers (2 n_out): 2 g for input a of
    gate g, 2 g + 1 for input b. int32."""
    parts: list[np.ndarray] = []
    for (a, b), n_in in zip(layers, widths[:-1], strict=True):
        read = np.stack([a, b], axis=1).reshape(-1)
        readers = np.argsort(read, kind="stable")
        parts += [np.searchsorted(read[readers], np.arange(n_in + 1)), readers]
    return np.concatenate(parts).astype(np.int32)


# ---------------------------------------------------------------------------------- in NumPy


def gate_values(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c0 + c1 a + (c2 + c3 a) b, c: (4, ...)."""
    value = c[3] * a
    value += c[2]
    value *= b
    value += c[1] * a
    value += c[0]
    return value


def gate_gradients(
    g: np.ndarray, c: np.ndarray, a: np.ndarray, b: np.ndarray, over: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of a, of b, and of the coefficients (4, ...), summed over the axes `over`."""
    ga = g * a
    sums = np.stack([g.sum(over), ga.sum(over), (g * b).sum(over), (ga * b).sum(over)])
    return g * (c[1] + c[3] * b), g * (c[2] + c[3] * a), sums


def gathered(da: np.ndarray, db: np.ndarray, a: np.ndarray, b: np.ndarray, n_in: int) -> np.ndarray:
    """The gradient of the n_in inputs (first axis): the sum over the gates that read each."""
    read = np.concatenate([a, b])
    order = np.argsort(read, kind="stable")
    starts = np.searchsorted(read[order], np.arange(n_in))
    rows = np.concatenate([da, db])[order]
    used = np.unique(read)
    result = np.zeros((n_in, *da.shape[1:]), da.dtype)
    result[used] = np.add.reduceat(rows, starts[used], axis=0)
    return result


class NumpyCell:
    """The network of all cells at once, gates along the first axis, cells along the last."""

    def __init__(self, call: CellCall, coefficients: np.ndarray, wires: np.ndarray) -> None:
        self.call = call
        self.wires = unpack_wires(wires, call.widths)
        at = 0
        self.perception: list[np.ndarray] = []  # (4, gates, kernels, 1, 1)
        for n in call.seen:
            c = coefficients[at : at + call.kernels * n].reshape(call.kernels, n, 4)
            self.perception.append(np.ascontiguousarray(c.transpose(2, 1, 0)[..., None, None]))
            at += call.kernels * n
        self.update: list[np.ndarray] = []  # (4, gates, 1)
        for n in call.widths[1:]:
            self.update.append(np.ascontiguousarray(coefficients[at : at + n].T[..., None]))
            at += n

    def patches(self, state: np.ndarray) -> np.ndarray:
        """(9, channels, cells)."""
        call = self.call
        padded = np.pad(state, ((0, 0), (1, 1), (1, 1), (0, 0)), "wrap" if call.periodic else "constant")
        views = [padded[:, y : y + call.height, x : x + call.width] for y in range(3) for x in range(3)]
        return np.stack([v.reshape(-1, call.channels).T for v in views])

    def unpatches(self, g: np.ndarray) -> np.ndarray:
        """The adjoint of `patches`: a state."""
        call = self.call
        h, w = call.height, call.width
        total = np.zeros((call.batch, h + 2, w + 2, call.channels), g.dtype)
        for n in range(PATCH):
            y, x = divmod(n, 3)
            total[:, y : y + h, x : x + w] += g[n].T.reshape(call.state_shape)
        if call.periodic:
            total[:, 1] += total[:, h + 1]
            total[:, h] += total[:, 0]
            total[:, :, 1] += total[:, :, w + 1]
            total[:, :, w] += total[:, :, 0]
        return total[:, 1 : h + 1, 1 : w + 1]

    def forward(self, state: np.ndarray, mask: np.ndarray | None, kept: list[Any] | None = None) -> np.ndarray:
        """The next state; `kept` gets the inputs of all gates."""
        call = self.call
        patches = self.patches(state)
        x = patches[:, None]
        for (wa, wb), c in zip(call.perception, self.perception, strict=True):
            a, b = x[list(wa)], x[list(wb)]
            if kept is not None:
                kept.append((a, b))
            x = gate_values(c, a, b)
        found = x.transpose(2, 0, 1, 3).reshape(-1, call.cells)
        x = np.concatenate([patches[CENTRE], found])
        for (wa, wb), c in zip(self.wires, self.update, strict=True):
            a, b = x[wa], x[wb]
            if kept is not None:
                kept.append((a, b))
            x = gate_values(c, a, b)
        new = x.T.reshape(call.state_shape)
        return new if mask is None else np.where(mask, new, state)

    def backward(
        self, state: np.ndarray, mask: np.ndarray | None, gradient: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The gradients of the state and, layer by layer, of the coefficients (4, gates of the layer in their order)."""
        call = self.call
        kept: list[Any] = []
        self.forward(state, None, kept)
        stays = 0.0 if mask is None else np.where(mask, 0, gradient)
        g = gradient if mask is None else np.where(mask, gradient, 0)
        g = np.ascontiguousarray(g.reshape(-1, call.channels).T)
        sums: list[np.ndarray] = []
        for (wa, wb), c, n_in in reversed(list(zip(self.wires, self.update, call.widths[:-1], strict=True))):
            a, b = kept.pop()
            da, db, s = gate_gradients(g, c, a, b, (1,))
            sums.append(s)
            g = gathered(da, db, wa, wb, n_in)
        centre = g[: call.channels]
        g = g[call.channels :].reshape(call.channels, -1, call.kernels, call.cells).transpose(1, 2, 0, 3)
        for (wa, wb), c, n_in in reversed(
            list(zip(call.perception, self.perception, (9, *call.seen[:-1]), strict=True))
        ):
            a, b = kept.pop()
            da, db, s = gate_gradients(g, c, a, b, (2, 3))
            sums.append(s.transpose(0, 2, 1).reshape(4, -1))  # kernel by kernel
            g = gathered(da, db, np.array(wa), np.array(wb), n_in)
        g = g.sum(1)
        g[CENTRE] += centre
        return self.unpatches(g) + stays, sums[::-1]


# ---------------------------------------------------------------------------------- in WGSL


def _pool(channels: int, kernels: int, widths: Sequence[int], threads: int) -> tuple[int, int]:
    """Where the second half of the workgroup's floats begins, after the patch and one layer, and how many there are."""
    second = PATCH * channels + max(widths)
    scratch = max(max(widths), 2 * max(widths[1:]), PATCH * threads)
    return second, second + scratch + channels


def threads_of(call: CellCall, target: Target) -> int:
    """As many as the widest layer has gates, and the memory allows."""
    threads = min(MOST_THREADS, target.max_workgroup_invocations, 1 << (max(call.widths[1:]) - 1).bit_length())
    threads = max(64, threads)
    while (
        threads > 64 and 4 * _pool(call.channels, call.kernels, call.widths, threads)[1] > target.max_workgroup_storage
    ):
        threads //= 2
    return threads


@dataclass
class Writer:
    """Writes the shader of a cell."""

    call: CellCall
    threads: int

    def __post_init__(self) -> None:
        call = self.call
        self.second, self.floats = _pool(call.channels, call.kernels, call.widths, self.threads)
        self.first = PATCH * call.channels
        self.stays = self.floats - call.channels  # what a cell hands on that does not change
        self.lines: list[str] = []

    def add(self, text: str) -> None:
        self.lines += text.strip("\n").split("\n")

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
        return f"""var<workgroup> pool: array<f32, {self.floats}>;
fn gate(c: vec4<f32>, a: f32, b: f32) -> f32 {{ return c.x + c.y * a + (c.z + c.w * a) * b; }}
fn neighbour(cell: i32, n: i32) -> i32 {{
  let x0 = cell % {call.width} + n % 3 - 1;
  let y0 = (cell / {call.width}) % {call.height} + n / 3 - 1;
  {place}
  return (cell / {area}) * {area} + y * {call.width} + x;
}}
"""

    def load_patch(self) -> None:
        call = self.call
        self.add(f"""
for (var i = t; i < {PATCH * call.channels}; i += {self.threads}) {{
  let from_cell = neighbour(cell, i / {call.channels});
  var value = 0.0;
  if (from_cell >= 0) {{ value = state[from_cell * {call.channels} + i % {call.channels}]; }}
  pool[i] = value;
  if (i / {call.channels} == {CENTRE}) {{ pool[{self.first} + i % {call.channels}] = value; }}
}}
workgroupBarrier();""")

    def networks(self) -> list[tuple[int, int, int, str, str]]:
        """(layer, gate, number of the gate, name of a, name of b) in order; values are named v<layer>_<gate>."""
        result = []
        number = 0
        for layer, (wa, wb) in enumerate(self.call.perception):
            for gate, (a, b) in enumerate(zip(wa, wb, strict=True)):
                names = [f"x{w}" if layer == 0 else f"v{layer - 1}_{w}" for w in (a, b)]
                result.append((layer, gate, number, names[0], names[1]))
                number += 1
        return result

    def perceive(self) -> list[str]:
        """The networks of pair p: c, k, the patch's x and all gates; coefficients as q<layer>_<gate>."""
        call = self.call
        used = sorted({w for pair in call.perception[0] for w in pair})
        lines = [f"let c = p / {call.kernels};", f"let k = p % {call.kernels};"]
        lines += [f"let x{n} = pool[{n * call.channels} + c];" for n in used]
        starts = np.cumsum([0, *(n * call.kernels for n in call.seen)])
        for layer, gate, _, a, b in self.networks():
            at = f"{starts[layer]} + k * {call.seen[layer]} + {gate}"
            lines.append(f"let q{layer}_{gate} = coefficients[{at}];")
            lines.append(f"let v{layer}_{gate} = gate(q{layer}_{gate}, {a}, {b});")
        return lines

    def feature(self, output: int) -> str:
        """Where the update network reads output `output` of pair (c, k)."""
        call = self.call
        return f"{call.channels} + (c * {call.seen[-1]} + {output}) * {call.kernels} + k"

    def perception(self) -> None:
        call = self.call
        self.add(f"for (var p = t; p < {call.pairs}; p += {self.threads}) {{")
        self.add("\n".join("  " + line for line in self.perceive()))
        for s in range(call.seen[-1]):
            self.add(f"  pool[{self.first} + {self.feature(s)}] = v{len(call.seen) - 1}_{s};")
        self.add("}")

    def fetch(self, layer: int) -> None:
        """Wires and coefficients of a layer, before the barrier that its values wait for."""
        call = self.call
        n, start = call.widths[layer + 1], sum(call.widths[1 : layer + 1])
        for i in range(-(-n // self.threads)):
            name = f"{layer}_{i}"
            self.add(f"let g{name} = {self.column(layer, i)};")
            self.add(f"let w{name} = wires[{start} + g{name}];")
            self.add(f"let q{name} = coefficients[{call.perception_gates + start} + g{name}];")

    def column(self, layer: int, i: int) -> str:
        """The gate of this thread in part i of a layer; the last gate again where there are fewer."""
        n = self.call.widths[layer + 1]
        own = f"t + {i * self.threads}" if i else "t"
        return own if (i + 1) * self.threads <= n else f"min({own}, {n - 1})"

    def guarded(self, layer: int, i: int, statement: str) -> None:
        n = self.call.widths[layer + 1]
        if (i + 1) * self.threads <= n:
            self.add(statement)
        else:
            self.add(f"if (t < {n - i * self.threads}) {{ {statement} }}")

    def layers(self, values_of_last: bool = True) -> int:
        """The update network; returns where the values of the last layer are. Inputs of gates stay in a<layer>_<part>
        and b<layer>_<part>."""
        source, goal = self.first, self.second
        count = len(self.call.widths) - 1
        self.fetch(0)
        self.add("workgroupBarrier();")
        for layer in range(count):
            parts = range(-(-self.call.widths[layer + 1] // self.threads))
            for i in parts:
                name = f"{layer}_{i}"
                self.add(f"let a{name} = pool[{source} + (w{name} & 0xffff)];")
                self.add(f"let b{name} = pool[{source} + ((w{name} >> 16u) & 0xffff)];")
                if values_of_last or layer < count - 1:
                    self.guarded(layer, i, f"pool[{goal} + g{name}] = gate(q{name}, a{name}, b{name});")
            if layer < count - 1:
                self.fetch(layer + 1)
                self.add("workgroupBarrier();")
            source, goal = goal, source
        return source

    def mask(self) -> str:
        call = self.call
        area = call.height * call.width
        return f"mask[i32(state[{call.state_size}]) * {area} + cell % {area}] != 0u"


def _inputs_of(call: CellCall) -> tuple[str, ...]:
    return ("mask",) if call.masked else ()


@dataclass(frozen=True, eq=False)
class CellStep(CellCall):
    """All cells one step on, on a GPU.

    Inputs: state, flat, where masked with the number of the step at the end; coefficients (gates, 4); wires; where masked,
    mask bool (steps, height, width). Result: the next state, like the state.
    """

    kind = "call"
    differentiable = False

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "coefficients", "wires", *_inputs_of(self))

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        w = Writer(self, threads_of(self, target))
        w.add("let t = i32(lid);\nlet cell = wg;")
        w.load_patch()
        w.perception()
        last = w.layers()
        w.add(f"workgroupBarrier();\nfor (var i = t; i < {self.channels}; i += {w.threads}) {{")
        if self.masked:
            w.add(f"  if ({w.mask()}) {{ result[cell * {self.channels} + i] = pool[{last} + i]; }}")
            w.add(f"  else {{ result[cell * {self.channels} + i] = pool[{CENTRE * self.channels} + i]; }}")
        else:
            w.add(f"  result[cell * {self.channels} + i] = pool[{last} + i];")
        w.add("}")
        if self.masked:
            w.add(f"if (wg == 0 && t == 0) {{ result[{self.state_size}] = state[{self.state_size}] + 1.0; }}")
        evaluated = sum(self.seen) * self.pairs + self.update_gates
        return CallKernel(
            "\n".join(w.lines),
            w.threads,
            self.cells,
            w.preamble,
            frozenset({"coefficients"}),
            flops=6 * self.cells * evaluated,
        )


@dataclass(frozen=True, eq=False)
class CellStepGradient(CellCall):
    """The gradient of CellStep, on a GPU, and the running sums for the coefficients.

    Inputs: the step's state; the gradient: of its result (batch, height, width, channels) where `first`, else what this
    call gave for the following step; coefficients; wires; readers; where masked, mask.
    Result, flat: the gradients of all patches (cells, 9, channels), padded to a multiple of 4; then, of each workgroup,
    sums (slots, 4): for gate i of the perception and pair p slot i * pairs + p, then the gates of the update network.
    """

    kind = "call"
    differentiable = False
    first: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "gradient", "coefficients", "wires", "readers", *_inputs_of(self))

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (self.patches_size + self.workgroups * self.slots * 4,), inputs[0].dtype

    def kernel(self, target: Target, *inputs: Node) -> CallKernel:
        w = Writer(self, threads_of(self, target))
        loops = self.workgroups < self.cells
        w.add("let t = i32(lid);")
        w.add(
            f"for (var cell = wg; cell < {self.cells}; cell += {self.workgroups}) {{" if loops else "let cell = wg;\n{"
        )
        w.load_patch()
        w.perception()
        w.layers(values_of_last=False)
        w.add("workgroupBarrier();")
        self._upstream(w)
        self._layers_back(w)
        self._perception_back(w)
        w.add("}")
        before = "" if self.first else "before = gradient[at];"
        if loops:
            before = "if (again) { before = result[at]; }" + (f" else {{ {before} }}" if before else "")
        preamble = (
            w.preamble
            + f"""fn collect(at: i32, g: f32, a: f32, b: f32, again: bool) {{
  var before = vec4<f32>();
  {before}
  result[at] = before + vec4<f32>(g, g * a, g * b, g * a * b);
}}
"""
        )
        vectors = {"coefficients", "result"} if self.first else {"coefficients", "result", "gradient"}
        return CallKernel(
            "\n".join(w.lines),
            w.threads,
            self.workgroups,
            preamble,
            frozenset(vectors),
            flops=20 * self.cells * self.slots,
        )

    def _upstream(self, w: Writer) -> None:
        """The gradient of the new state, where the values of the last layer were to be read from: at w.first."""
        c = self.channels
        w.add(f"for (var i = t; i < {c}; i += {w.threads}) {{")
        if self.first:
            w.add(f"  var g = gradient[cell * {c} + i];")
        else:
            w.add(f"""
  var g = 0.0;
  for (var n = 0; n < {PATCH}; n++) {{
    let reader = neighbour(cell, {PATCH - 1} - n);
    if (reader >= 0) {{
      let at = (reader * {PATCH} + n) * {c} + i;
      g += gradient[at / 4][at % 4];
    }}
  }}""")
        if self.masked:
            w.add(f"  let changes = {w.mask()};")
            w.add(f"  pool[{w.first} + i] = select(0.0, g, changes);\n  pool[{w.stays} + i] = select(g, 0.0, changes);")
        else:
            w.add(f"  pool[{w.first} + i] = g;")
        w.add("}\nworkgroupBarrier();")

    def _layers_back(self, w: Writer) -> None:
        start_of_sums = self.patches_size // 4
        update = start_of_sums + sum(self.seen) * self.pairs
        read_at = 0
        starts = []
        for n_in, n_out in zip(self.widths[:-1], self.widths[1:], strict=True):
            starts.append((read_at, read_at + n_in + 1))
            read_at += n_in + 1 + 2 * n_out
        for layer in reversed(range(len(self.widths) - 1)):
            n_in, n_out = self.widths[layer], self.widths[layer + 1]
            before = sum(self.widths[1 : layer + 1])
            for i in range(-(-n_out // w.threads)):
                name = f"{layer}_{i}"
                w.add(f"let c{name} = coefficients[{self.perception_gates + before} + g{name}];")
                w.add(f"let d{name} = pool[{w.first} + g{name}];")
                w.guarded(
                    layer,
                    i,
                    f"pool[{w.second} + 2 * g{name}] = d{name} * (c{name}.y + c{name}.w * b{name}); "
                    f"pool[{w.second + 1} + 2 * g{name}] = d{name} * (c{name}.z + c{name}.w * a{name}); "
                    f"collect({update + before} + wg * {self.slots} + g{name}, d{name}, a{name}, b{name}, cell != wg);",
                )
            first, entries = starts[layer]
            w.add(f"""
workgroupBarrier();
for (var i = t; i < {n_in}; i += {w.threads}) {{
  let last = readers[{first + 1} + i];
  var g = 0.0;
  for (var j = readers[{first} + i]; j < last; j++) {{ g += pool[{w.second} + readers[{entries} + j]]; }}
  pool[{w.first} + i] = g;
}}
workgroupBarrier();""")

    def _perception_back(self, w: Writer) -> None:
        c, k, threads = self.channels, self.kernels, w.threads
        sums = self.patches_size // 4
        w.add(f"for (var base = 0; base < {self.pairs}; base += {threads}) {{")
        w.add(f"let p = min(base + t, {self.pairs - 1});")
        w.add("\n".join(w.perceive()))
        networks = w.networks()
        used = sorted({x for pair in self.perception[0] for x in pair})
        for n in used:
            w.add(f"var dx{n} = 0.0;")
        for layer, gate, *_ in networks:
            top = layer == len(self.seen) - 1
            w.add(f"var dv{layer}_{gate} = {f'pool[{w.first} + {w.feature(gate)}]' if top else '0.0'};")
        for layer, gate, number, a, b in reversed(networks):
            d, q = f"dv{layer}_{gate}", f"q{layer}_{gate}"
            w.add(f"d{a} += {d} * ({q}.y + {q}.w * {b});")
            w.add(f"d{b} += {d} * ({q}.z + {q}.w * {a});")
            at = f"{sums + number * self.pairs} + wg * {self.slots} + p"
            w.add(f"if (base + t < {self.pairs}) {{ collect({at}, {d}, {a}, {b}, cell != wg); }}")
        for n in range(PATCH):
            w.add(f"pool[{w.second} + {n * threads} + t] = {f'dx{n}' if n in used else '0.0'};")
        w.add(f"""
workgroupBarrier();
for (var i = t; i < {PATCH * c}; i += {threads}) {{
  let n = i / {c};
  let channel = i % {c};
  let at = cell * {PATCH * c} + i;
  var g = 0.0;
  if (base > 0) {{ g = result[at / 4][at % 4]; }}
  else if (n == {CENTRE}) {{ g = pool[{w.first} + channel]{f" + pool[{w.stays} + channel]" if self.masked else ""}; }}
  let end = min((channel + 1) * {k}, base + {threads});
  for (var q = max(channel * {k}, base); q < end; q++) {{ g += pool[{w.second} + n * {threads} + q - base]; }}
  result[at / 4][at % 4] = g;
}}
workgroupBarrier();
}}""")


# ---------------------------------------------------------------------------------- many steps


@dataclass(frozen=True, eq=False)
class Rollout(CellCall):
    """The state after `steps` steps.

    Inputs: state (batch, height, width, channels); coefficients (gates, 4); wires; readers; where masked, mask bool
    (steps, height, width).
    """

    kind = "call"
    steps: int

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "coefficients", "wires", "readers", *_inputs_of(self))

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return self.state_shape, inputs[0].dtype

    def numpy(self, state, coefficients, wires, readers, mask=None):
        return self.states(state, coefficients, wires, mask)[-1]

    def states(self, state: Any, coefficients: Any, wires: Any, mask: Any) -> list[np.ndarray]:
        """Of all steps, the first one's input too."""
        cell = NumpyCell(self, coefficients, wires)
        states = [state]
        for step in range(self.steps):
            states.append(cell.forward(states[-1], None if mask is None else mask[step][..., None]))
        return states

    def vjp(self, g, node):
        state, coefficients, *rest = node.inputs
        gradients = [
            nodes.make(self.cell_of(RolloutGradient, self.steps, of_state), state, coefficients, *rest, g)
            if wanted
            else None
            for of_state, wanted in ((True, state.requires_grad), (False, coefficients.requires_grad))
        ]
        return (*gradients, *(None for _ in rest))

    def expand(self, r, *inputs):
        return r.make(Reshape(self.state_shape), self._state_of(r, self._chain(r, inputs)[-1]))

    def _state_of(self, r: Rewriter, carried: Node) -> Node:
        return r.make(Slice((0,), (self.state_size,), (1,)), carried) if self.masked else carried

    def _chain(self, r: Rewriter, inputs: Sequence[Node]) -> list[Node]:
        """The flat states of all steps; where masked, each ends in its number."""
        state, coefficients, wires, _, *mask = inputs
        carried = r.make(Reshape((self.state_size,)), state)
        if self.masked:
            carried = r.make(Pad((0,), (1,), (0,), 0.0), carried)
        chain = [carried]
        for _ in range(self.steps):
            chain.append(r.make(self.cell_of(CellStep), chain[-1], coefficients, wires, *mask))
        return chain


@dataclass(frozen=True, eq=False)
class RolloutGradient(CellCall):
    """The gradient of Rollout of its state, or of its coefficients (gates, 4).

    Inputs: those of the rollout, then the gradient of its result. On a GPU both are made from one chain of steps back.
    """

    kind = "call"
    steps: int
    of_state: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "coefficients", "wires", "readers", *_inputs_of(self), "gradient")

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (self.state_shape if self.of_state else (self.gates, 4)), inputs[0].dtype

    def numpy(self, state, coefficients, wires, readers, *rest):
        *masks, g = rest
        mask = masks[0] if masks else None
        cell = NumpyCell(self, coefficients, wires)
        states = self.cell_of(Rollout, self.steps).states(state, coefficients, wires, mask)
        total: list[np.ndarray] | None = None
        for step in reversed(range(self.steps)):
            g, sums = cell.backward(states[step], None if mask is None else mask[step][..., None], g)
            total = sums if total is None else [t + s for t, s in zip(total, sums, strict=True)]
        if self.of_state:
            return g
        if total is None:
            return np.zeros((self.gates, 4), state.dtype)
        return np.concatenate([s.T for s in total])

    def vjp(self, g, node):
        raise AutogradError("[rollout] second derivatives need the layers one by one: LogicCA(fused=False).")

    def expand(self, r, *inputs):
        _, coefficients, wires, readers, *mask, gradient = inputs
        if self.steps == 0:
            return gradient if self.of_state else _zeros(r, (self.gates, 4), gradient)
        chain = self.cell_of(Rollout, self.steps)._chain(r, inputs[:-1])
        packed = gradient
        for step in reversed(range(self.steps)):
            call = self.cell_of(CellStepGradient, step == self.steps - 1)
            packed = r.make(call, chain[step], packed, coefficients, wires, readers, *mask)
        return self._state(r, packed) if self.of_state else self._coefficients(r, packed)

    def _state(self, r: Rewriter, packed: Node) -> Node:
        """Every cell's sum of the nine gradients of it."""
        grid = (self.batch, self.height, self.width)
        flat = r.make(Slice((0,), (self.cells * PATCH * self.channels,), (1,)), packed)
        parts = r.make(Reshape((*grid, PATCH, self.channels)), flat)
        total: Node | None = None
        for n in range(PATCH):
            part = r.make(Slice((0, 0, 0, n, 0), (*grid, 1, self.channels), (1,) * 5), parts)
            part = r.make(Reshape((*grid, self.channels)), part)
            for axis, move in ((1, n // 3 - 1), (2, n % 3 - 1)):
                part = self._moved(r, part, axis, move)
            total = part if total is None else r.make(Add(), total, part)
        assert total is not None
        return total

    def _moved(self, r: Rewriter, x: Node, axis: int, by: int) -> Node:
        """x moved along an axis: what leaves the grid comes in at the other edge, or is lost."""
        if by == 0:
            return x
        size = x.shape[axis]

        def cut(start: int, length: int) -> Node:
            starts = tuple(start if a == axis else 0 for a in range(x.ndim))
            sizes = tuple(length if a == axis else n for a, n in enumerate(x.shape))
            return r.make(Slice(starts, sizes, (1,) * x.ndim), x)

        if self.periodic:
            by %= size
            return r.make(Cat(axis), cut(size - by, by), cut(0, size - by)) if by else x
        low = tuple(max(by, 0) if a == axis else 0 for a in range(x.ndim))
        high = tuple(max(-by, 0) if a == axis else 0 for a in range(x.ndim))
        if size == 1:
            return _zeros(r, x.shape, x)
        kept = cut(max(-by, 0), size - 1)
        return r.make(Pad(low, high, (0,) * x.ndim, 0.0), kept)

    def _coefficients(self, r: Rewriter, packed: Node) -> Node:
        """The sums of all workgroups, and of all channels for the perception, in the order of the gates."""
        groups = self.workgroups
        flat = r.make(Slice((self.patches_size,), (groups * self.slots * 4,), (1,)), packed)
        sums = r.make(Reshape((groups, self.slots, 4)), flat)
        seen = sum(self.seen) * self.pairs

        def part(start: int, count: int) -> Node:
            return r.make(Slice((0, start, 0), (groups, count, 4), (1, 1, 1)), sums)

        perception = r.make(Reshape((groups, sum(self.seen), self.channels, self.kernels, 4)), part(0, seen))
        perception = r.make(ReduceSum((0, 2)), perception)
        perception = r.make(Reshape((sum(self.seen), self.kernels, 4)), perception)
        update = r.make(Reshape((self.update_gates, 4)), r.make(ReduceSum((0,)), part(seen, self.update_gates)))
        pieces = []
        start = 0
        for n in self.seen:
            layer = r.make(Slice((start, 0, 0), (n, self.kernels, 4), (1, 1, 1)), perception)
            pieces.append(r.make(Reshape((n * self.kernels, 4)), r.make(Permute((1, 0, 2)), layer)))
            start += n
        return r.make(Cat(0), *pieces, update)


def _zeros(r: Rewriter, shape: Shape, like: Node) -> Node:
    zero = r.make(Reshape((1,) * len(shape)), r.make(Constant(0.0, like.dtype)))
    return r.make(Expand(shape), zero)
