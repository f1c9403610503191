"""Nonlinear functions of elements, PyTorch's names, defaults and gradients at the corners."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...errors import ShapeError
from ...tensor import Tensor, check_axis, rand, where
from ..errors import ArgumentError


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return _placed(input, input.relu(), inplace)


def _placed(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input._update_in_place(result, "inplace") if inplace else result


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x) (Hendrycks and Gimpel, 2016); approximate='tanh' for the tanh form."""
    return input.gelu(approximate)


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


# -- softmax


def _implicit(dim: int | None, ndim: int, what: str) -> int:
    """The axis that PyTorch takes where none is named."""
    if dim is None:
        warnings.warn(
            f"Implicit dimension choice for {what} has been deprecated. Change the call to include dim=X as an argument.",
            stacklevel=4,
        )
        return 0 if ndim in (0, 1, 3) else 1
    return dim


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis."""
    return input.softmax(_implicit(dim, input.ndim, "softmax"), dtype)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """x - log(sum(exp(x))) along an axis."""
    return input.log_softmax(_implicit(dim, input.ndim, "log_softmax"), dtype)


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """softmax(-x)."""
    return softmax(-input, _implicit(dim, input.ndim, "softmin"), dtype=dtype)


# -- linear units and their smooth relatives


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    scaled = input * beta
    positive = scaled > 0
    smooth = where(positive, scaled, 0.0) + where(positive, -scaled, scaled).exp().log1p()
    return where(scaled > threshold, input, smooth / beta)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return -softplus(-input, threshold=math.inf)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return _placed(input, input * input.sigmoid(), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra, 2019)."""
    return _placed(input, input * softplus(input).tanh(), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, times negative_slope where negative."""
    return _placed(input, where(input > 0, input, input * negative_slope), inplace)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with slopes drawn from [lower, upper]; without training, of their mean."""
    if not lower <= upper:
        raise ArgumentError(f"rrelu(): lower should not be above upper, but got {lower=}, {upper=}.")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = rand(*input.shape, dtype=input.dtype, device=input.device) * (upper - lower) + lower
    return _placed(input, where(input > 0, input, input * slope), inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with a slope for each channel, axis 1, or one for all."""
    return input.prelu(weight)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x) - 1) where negative (Clevert et al., 2015)."""
    return _placed(input, _exponential(input, 1.0, alpha, 1.0), inplace)


def _exponential(x: Tensor, scale: float, alpha: float, slope: float) -> Tensor:
    """scale x above 0, scale alpha (exp(slope x) - 1) below."""
    below = where(x > 0, 0.0, x)  # exp of what is not chosen must not overflow: 0 * inf is NaN
    return where(x > 0, x if scale == 1 else x * scale, (below * slope).expm1() * (scale * alpha))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalising elu (Klambauer et al., 2017)."""
    return _placed(
        input, _exponential(input, 1.0507009873554804934193349852946, 1.6732632423543772848170429916717, 1.0), inplace
    )


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) where negative (Barron, 2017)."""
    if alpha == 0:
        raise ArgumentError(f"celu(): alpha cannot be 0, but got {alpha=}.")
    return _placed(input, _exponential(input, 1.0, alpha, 1.0 / alpha), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half times the sigmoid of the second."""
    axis = check_axis(dim, input.ndim, "glu")
    size = input.shape[axis]
    if size % 2:
        raise ShapeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    first, second = input.split(size // 2, axis)
    return first * second.sigmoid()


# -- with corners: as in PyTorch, the gradient is 0 at the ends of what is clipped


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]."""
    inside = (input > min_val) & (input < max_val)
    return _placed(input, where(inside, input, input.detach().clamp(min_val, max_val)), inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 limited to [0, 1]."""
    return _placed(input, hardtanh(input + 3.0, 0.0, 6.0) / 6.0, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x) (Howard et al., 2019)."""
    middle = where(input < 3.0, input * (input + 3.0) / 6.0, input)
    return _placed(input, where(input > -3.0, middle, input * 0.0), inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where above the threshold, else value."""
    return _placed(input, where(input > threshold, input, value), inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and 0 within [-lambd, lambd]."""
    return where((input > lambd) | (input < -lambd), input, 0.0)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0, and 0 within [-lambd, lambd]."""
    if lambd < 0:
        raise ArgumentError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, 0.0))


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1.0)
