"""Batch, layer and group norm, forward and backward."""

from __future__ import annotations

from typing import Any

import torch

import shadergrad as sg

from ...tensor import Tensor
from ..halves import HALVES, read_single
from ..storage import read, wrap, write
from ..table import on_tensors, pure_kernel


def _of_channels(x: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of a batch's statistics, and the shape in which they broadcast."""
    return (0, *range(2, x.dim())), (1, -1, *[1] * (x.dim() - 2))


def _batch_norm(x: Tensor, w: Any, b: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Any:
    """The result, the statistics that its gradient needs, and the updated running statistics."""
    axes, shape = _of_channels(x)
    if training:
        m = x.mean(axes)
        d = x - m.reshape(shape)
        s = (d * d).mean(axes)
        if mean is not None:
            n = x.numel() // x.shape[1]
            mean = mean * (1 - momentum) + m * momentum
            var = var * (1 - momentum) + s * (momentum * n / max(n - 1, 1))
    else:
        m, s = mean, var
        d = x - m.reshape(shape)
    r = (s + eps).rsqrt()
    y = d * r.reshape(shape)
    y = y if w is None else y * w.reshape(shape)
    y = y if b is None else y + b.reshape(shape)
    return (y, m, r, mean, var) if training else (y, m[:0], r[:0], mean, var)


@on_tensors("native_batch_norm", "_native_batch_norm_legit")
def native_batch_norm(x: Any, w: Any, b: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Any:
    scale, shift, old_mean, old_var = (None if t is None else read_single(t) for t in (w, b, mean, var))
    y, m, r, new_mean, new_var = _batch_norm(read_single(x), scale, shift, old_mean, old_var, training, momentum, eps)
    if training and mean is not None:
        write(mean, new_mean)
        write(var, new_var)
    kind = torch.float32 if x.dtype in HALVES else x.dtype
    return wrap(y, x.dtype), wrap(m, kind), wrap(r, kind)


def _into(run: Any) -> Any:
    """The out= form of a batch norm."""

    def into(*args: Any, out: Any, save_mean: Any, save_invstd: Any) -> Any:
        targets = (out, save_mean, save_invstd)
        for target, value in zip(targets, run(*args), strict=True):
            write(target.resize_(value.shape), read(value))
        return targets

    return into


on_tensors("native_batch_norm.out", "_native_batch_norm_legit.out")(_into(native_batch_norm))


@on_tensors("_batch_norm_with_update")
def batch_norm_with_update(x: Any, w: Any, b: Any, mean: Any, var: Any, momentum: float, eps: float) -> Any:
    y, m, r = native_batch_norm(x, w, b, mean, var, True, momentum, eps)
    return y, m, r, torch.empty(0, dtype=torch.uint8, device=x.device)


@pure_kernel("_batch_norm_no_update")
def batch_norm_no_update(x: Tensor, w: Any, b: Any, mean: Any, var: Any, momentum: float, eps: float) -> Any:
    y, m, r = _batch_norm(x, w, b, mean, var, mean is None, momentum, eps)[:3]
    return y, m, r, sg.zeros(0, dtype=sg.uint8, device=x.device)


@pure_kernel("batch_norm_backward")
def batch_norm_backward(
    g: Tensor, x: Tensor, w: Any, mean: Any, var: Any, m: Any, r: Any, update: bool, eps: float, mask: Any, reserve: Any
) -> Any:
    return native_batch_norm_backward(g, x, w, mean, var, m, r, update, eps, mask)


@pure_kernel("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(x: Tensor, w: Any, b: Any, training: bool, momentum: float, eps: float) -> Any:
    return _batch_norm(x, w, b, None, None, True, momentum, eps)[:3]


@pure_kernel("_native_batch_norm_legit_functional")
def batch_norm_functional(
    x: Any, w: Any, b: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    return _batch_norm(x, w, b, mean, var, training, momentum, eps)


@pure_kernel("native_batch_norm_backward")
def native_batch_norm_backward(
    g: Tensor, x: Tensor, w: Any, mean: Any, var: Any, m: Any, r: Any, train: bool, eps: float, mask: Any
) -> Any:
    axes, shape = _of_channels(x)
    if not train:
        m, r = mean, (var + eps).rsqrt()
    n = x.numel() // x.shape[1]
    h = (x - m.reshape(shape)) * r.reshape(shape)
    dw, db = (g * h).sum(axes), g.sum(axes)
    scale = (r if w is None else r * w).reshape(shape)
    dx = (g - (db.reshape(shape) + h * dw.reshape(shape)) / n) * scale if train else g * scale
    return dx if mask[0] else None, dw if mask[1] else None, db if mask[2] else None


def _over(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return x.sum(axes) if axes else x


@pure_kernel("native_layer_norm")
def native_layer_norm(x: Tensor, shape: Any, w: Any, b: Any, eps: float) -> Any:
    axes = tuple(range(x.dim() - len(shape), x.dim()))
    m = x.mean(axes, keepdim=True)
    d = x - m
    r = ((d * d).mean(axes, keepdim=True) + eps).rsqrt()
    y = d * r
    y = y if w is None else y * w
    return y if b is None else y + b, m, r


@pure_kernel("native_layer_norm_backward")
def native_layer_norm_backward(g: Tensor, x: Tensor, shape: Any, m: Any, r: Any, w: Any, b: Any, mask: Any) -> Any:
    k = x.dim() - len(shape)
    axes, outer = tuple(range(k, x.dim())), tuple(range(k))
    h = (x - m) * r
    gw = g if w is None else g * w
    dx = (gw - gw.mean(axes, keepdim=True) - h * (gw * h).mean(axes, keepdim=True)) * r
    return (
        dx if mask[0] else None,
        _over(g * h, outer) if mask[1] and w is not None else None,
        _over(g, outer) if mask[2] and b is not None else None,
    )


@pure_kernel("native_group_norm")
def native_group_norm(x: Tensor, w: Any, b: Any, n: int, c: int, hw: int, groups: int, eps: float) -> Any:
    rows = x.reshape(n, groups, -1)
    m = rows.mean(2, keepdim=True)
    d = rows - m
    r = ((d * d).mean(2, keepdim=True) + eps).rsqrt()
    y = (d * r).reshape(n, c, -1)
    y = y if w is None else y * w.reshape(1, c, 1)
    y = y if b is None else y + b.reshape(1, c, 1)
    return y.reshape(x.shape), m.reshape(n, groups), r.reshape(n, groups)


@pure_kernel("native_group_norm_backward")
def native_group_norm_backward(
    g: Tensor, x: Tensor, m: Tensor, r: Tensor, w: Any, n: int, c: int, hw: int, groups: int, mask: Any
) -> Any:
    h = ((x.reshape(n, groups, -1) - m.reshape(n, groups, 1)) * r.reshape(n, groups, 1)).reshape(n, c, -1)
    gy = g.reshape(n, c, -1)
    gw = (gy if w is None else gy * w.reshape(1, c, 1)).reshape(n, groups, -1)
    rows = h.reshape(n, groups, -1)
    dx = (gw - gw.mean(2, keepdim=True) - rows * (gw * rows).mean(2, keepdim=True)) * r.reshape(n, groups, 1)
    return (
        dx.reshape(x.shape) if mask[0] else None,
        (gy * h).sum((0, 2)) if mask[1] and w is not None else None,
        gy.sum((0, 2)) if mask[2] else None,
    )


@pure_kernel("_fused_rms_norm")
def fused_rms_norm(x: Tensor, shape: Any, w: Any, eps: Any) -> Any:
    axes = tuple(range(x.dim() - len(shape), x.dim()))
    r = ((x * x).mean(axes, keepdim=True) + (torch.finfo(torch.float32).eps if eps is None else eps)).rsqrt()
    return x * r if w is None else x * r * w, r


@pure_kernel("_fused_rms_norm_backward")
def fused_rms_norm_backward(g: Tensor, x: Tensor, shape: Any, r: Tensor, w: Any, mask: Any) -> Any:
    k = x.dim() - len(shape)
    axes, outer = tuple(range(k, x.dim())), tuple(range(k))
    h = x * r
    gw = g if w is None else g * w
    dx = (gw - h * (gw * h).mean(axes, keepdim=True)) * r
    dw = None if w is None or not mask[1] else _over(g * h, outer)
    return dx if mask[0] else None, dw
