"""Fused and foreach optimizers, and the operators of GradScaler. They write lists of torch.Tensors in place."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import shadergrad as sg

from ..halves import read_single as read
from ..storage import write
from ..table import on_tensors


@on_tensors("_amp_foreach_non_finite_check_and_unscale_")
def check_and_unscale(gradients: Any, found: torch.Tensor, inverse: torch.Tensor) -> None:
    bad = read(found).reshape(()) != 0
    factor = read(inverse)
    for gradient in gradients:
        value = read(gradient)
        bad = bad | ~sg.isfinite(value).all()
        write(gradient, value * factor)
    write(found, bad.float().reshape(tuple(found.shape)))


@on_tensors("_amp_update_scale_")
def update_scale(
    scale: torch.Tensor, growth_tracker: torch.Tensor, found: torch.Tensor, growth: float, backoff: float, interval: int
) -> torch.Tensor:
    s, t, bad = read(scale), read(growth_tracker), read(found).reshape(()) != 0
    grown = t + 1
    due = grown == interval
    bigger = s * growth
    write(scale, sg.where(bad, s * backoff, sg.where(due & sg.isfinite(bigger), bigger, s)))
    write(growth_tracker, sg.where(bad | due, 0, grown).to(t.dtype))
    return scale


def _adam(
    parameters: Any, gradients: Any, firsts: Any, seconds: Any, largest: Any, steps: Any, *, lr: Any, beta1: Any, beta2: Any,
    weight_decay: float, eps: float, amsgrad: bool, maximize: bool, grad_scale: Any = None, found_inf: Any = None, decoupled: bool,
) -> None:  # fmt: skip
    rate = read(lr) if isinstance(lr, torch.Tensor) else lr
    skip = None if found_inf is None else read(found_inf).reshape(()) != 0
    for k, (p, g, m, v, t) in enumerate(zip(parameters, gradients, firsts, seconds, steps, strict=True)):
        count, w, slope, m0, v0 = read(t), read(p), read(g), read(m), read(v)
        if grad_scale is not None:
            slope = slope / read(grad_scale)
            write(g, slope)
        slope = slope if skip is None else sg.where(skip, 0.0, slope)  # or moments are kept until the flag is known
        slope = -slope if maximize else slope
        new = w
        if weight_decay:
            slope, new = (slope, w * (1 - rate * weight_decay)) if decoupled else (slope + w * weight_decay, w)
        m1 = m0 + (slope - m0) * (1 - beta1)
        v1 = v0 * beta2 + slope * slope * (1 - beta2)
        of = v1
        if amsgrad:
            of = sg.maximum(read(largest[k]), v1)
            write(largest[k], of if skip is None else sg.where(skip, read(largest[k]), of))
        new = new - (rate / (1 - beta1**count)) * m1 / ((of / (1 - beta2**count)).sqrt() + eps)
        for x, old, value in ((p, w, new), (m, m0, m1), (v, v0, v1)):
            write(x, value if skip is None else sg.where(skip, old, value))


for _name, _decoupled in (("_fused_adam_", False), ("_fused_adamw_", True)):
    on_tensors(_name, f"{_name}.tensor_lr")(partial(_adam, decoupled=_decoupled))


@on_tensors("_fused_sgd_", "_fused_sgd_.tensor_lr")
def fused_sgd(
    ps: Any, gs: Any, buffers: Any, *, weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool,
    maximize: bool, is_first_step: bool, grad_scale: Any = None, found_inf: Any = None,
) -> None:  # fmt: skip
    rate = read(lr) if isinstance(lr, torch.Tensor) else lr
    skip = None if found_inf is None else read(found_inf).reshape(()) != 0
    for k, (p, g) in enumerate(zip(ps, gs, strict=True)):
        w, slope = read(p), read(g)
        if grad_scale is not None:
            slope = slope / read(grad_scale)
            write(g, slope)
        slope = -slope if maximize else slope
        slope = slope + w * weight_decay if weight_decay else slope
        if momentum:
            old = read(buffers[k])
            moved = slope if is_first_step else old * momentum + slope * (1 - dampening)
            write(buffers[k], moved if skip is None else sg.where(skip, old, moved))
            slope = slope + moved * momentum if nesterov else moved
        write(p, w - slope * rate if skip is None else sg.where(skip, w, w - slope * rate))


@on_tensors("_fused_adagrad_", "_fused_adagrad_.tensor_lr")
def fused_adagrad(
    ps: Any, gs: Any, sums: Any, steps: Any, *, lr: Any, lr_decay: float, weight_decay: float, eps: float, maximize: bool,
    grad_scale: Any = None, found_inf: Any = None,
) -> None:  # fmt: skip
    rate = read(lr) if isinstance(lr, torch.Tensor) else lr
    skip = None if found_inf is None else read(found_inf).reshape(()) != 0
    for p, g, s, t in zip(ps, gs, sums, steps, strict=True):
        w, slope, old, count = read(p), read(g), read(s), read(t)
        if grad_scale is not None:
            slope = slope / read(grad_scale)
            write(g, slope)
        slope = -slope if maximize else slope
        slope = slope + w * weight_decay if weight_decay else slope
        total = old + slope * slope
        new = w - slope * (rate / (1 + (count - 1) * lr_decay)) / (total.sqrt() + eps)
        for x, before, value in ((p, w, new), (s, old, total)):
            write(x, value if skip is None else sg.where(skip, before, value))
