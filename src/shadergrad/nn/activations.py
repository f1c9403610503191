"""Activations as modules; functional/activations.py has their functions."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor, empty
from . import functional as F
from . import init
from .errors import ArgumentError
from .function_module import _Applied
from .module import Module
from .parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _InPlace(_Applied):
    """Base of activations that can overwrite their input; `function` computes them."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace, function=F.relu):
    """max(x, 0), elementwise (Nair and Hinton, 2010). inplace: the input is overwritten.

    >>> nn.ReLU()(sg.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """


class ReLU6(_InPlace, function=F.relu6):
    """min(max(x, 0), 6), elementwise. inplace: the input is overwritten.

    >>> nn.ReLU6()(sg.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """


class SELU(_InPlace, function=F.selu):
    """1.0507 x, and 1.7581 (exp(x) - 1) where negative, elementwise (Klambauer et al., 2017).

    It keeps mean 0 and variance 1. inplace: the input is overwritten.

    >>> nn.SELU()(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1113,  0.    ,  1.0507])
    """


class SiLU(_InPlace, function=F.silu):
    """x sigmoid(x), elementwise; also known as swish (Hendrycks and Gimpel, 2016). inplace: the input is overwritten.

    >>> nn.SiLU()(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.    ,  0.7311])
    """


class Mish(_InPlace, function=F.mish):
    """x tanh(softplus(x)), elementwise (Misra, 2019). inplace: the input is overwritten.

    >>> nn.Mish()(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.    ,  0.8651])
    """


class Hardswish(_InPlace, function=F.hardswish):
    """x hardsigmoid(x), elementwise: 0 below -3, x above 3 (Howard et al., 2019). inplace: the input is overwritten.

    >>> nn.Hardswish()(sg.tensor([0.0, 1.5, 4.0]))
    tensor([0.   , 1.125, 4.   ])
    """


class Hardsigmoid(_InPlace, function=F.hardsigmoid):
    """(x + 3) / 6 limited to [0, 1], elementwise. inplace: the input is overwritten.

    >>> nn.Hardsigmoid()(sg.tensor([-4.0, 0.0, 1.5, 4.0]))
    tensor([0.  , 0.5 , 0.75, 1.  ])
    """


class _Plain(_Applied):
    """Base of those without arguments."""

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input)


class Tanh(_Plain, function=F.tanh):
    """The hyperbolic tangent, elementwise.

    >>> nn.Tanh()(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.    ,  0.7616])
    """


class Sigmoid(_Plain, function=F.sigmoid):
    """1 / (1 + exp(-x)), elementwise.

    >>> nn.Sigmoid()(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5   , 0.7311])
    """


class LogSigmoid(_Plain, function=F.logsigmoid):
    """log(1 / (1 + exp(-x))), elementwise; finite for x of any size.

    >>> nn.LogSigmoid()(sg.tensor([-100.0, 0.0, 1.0]))
    tensor([-100.    ,   -0.6931,   -0.3133])
    """


class Softsign(_Plain, function=F.softsign):
    """x / (1 + |x|), elementwise.

    >>> nn.Softsign()(sg.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5 ,  0.  ,  0.75])
    """


class Tanhshrink(_Plain, function=F.tanhshrink):
    """x - tanh(x), elementwise.

    >>> nn.Tanhshrink()(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2384,  0.    ,  0.2384])
    """


class GELU(Module):
    """x Phi(x), elementwise; Phi is the normal distribution function (Hendrycks and Gimpel, 2016).

    approximate: 'none', or 'tanh' for x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    >>> nn.GELU()(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.    ,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """x, and negative_slope x where negative, elementwise (Maas et al., 2013). inplace: the input is overwritten.

    >>> nn.LeakyReLU(0.5)(sg.tensor([-2.0, 0.0, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """LeakyReLU with slopes drawn from [lower, upper] for each element in training (Xu et al., 2015).

    In eval() the slope is (lower + upper) / 2. inplace: the input is overwritten. Raises ArgumentError at the call
    if lower is above upper.

    >>> nn.RReLU(0.25, 0.75).eval()(sg.tensor([-2.0, 0.0, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """x, and weight x where negative, with weights that are learned (He et al., 2015).

    weight (num_parameters,) starts as init; one for all elements, or one for each channel of an input (N, C, ...) or
    (C,). The shape stays. Raises ShapeError for another number of channels.

    >>> nn.PReLU()(sg.tensor([-2.0, 0.0, 2.0])).detach()
    tensor([-0.5,  0. ,  2. ])
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to init again."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _Alpha(_Applied):
    """Base of those with alpha."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Alpha, function=F.elu):
    """x, and alpha (exp(x) - 1) where negative, elementwise (Clevert et al., 2015). inplace: the input is overwritten.

    >>> nn.ELU()(sg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.6321,  0.    ,  2.    ])
    """


class CELU(_Alpha, function=F.celu):
    """x, and alpha (exp(x / alpha) - 1) where negative, elementwise: its slope has no jump (Barron, 2017).

    inplace: the input is overwritten. Raises ArgumentError at the call for an alpha of 0.

    >>> nn.CELU(2.0)(sg.tensor([-2.0, 0.0, 2.0]))
    tensor([-1.2642,  0.    ,  2.    ])
    """


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, elementwise: a smooth ReLU; x itself where beta x is above threshold.

    >>> nn.Softplus()(sg.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.    ])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardtanh(Module):
    """x limited to [min_val, max_val], elementwise. inplace: the input is overwritten.

    Raises ArgumentError if max_val is not above min_val.

    >>> nn.Hardtanh(-2.0, 2.0)(sg.tensor([-3.0, 0.5, 3.0]))
    tensor([-2. ,  0.5,  2. ])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if max_val <= min_val:
            raise ArgumentError(f"max_val must be larger than min_val, got {min_val} and {max_val}.")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class _Shrink(_Applied):
    """Base of those with lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink, function=F.hardshrink):
    """x, and 0 within [-lambd, lambd], elementwise.

    >>> nn.Hardshrink(1.0)(sg.tensor([-2.0, -1.0, 0.5, 2.0]))
    tensor([-2.,  0.,  0.,  2.])
    """


class Softshrink(_Shrink, function=F.softshrink):
    """x shifted by lambd towards 0, and 0 within [-lambd, lambd], elementwise.

    Raises ArgumentError at the call for a negative lambd.

    >>> nn.Softshrink(1.0)(sg.tensor([-3.0, 0.5, 2.0]))
    tensor([-2.,  0.,  1.])
    """


class Threshold(Module):
    """x where it is above threshold, else value, elementwise. inplace: the input is overwritten.

    >>> nn.Threshold(1.0, -5.0)(sg.tensor([0.0, 1.0, 2.0]))
    tensor([-5., -5.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")
