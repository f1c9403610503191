"""Nonlinear functions of elements, PyTorch's names, defaults and gradients at the corners."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...dtypes import bool_, float32
from ...errors import DTypeError, ShapeError
from ...tensor import Tensor, check_axis, rand, where
from ...tensor.composed import composed
from ...tensor.placement import check_fits
from ..errors import ArgumentError
from .device_overrides import overridable

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid",
    "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise.

    inplace: the result is also written into `input`; AutogradError if that is a leaf that requires gradients.

    >>> F.relu(sg.tensor([-2.0, 0.0, 3.0]))
    tensor([0., 0., 3.])
    """
    return _placed(input, input.relu(), inplace)


def _placed(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input._update_in_place(result, "inplace") if inplace else result


@overridable
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x), Phi the normal distribution function (Hendrycks and Gimpel, 2016).

    approximate: 'none', or 'tanh' for x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). ShapeError for other words.

    >>> F.gelu(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.    ,  0.8413])
    """
    return input.gelu(approximate)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent, element by element; integers give floats.

    >>> F.tanh(sg.tensor([0.0, 1.0]))
    tensor([0.    , 0.7616])
    """
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), element by element; integers give floats.

    >>> F.sigmoid(sg.tensor([0.0, 1.0]))
    tensor([0.5   , 0.7311])
    """
    return input.sigmoid()


# -- softmax


def _implicit(dim: int | None, ndim: int, what: str) -> int:
    """PyTorch's default axis if none is named."""
    if dim is None:
        warnings.warn(
            f"Implicit dimension choice for {what} has been deprecated. Change the call to include dim=X as an argument.",
            stacklevel=4,
        )
        return 0 if ndim in (0, 1, 3) else 1
    return dim


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along the axis `dim`, computed from x - max(x), so that nothing overflows.

    Without `dim`, a warning, and axis 0 for 0, 1 or 3 dimensions, else 1. dtype: `input` is cast to it first.
    IndexRangeError for an axis that does not exist.

    >>> F.softmax(sg.tensor([0.0, math.log(3.0)]), dim=0)
    tensor([0.25, 0.75])
    """
    return input.softmax(_implicit(dim, input.ndim, "softmax"), dtype)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """x - log(sum(exp(x))) along the axis `dim`: the logarithm of softmax, also where that underflows.

    dim and dtype: as for softmax.

    >>> F.log_softmax(sg.tensor([0.0, 200.0]), dim=0)
    tensor([-200.,    0.])
    """
    return input.log_softmax(_implicit(dim, input.ndim, "log_softmax"), dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A differentiable sample of the distribution of `logits` along `dim`: softmax((logits + noise) / tau) (Jang et al.,
    2016; Maddison et al., 2016).

    hard: one-hot, with the gradient of the soft sample. eps changes nothing. The draws come from the generator of the
    logits' device (sg.manual_seed).

    >>> F.gumbel_softmax(sg.tensor([0.0, 1e9]), hard=True)
    tensor([0., 1.])
    """
    kind = float32 if logits.dtype.is_half else logits.dtype  # 16-bit dtypes have too few numbers near 1
    u = rand(*logits.shape, dtype=kind, device=logits.device) + 2.0**-24
    soft = ((logits - (-u.log()).log()) / tau).softmax(dim).to(dtype=logits.dtype)
    if not hard:
        return soft
    best = soft.detach().argmax(dim, keepdim=True)
    one = soft.detach().mul(0.0).scatter(dim, best, 1.0)
    return one - soft.detach() + soft


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """softmax(-x) along the axis `dim`. dim and dtype: as for softmax.

    >>> F.softmin(sg.tensor([0.0, math.log(3.0)]), dim=0)
    tensor([0.75, 0.25])
    """
    return softmax(-input, _implicit(dim, input.ndim, "softmin"), dtype=dtype)


# -- linear units and their smooth relatives


@composed
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, a smooth relu; x itself where beta x > threshold.

    >>> F.softplus(sg.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.    ])
    """
    scaled = input * beta
    positive = scaled > 0
    smooth = where(positive, scaled, 0.0) + where(positive, -scaled, scaled).exp().log1p()
    return where(scaled > threshold, input, smooth / beta)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow.

    >>> F.logsigmoid(sg.tensor([-100.0, 0.0]))
    tensor([-100.    ,   -0.6931])
    """
    return -softplus(-input, threshold=math.inf)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish (Elfwing et al., 2017). inplace: as for relu.

    >>> F.silu(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.    ,  0.7311])
    """
    return _placed(input, _silu(input), inplace)


@composed
def _silu(x: Tensor) -> Tensor:
    return x * x.sigmoid()


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra, 2019). inplace: as for relu.

    >>> F.mish(sg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.    ,  0.8651])
    """
    return _placed(input, input * softplus(input).tanh(), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else x * negative_slope (Maas et al., 2013). inplace: as for relu.

    >>> F.leaky_relu(sg.tensor([-4.0, 2.0]), 0.25)
    tensor([-1.,  2.])
    """
    return _placed(input, where(input > 0, input, input * negative_slope), inplace)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with a slope drawn from [lower, upper] for every element; without training, their mean.

    Xu et al., 2015.

    The draws come from the generator of the input's device (sg.manual_seed). ArgumentError if lower > upper.
    inplace: as for relu.

    >>> F.rrelu(sg.tensor([-4.0, 2.0]), 0.25, 0.75)
    tensor([-2.,  2.])
    """
    if not lower <= upper:
        raise ArgumentError(f"rrelu(): lower should not be above upper, but got {lower=}, {upper=}.")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = rand(*input.shape, dtype=input.dtype, device=input.device) * (upper - lower) + lower
    return _placed(input, where(input > 0, input, input * slope), inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with learned slopes: `weight` (1,), or (channels,) for axis 1 of the input (He et al., 2015).

    ShapeError if the number of weights is neither 1 nor that of the channels.

    >>> F.prelu(sg.tensor([[-4.0, -4.0]]), sg.tensor([0.5, 0.25]))
    tensor([[-2., -1.]])
    """
    return input.prelu(weight)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x) - 1) (Clevert et al., 2015). inplace: as for relu.

    >>> F.elu(sg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    return _placed(input, _exponential(input, 1.0, alpha, 1.0), inplace)


@composed
def _exponential(x: Tensor, scale: float, alpha: float, slope: float) -> Tensor:
    """scale x above 0, scale alpha (exp(slope x) - 1) below."""
    below = where(x > 0, 0.0, x)  # exp must not overflow for elements that are not chosen: 0 * inf is NaN
    return where(x > 0, x if scale == 1 else x * scale, (below * slope).expm1() * (scale * alpha))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalising elu, 1.0507 * elu(x, alpha=1.6733) (Klambauer et al., 2017). inplace: as for relu.

    >>> F.selu(sg.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return _placed(
        input, _exponential(input, 1.0507009873554804934193349852946, 1.6732632423543772848170429916717, 1.0), inplace
    )


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x / alpha) - 1) (Barron, 2017).

    ArgumentError for alpha = 0. inplace: as for relu.

    >>> F.celu(sg.tensor([-2.0, 2.0]), alpha=2.0)
    tensor([-1.2642,  2.    ])
    """
    if alpha == 0:
        raise ArgumentError(f"celu(): alpha cannot be 0, but got {alpha=}.")
    return _placed(input, _exponential(input, 1.0, alpha, 1.0 / alpha), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim`, times the sigmoid of the second: (..., 2 n) to (..., n) (Dauphin et al., 2016).

    ShapeError for an odd size, IndexRangeError for an axis that does not exist.

    >>> F.glu(sg.tensor([6.0, 8.0, 0.0, 0.0]))
    tensor([3., 4.])
    """
    axis = check_axis(dim, input.ndim, "glu")
    size = input.shape[axis]
    if size % 2:
        raise ShapeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    first, second = input.split(size // 2, axis)
    return first * second.sigmoid()


# -- with corners: as in PyTorch, the gradient is 0 at the bounds of the clipped range


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]; the gradient is 0 outside and at the ends. inplace: as for relu.

    >>> F.hardtanh(sg.tensor([-3.0, 0.5, 3.0]))
    tensor([-1. ,  0.5,  1. ])
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh(): min_val cannot be greater than max_val, but got {min_val=}, {max_val=}.")
    if input.dtype is bool_:
        raise DTypeError("Bool inputs not supported for hardtanh")
    if input.dtype.category == 1:
        return _placed(input, input.clamp(int(min_val), int(max_val)), inplace)
    inside = (input > min_val) & (input < max_val)
    return _placed(input, where(inside, input, input.detach().clamp(min_val, max_val)), inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6] (Krizhevsky, 2010). inplace: as for relu.

    >>> F.relu6(sg.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 limited to [0, 1], a piecewise linear sigmoid.

    >>> F.hardsigmoid(sg.tensor([-4.0, 0.0, 4.0]))
    tensor([0. , 0.5, 1. ])
    """
    return _placed(input, hardtanh(input + 3.0, 0.0, 6.0) / 6.0, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x) (Howard et al., 2019). inplace: as for relu.

    >>> F.hardswish(sg.tensor([0.0, 1.5, 4.0]))
    tensor([0.   , 1.125, 4.   ])
    """
    middle = where(input < 3.0, input * (input + 3.0) / 6.0, input)
    return _placed(input, where(input <= -3.0, 0.0, middle), inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where above `threshold`, else `value`. inplace: as for relu.

    >>> F.threshold(sg.tensor([1.0, 2.0, 3.0]), 2.0, -1.0)
    tensor([-1., -1.,  3.])
    """
    check_fits(value, input.dtype)
    return _placed(input, where(input <= threshold, value, input), inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, but 0 within [-lambd, lambd].

    >>> F.hardshrink(sg.tensor([-2.0, 0.25, 2.0]))
    tensor([-2.,  0.,  2.])
    """
    return where((input >= -lambd) & (input <= lambd), 0.0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x shifted by lambd towards 0, and 0 within [-lambd, lambd]. ArgumentError for a negative lambd.

    >>> F.softshrink(sg.tensor([-2.0, 0.25, 2.0]))
    tensor([-1.5,  0. ,  1.5])
    """
    if lambd < 0:
        raise ArgumentError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    inside = (input >= -lambd) & (input <= lambd)
    return where(inside, 0.0, where(input < 0, input + lambd, input - lambd))


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> F.tanhshrink(sg.tensor([0.0, 1.0]))
    tensor([0.    , 0.2384])
    """
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> F.softsign(sg.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5 ,  0.  ,  0.75])
    """
    return input / (input.abs() + 1.0)
