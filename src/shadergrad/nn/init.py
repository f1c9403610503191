"""Initial values for parameters, in place, PyTorch's names and formulas.

Each takes a tensor, fills it and gives it back; nothing is recorded for backward. The numbers come from the default
generator of the tensor's device, or from `generator`.
"""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np

from ..graph.node import grad_mode
from ..tensor import Generator, Tensor, rand, randn
from .arguments import takes_tensors
from .errors import ArgumentError

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


def _fill(tensor: Tensor, value: Tensor) -> Tensor:
    with grad_mode(False):
        return tensor.copy_(value)


def _options(tensor: Tensor, generator: Generator | None) -> dict[str, Any]:
    return {"dtype": tensor.dtype, "device": tensor.device, "generator": generator}


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform on [a, b)."""
    return _fill(tensor, rand(*tensor.shape, **_options(tensor, generator)) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal."""
    return _fill(tensor, randn(*tensor.shape, **_options(tensor, generator)) * std + mean)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, but within [a, b]: the inverse of the distribution function, of uniform numbers."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )
    low, high = (math.erf((limit - mean) / (std * math.sqrt(2.0))) for limit in (a, b))
    drawn = (rand(*tensor.shape, **_options(tensor, generator)) * (high - low) + low).erfinv()
    return _fill(tensor, (drawn * (std * math.sqrt(2.0)) + mean).clamp(a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    with grad_mode(False):
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ArgumentError(f"Only tensors with 2 dimensions are supported, but got {list(tensor.shape)}")
    return _fill(tensor, Tensor(np.eye(*tensor.shape), dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Weights (n_out, n_in, *kernel) of a convolution that passes its inputs through."""
    if tensor.ndim not in (3, 4, 5):
        raise ArgumentError(f"Only tensors with 3, 4, or 5 dimensions are supported, but got {list(tensor.shape)}")
    if tensor.shape[0] % groups:
        raise ArgumentError(f"dim 0 must be divisible by groups, but got {list(tensor.shape)} and {groups=}")
    value = np.zeros(tuple(tensor.shape))
    outputs = tensor.shape[0] // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for k in range(min(outputs, tensor.shape[1])):
            value[(group * outputs + k, k, *centre)] = 1
    return _fill(tensor, Tensor(value, dtype=tensor.dtype, device=tensor.device))


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A (semi-)orthogonal matrix (Saxe et al., 2014), of the QR factors of normal numbers; computed on the host."""
    if tensor.ndim < 2:
        raise ArgumentError(f"Only tensors with 2 or more dimensions are supported, but got {list(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    drawn = randn(rows, tensor.numel() // rows, device=tensor.device, generator=generator).numpy().astype(np.float64)
    tall = drawn.shape[0] >= drawn.shape[1]
    q, r = np.linalg.qr(drawn if tall else drawn.T)
    q = q * np.sign(np.diag(r))  # makes it uniform among the orthogonal ones
    value = (q if tall else q.T).reshape(tuple(tensor.shape)) * gain
    return _fill(tensor, Tensor(value, dtype=tensor.dtype, device=tensor.device))


# -- scaled by the number of inputs and outputs


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What a nonlinearity's input should be scaled by to keep the variance."""
    if nonlinearity in ("linear", "sigmoid") or nonlinearity in {
        f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)
    }:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ArgumentError(f"negative_slope {param} not a valid number")
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ArgumentError(f"Unsupported nonlinearity {nonlinearity}")


def _fans(tensor: Tensor) -> tuple[int, int]:
    """The numbers of inputs and outputs that a weight (n_out, n_in, *kernel) connects."""
    if tensor.ndim < 2:
        raise ArgumentError(
            f"Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, but got {list(tensor.shape)}"
        )
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ArgumentError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = _fans(tensor)[mode.lower() == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return 0 in tensor.shape


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot and Bengio, 2010: uniform on +-gain * sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with std gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He et al., 2015: uniform on +-gain * sqrt(3 / fan)."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with std gain / sqrt(fan)."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


for _name, _function in list(globals().items()):
    if inspect.isfunction(_function) and _name.endswith("_"):
        globals()[_name] = takes_tensors(_function)
