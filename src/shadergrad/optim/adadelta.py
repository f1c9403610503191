"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Implementation, Optimizer, OptimizerError, ParamGroup, check_number


class Adadelta(Optimizer):
    """Scales the gradient by the ratio of the RMS of past steps to the RMS of past gradients (Zeiler, 2012). As torch.optim.Adadelta.

        g = gradient + weight_decay * p
        v = rho * v + (1 - rho) * g ** 2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d ** 2
        p -= lr * d

    OptimizerError for a rho outside [0, 1]; others: as for Optimizer.

    >>> w = sg.tensor([1.0], requires_grad=True)
    >>> optimizer = sg.optim.Adadelta([w])
    >>> (w * w).sum().backward()
    >>> optimizer.step()  # sqrt(eps / (1 - rho)) long
    >>> w
    tensor([0.9968], requires_grad=True)
    """

    slots = ("square_avg", "acc_delta")
    scalars = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize},
            implementation,
        )

    def check(self, group: ParamGroup) -> None:
        if not 0.0 <= check_number("rho", group["rho"]) <= 1.0:
            raise OptimizerError(f"Invalid rho value: {group['rho']}")
        super().check(group)

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        if group.uses("weight_decay"):
            gradient = gradient + p * group.value("weight_decay", p)
        rho, eps = group.value("rho", p), group.value("eps", p)
        square, moved = state["square_avg"], state["acc_delta"]
        square.copy_(square * rho + gradient * gradient * (1.0 - rho))
        change = (moved + eps).sqrt() / (square + eps).sqrt() * gradient
        moved.copy_(moved * rho + change * change * (1.0 - rho))
        p.copy_(p - change * group.rate(p))
