"""Lion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Implementation, Optimizer, ParamGroup


class Lion(Optimizer):
    """Steps of one length, by the sign of a mean (Chen et al., 2023: Symbolic Discovery of Optimization Algorithms).

        p -= lr * (sign(beta1 * m + (1 - beta1) * gradient) + weight_decay * p)
        m = beta2 * m + (1 - beta2) * gradient

    PyTorch has none; names and defaults are those of https://github.com/google/automl/tree/master/lion. A good rate is
    3 to 10 times smaller than Adam's, and the decay as much larger. Errors: as for Optimizer.

    >>> w = sg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = sg.optim.Lion([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.75, -1.75], requires_grad=True)
    """

    slots = ("exp_avg",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize},
            implementation,
        )

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        rate, mean = group.rate(p), state["exp_avg"]
        beta1, beta2 = group.momentum(p), group.decay("betas", p, 1)
        direction = (mean * beta1.value + gradient * beta1.rest).sign()
        value = p * (1.0 - rate * group.value("weight_decay", p)) if group.uses("weight_decay") else p
        p.copy_(value - direction * rate)
        mean.copy_(mean * beta2.value + gradient * beta2.rest)
