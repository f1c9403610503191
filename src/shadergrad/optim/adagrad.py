"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Implementation, Optimizer, ParamGroup


class Adagrad(Optimizer):
    """The learning rate of each element decreases with the sum of its squared gradients (Duchi et al., 2011). As torch.optim.Adagrad.

        g = gradient + weight_decay * p
        s += g ** 2                                         s begins at initial_accumulator_value
        p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    Errors: as for Optimizer.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.Adagrad([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75, 1.75], requires_grad=True)
    """

    slots = ("sum",)
    scalars = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "maximize": maximize,
            },
            implementation,
        )

    def start_of(self, name: str, group: ParamGroup) -> float:
        return group["initial_accumulator_value"] if name == "sum" else 0.0

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        rate = group.rate(p)
        if group.uses("weight_decay"):
            gradient = gradient + p * group.value("weight_decay", p)
        if group.uses("lr_decay"):
            rate = rate / (1.0 + (state["step"] - 1.0) * group.value("lr_decay", p))
        total = state["sum"]
        total.copy_(total + gradient * gradient)
        p.copy_(p - gradient / (total.sqrt() + group.value("eps", p)) * rate)
