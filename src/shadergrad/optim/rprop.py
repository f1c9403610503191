"""Resilient backpropagation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor, where
from .optimizer import Implementation, Optimizer, OptimizerError, ParamGroup


class Rprop(Optimizer):
    """Steps by the gradient's sign. An element's step grows while its sign stays, and shrinks when it changes (Riedmiller, Braun, 1993).

        size = size * (etas[1] where g * before > 0, etas[0] where it is < 0), within step_sizes
        g = 0 where the sign changed
        p -= sign(g) * size                                 before = g; size begins at lr

    For full-batch training. As torch.optim.Rprop. Errors: as for Optimizer, and for etas outside (0, 1) and (1, inf).

    >>> w = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = sg.optim.Rprop([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.75, 1.75], requires_grad=True)
    """

    slots = ("prev", "step_size")
    scalars = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        defaults = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes), "maximize": maximize}
        super().__init__(params, defaults, implementation)

    def check(self, group: ParamGroup) -> None:
        super().check(group)
        if not 0.0 < group["etas"][0] < 1.0 < group["etas"][1]:
            raise OptimizerError(f"Invalid eta values: {group['etas'][0]}, {group['etas'][1]}")

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        shorter, longer = (group.value("etas", p, k) for k in (0, 1))
        least, most = (group.value("step_sizes", p, k) for k in (0, 1))
        before = where(
            state["step"] == 1.0, group.rate(p), state["step_size"]
        )  # sizes begin at the rate of the first step
        agrees = (gradient * state["prev"]).sign()
        turned = agrees < 0
        factor = where(turned, shorter, where(agrees > 0, longer, gradient * 0 + 1.0))
        size = (before * factor).clamp(least, most)
        gradient = where(turned, 0.0, gradient)
        p.sub_(gradient.sign() * size)
        state["step_size"].copy_(size)
        state["prev"].copy_(gradient)
