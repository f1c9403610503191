"""Activations along an axis, as modules."""

from __future__ import annotations

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from .arguments import takes_tensors
from .function_module import _Applied
from .module import Module

__all__ = ["GLU", "LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _Along(_Applied):
    """Base of those that work along an axis."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Along, function=F.softmax):
    """exp(x) / sum(exp(x)) along the axis dim; the shape stays.

    Give dim. The default, with a warning, is axis 0 for 0, 1 or 3 axes, else axis 1.

    >>> nn.Softmax(dim=1)(sg.tensor([[0.0, 0.0], [0.0, math.log(3)]]))
    tensor([[0.5 , 0.5 ],
            [0.25, 0.75]])
    """


class LogSoftmax(_Along, function=F.log_softmax):
    """x - log(sum(exp(x))) along the axis dim, for x of any size; the shape stays. Without dim: see Softmax.

    >>> nn.LogSoftmax(dim=0)(sg.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """


class Softmin(_Along, function=F.softmin):
    """softmax(-x) along the axis dim; the shape stays. Without dim: see Softmax.

    >>> nn.Softmin(dim=0)(sg.tensor([0.0, math.log(3)]))
    tensor([0.75, 0.25])
    """


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W); the shape stays.

    Raises ShapeError for another number of axes.

    >>> nn.Softmax2d()(sg.zeros(4, 1, 2))[0]
    tensor([[0.25, 0.25]])
    """

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class GLU(_Along, function=F.glu):
    """The first half of axis dim times the sigmoid of the second (Dauphin et al., 2016).

    (..., 2n, ...) to (..., n, ...). Raises ShapeError if the axis is of odd size.

    >>> nn.GLU()(sg.tensor([2.0, 4.0, 0.0, 0.0]))
    tensor([1., 2.])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)
