"""A network of gate layers as a primitive: all layers in one kernel forward, and one kernel and a sum backward."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...errors import AutogradError
from ...extend import Limits, Shader, Spec
from .cell import LayersCall, unpack_wires
from .layers import GradientWriter, Writer
from .reference import gate_gradients, gate_values, gathered


@dataclass(frozen=True)
class NetworkCall(LayersCall):
    """The base of a network's calls. samples: rows of the batch."""

    samples: int
    widths: tuple[int, ...]
    readers: tuple[int, ...]

    @property
    def cells(self) -> int:
        return self.samples

    @property
    def inputs_size(self) -> int:
        return -(-self.samples * self.widths[0] // 4) * 4

    def network_of(self, other: type[NetworkCall], *more: Any) -> Any:
        """Another call of the same network."""
        return other(*(getattr(self, f.name) for f in fields(NetworkCall)), *more)

    def read_inputs(self, w: Writer) -> None:
        """x of the group's samples, at the place of the first layer's inputs."""
        n = self.widths[0]
        w.define("x_of", f"if ({w.exists()}) {{ return x[own * {n} + i]; }}\nreturn 0.0;")
        w.for_all_lanes(n, f"pool[{w.at.first} + i] = {w.of_all_lanes('x_of')};")

    def forward(self, x: np.ndarray, coefficients: np.ndarray, wires: np.ndarray, kept: list[Any]) -> np.ndarray:
        """The outputs (samples, n_out) in NumPy; `kept` gets the wires, coefficients (4, gates, 1) and inputs of each layer."""
        values, at = np.ascontiguousarray(x.T), 0
        for (wa, wb), n in zip(unpack_wires(wires, self.widths), self.widths[1:], strict=True):
            c = np.ascontiguousarray(coefficients[at : at + n].T[..., None])
            a, b = values[wa], values[wb]
            kept.append((wa, wb, c, a, b))
            values, at = gate_values(c, a, b), at + n
        return np.ascontiguousarray(values.T)


@dataclass(frozen=True)
class Network(NetworkCall):
    """x (samples, n_in) through all layers: (samples, n_out).

    Inputs: x; coefficients (gates, 4); wires and readers (see cell.pack_wires, cell.inverse_wires).
    """

    arguments = ("x", "coefficients", "wires", "readers")

    def infer(self, *inputs: Spec) -> Spec:
        return Spec((self.samples, self.widths[-1]), inputs[0].dtype)

    def numpy(self, x, coefficients, wires, readers):
        return self.forward(x, coefficients, wires, []).astype(x.dtype, copy=False)

    def gradient(self, g, result, *inputs):
        x, coefficients, *rest = inputs
        of_x, of_coefficients = (
            self.network_of(NetworkGradient, of_input)(*inputs, g) if wanted else None
            for of_input, wanted in ((True, x.requires_grad), (False, coefficients.requires_grad))
        )
        return (of_x, of_coefficients, *(None for _ in rest))

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        w = Writer(self, limits)
        w.add("let t = i32(lid);\nlet group = wg;")
        self.read_inputs(w)
        last = w.layers()
        n = self.widths[-1]
        w.for_each(n, f"if ({w.exists()}) {{ result[own * {n} + i] = pool[{last} + i]{w.lane('v')}; }}")
        body, flops = "\n".join(w.lines), 6 * self.samples * self.gates
        return Shader(body, w.at.threads, w.groups, w.text(), frozenset({"coefficients"}), flops=flops)


@dataclass(frozen=True)
class NetworkGradient(NetworkCall):
    """The gradient of Network with respect to x, or to its coefficients. Inputs: those of the network, the gradient of its result."""

    arguments = ("x", "coefficients", "wires", "readers", "gradient")
    of_input: bool

    def infer(self, *inputs: Spec) -> Spec:
        return Spec((self.samples, self.widths[0]) if self.of_input else (self.gates, 4), inputs[0].dtype)

    def numpy(self, x, coefficients, wires, readers, gradient):
        kept: list[Any] = []
        self.forward(x, coefficients, wires, kept)
        g, sums = np.ascontiguousarray(gradient.T), []
        for (wa, wb, c, a, b), n_in in reversed(list(zip(kept, self.widths[:-1], strict=True))):
            da, db, of_layer = gate_gradients(g, c, a, b, (1,))
            sums.append(of_layer.T)
            g = gathered(da, db, wa, wb, n_in)
        return np.ascontiguousarray(g.T) if self.of_input else np.concatenate(sums[::-1])

    def gradient(self, g, result, *inputs):
        raise AutogradError("[LogicNetwork] second derivatives need the layers one by one: fused=False.")

    def compose(self, *inputs):
        packed = self.network_of(PackedGradient)(*inputs)
        if self.of_input:
            n_in = self.widths[0]
            return packed[: self.samples * n_in].reshape(self.samples, n_in)
        sums = packed[self.inputs_size :].reshape(self.workgroups, self.slots, 4)
        return sums.sum(0)


@dataclass(frozen=True)
class PackedGradient(NetworkCall):
    """Both gradients, on a GPU: that of x (samples, n_in), padded to a multiple of 4, then every workgroup's sums (gates, 4)."""

    arguments = ("x", "coefficients", "wires", "readers", "gradient")

    def infer(self, *inputs: Spec) -> Spec:
        return Spec((self.inputs_size + self.workgroups * self.slots * 4,), inputs[0].dtype)

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        w = GradientWriter(self, limits, last=True)
        n_in, n_out = self.widths[0], self.widths[-1]
        w.add("let t = i32(lid);")
        w.add(f"for (var group = wg; group < {w.groups}; group += {self.workgroups}) {{")
        self.read_inputs(w)
        w.layers(values_of_last=False)
        w.define("gradient_of", f"if ({w.exists()}) {{ return gradient[own * {n_out} + i]; }}\nreturn 0.0;")
        w.for_all_lanes(n_out, f"pool[{w.at.first} + i] = {w.of_all_lanes('gradient_of')};")
        w.layers_back()
        place = f"pool[{w.at.first} + i]{w.lane('v')}"
        w.for_each(n_in, f"if ({w.exists()}) {{ result[own * {n_in} + i] = {place}; }}")
        w.add("workgroupBarrier();\n}")
        body, flops = "\n".join(w.lines), 20 * self.samples * self.gates
        return Shader(body, w.at.threads, self.workgroups, w.text(), frozenset({"coefficients"}), flops=flops)
