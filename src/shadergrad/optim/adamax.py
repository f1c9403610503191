"""Adamax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Implementation, Optimizer, ParamGroup


class Adamax(Optimizer):
    """Adam with the largest gradient, which fades, in place of the mean of squares (Kingma and Ba, 2015).

        m = beta1 * m + (1 - beta1) * g                     g = gradient + weight_decay * p
        u = max(beta2 * u, |g| + eps)
        p -= lr / (1 - beta1 ** t) * m / u

    As torch.optim.Adamax. Errors: as for Optimizer.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.Adamax([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75, 1.75], requires_grad=True)
    """

    slots = ("exp_avg", "exp_inf")
    scalars = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults, implementation)

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        if group.uses("weight_decay"):
            gradient = gradient + p * group.value("weight_decay", p)
        first, beta2 = group.momentum(p), group.value("betas", p, 1)
        mean = state["exp_avg"] * first.value + gradient * first.rest
        largest = (state["exp_inf"] * beta2).maximum(gradient.abs() + group.value("eps", p))
        p.sub_(mean / largest * group.rate(p) / first.bias_correction(state["step"]))
        state["exp_avg"].copy_(mean)
        state["exp_inf"].copy_(largest)
