"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor, where
from .optimizer import Implementation, Optimizer, OptimizerError, ParamGroup, check_number


class SGD(Optimizer):
    """Gradient descent, with momentum (Sutskever et al., 2013). As torch.optim.SGD.

        g = gradient + weight_decay * p
        b = momentum * b + (1 - dampening) * g              the first b is g
        p -= lr * b                                         nesterov: lr * (g + momentum * b); without momentum: lr * g

    maximize: climb instead. OptimizerError for nesterov without momentum or with dampening; others: as for Optimizer.

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.SGD([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5, 1. ], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
            implementation,
        )

    def check(self, group: ParamGroup) -> None:
        super().check(group)
        check_number("dampening", group["dampening"])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise OptimizerError(
                "Nesterov momentum requires a momentum and zero dampening, but got "
                f"momentum={group['momentum']}, dampening={group['dampening']}"
            )

    def slots_of(self, group: ParamGroup) -> tuple[str, ...]:
        return ("momentum_buffer",) if group.has_momentum() else ()

    def scalars_of(self, group: ParamGroup) -> tuple[str, ...]:
        return ("step",) if group.has_momentum() and group.uses("dampening") else ()

    def completed(self, saved: dict[str, Any], group: ParamGroup) -> dict[str, Any]:
        """PyTorch counts no steps for SGD: there was a step if there is a momentum buffer that is not None."""
        found = {k: v for k, v in saved.items() if v is not None}
        if self.scalars_of(group) and "momentum_buffer" in found:
            found.setdefault("step", 1.0)
        return found

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        if group.uses("weight_decay"):
            gradient = gradient + p * group.value("weight_decay", p)
        if group.has_momentum():
            average, momentum = state["momentum_buffer"], group.momentum(p).value
            new = gradient
            if group.uses("dampening"):  # the first step does not dampen the gradient
                new = where(state["step"] == 1, gradient, gradient * (1.0 - group.value("dampening", p)))
            average.copy_(average * momentum + new)
            gradient = gradient + average * momentum if group["nesterov"] else average
        p.sub_(gradient * group.rate(p))
