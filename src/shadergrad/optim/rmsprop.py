"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Implementation, Optimizer, ParamGroup


class RMSprop(Optimizer):
    """Gradients relative to the root of their running mean square (Hinton's lecture 6e, 2012). As torch.optim.RMSprop.

        g = gradient + weight_decay * p
        v = alpha * v + (1 - alpha) * g ** 2
        d = g / (sqrt(v) + eps)                             centered: v - (running mean of g) ** 2 (Graves, 2013)
        p -= lr * d                                         with momentum: lr * b, where b = momentum * b + d

    Errors: as for Optimizer.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.RMSprop([w], lr=0.25, alpha=0.75)
    >>> (w * w).sum().backward()
    >>> optimizer.step()  # v is g ** 2 / 4
    >>> w
    tensor([0.5, 1.5], requires_grad=True)
    """

    slots = ("square_avg",)
    scalars = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
            implementation,
        )

    def slots_of(self, group: ParamGroup) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group.has_momentum() else ()
        return (*self.slots, *momentum, *(("grad_avg",) if group["centered"] else ()))

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        if group.uses("weight_decay"):
            gradient = gradient + p * group.value("weight_decay", p)
        alpha = group.decay("alpha", p)
        square = state["square_avg"]
        square.copy_(square * alpha.value + gradient * gradient * alpha.rest)
        spread = square
        if group["centered"]:
            mean = state["grad_avg"]
            mean.copy_(mean + (gradient - mean) * alpha.rest)
            spread = square - mean * mean
        change = gradient / (spread.sqrt() + group.value("eps", p))
        if group.has_momentum():
            average = state["momentum_buffer"]
            change = average.copy_(average * group.momentum(p).value + change)
        p.copy_(p - change * group.rate(p))
