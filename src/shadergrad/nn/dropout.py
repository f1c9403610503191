"""Dropout as modules: at work while training, the identity in eval(); see functional/dropout.py for the numbers."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import functional as F
from .functional.dropout import check_probability
from .module import Module


class _Dropout(Module):
    """Base; `function` is F.dropout or one of its relatives."""

    function: Any = None

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(type(self).__name__, p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Each element 0 with probability p, else scaled by 1 / (1 - p)."""

    function = F.dropout


class Dropout1d(_Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L)."""

    function = F.dropout1d


class Dropout2d(_Dropout):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W)."""

    function = F.dropout2d


class Dropout3d(_Dropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    function = F.dropout3d


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of what comes from SELU."""

    function = F.alpha_dropout
