"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .adam import decayed, moments
from .optimizer import Implementation, Optimizer, ParamGroup


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, which grows over the steps (Dozat, 2016). As torch.optim.NAdam.

        mu(t) = beta1 * (1 - 0.96 ** (t * momentum_decay) / 2)
        p -= lr * (mu(t + 1) * m / (1 - mu(1) ... mu(t + 1)) + (1 - mu(t)) * g / (1 - mu(1) ... mu(t)))
             / (sqrt(v / (1 - beta2 ** t)) + eps)           g, m and v: as for Adam

    decoupled_weight_decay: as AdamW. Errors: as for Optimizer.

    >>> w = sg.tensor([1.0], requires_grad=True)
    >>> optimizer = sg.optim.NAdam([w], lr=0.25, betas=(0.0, 0.999))
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75], requires_grad=True)
    """

    slots = ("exp_avg", "exp_avg_sq")
    scalars = ("step", "mu_product")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
            },
            implementation,
        )

    def start_of(self, name: str, group: ParamGroup) -> float:
        return 1.0 if name == "mu_product" else 0.0

    def advance(self, state: dict[str, Tensor], group: ParamGroup) -> None:
        super().advance(state, group)
        state["mu_product"].mul_(momentum_at(state["step"], group))

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        rate, step, product = group.rate(p), state["step"], state["mu_product"]
        value, gradient = decayed(p, gradient, rate, group)
        _, beta2 = moments(p, gradient, state, group)
        now, after = momentum_at(step, group), momentum_at(step + 1, group)
        of_gradient = rate * (1.0 - now) / (1.0 - product)
        of_mean = rate * after / (1.0 - product * after)
        denominator = (state["exp_avg_sq"] / beta2.bias_correction(step)).sqrt() + group.value("eps", p)
        p.copy_(value - (gradient * of_gradient + state["exp_avg"] * of_mean) / denominator)


def momentum_at(step: Tensor, group: ParamGroup) -> Tensor:
    """mu(step), on the device."""
    fading = (step * (group.value("momentum_decay", step) * math.log(0.96))).exp()
    return (1.0 - fading * 0.5) * group.momentum(step).value
