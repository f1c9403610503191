"""Dropout as modules: active in training, the identity in eval(); functional/dropout.py draws the numbers."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional as F
from .function_module import _Applied
from .functional.dropout import check_probability

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(_Applied):
    """Base; `function` is F.dropout or one of its relatives."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(type(self).__name__, p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout, function=F.dropout):
    """Sets each element to 0 with probability p in training, and scales the others by 1 / (1 - p) (Srivastava et al., 2014).

    In eval() the identity. The same on every device for the same manual_seed. inplace: the input is overwritten.
    Raises ArgumentError for p outside [0, 1].

    >>> nn.Dropout(0.5).eval()(sg.ones(3))
    tensor([1., 1., 1.])
    >>> nn.Dropout(0.5)(sg.ones(6))
    tensor([2., 0., 0., 0., 0., 2.])
    """


class Dropout1d(_Dropout, function=F.dropout1d):
    """Dropout of whole channels of (N, C, L) or (C, L) (Tompson et al., 2015); else as Dropout.

    Raises ShapeError for another number of axes.

    >>> nn.Dropout1d(0.5)(sg.ones(3, 2))
    tensor([[2., 2.],
            [0., 0.],
            [0., 0.]])
    """


class Dropout2d(_Dropout, function=F.dropout2d):
    """Dropout of whole channels of (N, C, H, W) (Tompson et al., 2015); else as Dropout.

    Other inputs are treated as (N, C, *), with a warning, as in PyTorch. Raises ShapeError for fewer than two axes.

    >>> nn.Dropout2d(0.5)(sg.ones(3, 1, 1, 2)).reshape(3, 2)
    tensor([[2., 2.],
            [0., 0.],
            [0., 0.]])
    """


class Dropout3d(_Dropout, function=F.dropout3d):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W) (Tompson et al., 2015); else as Dropout.

    Raises ShapeError for another number of axes.

    >>> nn.Dropout3d(0.5)(sg.ones(3, 1, 1, 2)).reshape(3, 2)
    tensor([[2., 2.],
            [0., 0.],
            [0., 0.]])
    """


class AlphaDropout(_Dropout, function=F.alpha_dropout):
    """Dropout to the lower limit of SELU, then scaled so that mean 0 and variance 1 stay (Klambauer et al., 2017).

    In eval() the identity. Raises ArgumentError for p outside [0, 1].

    >>> nn.AlphaDropout(0.5).eval()(sg.ones(3))
    tensor([1., 1., 1.])
    """


class FeatureAlphaDropout(_Dropout, function=F.feature_alpha_dropout):
    """AlphaDropout of whole channels: of (batch, c, ...), or (c, ...) of one sample, a channel is kept or not as a whole.

    In eval() the identity. Raises ArgumentError for p outside [0, 1].

    >>> nn.FeatureAlphaDropout(0.5).eval()(sg.ones(1, 2, 3)).shape
    shadergrad.Size([1, 2, 3])
    """
