"""Rollouts of a logic automaton as operations: chains of one kernel a step on a GPU, NumPy on the cpu device.

Equal steps of a loss and of its gradient are one node in a graph, so a compiled step computes each state once; the forward pass
keeps only states for the backward pass.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg

from ...errors import AutogradError
from ...extend import Javascript, Spec
from .cell import PATCH, CellCall
from .reference import NumpyCell
from .shader import CellStep, CellStepGradient


@cache
def _script() -> str:
    return Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def _closure(call: CellCall, body: str, **more: Any) -> str:
    """A function of the result and the inputs, with the sizes and the fixed wires of a call as `of`."""
    names = ("channels", "kernels", "perception", "widths", "height", "width", "periodic")
    of = {name: getattr(call, name) for name in names} | more
    return f"((of) => (o, ...x) => {body})({json.dumps(of, separators=(',', ':'))})"


@dataclass(frozen=True)
class Rollout(CellCall):
    """The state after `steps` steps.

    Inputs: state (batch, height, width, channels); coefficients (gates, 4); wires; readers; where masked, mask bool
    (steps, height, width).
    """

    steps: int

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "coefficients", "wires", "readers", *self.optional)

    def infer(self, *inputs: Spec) -> Spec:
        return Spec(self.state_shape, inputs[0].dtype)

    def numpy(self, state, coefficients, wires, readers, mask=None):
        return self.states(state, coefficients, wires, mask)[-1]

    def states(self, state: Any, coefficients: Any, wires: Any, mask: Any) -> list[np.ndarray]:
        """The initial state, and the state after each step."""
        cell = NumpyCell(self, coefficients, wires)
        states = [state]
        for step in range(self.steps):
            states.append(cell.forward(states[-1], None if mask is None else mask[step][..., None]))
        return states

    def javascript(self, *inputs):
        masked = "x[4]" if self.masked else "null"
        return Javascript(_closure(self, f"rollout(of, o, x[0], x[1], x[2], {masked})", steps=self.steps), _script())

    def gradient(self, g, result, *inputs):
        state, coefficients, *rest = inputs
        gradients = [
            self.cell_of(RolloutGradient, self.steps, of_state)(state, coefficients, *rest, g) if wanted else None
            for of_state, wanted in ((True, state.requires_grad), (False, coefficients.requires_grad))
        ]
        return (*gradients, *(None for _ in rest))

    def compose(self, *inputs):
        return self.chain(inputs)[-1][: self.state_size].reshape(self.state_shape)

    def chain(self, inputs: Sequence[sg.Tensor]) -> list[sg.Tensor]:
        """On a GPU: the flat states of all steps; where masked, each ends in its number."""
        state, coefficients, wires, _, *mask = inputs
        carried = state.reshape(-1)
        if self.masked:
            carried = sg.nn.functional.pad(carried, (0, 1))
        step = self.cell_of(CellStep)
        chain = [carried]
        for _ in range(self.steps):
            chain.append(step(chain[-1], coefficients, wires, *mask))
        return chain


@dataclass(frozen=True)
class RolloutGradient(CellCall):
    """The gradient of Rollout with respect to its state, or to its coefficients (gates, 4).

    Inputs: those of the rollout, then the gradient of its result. On a GPU one chain of backward steps gives both.
    """

    steps: int
    of_state: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("state", "coefficients", "wires", "readers", *self.optional, "gradient")

    def infer(self, *inputs: Spec) -> Spec:
        return Spec(self.state_shape if self.of_state else (self.gates, 4), inputs[0].dtype)

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

    def javascript(self, *inputs):
        masked, last = ("x[4]", "x[5]") if self.masked else ("null", "x[4]")
        call = f"rolloutGradient(of, o, x[0], x[1], x[2], {masked}, {last})"
        return Javascript(_closure(self, call, steps=self.steps, of_state=self.of_state), _script())

    def gradient(self, g, result, *inputs):
        raise AutogradError("[rollout] second derivatives need the layers one by one: LogicCA(fused=False).")

    def compose(self, *inputs):
        _, coefficients, wires, readers, *mask, gradient = inputs
        if self.steps == 0:
            return gradient if self.of_state else sg.zeros_like(coefficients)
        chain = self.cell_of(Rollout, self.steps).chain(inputs[:-1])
        packed = gradient
        for step in reversed(range(self.steps)):
            back = self.cell_of(CellStepGradient, step == self.steps - 1)
            packed = back(chain[step], packed, coefficients, wires, readers, *mask)
        return self._state(packed) if self.of_state else self._coefficients(packed)

    def _state(self, packed: sg.Tensor) -> sg.Tensor:
        """For each cell the sum of its nine gradients, one from each patch."""
        grid = (self.batch, self.height, self.width)
        parts = packed[: self.cells * PATCH * self.channels].reshape(*grid, PATCH, self.channels)
        total: sg.Tensor | None = None
        for n in range(PATCH):
            part = parts[:, :, :, n]
            for axis, move in ((1, n // 3 - 1), (2, n % 3 - 1)):
                part = self._moved(part, axis, move)
            total = part if total is None else total + part
        assert total is not None
        return total

    def _moved(self, x: sg.Tensor, axis: int, by: int) -> sg.Tensor:
        """x moved along an axis: elements that leave the grid enter at the other edge, or are lost."""
        if by == 0:
            return x
        if self.periodic:
            return x.roll(by, axis)
        size = x.shape[axis]
        if size == 1:
            return sg.zeros_like(x)
        kept = x.narrow(axis, max(-by, 0), size - 1)
        beyond = [0, 0] * (x.ndim - 1 - axis) + [max(by, 0), max(-by, 0)]
        return sg.nn.functional.pad(kept, beyond)

    def _coefficients(self, packed: sg.Tensor) -> sg.Tensor:
        """The sums of all workgroups, and of all channels for the perception, in the order of the gates."""
        sums = packed[self.inputs_size :].reshape(self.workgroups, self.slots, 4)
        gates, kernels = sum(self.seen), self.kernels
        perception = (
            sums[:, : gates * self.pairs].reshape(self.workgroups, gates, self.channels, kernels, 4).sum((0, 2))
        )
        update = sums[:, gates * self.pairs :].sum(0)
        pieces = []
        start = 0
        for n in self.seen:
            pieces.append(perception[start : start + n].transpose(0, 1).reshape(n * kernels, 4))
            start += n
        return sg.cat([*pieces, update], 0)
