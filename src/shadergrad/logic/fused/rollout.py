"""Rollouts of a logic automaton as primitives: chains of one kernel a step on a GPU, NumPy on the cpu device.

Equal steps of a loss and of its gradient are one node in a graph, so a compiled step computes each state once; nothing but
states is kept from forward to backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dtypes import DType
from ...errors import AutogradError
from ...graph import node as nodes
from ...graph.leaves import Constant
from ...graph.primitive import Shape
from ...primitives.elementwise import Add
from ...primitives.reduce import ReduceSum
from ...primitives.views import Cat, Expand, Pad, Permute, Reshape, Slice
from .cell import PATCH, CellCall
from .reference import NumpyCell
from .shader import CellStep, CellStepGradient

if TYPE_CHECKING:
    from ...compile.rewrite import Rewriter
    from ...graph.node import Node


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
        return ("state", "coefficients", "wires", "readers", *self.optional)

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
        return ("state", "coefficients", "wires", "readers", *self.optional, "gradient")

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
        flat = r.make(Slice((self.inputs_size,), (groups * self.slots * 4,), (1,)), packed)
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
