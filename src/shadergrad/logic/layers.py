"""Layers of learned gates: every output is a mixture of the sixteen gates of two wires.

In: values in [0, 1], (..., n_in). Out: values in [0, 1], (..., n_out). Source: "Deep Differentiable Logic Gate Networks"
(Petersen and others, 2022). gates.py has the arithmetic of a gate, wiring.py the choice of wires.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import shadergrad as sg

from ..errors import ShapeError
from ..nn import Module, ModuleList, Parameter
from ..nn.errors import ArgumentError
from ..onnx import is_in_onnx_export
from . import gates, parametrisations
from . import wiring as wiring_of
from .circuit import Circuit
from .fused import cell as fused_cell
from .fused import network, wide
from .fused.layers import fits
from .learned_wires import CANDIDATES, WIRE_MODES, LearnedWires
from .modes import ModedGates, ModedStack
from .wire_gradients import ReadWires, ScaledGradient

INITS = ("pass-through", "residual", "gaussian")
MOST_READERS = 32  # of one input; if one has more, the scattered sum sorts the wires at every step
MOST_IN_KERNEL = 512  # readers of one input, which one thread of fused/wide.py adds up


def prepare_loaded(module: Any, _: Any) -> None:
    """Prepare a module whose state has been loaded; a function of this file, so that the module can be pickled."""
    module.prepare()


class GateLayer(Module):
    """Gates with fixed wires: `logits` (n_out, 16), or (kernels, n_out, 16) for kernels that share the wires; with another
    parametrisation than "softmax" its parameters, (n_out, 4).

    wires: the pair (a, b) of positions below n_in, each (n_out,); the buffer `wires` (2, n_out) int32 holds them.
    init: "pass-through" (also called "residual"): the gate A, by a logit of 10. "gaussian": normal. strength: the logit instead of 10 (3 for
    "light" and "walsh"), or the standard deviation instead of 1.
    Raises ArgumentError for another init or no kernels, ShapeError and IndexRangeError for wires that do not fit.

    >>> layer = sg.logic.GateLayer(3, 2, wires=([0, 1], [1, 2]))
    >>> layer.kinds().tolist()  # gate 3 is A
    [3, 3]
    >>> layer.evaluate(sg.tensor([1.0, 0.0, 1.0]), sg.logic.gates.hard_coefficients(layer.logits))
    tensor([1., 0.])
    """

    logits: Parameter
    wires: sg.Tensor
    readers: sg.Tensor | None
    order: sg.Tensor
    starts: sg.Tensor
    learned: LearnedWires | None

    def __init__(
        self,
        n_in: int,
        n_out: int,
        wires: Any,
        init: str = "pass-through",
        kernels: int | None = None,
        device: Any = None,
        parametrisation: str = "softmax",
        strength: float | None = None,
    ) -> None:
        super().__init__()
        gate, self.parametrisation = parametrisations.of_name(parametrisation), parametrisation
        if init not in INITS:
            raise ArgumentError(f"[logic] there is no init {init!r}; choose of {', '.join(INITS)}.")
        if kernels is not None and kernels < 1:
            raise ArgumentError(f"[logic] {kernels} kernels; at least one is needed.")
        self.n_in, self.n_out, self.kernels, self.init = n_in, n_out, kernels, init
        self.learned = wires if isinstance(wires, LearnedWires) else None
        if self.learned is None:
            pair = wiring_of.check(n_in, n_out, wires)
            self.register_buffer("wires", sg.tensor(np.stack(pair), device=device))
        self.prepare()
        self.register_load_state_dict_post_hook(prepare_loaded)
        shape = (n_out,) if kernels is None else (kernels, n_out)
        self.logits = Parameter(gate.initial(shape, init, strength, device))

    @property
    def _gate(self) -> parametrisations.Parametrisation:
        return parametrisations.of_name(self.parametrisation)

    def prepare(self) -> None:
        """Build the index of each input's readers. Call it after changing wires by hand."""
        if self.learned is not None:
            self.learned.prepare()
            return
        pair = self.checked_wires()
        for name, array in zip(("order", "starts"), wide.reader_lists(self.n_in, *pair), strict=True):
            self.register_buffer(name, sg.tensor(array, device=self.wires.device), persistent=False)
        table = fused_cell.readers_of(self.n_in, *pair)
        self._most_readers = len(table)
        kept = table if len(table) <= MOST_READERS else None
        readers = None if kept is None else sg.tensor(kept.astype(np.int32), device=self.wires.device)
        self.register_buffer("readers", readers, persistent=False)

    def checked_wires(self) -> wiring_of.Wires:
        """The pair (a, b) as arrays; raises IndexRangeError if they are out of range, because they may come from a file."""
        wires = self.wires if self.learned is None else self.learned.likeliest()
        return wiring_of.check(self.n_in, self.n_out, wires.numpy())

    @property
    def reads_hard(self) -> bool:
        """Whether learned wires are hardened now: the likeliest ones."""
        return not self.training

    @property
    def n_gates(self) -> int:
        """The number of gates with logits: n_out times the kernels."""
        return self.n_out * (self.kernels or 1)

    def evaluate(self, x: sg.Tensor, coefficients: sg.Tensor) -> sg.Tensor:
        """The outputs (..., n_out) of x (..., n_in), with coefficients (n_out, 4).

        With kernels: outputs (..., n_out, kernels) of x (..., n_in, kernels or 1), coefficients (kernels * n_out, 4).
        """
        if tuple(coefficients.shape) != (self.n_gates, 4):
            raise ShapeError(
                f"[{self._get_name()}] coefficients are {tuple(coefficients.shape)}, not ({self.n_gates}, 4)."
            )
        axis = -1 if self.kernels is None else -2
        if x.ndim < -axis or x.shape[axis] != self.n_in:
            raise ShapeError(
                f"[{self._get_name()}] x is {tuple(x.shape)}: axis {axis} must be the {self.n_in} wires that the gates read."
            )
        if self._has_kernels(x, coefficients):
            return self._by_kernels(x, coefficients, softmax=False)
        if self.kernels is not None:
            coefficients = coefficients.reshape(self.kernels, self.n_out, 4).transpose(0, 1)
        if self.learned is not None:
            return gates.evaluate(coefficients, *self.learned(x, self.reads_hard))
        wires = self.wires.reshape(-1)  # one gather for both inputs: one sum in the backward pass
        read = x.index_select(axis, wires) if self.readers is None else ReadWires.apply(x, wires, self.readers, axis)
        a, b = read.narrow(axis, 0, self.n_out), read.narrow(axis, self.n_out, self.n_out)
        return gates.evaluate(coefficients, a, b)

    def _has_kernels(self, x: sg.Tensor, parameters: sg.Tensor) -> bool:
        """Whether a GPU computes x by the kernels of fused/wide.py; else by tensor operations."""
        plain = x.dtype is parameters.dtype is sg.float32 and self.kernels is None and x.numel() > 0
        if self.learned is not None or is_in_onnx_export():
            return False
        return plain and self._most_readers <= MOST_IN_KERNEL and x.device != "cpu" and x.device == parameters.device

    def _by_kernels(self, x: sg.Tensor, parameters: sg.Tensor, softmax: bool) -> sg.Tensor:
        rows = x.reshape(-1, self.n_in)
        call = wide.WideLayer(rows.shape[0], self.n_in, self.n_out, softmax)
        return call(rows, parameters, self.wires, self.order, self.starts).reshape(*x.shape[:-1], self.n_out)

    def entries(self) -> sg.Tensor:
        """For "light" and "walsh" the logits of the truth tables' entries; for "softmax" the logits of the sixteen gates."""
        return self._gate.entries(self.logits)

    def kinds(self) -> np.ndarray:
        """The ids of the most likely gates, the first on ties, in the shape of logits without the last axis."""
        return self._gate.kinds(self.logits.detach()).numpy()

    def pair(self) -> tuple[list[int], list[int]]:
        """The wires a and b as numbers."""
        a, b = self.checked_wires()
        return a.tolist(), b.tolist()

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        kernels = "" if self.kernels is None else f", kernels={self.kernels}"
        own = "" if self.parametrisation == "softmax" else f", parametrisation={self.parametrisation!r}"
        return f"n_in={self.n_in}, n_out={self.n_out}{kernels}, init={self.init!r}{own}"


class LogicLayer(ModedGates, GateLayer):
    """n_out learned gates on n_in wires: x (..., n_in) gives (..., n_out).

    wiring: "unique", "random", "balanced", "moore", drawn with `key` (two uint32 words) or `seed`; or the pair (a, b). "learned": each input of a
    gate chooses among `candidates` wires, by default 8, see LearnedWires; wire_mode: "straight-through", the default, or "soft".
    init: see GateLayer. mode, which may be set later, as temperature, grad_factor and wire_mode may:
    - "soft": the mixture of all gates by softmax(logits).
    - "hard": the most likely gate; the gradient reaches x but not the logits.
    - "straight-through": the most likely gate, with the mixture's gradient for the logits.
    - "gumbel": the mixture by softmax((logits + Gumbel noise) / temperature), new noise at every call (Jang and others,
      2017).
    - "gumbel-hard": the most likely gate of that mixture, with its gradient.
    In eval() every mode computes as "hard".
    parametrisation: "softmax" (16 logits a gate), "light" or "walsh" (four numbers), see parametrisations.py. grad_factor: multiplies the
    gradient that a layer passes on to its input, against gradients that vanish in deep networks.
    Raises ArgumentError, IndexRangeError or ShapeError for wires that do not fit.

    >>> layer = sg.logic.LogicLayer(2, 1, wiring=([0], [1]), mode="hard")
    >>> with sg.no_grad():
    ...     layer.logits[0, 6] = 20.0  # XOR
    >>> layer(sg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])).flatten()
    tensor([0., 1., 1., 0.])
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        wiring: Any = "unique",
        init: str = "pass-through",
        mode: str = "soft",
        key: np.ndarray | None = None,
        seed: int = 0,
        temperature: float = 1.0,
        device: Any = None,
        parametrisation: str = "softmax",
        strength: float | None = None,
        grad_factor: float = 1.0,
        candidates: int | None = None,
        wire_mode: str | None = None,
    ) -> None:
        drawn = wiring_of.prng_key(seed) if key is None else key
        is_learned = isinstance(wiring, str) and wiring == "learned"
        if not is_learned and (candidates is not None or wire_mode is not None):
            raise ArgumentError('[LogicLayer] candidates and wire_mode are those of wiring="learned".')
        if is_learned:
            given = CANDIDATES if candidates is None else candidates
            wiring = LearnedWires(n_in, n_out, given, wire_mode or WIRE_MODES[0], drawn, device)
        elif isinstance(wiring, str):
            wiring = wiring_of.draw(wiring, n_in, n_out, drawn)
        super().__init__(n_in, n_out, wiring, init, None, device, parametrisation, strength)
        self.mode, self.temperature, self.grad_factor = mode, temperature, grad_factor

    @property
    def reads_hard(self) -> bool:
        """Whether learned wires are hardened now, to the likeliest ones: whenever gates are."""
        return self.hard

    @property
    def wire_mode(self) -> str | None:
        """How learned wires are read in train(); None for other wires. Setting it raises ArgumentError for these."""
        return None if self.learned is None else self.learned.mode

    @wire_mode.setter
    def wire_mode(self, value: str) -> None:
        if self.learned is None:
            raise ArgumentError('[LogicLayer] wire_mode is that of wiring="learned"; these wires are fixed.')
        self.learned.mode = value

    def coefficients(self) -> sg.Tensor:
        """The gates' coefficients (n_out, 4), by the mode; in eval() the hard ones."""
        gate = self._gate
        if self.hard:
            return gate.hard(self.logits)
        if self.mode == "soft":
            return gate.soft(self.logits)
        if self.mode == "straight-through":
            return gate.straight_through(self.logits)
        noisy = gate.with_noise(self.logits, self.temperature)
        return gate.soft(noisy) if self.mode == "gumbel" else gate.straight_through(noisy)

    def forward(self, input: sg.Tensor) -> sg.Tensor:
        """The outputs (..., n_out) of x (..., n_in), by the mode. Raises ShapeError for another last axis."""
        if self.grad_factor != 1:
            input = ScaledGradient.apply(input, self.grad_factor)
        fits_last = input.ndim and input.shape[-1] == self.n_in
        mixture = self.parametrisation == "softmax" and self.mode == "soft" and not self.hard
        if mixture and fits_last and self._has_kernels(input, self.logits):
            return self._by_kernels(input, self.logits, softmax=True)
        return self.evaluate(input, self.coefficients())

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return f"{super().extra_repr()}, mode={self.mode!r}"


class GroupSum(Module):
    """Sums of k equal groups of the last axis, divided by tau: (..., n) gives (..., k), scores for k classes.

    tau: a number; a Parameter of one element, which is trained; or a tensor of one element, a buffer.
    Raises ArgumentError for a k below 1 or a tau that is not positive, ShapeError for an axis that k does not divide, or a tau of
    more elements.

    >>> sg.logic.GroupSum(2, tau=2.0)(sg.tensor([1.0, 1.0, 0.0, 1.0]))
    tensor([1. , 0.5])
    """

    tau: Any

    def __init__(self, k: int, tau: float | sg.Tensor = 1.0) -> None:
        super().__init__()
        if isinstance(tau, sg.Tensor) and tau.numel() != 1:
            raise ShapeError(f"[GroupSum] tau is {tuple(tau.shape)}; it has one element, for all classes.")
        value = float(tau.detach().item() if isinstance(tau, sg.Tensor) else tau)
        if k < 1 or not value > 0:
            raise ArgumentError(f"[GroupSum] k is {k} and tau {value}; k must be at least 1 and tau positive.")
        self.k = k
        if isinstance(tau, sg.Tensor) and not isinstance(tau, Parameter):
            self.register_buffer("tau", tau)
        else:
            self.tau = tau if isinstance(tau, Parameter) else value

    def forward(self, input: sg.Tensor) -> sg.Tensor:
        """The scores (..., k) of (..., n)."""
        if not input.ndim or input.shape[-1] % self.k:
            raise ShapeError(
                f"[GroupSum] x is {tuple(input.shape)}: its last axis does not part into {self.k} equal groups."
            )
        tau = self.tau.reshape(()) if isinstance(self.tau, sg.Tensor) else self.tau
        return input.reshape(*input.shape[:-1], self.k, input.shape[-1] // self.k).sum(-1) / tau

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return f"k={self.k}, tau={self.tau.item() if isinstance(self.tau, sg.Tensor) else self.tau}"


class LogicNetwork(ModedStack):
    """A stack of logic layers: x (..., sizes[0]) gives (..., sizes[-1]).

    sizes: the number of inputs, then of the gates of each layer. Every layer has its own wires, from `key` or `seed`. wiring,
    init, mode, temperature, parametrisation, strength, grad_factor, candidates and wire_mode apply to all layers, as in LogicLayer; setting
    `mode`, `temperature`, `grad_factor` or `wire_mode` sets that of every layer. Learned wires are not fused.
    fused: whether all layers are one kernel; by default if their values fit into a GPU's workgroup memory (layers of up to
    about 1,000 gates). Unfused layers support second derivatives and hooks.
    Raises ArgumentError for sizes without a layer, or fused=True if impossible.

    >>> network = sg.logic.LogicNetwork((4, 3, 2), seed=1)
    >>> network(sg.zeros(5, 4)).shape
    shadergrad.Size([5, 2])
    >>> network.harden()
    Circuit(4 inputs, 5 gates, 2 outputs)
    """

    def __init__(
        self,
        sizes: Sequence[int],
        wiring: str = "unique",
        init: str = "pass-through",
        mode: str = "soft",
        key: np.ndarray | None = None,
        seed: int = 0,
        temperature: float = 1.0,
        device: Any = None,
        fused: bool | None = None,
        parametrisation: str = "softmax",
        strength: float | None = None,
        grad_factor: float = 1.0,
        candidates: int | None = None,
        wire_mode: str | None = None,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            raise ArgumentError(f"[LogicNetwork] sizes {tuple(sizes)} make no layer. Hint: inputs first, then gates.")
        left = wiring_of.prng_key(seed) if key is None else key
        self.layers = ModuleList()
        for n_in, n_out in itertools.pairwise(sizes):
            left, own = wiring_of.split(left)
            options = (parametrisation, strength, grad_factor, candidates, wire_mode)
            self.layers.append(LogicLayer(n_in, n_out, wiring, init, mode, own, 0, temperature, device, *options))
        if mode.startswith("gumbel") and init == "gaussian" and len(self.layers) > 2:
            warnings.warn(
                f"[LogicNetwork] {len(self.layers)} layers with mode={mode!r} and init='gaussian': the noise changes most gates at "
                "every call, and the network hardly learns. Hint: init='residual', which starts from gates that the noise leaves alone.",
                stacklevel=2,
            )
        self.sizes = tuple(int(n) for n in sizes)
        can_be = fits(0, 0, self.sizes) and grad_factor == 1 and wiring != "learned"
        if fused and grad_factor != 1:
            raise ArgumentError(
                f"[LogicNetwork] fused=True with grad_factor={grad_factor}: one kernel has no gradients between layers."
            )
        if fused and wiring == "learned":
            raise ArgumentError(
                "[LogicNetwork] fused=True with learned wires, which change in training. Hint: leave fused out."
            )
        if fused and not can_be:
            raise ArgumentError(
                f"[LogicNetwork] fused=True, but layers of up to {max(self.sizes)} gates do not fit into 16 KiB of "
                "workgroup memory. Hint: leave fused out."
            )
        self.fused = can_be if fused is None else fused
        self.prepare()
        self.register_load_state_dict_post_hook(prepare_loaded)

    @property
    def wire_mode(self) -> str | None:
        """How learned wires are read in train(), in all layers; None for other wires. Setting it raises ArgumentError for these."""
        return self._common("wire_mode")

    @wire_mode.setter
    def wire_mode(self, value: str) -> None:
        for layer in self.layers:
            layer.wire_mode = value

    def prepare(self) -> None:
        """Prepare the wires for the fused kernels. Call it after changing wires by hand."""
        if not self.fused:
            return
        pairs = [layer.checked_wires() for layer in self.layers]
        self._readers = fused_cell.most_readers(pairs)
        register_packed(self, pairs, self.sizes, self.layers[0].wires.device)

    def forward(self, input: sg.Tensor) -> sg.Tensor:
        """The outputs (..., sizes[-1]) of x (..., sizes[0]). Raises ShapeError for another last axis."""
        # between the layers of one kernel there are no gradients to scale
        fused = self.fused and not is_in_onnx_export() and self.grad_factor == 1
        if fused and input.ndim and input.shape[-1] == self.sizes[0] and input.numel():
            coefficients = sg.cat([layer.coefficients() for layer in self.layers], 0)
            if input.dtype is coefficients.dtype:
                return self._fused(input, coefficients)
        for layer in self.layers:
            input = layer(input)
        return input

    def _fused(self, input: sg.Tensor, coefficients: sg.Tensor) -> sg.Tensor:
        x = input.reshape(-1, self.sizes[0])
        call = network.Network(x.shape[0], self.sizes, self._readers)
        given = (x, coefficients, self.packed_wires, self.packed_readers)
        return call(*given).reshape(*input.shape[:-1], self.sizes[-1])

    def harden(self) -> Circuit:
        """The circuit of the most likely gates, with every gate in it, layer by layer."""
        built: list[tuple[int, int, int]] = []
        inputs = self.layers[0].n_in
        outputs = append_layers(built, inputs, list(range(inputs)), self.layers)
        return Circuit(inputs, built, outputs)


def register_packed(module: Module, pairs: Sequence[Any], sizes: Sequence[int], device: str) -> None:
    """Register the buffers `packed_wires` and `packed_readers` of a module's fused kernels; they are not in the state_dict."""
    wires, readers = fused_cell.pack_wires(pairs), fused_cell.inverse_wires(pairs, sizes)
    module.register_buffer("packed_wires", sg.tensor(wires, device=device), persistent=False)
    module.register_buffer("packed_readers", sg.tensor(readers, device=device), persistent=False)


def append_layers(
    built: list[tuple[int, int, int]],
    inputs: int,
    wires: list[int],
    layers: Iterable[Any],
    kernel: int | None = None,
) -> list[int]:
    """Append the most likely gates of layers that read `wires` to a circuit's gates; returns the wires of the last layer.

    built: the gates (kind, a, b) of a circuit with `inputs` inputs; gate k is wire inputs + k. kernel: the number of the kernel.
    """
    for layer in layers:
        kinds = layer.kinds() if kernel is None else layer.kinds()[kernel]
        start = inputs + len(built)
        built.extend((int(kind), wires[a], wires[b]) for kind, a, b in zip(kinds, *layer.pair(), strict=True))
        wires = list(range(start, inputs + len(built)))
    return wires
