"""Adafactor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Unpack

from ..dtypes import FloatLimits
from ..tensor import Tensor
from .optimizer import Implementation, Optimizer, OptimizerError, ParamGroup


class Adafactor(Optimizer):
    """Adam with a factored mean of squares (a column times a row), and steps relative to the parameter's size (Shazeer and
    Stern, 2018). As torch.optim.Adafactor.

    Matrices (*, m, n) keep m + n numbers in place of m n, 'row_var' and 'col_var'; vectors all of them, 'variance'. With
    b = t ** beta2_decay and rho = min(lr, 1 / sqrt(t)):

        p *= 1 - lr * weight_decay
        row += (mean of g^2 over columns - row) * b;  col += (mean over rows - col) * b
        u = g / sqrt(row col / mean(row))
        p -= max(eps[1], rms(p)) * rho * u / max(1, rms(u) / d)

    eps: the first keeps u finite, the dtype's eps if None. Errors: as for Optimizer, and for numbers out of range.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.Adafactor([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.2094, 1.2094], requires_grad=True)
    """

    slots = ("row_var", "col_var", "variance")
    scalars = ("step",)
    takes_complex = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        self._check_numbers(beta2_decay, eps, d)
        defaults = {"lr": lr, "beta2_decay": beta2_decay, "eps": tuple(eps), "d": d}
        super().__init__(params, {**defaults, "weight_decay": weight_decay, "maximize": maximize}, implementation)

    @staticmethod
    def _check_numbers(beta2_decay: float, eps: tuple[float | None, float], d: float) -> None:
        if not beta2_decay <= 0.0:
            raise OptimizerError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise OptimizerError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise OptimizerError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise OptimizerError(f"Clipping threshold d should be >= 1 but is: {d}")

    def check(self, group: ParamGroup) -> None:
        known = {k: v for k, v in group.items() if k != "eps"}  # eps is a pair here
        super().check(ParamGroup(known))

    def shape_of(self, name: str, p: Tensor) -> tuple[int, ...] | None:
        if p.ndim < 2:
            return tuple(p.shape) if name == "variance" else None
        *batch, m, n = p.shape
        return {"row_var": (*batch, m, 1), "col_var": (*batch, 1, n)}.get(name)

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        rate, step = group.rate(p), state["step"]
        least, least_size = group.value("eps", p, 0), group.value("eps", p, 1)
        if least is None:
            least = float(FloatLimits.of(p.dtype).eps)
        fresh = step ** group.value("beta2_decay", p)
        size = (_rms(p)).clamp(min=least_size) * rate.minimum(step**-0.5)
        value = p * (1.0 - rate * group.value("weight_decay", p)) if group.uses("weight_decay") else p
        estimate = self._estimate(gradient, state, fresh, least)
        update = estimate.clamp(min=least * least).rsqrt() * gradient
        p.copy_(value - update * (size / (_rms(update) / group.value("d", p)).clamp(min=1.0)))

    @staticmethod
    def _estimate(gradient: Tensor, state: dict[str, Tensor], fresh: Tensor, least: float) -> Tensor:
        """The mean of squares of gradients; updates the state."""
        squares = gradient * gradient
        if gradient.ndim < 2:
            state["variance"].copy_(state["variance"] + (squares - state["variance"]) * fresh)
            return state["variance"]
        row, column = state["row_var"], state["col_var"]
        row.copy_(row + (squares.mean(-1, True) - row) * fresh)
        column.copy_(column + (squares.mean(-2, True) - column) * fresh)
        return row * column / row.mean(-2, True).clamp(min=least)


def _rms(x: Tensor) -> Tensor:
    """The root of the mean of squares."""
    return x.norm() * (1.0 / math.sqrt(max(x.numel(), 1)))
