"""Cellular automata whose rule is a network of learned gates, trained by backpropagation through time.

In: states (batch, height, width, channels) in [0, 1]. Out: states after some steps. A cell sees its 3x3 patch. The perception
consists of a few small gate networks (kernels) that share their wires; each reads every channel by itself. The update network
computes the new channels from the cell's own bits and the perception's outputs. Source: "Differentiable Logic Cellular
Automata" (Miotti, Niklasson, Randazzo and Mordvintsev, 2025).

If a cell fits into a GPU's workgroup memory, a whole step is one kernel (see fused/). Otherwise a composition of tensor
operations computes it, gate layer by gate layer; the tests compare the kernels with it. Coefficients depend only on the logits:
compute them once per optimizer step and pass them to every step of the automaton.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import shadergrad as sg

from ..autograd import Function, grad
from ..errors import AutogradError, DTypeError, ShapeError
from ..nn import Module, ModuleList
from ..nn.errors import ArgumentError
from ..nn.functional import pad
from ..onnx import is_in_onnx_export
from . import gates, wiring
from .circuit import CellCircuit, Circuit, gate_kinds
from .fused import cell as fused_cell
from .fused import layers as fused_layers
from .fused.rollout import Rollout
from .layers import GateLayer, append_layers, prepare_loaded, register_packed

PATCH = 9  # cells that a cell sees, row by row; 4 is itself
BORDERS = {"zeros": "constant", "periodic": "circular"}


class GateStack(Module):
    """A stack of gate layers. Gates are numbered layer by layer, within a layer kernel by kernel."""

    def __init__(
        self,
        sizes: Sequence[int],
        wires: Sequence[Any],
        init: str = "pass-through",
        kernels: int | None = None,
        device: Any = None,
        strength: float | None = None,
    ) -> None:
        super().__init__()
        if len(wires) != len(sizes) - 1 or not wires:
            raise ShapeError(
                f"[{self._get_name()}] {len(wires)} pairs of wires for sizes {tuple(sizes)}; one a layer is wanted."
            )
        self.sizes = tuple(int(n) for n in sizes)
        self.layers = ModuleList(
            GateLayer(n_in, n_out, pair, init, kernels, device, strength=strength)
            for n_in, n_out, pair in zip(self.sizes[:-1], self.sizes[1:], wires, strict=True)
        )

    @property
    def n_gates(self) -> int:
        """The number of gates with logits, over all layers."""
        return sum(layer.n_gates for layer in self.layers)

    def logits(self) -> list[sg.Tensor]:
        """The logits of each layer, (gates, 16)."""
        return [layer.logits.reshape(layer.n_gates, gates.GATES) for layer in self.layers]

    def coefficients(self, hard: bool | None = None) -> sg.Tensor:
        """The coefficients of all gates (n_gates, 4). hard: of the most likely gates, without gradient; by default in eval()."""
        return _coefficients(self.logits(), not self.training if hard is None else hard)

    def evaluate(self, x: sg.Tensor, coefficients: sg.Tensor) -> sg.Tensor:
        """The outputs of all layers; shapes as in GateLayer.evaluate."""
        if tuple(coefficients.shape) != (self.n_gates, 4):
            raise ShapeError(
                f"[{self._get_name()}] coefficients are {tuple(coefficients.shape)}, not ({self.n_gates}, 4)."
            )
        start = 0
        for layer in self.layers:
            x = layer.evaluate(x, coefficients.narrow(0, start, layer.n_gates))
            start += layer.n_gates
        return x


class Perception(GateStack):
    """`kernels` small gate networks 9 -> ... that share their wires, each applied to every channel.

    patches (..., channels, 9) give (..., channels * sizes[-1] * kernels), the kernel fastest, then the network's output.
    Parameters: logits (kernels, n_out, 16) a layer.
    wires: a pair a layer; by default drawn with key or seed.
    Raises ArgumentError for sizes that do not begin with 9 or have no layer, ShapeError for wires or patches that do not fit.

    >>> sg.logic.Perception(channels=2, kernels=3)(sg.zeros(5, 2, 9)).shape
    shadergrad.Size([5, 12])
    """

    def __init__(
        self,
        channels: int,
        kernels: int,
        sizes: Sequence[int] = (9, 8, 4, 2),
        wires: Sequence[Any] | None = None,
        init: str = "pass-through",
        key: np.ndarray | None = None,
        seed: int = 0,
        device: Any = None,
        strength: float | None = None,
    ) -> None:
        _check_perception(channels, kernels, sizes)
        if wires is None:
            wires = wiring.network(sizes, wiring.prng_key(seed) if key is None else key, "moore")
        super().__init__(sizes, wires, init, kernels, device, strength)
        self.channels, self.kernels = channels, kernels

    @property
    def n_out(self) -> int:
        """The number of a cell's features: channels * sizes[-1] * kernels."""
        return self.channels * self.sizes[-1] * self.kernels

    def forward(self, patches: sg.Tensor, coefficients: sg.Tensor | None = None) -> sg.Tensor:
        """The features (..., n_out) of patches (..., channels, 9).

        coefficients (n_gates, 4): by default those of the logits.
        """
        if patches.ndim < 2 or tuple(patches.shape[-2:]) != (self.channels, PATCH):
            raise ShapeError(
                f"[Perception] patches are {tuple(patches.shape)}; they must end in ({self.channels}, {PATCH})."
            )
        found = self.evaluate(patches.unsqueeze(-1), self.coefficients() if coefficients is None else coefficients)
        return found.reshape(*patches.shape[:-2], self.n_out)


class Update(GateStack):
    """A gate network: features (..., sizes[0]) give (..., sizes[-1]).

    wires: a pair a layer; by default drawn with key or seed. init: see GateLayer. Raises ShapeError for wires that do not fit.

    >>> sg.logic.Update((6, 4, 2))(sg.zeros(5, 6)).shape
    shadergrad.Size([5, 2])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        wires: Sequence[Any] | None = None,
        init: str = "pass-through",
        key: np.ndarray | None = None,
        seed: int = 0,
        device: Any = None,
        strength: float | None = None,
    ) -> None:
        if wires is None:
            wires = wiring.network(sizes, wiring.prng_key(seed) if key is None else key)
        super().__init__(sizes, wires, init, device=device, strength=strength)

    def forward(self, features: sg.Tensor, coefficients: sg.Tensor | None = None) -> sg.Tensor:
        """The outputs (..., sizes[-1]) of features (..., sizes[0]).

        coefficients (n_gates, 4): by default those of the logits.
        """
        return self.evaluate(features, self.coefficients() if coefficients is None else coefficients)


class LogicCA(Module):
    """A cellular automaton of gates.

    channels: bits of a cell.
    kernels, perception: see Perception.
    update: sizes of the update network without its input, which is channels + channels * perception[-1] * kernels; the last
    must be channels.
    border: the values beyond the grid, "zeros" or "periodic" (the opposite edge).
    fire_rate: None: all cells change at every step. Otherwise a cell takes its new state, all channels together, if a uniform
    draw is at most this rate, and else keeps the old one: (height, width) draws per step, shared by the batch.
    key, seed: those of the wires (see wiring.automaton).
    wires: given wires (perception, update). init, strength: see GateLayer.
    fused: whether a step is one kernel; by default if possible. Layer by layer it takes more time and memory, and has second
    derivatives. Call `prepare()` after changing wires by hand; load_state_dict does so.
    Raises ArgumentError for arguments out of range, or fused=True if impossible.

    >>> model = sg.logic.LogicCA(2, 1, (9, 8, 4, 2), (4, 2), border="periodic")
    >>> model.rollout(sg.zeros(1, 4, 4, 2), steps=3).shape
    shadergrad.Size([1, 4, 4, 2])
    >>> model.harden().circuit
    Circuit(18 inputs, 34 gates, 2 outputs)
    """

    def __init__(
        self,
        channels: int,
        kernels: int,
        perception: Sequence[int],
        update: Sequence[int],
        border: str = "zeros",
        fire_rate: float | None = None,
        init: str = "pass-through",
        key: np.ndarray | None = None,
        seed: int = 0,
        wires: tuple[Sequence[Any], Sequence[Any]] | None = None,
        device: Any = None,
        fused: bool | None = None,
        strength: float | None = None,
    ) -> None:
        super().__init__()
        if border not in BORDERS:
            raise ArgumentError(f"[LogicCA] there is no border {border!r}; choose of {', '.join(BORDERS)}.")
        if fire_rate is not None and not 0 < fire_rate <= 1:
            raise ArgumentError(f"[LogicCA] the fire rate is {fire_rate}; it must be above 0 and at most 1, or None.")
        _check_perception(channels, kernels, perception)
        if not update or update[-1] != channels:
            raise ArgumentError(
                f"[LogicCA] the update network ends in {tuple(update)[-1:]}; it must give the {channels} channels."
            )
        sizes = (channels + channels * perception[-1] * kernels, *update)
        if wires is None:
            wires = wiring.automaton(perception, sizes, wiring.prng_key(seed) if key is None else key)
        self.channels, self.border, self.fire_rate = channels, border, fire_rate
        self.perception = Perception(channels, kernels, perception, wires[0], init, None, 0, device, strength)
        self.update = Update(sizes, wires[1], init, None, 0, device, strength)
        can_be = fused_layers.fits(channels, channels * kernels, self.update.sizes)
        if fused and not can_be:
            raise ArgumentError(
                f"[LogicCA] fused=True, but a cell of {channels} channels, {kernels} kernels and layers of up to "
                f"{max(self.update.sizes)} does not fit into 16 KiB of workgroup memory. Hint: leave fused out."
            )
        self.fused = can_be if fused is None else fused
        self.prepare()
        self.register_load_state_dict_post_hook(prepare_loaded)

    def prepare(self) -> None:
        """Prepare the wires for the fused kernels."""
        if not self.fused:
            return
        pairs = [layer.checked_wires() for layer in self.update.layers]
        self._static = (
            tuple(tuple(map(tuple, layer.pair())) for layer in self.perception.layers),
            self.update.sizes,
            fused_cell.most_readers(pairs),
        )
        register_packed(self, pairs, self.update.sizes, self.update.layers[0].wires.device)

    @property
    def n_gates(self) -> int:
        """The number of gates with logits: the perception's and the update network's."""
        return self.perception.n_gates + self.update.n_gates

    def active_gates(self) -> int:
        """The number of gates with logits whose most likely kind is neither A nor B: the article's count."""
        found = [layer.kinds().reshape(-1) for net in (self.perception, self.update) for layer in net.layers]
        return int((~np.isin(np.concatenate(found), [gate_kinds.A, gate_kinds.B])).sum())

    def coefficients(self, hard: bool | None = None) -> sg.Tensor:
        """The coefficients of all gates, the perception's first (n_gates, 4); hard: those of the most likely gates, without
        gradient; by default in eval()."""
        chosen = not self.training if hard is None else hard
        return _coefficients([*self.perception.logits(), *self.update.logits()], chosen)

    def masks(self, steps: int, height: int, width: int, key: np.ndarray | None = None) -> sg.Tensor:
        """The cells that change at each step, bool (steps, height, width, 1).

        key: two uint32 words, split at each step as in the reference. Without a key the device's generator draws.
        """
        if self.fire_rate is None:
            raise ArgumentError("[LogicCA.masks] this automaton is synchronous: fire_rate is None.")
        device = self.update.layers[0].logits.device
        if key is None:
            return sg.rand(steps, height, width, 1, device=device) <= self.fire_rate
        return sg.tensor(draw_masks(key, steps, height, width, self.fire_rate), device=device)

    def step(self, state: sg.Tensor, coefficients: sg.Tensor | None = None, mask: sg.Tensor | None = None) -> sg.Tensor:
        """The next state. mask (height, width, 1): the cells that take it; drawn if the automaton is asynchronous."""
        return self.rollout(state, 1, coefficients=coefficients, masks=None if mask is None else mask.unsqueeze(0))

    def rollout(
        self,
        state: sg.Tensor,
        steps: int,
        hard: bool | None = None,
        checkpoint_every: int | None = None,
        coefficients: sg.Tensor | None = None,
        masks: sg.Tensor | None = None,
    ) -> sg.Tensor:
        """The state after `steps` steps.

        coefficients (n_gates, 4): by default those of the logits, hard or not; hard is by default False in train() and True in eval(). masks (steps, height, width, 1): see masks();
        give the same masks to a soft and a hard rollout for comparison.
        checkpoint_every: keep a state for the backward pass only after this many steps, and recompute the steps between: less
        memory, a third more work, the same gradients. In a compiled step it saves nothing, because the plan computes equal
        nodes once. Second derivatives need None.
        """
        if steps < 0 or (checkpoint_every is not None and checkpoint_every < 1):
            raise ArgumentError(
                f"[rollout] {steps} steps, checkpoint_every={checkpoint_every}: neither may be negative or 0 a piece."
            )
        coefficients = self.coefficients(hard) if coefficients is None else coefficients
        masks = self._check(state, steps, coefficients, masks)

        def run(x: sg.Tensor, c: sg.Tensor, first: int, last: int) -> sg.Tensor:
            own = None if masks is None else masks[first:last]
            if self.fused and not is_in_onnx_export() and last > first and x.dtype is c.dtype:
                return self._fused_steps(x, c, own, last - first)
            for k in range(last - first):
                x = self._step(x, c, None if own is None else own[k])
            return x

        if checkpoint_every is None:
            return run(state, coefficients, 0, steps)
        for first in range(0, steps, checkpoint_every):
            last = min(first + checkpoint_every, steps)
            state = Recomputed.apply(lambda x, c, first=first, last=last: run(x, c, first, last), state, coefficients)
        return state

    forward = rollout

    def harden(self) -> CellCircuit:
        """The rule as a circuit of the most likely gates, for one cell: its inputs are the patch's bits (9, channels), cell
        by cell as in the patch, its outputs the new channels."""
        channels, kernels = self.channels, self.perception.kernels
        inputs = PATCH * channels
        built: list[tuple[int, int, int]] = []
        found = [
            [
                append_layers(
                    built, inputs, [cell * channels + c for cell in range(PATCH)], self.perception.layers, kernel
                )
                for kernel in range(kernels)
            ]
            for c in range(channels)
        ]
        features = [wiring.CENTRE * channels + c for c in range(channels)]
        features += [
            found[c][k][s] for c in range(channels) for s in range(self.perception.sizes[-1]) for k in range(kernels)
        ]
        outputs = append_layers(built, inputs, features, self.update.layers)
        return CellCircuit(
            Circuit(inputs, built, outputs), self.border, 1.0 if self.fire_rate is None else self.fire_rate
        )

    # -- one step

    def _fused_steps(self, state: sg.Tensor, coefficients: sg.Tensor, masks: sg.Tensor | None, steps: int) -> sg.Tensor:
        batch, height, width, channels = state.shape
        perception, widths, readers = self._static
        rollout = Rollout(
            batch=batch,
            height=height,
            width=width,
            channels=channels,
            kernels=self.perception.kernels,
            perception=perception,
            widths=widths,
            readers=readers,
            periodic=self.border == "periodic",
            masked=masks is not None,
            steps=steps,
        )
        given = [state, coefficients, self.packed_wires, self.packed_readers]
        if masks is not None:
            given.append(masks.reshape(steps, *state.shape[1:3]))
        return rollout(*given)

    def _step(self, state: sg.Tensor, coefficients: sg.Tensor, mask: sg.Tensor | None) -> sg.Tensor:
        at = self.perception.n_gates
        found = self.perception(self._patches(state), coefficients.narrow(0, 0, at))
        features = sg.cat([state, found], -1)
        new = self.update(features, coefficients.narrow(0, at, self.update.n_gates))
        return new if mask is None else sg.where(mask, new, state)

    def _patches(self, state: sg.Tensor) -> sg.Tensor:
        """The patches (batch, height, width, channels, 9)."""
        padded = pad(state, (0, 0, 1, 1, 1, 1), BORDERS[self.border])
        return padded.unfold(1, 3, 1).unfold(2, 3, 1).reshape(*state.shape, PATCH)

    def _check(
        self, state: sg.Tensor, steps: int, coefficients: sg.Tensor, masks: sg.Tensor | None
    ) -> sg.Tensor | None:
        """The masks, drawn if an asynchronous automaton got none. Raises ShapeError or DTypeError for arguments that do not fit."""
        if state.ndim != 4 or state.shape[3] != self.channels or 0 in state.shape:
            raise ShapeError(
                f"[LogicCA] the state is {tuple(state.shape)}, not (batch, height, width, {self.channels}), none of them 0."
            )
        if not state.is_floating_point():
            raise DTypeError(f"[LogicCA] the state is {state.dtype.name}, not floating. Hint: state.float().")
        if tuple(coefficients.shape) != (self.n_gates, 4):
            raise ShapeError(
                f"[LogicCA] coefficients are {tuple(coefficients.shape)}, not ({self.n_gates}, 4), one row a gate."
            )
        if masks is None and self.fire_rate is not None:
            return self.masks(steps, state.shape[1], state.shape[2])
        shape = (steps, state.shape[1], state.shape[2], 1)
        if masks is not None and tuple(masks.shape) != shape:
            raise ShapeError(f"[LogicCA] masks are {tuple(masks.shape)}, not {shape}: steps, height, width, 1.")
        return masks

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return f"channels={self.channels}, border={self.border!r}, fire_rate={self.fire_rate}"


def draw_masks(key: np.ndarray, steps: int, height: int, width: int, fire_rate: float) -> np.ndarray:
    """LogicCA.masks as an array, bool (steps, height, width, 1), for a key (2,); for keys (..., 2) one such array for each."""
    left, own = np.asarray(key, np.uint32), []
    for _ in range(steps):
        pair = wiring.split(left)
        left = pair[..., 0, :]
        own.append(pair[..., 1, :])
    keys = np.stack(own, -2) if own else np.empty((*left.shape[:-1], 0, 2), np.uint32)
    return wiring.uniform(keys, (height, width, 1)) <= np.float32(fire_rate)


def _check_perception(channels: int, kernels: int, sizes: Sequence[int]) -> None:
    if channels < 1 or kernels < 1:
        raise ArgumentError(f"[Perception] {channels} channels and {kernels} kernels; both must be at least 1.")
    if len(sizes) < 2 or sizes[0] != PATCH:
        raise ArgumentError(
            f"[Perception] sizes are {tuple(sizes)}; the first must be {PATCH}, the cells of a patch, and gates must follow."
        )


def squared_error(state: sg.Tensor, target: sg.Tensor, channels: int | None = None) -> sg.Tensor:
    """The sum over batch, cells and the first `channels` channels (all, by default) of the squared difference.

    state and target (..., channels or more). Raises ShapeError if the other axes differ, or there are fewer channels.

    >>> sg.logic.squared_error(sg.tensor([[1.0, 5.0], [3.0, 5.0]]), sg.zeros(2, 1), channels=1)
    tensor(10.)
    """
    if state.shape[:-1] != target.shape[:-1]:
        raise ShapeError(f"[squared_error] the state is {tuple(state.shape)}, the target {tuple(target.shape)}.")
    count = state.shape[-1] if channels is None else channels
    if min(state.shape[-1], target.shape[-1]) < count:
        raise ShapeError(
            f"[squared_error] {count} channels are to be compared; the state is {tuple(state.shape)}, the target {tuple(target.shape)}."
        )
    return (state[..., :count] - target[..., :count]).square().sum()


def _coefficients(logits: Sequence[sg.Tensor], hard: bool) -> sg.Tensor:
    together = sg.cat(logits, 0)
    return gates.hard_coefficients(together) if hard else gates.coefficients(together)


class Recomputed(Function):
    """run(state, coefficients), keeping only the inputs; the backward pass runs it again.

    Pending tensors are computed at once, forward and backward, so that memory never holds two pieces.
    """

    @staticmethod
    def forward(ctx: Any, run: Callable[[sg.Tensor, sg.Tensor], sg.Tensor], *given: sg.Tensor) -> sg.Tensor:
        ctx.run = run
        ctx.save_for_backward(*given)
        value = run(*given)
        sg.sync(value.device)
        return value

    @staticmethod
    def backward(ctx: Any, g: sg.Tensor) -> tuple[sg.Tensor | None, ...]:
        if sg.is_grad_enabled():
            raise AutogradError("[rollout] create_graph=True needs checkpoint_every=None.")
        needed = ctx.needs_input_grad[1:]
        leaves = [x.detach().requires_grad_(needs) for x, needs in zip(ctx.saved_tensors, needed, strict=True)]
        with sg.enable_grad():
            result = ctx.run(*leaves)
        found = iter(grad(result, [x for x in leaves if x.requires_grad], g, allow_unused=True))
        sg.sync(g.device)
        return None, *(next(found) if needs else None for needs in needed)
