"""Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..tensor import Tensor
from .optimizer import Optimizer, OptimizerError, ParamGroup, check_number


class Muon(Optimizer):
    """Momentum that a Newton-Schulz iteration makes orthogonal (Jordan et al., 2024).

    For matrices only; train biases, embeddings and output layers with another optimizer.

        m = momentum * m + (1 - momentum) * gradient
        x = m / |m|                                         nesterov: of momentum * m + (1 - momentum) * gradient
        x = a x + (b x x' + c (x x')^2) x                   ns_steps times; a, b, c: ns_coefficients
        p -= lr * (scale * x + weight_decay * p)

    scale: sqrt(max(1, rows / columns)); with adjust_lr_fn='match_rms_adamw', 0.2 sqrt(max(rows, columns)).
    As torch.optim.Muon, whose iteration is in bfloat16; here it is in the parameter's dtype.
    OptimizerError for parameters that are no matrices, 100 or more ns_steps, not three coefficients, another
    adjust_lr_fn.
    Source: https://kellerjordan.github.io/posts/muon/

    >>> w = sg.zeros(1, 2, requires_grad=True)
    >>> optimizer = sg.optim.Muon([w], lr=1.0, ns_steps=1)
    >>> w.sum().backward()
    >>> optimizer.step()  # 3.4445 - 4.7750 + 2.0315 = 0.7010 long
    >>> w.norm()
    tensor(0.701, grad_fn=<WhereBackward>)
    """

    slots = ("momentum_buffer",)
    takes_complex = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": tuple(ns_coefficients),
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )

    def check(self, group: ParamGroup) -> None:
        for key, words in {"lr": "Learning rate", "momentum": "momentum", "weight_decay": "weight decay"}.items():
            if not check_number(key, group[key]) >= 0.0:
                raise OptimizerError(f"{words} should be >= 0 but is: {group[key]}")
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise OptimizerError(f"Adjust learning rate function {group['adjust_lr_fn']} is not supported")
        if group["ns_steps"] >= 100:
            raise OptimizerError(
                f"Number of steps must be less than 100 for computational efficiency, but got ns_steps={group['ns_steps']}"
            )
        if len(group["ns_coefficients"]) != 3:
            raise OptimizerError(
                f"Coefficients must be a tuple of exactly 3 values, but got ns_coefficients={group['ns_coefficients']}"
            )
        for p in group["params"]:
            if p.ndim != 2:
                raise OptimizerError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"
                )

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        rate, mean, momentum = group.rate(p), state["momentum_buffer"], group.momentum(p)
        mean.copy_(mean + (gradient - mean) * momentum.rest)
        direction = gradient + (mean - gradient) * momentum.value if group["nesterov"] else mean
        direction = orthogonal(direction, group["ns_coefficients"], group["ns_steps"], group.value("eps", p))
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * math.sqrt(max(rows, columns))
        else:
            scale = math.sqrt(max(1.0, rows / columns))
        p.copy_(p * (1.0 - rate * group.value("weight_decay", p)) - direction * (rate * scale))


def orthogonal(x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """U S V' for x = U D V', where S is near the identity: `steps` times x <- a x + (b xx' + c (xx')²) x."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x.transpose(0, 1) if tall else x
    x = x / (x * x).sum().sqrt().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.transpose(0, 1)
        x = x * a + (gram * b + gram @ gram * c) @ x
    return x.transpose(0, 1) if tall else x
