"""RAdam: Adam that rectifies the variance of its first steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor, where
from .adam import decayed, moments
from .optimizer import Implementation, Optimizer, ParamGroup


class RAdam(Optimizer):
    """Adam that rectifies the variance of its first steps (Liu et al., 2020). As torch.optim.RAdam.

        rho = R - 2 t beta2 ** t / (1 - beta2 ** t)         R = 2 / (1 - beta2) - 1
        r = sqrt((rho - 4) (rho - 2) R / ((R - 4) (R - 2) rho))
        p -= lr * r * m / (sqrt(v) + eps)                   g, m and v: as for Adam; where rho <= 5: lr * m

    decoupled_weight_decay: as AdamW. Errors: as for Optimizer.

    >>> w = sg.tensor([1.0], requires_grad=True)
    >>> optimizer = sg.optim.RAdam([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()  # rho is 1: a plain step
    >>> w
    tensor([0.5], requires_grad=True)
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
                "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
            implementation,
        )

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        rate, step = group.rate(p), state["step"]
        value, gradient = decayed(p, gradient, rate, group)
        beta1, beta2 = moments(p, gradient, state, group)
        change = state["exp_avg"] * (rate / beta1.bias_correction(step))
        limit = 2.0 / beta2.rest - 1.0
        if isinstance(limit, Tensor) or limit > 5.0:  # else rho never exceeds 5
            correction = beta2.bias_correction(step)
            rho = length(step, beta2.log, limit, correction)
            known = rho > 5.0
            rho = where(known, rho, 6.0)  # else the root of a negative number would be NaN
            rectified = (
                (rho - 4.0) * (rho - 2.0) * (limit / ((limit - 4.0) * (limit - 2.0))) / rho * correction
            ).sqrt()
            change = change * where(known, rectified / (state["exp_avg_sq"].sqrt() + group.value("eps", p)), 1.0)
        p.copy_(value - change)


def length(step: Tensor, log_beta: Any, limit: Any, correction: Tensor) -> Tensor:
    """rho = limit - 2 t b**t / (1 - b**t), the length of the moving average that approximates the exponential one.

    At first both terms are near 2000 and rho is near t, so float32 would keep three digits, and rho might be on
    the wrong side of 5. With y = -t log b: t b**t / (1 - b**t) = t / (exp(y) - 1), whose series in y removes the large
    term; the rest of it is a constant, computed here in float64. Exact to 1e-12 where y < 1/2.
    """
    y = step * -log_beta
    z = y * y
    series = 1.0 - y * (1 / 6 - z * (1 / 360 - z * (1 / 15120 - z * (1 / 604800 - z * (1 / 23950080)))))
    early = step * series + (limit + 2.0 / log_beta)
    late = limit - step * 2.0 * (1.0 - correction) / correction
    return where(y < 0.5, early, late)
