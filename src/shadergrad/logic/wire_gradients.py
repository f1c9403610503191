"""Operations between layers of gates with gradients of their own. In: values on wires. Out: the values that gates read."""

from __future__ import annotations

from typing import Any

import shadergrad as sg

from ..autograd import Function


class ScaledGradient(Function):
    """x, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, x: sg.Tensor, factor: float) -> sg.Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: sg.Tensor) -> tuple[sg.Tensor | None, ...]:
        return g * ctx.factor, None


class ReadWires(Function):
    """x at the wires along an axis. The gradient of an input is gathered from its readers, by an index that is built once.

    readers (most, n_in): positions among the wires, padded with the number of wires if an input has fewer readers.
    """

    @staticmethod
    def forward(ctx: Any, x: sg.Tensor, wires: sg.Tensor, readers: sg.Tensor, axis: int) -> sg.Tensor:
        ctx.save_for_backward(readers)
        ctx.axis = axis
        return x.index_select(axis, wires)

    @staticmethod
    def backward(ctx: Any, g: sg.Tensor) -> tuple[sg.Tensor | None, ...]:
        (readers,) = ctx.saved_tensors
        axis = ctx.axis % g.ndim
        none = sg.zeros_like(g.narrow(axis, 0, 1))
        found = sg.cat([g, none], axis).index_select(axis, readers.reshape(-1))
        most, n_in = readers.shape
        return found.reshape(*g.shape[:axis], most, n_in, *g.shape[axis + 1 :]).sum(axis), None, None, None
