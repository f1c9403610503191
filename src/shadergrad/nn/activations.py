"""Activations as modules; see functional/activations.py for what they compute."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor, empty
from . import functional as F
from . import init
from .errors import ArgumentError
from .module import Module
from .parameter import Parameter


class _InPlace(Module):
    """Base of those that can overwrite their input; `function` is theirs."""

    function: Any = None

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0)."""

    function = F.relu


class ReLU6(_InPlace):
    """x limited to [0, 6]."""

    function = F.relu6


class SELU(_InPlace):
    """The self-normalising elu (Klambauer et al., 2017)."""

    function = F.selu


class SiLU(_InPlace):
    """x * sigmoid(x)."""

    function = F.silu


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    function = F.mish


class Hardswish(_InPlace):
    """x * hardsigmoid(x)."""

    function = F.hardswish


class Hardsigmoid(_InPlace):
    """(x + 3) / 6 limited to [0, 1]."""

    function = F.hardsigmoid


class _Plain(Module):
    """Base of those without arguments."""

    function: Any = None

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input)


class Tanh(_Plain):
    """The hyperbolic tangent."""

    function = F.tanh


class Sigmoid(_Plain):
    """1 / (1 + exp(-x))."""

    function = F.sigmoid


class LogSigmoid(_Plain):
    """log(sigmoid(x))."""

    function = F.logsigmoid


class Softsign(_Plain):
    """x / (1 + |x|)."""

    function = F.softsign


class Tanhshrink(_Plain):
    """x - tanh(x)."""

    function = F.tanhshrink


class GELU(Module):
    """x * Phi(x) (Hendrycks and Gimpel, 2016); approximate='tanh' for the tanh form."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """x, times negative_slope where negative."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """LeakyReLU with slopes drawn from [lower, upper] while training."""

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
    """LeakyReLU with slopes that are learned, one or one a channel; weight (num_parameters,)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _Alpha(Module):
    """Base of those with alpha."""

    function: Any = None

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Alpha):
    """x, and alpha (exp(x) - 1) where negative."""

    function = F.elu


class CELU(_Alpha):
    """x, and alpha (exp(x / alpha) - 1) where negative."""

    function = F.celu


class Softplus(Module):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardtanh(Module):
    """x limited to [min_val, max_val]."""

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


class _Shrink(Module):
    """Base of those with lambd."""

    function: Any = None

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, and 0 within [-lambd, lambd]."""

    function = F.hardshrink


class Softshrink(_Shrink):
    """x moved by lambd towards 0, and 0 within [-lambd, lambd]."""

    function = F.softshrink


class Threshold(Module):
    """x where above the threshold, else value."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")
