"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..dtypes import DType
from ..tensor import Tensor, where
from .optimizer import Implementation, Optimizer, ParamGroup, scalar_dtype


class ASGD(Optimizer):
    """SGD that also averages the parameters of all steps from t0 on (Polyak and Juditsky, 1992). As torch.optim.ASGD.

        p = p * (1 - lambd * eta) - eta * g                 g = gradient + weight_decay * p
        ax += (p - ax) * mu                                 the average: optimizer.state[p]["ax"]
        eta = lr / (1 + lambd * lr * t) ** alpha,  mu = 1 / max(1, t - t0)

    Errors: as for Optimizer.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5, 1. ], requires_grad=True)
    """

    slots = ("eta", "mu", "ax")
    scalars = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        defaults = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0}
        super().__init__(params, {**defaults, "weight_decay": weight_decay, "maximize": maximize}, implementation)

    def start_of(self, name: str, group: ParamGroup) -> float:
        return 1.0 if name == "mu" else 0.0

    def shape_of(self, name: str, p: Tensor) -> tuple[int, ...] | None:
        return tuple(p.shape) if name == "ax" else ()

    def dtype_of(self, name: str, p: Tensor) -> DType:
        return super().dtype_of(name, p) if name == "ax" else scalar_dtype(p)

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        eta, mean, step, rate = state["eta"], state["ax"], state["step"], group.rate(p)
        lambd = group.value("lambd", p)
        now = where(step == 1.0, rate, eta)  # the first step uses the learning rate at the time of that step
        if group.uses("weight_decay"):
            gradient = gradient + p * group.value("weight_decay", p)
        value = p * (1.0 - now * lambd) - gradient * now
        p.copy_(value)
        mean.copy_(mean + (value - mean) * state["mu"])
        eta.copy_(rate / (1.0 + step * rate * lambd) ** group.value("alpha", p))
        state["mu"].copy_(1.0 / (step - group.value("t0", p)).clamp(min=1.0))
