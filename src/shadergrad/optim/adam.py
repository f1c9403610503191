"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Decay, Implementation, Optimizer, ParamGroup


class Adam(Optimizer):
    """Steps by running means of the gradient and of its square (Kingma and Ba, 2015). As torch.optim.Adam.

        g = gradient + weight_decay * p
        m = beta1 * m + (1 - beta1) * g                     m / (1 - beta1 ** t) is m without bias
        v = beta2 * v + (1 - beta2) * g ** 2                v / (1 - beta2 ** t), the same
        p -= lr * m / (sqrt(v) + eps)                       of those without bias

    amsgrad: the largest v so far in place of v (Reddi et al., 2018). decoupled_weight_decay: as AdamW. maximize: climb
    instead. Errors: as for Optimizer.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.Adam([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()  # the first step is lr long, whatever the gradient
    >>> w
    tensor([0.75, 1.75], requires_grad=True)
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
        denominator = root.sqrt() * beta2.bias_correction(state["step"]).rsqrt() + group.value("eps", p)
        p.copy_(value - state["exp_avg"] / denominator * scale)


class AdamW(Adam):
    """Adam whose weight decay acts on the parameter, p -= lr * weight_decay * p, not through the gradient.

    Loshchilov and Hutter, 2019. As torch.optim.AdamW; weight_decay is 0.01 by default. Other arguments: as for Adam.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.AdamW([w], lr=0.25, weight_decay=2.0)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.25, 0.75], requires_grad=True)
    """

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
    if not group.uses("weight_decay"):
        return p, gradient
    decay = group.value("weight_decay", p)
    if group["decoupled_weight_decay"]:
        return p * (1.0 - rate * decay), gradient
    return p, gradient + p * decay


def moments(p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> tuple[Decay, Decay]:
    """Advance the running means of the gradient and of its square; returns their decay rates."""
    beta1, beta2 = group.momentum(p), group.decay("betas", p, 1)
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.copy_(mean + (gradient - mean) * beta1.rest)
    square.copy_(square * beta2.value + gradient * gradient * beta2.rest)
    return beta1, beta2
