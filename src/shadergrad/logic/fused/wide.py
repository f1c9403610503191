"""One layer of gates of any width as primitives: a kernel for its values, one for its input's gradient, one for its parameters'.

A layer of tensor operations gathers both inputs of every gate, stores them, and sums over the batch in four kernels. Here a thread reads
the inputs in place. network.py has all layers in one kernel, for networks that fit into workgroup memory; these are for the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import shadergrad as sg

from ...errors import AutogradError, ShapeError
from ...extend import Limits, Operation, Shader, Spec
from .. import gates
from .wide_kernels import input_gradient as input_gradient_shader
from .wide_kernels import parts_of, sums_body, sums_preamble, values_body, write_logits
from .wide_kernels import preamble as kernels_preamble
from .wide_kernels import shader as kernels_shader

WIRES = ("wires", "order", "starts")


def reader_lists(n_in: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The readers of each input: order (2 n_out), starts (n_in + 1), int32. Input i's readers are order[starts[i]:starts[i + 1]]: g for input a of
    gate g, n_out + g for input b."""
    read = np.concatenate([a, b])
    starts = np.concatenate([[0], np.cumsum(np.bincount(read, minlength=n_in))])
    return np.argsort(read, kind="stable").astype(np.int32), starts.astype(np.int32)


@dataclass(frozen=True)
class WideCall(Operation):
    """The base of a layer's calls: rows of n_in values, n_out gates. softmax: whether the parameters are 16 logits a gate; otherwise they are
    its four coefficients. wires (2, n_out) int32; order and starts: see reader_lists."""

    rows: int
    n_in: int
    n_out: int
    softmax: bool

    @property
    def width(self) -> int:
        """Parameters of a gate."""
        return gates.GATES if self.softmax else 4

    def of(self, other: type[WideCall], **more: Any) -> Any:
        """Another call of the same layer."""
        return other(**{f.name: getattr(self, f.name) for f in fields(WideCall)} | more)

    def check(self, x: Spec, parameters: Spec) -> None:
        """Raises ShapeError for other shapes."""
        if x.shape != (self.rows, self.n_in) or parameters.shape != (self.n_out, self.width):
            raise ShapeError(f"[{self.name}] x is {x}, the parameters {parameters}; the call is {self}.")

    def coefficients(self, parameters: np.ndarray) -> np.ndarray:
        """The coefficients (n_out, 4) of the parameters, in NumPy."""
        return _probabilities(parameters) @ gates.COEFFICIENTS.astype(parameters.dtype) if self.softmax else parameters


@dataclass(frozen=True)
class WideLayer(WideCall):
    """x (rows, n_in) and parameters (n_out, 16 or 4) to the gates' values (rows, n_out)."""

    arguments = ("x", "parameters", *WIRES)

    def infer(self, *inputs: Spec) -> Spec:
        self.check(inputs[0], inputs[1])
        return Spec((self.rows, self.n_out), inputs[0].dtype)

    def numpy(self, x, parameters, wires, order, starts):
        a, b = x[:, wires[0]], x[:, wires[1]]
        c0, c1, c2, c3 = self.coefficients(parameters).T
        return c0 + c1 * a + (c2 + c3 * a) * b

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        return kernels_shader(
            *values_body(self.rows, self.n_in, self.n_out), kernels_preamble(self.softmax), 6 * self.rows * self.n_out
        )

    def gradient(self, g, result, x, parameters, *wires):
        if self.softmax and sg.is_grad_enabled():  # to be differentiated again: by operations that have derivatives
            return self._twice(g, x, parameters, wires)
        of_x = self.of(WideInputGradient)(g, x, parameters, *wires) if x.requires_grad else None
        of_p = self.of(WideParameterGradient)(g, x, parameters, *wires) if parameters.requires_grad else None
        return (of_x, of_p, None, None, None)

    def _twice(self, g, x, logits, wires):
        coefficients = gates.coefficients(logits)
        of_x = self.of(WideInputGradient, softmax=False)(g, x, coefficients, *wires)
        sums = self.of(WideParameterGradient, softmax=False)(g, x, coefficients, *wires)
        probabilities = logits.softmax(-1)
        each = sums @ sg.tensor(gates.COEFFICIENTS.T.copy(), dtype=sums.dtype, device=sums.device)
        return of_x, probabilities * (each - (probabilities * each).sum(-1, keepdim=True)), None, None, None


@dataclass(frozen=True)
class WideInputGradient(WideCall):
    """The gradient of WideLayer with respect to x (rows, n_in). Inputs: g (rows, n_out), that of its result, and those of the layer."""

    arguments = ("g", "x", "parameters", *WIRES)

    def infer(self, *inputs: Spec) -> Spec:
        self.check(inputs[1], inputs[2])
        return inputs[1]

    def numpy(self, g, x, parameters, wires, order, starts):
        a, b = x[:, wires[0]], x[:, wires[1]]
        _, c1, c2, c3 = self.coefficients(parameters).T
        read = np.concatenate([g * (c1 + c3 * b), g * (c2 + c3 * a)], 1)[:, order]
        read = np.concatenate(
            [read, np.zeros_like(x[:, :1])], 1
        )  # a valid index for reduceat, for inputs at the end that no gate reads
        found = np.add.reduceat(read, starts[:-1], 1)
        found[:, starts[1:] == starts[:-1]] = 0
        return found

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        body, threads = input_gradient_shader(self.rows, self.n_in, self.n_out)
        return kernels_shader(body, threads, kernels_preamble(self.softmax), 8 * self.rows * self.n_out)

    def gradient(self, u, result, g, x, c, wires, order, starts):
        if self.softmax:
            raise AutogradError(
                "[LogicLayer] this gradient was computed under no_grad and has none. Hint: create_graph=True."
            )
        (a, b), (ua, ub) = _pair(x, wires), _pair(u, wires)
        _, c1, c2, c3 = c.unbind(-1)
        of_g = ua * (c1 + c3 * b) + ub * (c2 + c3 * a)
        of_c = sg.stack([sg.zeros_like(c1), (g * ua).sum(0), (g * ub).sum(0), (g * (ua * b + ub * a)).sum(0)], -1)
        read = sg.cat([g * ub * c3, g * ua * c3], 1)
        of_x = sg.zeros_like(x).index_add(1, wires.reshape(-1), read)
        return of_g, of_x, of_c, None, None, None


@dataclass(frozen=True)
class WideParameterGradient(WideCall):
    """The gradient of WideLayer with respect to its parameters (n_out, 16 or 4). Inputs: as those of WideInputGradient."""

    arguments = ("g", "x", "parameters", *WIRES)

    def infer(self, *inputs: Spec) -> Spec:
        self.check(inputs[1], inputs[2])
        return inputs[2]

    def numpy(self, g, x, parameters, wires, order, starts):
        a, b = x[:, wires[0]], x[:, wires[1]]
        sums = np.stack([(g * v).sum(0) for v in (np.ones_like(a), a, b, a * b)], -1)
        return _of_logits(sums, parameters) if self.softmax else sums

    def compose(self, *inputs):
        parts = parts_of(self.rows, self.n_out)
        if parts == 1:
            return None
        g, x, parameters, wires, _, _ = inputs
        sums = self.of(WidePartialSums, parts=parts)(g, x, wires)
        return WideLogitsGradient()(sums, parameters) if self.softmax else sums.sum(0)

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        store = write_logits() if self.softmax else _STORE_SUMS
        body, threads = sums_body(self.rows, self.n_in, self.n_out, 1, store)
        return kernels_shader(body, threads, sums_preamble(self.softmax), 9 * self.rows * self.n_out)

    def gradient(self, u, result, g, x, c, *wires):
        if self.softmax:
            raise AutogradError(
                "[LogicLayer] this gradient was computed under no_grad and has none. Hint: create_graph=True."
            )
        of_g = self.of(WideLayer)(x, u, *wires)  # bilinear: u takes the place of the coefficients
        return of_g, self.of(WideInputGradient)(g, x, u, *wires), None, None, None, None


@dataclass(frozen=True)
class WidePartialSums(WideCall):
    """Sums over `parts` parts of the rows, of g, g a, g b and g a b: (parts, n_out, 4). Inputs: g, x, wires."""

    parts: int
    arguments = ("g", "x", "wires")

    def infer(self, *inputs: Spec) -> Spec:
        return Spec((self.parts, self.n_out, 4), inputs[0].dtype)

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        body, threads = sums_body(self.rows, self.n_in, self.n_out, self.parts, _STORE_SUMS)
        return kernels_shader(body, threads, sums_preamble(False), 9 * self.rows * self.n_out)


@dataclass(frozen=True)
class WideLogitsGradient(Operation):
    """The gradient of the logits (n_out, 16) from sums (parts, n_out, 4)."""

    arguments = ("sums", "parameters")

    def infer(self, *inputs: Spec) -> Spec:
        return inputs[1]

    def numpy(self, sums, parameters):
        return _of_logits(sums.sum(0), parameters)

    def shader(self, limits: Limits, *inputs: Spec) -> Shader:
        parts, n_out, _ = inputs[0].shape
        lines = [f"let gate = wg * 64 + i32(lid);\nif (gate < {n_out}) {{\n  var sum = vec4<f32>();"]
        lines.append(f"  for (var part = 0; part < {parts}; part++) {{\n    let at = 4 * (part * {n_out} + gate);")
        lines.append("    sum += vec4<f32>(sums[at], sums[at + 1], sums[at + 2], sums[at + 3]);\n  }")
        lines.append(write_logits() + "\n}")
        return Shader("\n".join(lines), 64, -(-n_out // 64), kernels_preamble(True), flops=(4 * parts + 100) * n_out)


_STORE_SUMS = "\n".join(f"result[4 * (part_gate) + {k}] = sum[{k}];" for k in range(4))


def _pair(x: sg.Tensor, wires: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
    return x.index_select(1, wires[0]), x.index_select(1, wires[1])


def _probabilities(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _of_logits(sums: np.ndarray, logits: np.ndarray) -> np.ndarray:
    p = _probabilities(logits)
    each = sums @ gates.COEFFICIENTS.T.astype(sums.dtype)
    return p * (each - (p * each).sum(-1, keepdims=True))
