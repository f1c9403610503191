"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Decay, Implementation, Optimizer, ParamGroup


class Adam(Optimizer):
    """Kingma and Ba, 2015, with PyTorch's order of operations; weight_decay is added to the gradient.

    decoupled_weight_decay: as AdamW.
    """

    slots = ("exp_avg", "exp_avg_sq")
    scalars = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
            implementation,
        )

    def slots_of(self, group: ParamGroup) -> tuple[str, ...]:
        return (*self.slots, "max_exp_avg_sq") if group["amsgrad"] else self.slots

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        rate = group.rate(p)
        value, gradient = decayed(p, gradient, rate, group)
        beta1, beta2 = moments(p, gradient, state, group)
        root = state["exp_avg_sq"]
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            root = largest.copy_(largest.maximum(root))
        scale = rate / beta1.bias_correction(state["step"])
        denominator = root.sqrt() * beta2.bias_correction(state["step"]).rsqrt() + group["eps"]
        p.copy_(value - state["exp_avg"] / denominator * scale)


class AdamW(Adam):
    """Loshchilov and Hutter, 2019: weight decay acts on the parameter, not through the gradient."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            decoupled_weight_decay=True,
            **implementation,
        )


def decayed(p: Tensor, gradient: Tensor, rate: Tensor, group: ParamGroup) -> tuple[Tensor, Tensor]:
    """The parameter and the gradient after weight decay, which acts on the one or the other."""
    decay = group["weight_decay"]
    if not decay:
        return p, gradient
    if group["decoupled_weight_decay"]:
        return p * (1.0 - rate * decay), gradient
    return p, gradient + p * decay


def moments(p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> tuple[Decay, Decay]:
    """Advance the running means of the gradient and of its square; returns their decay rates."""
    beta1, beta2 = group.momentum(p), Decay.of(group["betas"][1])
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.copy_(mean + (gradient - mean) * beta1.rest)
    square.copy_(square * beta2.value + gradient * gradient * beta2.rest)
    return beta1, beta2
