"""Activations along an axis as modules."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from .arguments import takes_tensors
from .module import Module


class _Along(Module):
    """Base of those that work along an axis."""

    function: Any = None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Along):
    """exp(x) / sum(exp(x)) along an axis."""

    function = F.softmax


class LogSoftmax(_Along):
    """x - log(sum(exp(x))) along an axis."""

    function = F.log_softmax


class Softmin(_Along):
    """softmax(-x)."""

    function = F.softmin


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class GLU(_Along):
    """The first half times the sigmoid of the second."""

    function = F.glu

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)
