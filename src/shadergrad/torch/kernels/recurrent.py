"""Cells of LSTM and GRU, which PyTorch calls whole on a private device."""

from __future__ import annotations

from typing import Any

import shadergrad as sg

from ...tensor import Tensor
from ..table import kernel


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
