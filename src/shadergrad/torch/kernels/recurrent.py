"""Recurrent networks over all time steps and layers, and the LSTM and GRU cells, which PyTorch calls as single operators on a private device."""

from __future__ import annotations

from typing import Any

import torch

import shadergrad as sg
from shadergrad.nn.recurrent import STEPS, scan

from ...tensor import Tensor
from ..private import by_operations, is_under_transforms
from ..table import composite, kernel
from .gradients import gradients_of_all

aten = torch.ops.aten
MODES = ("RNN_RELU", "RNN_TANH", "LSTM", "GRU")  # by cuDNN's numbers


@kernel("_thnn_fused_lstm_cell")
def lstm_cell(gi: Tensor, gh: Tensor, c: Tensor, bi: Any = None, bh: Any = None) -> Any:
    gates = gi + gh if bi is None else gi + gh + bi + bh
    i, f, n, o = gates.chunk(4, 1)
    i, f, n, o = i.sigmoid(), f.sigmoid(), n.tanh(), o.sigmoid()
    new = f * c + i * n
    return o * new.tanh(), new, sg.cat([i, f, n, o], 1)


@kernel("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(gh: Any, gc: Any, cx: Tensor, cy: Tensor, gates: Tensor, has_bias: bool) -> Any:
    if gh is None and gc is None:
        return None, None, None
    i, f, n, o = gates.chunk(4, 1)
    t = cy.tanh()
    gh = sg.zeros_like(cy) if gh is None else gh
    d = gh * o * (1 - t * t)
    d = d if gc is None else d + gc
    slope = sg.cat([d * n * i * (1 - i), d * cx * f * (1 - f), d * i * (1 - n * n), gh * t * o * (1 - o)], 1)
    return slope, d * f, slope.sum(0) if has_bias else None


@kernel("_thnn_fused_gru_cell")
def gru_cell(gi: Tensor, gh: Tensor, h: Tensor, bi: Any = None, bh: Any = None) -> Any:
    gi, gh = (gi, gh) if bi is None else (gi + bi, gh + bh)
    (ir, iz, i_n), (hr, hz, hn) = gi.chunk(3, 1), gh.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (i_n + r * hn).tanh()
    return n + z * (h - n), sg.cat([r, z, n, h, hn], 1)


@kernel("_thnn_fused_gru_cell_backward")
def gru_cell_backward(g: Tensor, saved: Tensor, has_bias: bool) -> Any:
    r, z, n, h, hn = saved.chunk(5, 1)
    dn = g * (1 - z) * (1 - n * n)
    dz = g * (h - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    gi, gh = sg.cat([dr, dz, dn], 1), sg.cat([dr, dz, dn * r], 1)
    return gi, gh, g * z, gi.sum(0) if has_bias else None, gh.sum(0) if has_bias else None


# -- whole networks, by the operators that cuDNN has on CUDA: they have gradients, and no gradients of those


def _is_whole(x: torch.Tensor, train: bool, dropout: float, layers: int) -> bool:
    """Whether the single operator applies: no dropout between layers, no request for the composition, whose gradients are differentiable, and no
    transform such as `torch.func.vmap`, which has no rule for the operator.
    """
    is_dropping = train and dropout > 0 and layers > 1
    return (
        torch.backends.cudnn.enabled
        and not is_under_transforms()
        and not is_dropping
        and x.dtype is torch.float32
        and x.dim() == 3
        and 0 not in x.shape
    )


def _network(
    mode: str, x: Any, hx: Any, cx: Any, params: Any, layers: int, dropout: float, train: bool, both: bool, first: bool
) -> Any:
    """Outputs and final states, by cuDNN's operator. first: whether the batch is the first axis."""
    each = len(params) // (layers * (2 if both else 1))
    projected = params[1].shape[1] if each in (3, 5) else 0
    hidden = params[0].shape[0] // STEPS[mode][0]
    nothing = x.new_empty(0)  # in place of weights side by side
    return aten._cudnn_rnn(
        x, list(params), each, nothing, hx, cx, MODES.index(mode), hidden, projected, layers, first, dropout, train, both, [], None
    )[:3]  # fmt: skip


@composite("lstm.input")
def lstm(
    x: torch.Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool,
) -> Any:  # fmt: skip
    rest = num_layers, dropout, train, bidirectional, batch_first
    if not _is_whole(x, train, dropout, num_layers):
        return by_operations(aten.lstm.input, x, hx, params, has_biases, *rest)
    return _network("LSTM", x, hx[0], hx[1], params, *rest)


def _one_state(name: str, mode: str) -> None:
    whole = getattr(aten, name).input

    @composite(f"{name}.input")
    def run(
        x: torch.Tensor, hx: torch.Tensor, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        rest = num_layers, dropout, train, bidirectional, batch_first
        if not _is_whole(x, train, dropout, num_layers):
            return by_operations(whole, x, hx, params, has_biases, *rest)
        return _network(mode, x, hx, None, params, *rest)[:2]


for _name, _mode in (("gru", "GRU"), ("rnn_tanh", "RNN_TANH"), ("rnn_relu", "RNN_RELU")):
    _one_state(_name, _mode)


def _all_times(
    mode: int,
    each: int,
    layers: int,
    batch_first: bool,
    both: bool,
    projected: bool,
    x: Tensor,
    hx: Tensor,
    cx: Any,
    *weights: Tensor,
) -> tuple[Tensor, ...]:
    """Outputs and final states. each: parameters of a layer in a direction."""
    x = x.transpose(0, 1) if batch_first else x
    states = [hx] if cx is None else [hx, cx]
    ends, at = [], 0
    for _ in range(layers):
        outputs = []
        for backwards in (False, True)[: 2 if both else 1]:
            own = weights[at * each : (at + 1) * each]
            bias_ih, bias_hh = own[2:4] if each >= 4 else (None, None)
            weight_hr = own[-1] if projected else None
            y, *end = scan(
                MODES[mode],
                backwards,
                x,
                own[0],
                bias_ih,
                own[1],
                bias_hh,
                weight_hr,
                *[s.select(0, at) for s in states],
            )
            outputs.append(y)
            ends.append(end)
            at += 1
        x = outputs[0] if len(outputs) == 1 else sg.cat(outputs, -1)
    return x.transpose(0, 1) if batch_first else x, *[sg.stack(list(parts)) for parts in zip(*ends, strict=True)]


@kernel("_cudnn_rnn")
def network(
    x: Tensor, weight: Any, each: int, weight_buf: Any, hx: Tensor, cx: Any, mode: int, hidden_size: int, proj_size: int,
    num_layers: int, batch_first: bool, dropout: float, train: bool, bidirectional: bool, batch_sizes: Any, dropout_state: Any,
) -> Any:  # fmt: skip
    """The outputs, the final states, and two placeholders with the right sizes: the gradient recomputes everything."""
    y, *ends = _all_times(mode, each, num_layers, batch_first, bidirectional, proj_size > 0, x, hx, cx, *weight)
    nothing = sg.zeros(0, dtype=x.dtype, device=x.device)
    return y, ends[0], ends[1] if len(ends) > 1 else nothing, nothing, nothing


@kernel("_cudnn_rnn_backward")
def network_backward(
    x: Tensor, weight: Any, each: int, weight_buf: Any, hx: Tensor, cx: Any, y: Tensor, gy: Any, gh: Any, gc: Any, mode: int,
    hidden_size: int, proj_size: int, num_layers: int, batch_first: bool, dropout: float, train: bool, bidirectional: bool,
    batch_sizes: Any, dropout_state: Any, reserve: Any, asked: Any,
) -> Any:  # fmt: skip
    def again(*inputs: Any) -> tuple[Tensor, ...]:
        return _all_times(mode, each, num_layers, batch_first, bidirectional, proj_size > 0, *inputs)

    dx, dh, dc, *dw = gradients_of_all(again, [x, hx, cx, *weight], [gy, gh, gc])
    return dx if asked[0] else None, dh if asked[1] else None, dc if asked[2] else None, dw if asked[3] else []
