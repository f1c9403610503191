"""Distances between rows, forward and backward."""

from __future__ import annotations

from typing import Any

import shadergrad as sg
from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..table import kernel
from .gradients import gradients


@kernel("_cdist_forward")
def cdist(x: Tensor, y: Tensor, p: float, mode: Any) -> Tensor:
    return sg.cdist(x, y, p)


@kernel("_cdist_backward")
def cdist_backward(g: Tensor, x: Tensor, y: Tensor, p: float, distances: Tensor) -> Any:
    return gradients(lambda x: sg.cdist(x, y, p), [x], g)[0]


@kernel("_pdist_forward")
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    return F.pdist(x, p)


@kernel("_pdist_backward")
def pdist_backward(g: Tensor, x: Tensor, p: float, distances: Tensor) -> Any:
    return gradients(lambda x: F.pdist(x, p), [x], g)[0]
