"""In-place initialization of parameters, with PyTorch's names and formulas.

Each function takes a tensor, fills it and returns it; nothing is recorded for backward. The numbers come from the default
generator of the tensor's device, or from `generator`.
"""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np

from ..graph.node import grad_mode
from ..tensor import Generator, Tensor, rand, randn, where
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
    "sparse_",
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
    """Fill with numbers uniform on [a, b), in place; returns the tensor. Raises ArgumentError if a is above b.

    >>> w = nn.init.uniform_(sg.empty(1000), 2.0, 3.0)
    >>> w.min() >= 2.0, w.max() < 3.0
    (tensor(True), tensor(True))
    """
    if a > b:
        raise ArgumentError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    return _fill(tensor, rand(*tensor.shape, **_options(tensor, generator)) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers of this mean and standard deviation, in place; returns the tensor.

    Raises ArgumentError for a negative std.

    >>> w = nn.init.normal_(sg.empty(10000), mean=5.0, std=0.1)
    >>> round(w.mean().item(), 1), round(w.std().item(), 1)
    (5.0, 0.1)
    """
    if std < 0:
        raise ArgumentError(f"normal expects std >= 0.0, but found std={std}")
    return _fill(tensor, randn(*tensor.shape, **_options(tensor, generator)) * std + mean)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers within [a, b], in place; returns the tensor.

    Drawn as the inverse of the distribution function of uniform numbers. Warns where the mean is more than 2 std
    outside.
    Raises ArgumentError if a is above b, and for a std that is not positive.

    >>> w = nn.init.trunc_normal_(sg.empty(1000), a=-1.0, b=1.0)
    >>> w.abs().max() <= 1.0
    tensor(True)
    """
    if a > b or std <= 0:
        raise ArgumentError(f"trunc_normal_ expects a <= b and std > 0, but found {a=}, {b=}, {std=}")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )
    low, high = (math.erf((limit - mean) / (std * math.sqrt(2.0))) for limit in (a, b))
    drawn = (rand(*tensor.shape, **_options(tensor, generator)) * (high - low) + low).erfinv()
    return _fill(tensor, (drawn * (std * math.sqrt(2.0)) + mean).clamp(a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number, in place; returns the tensor.

    >>> nn.init.constant_(sg.empty(2), 0.5)
    tensor([0.5, 0.5])
    """
    with grad_mode(False):
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones, in place; returns the tensor.

    >>> nn.init.ones_(sg.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros, in place; returns the tensor.

    >>> nn.init.zeros_(sg.ones(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix (rows, columns) ones on the diagonal, else zeros, in place; returns it.

    Raises ArgumentError for anything but a matrix.

    >>> nn.init.eye_(sg.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ArgumentError(f"Only tensors with 2 dimensions are supported, but got {list(tensor.shape)}")
    rows, columns = tensor.shape
    return _fill(tensor, Tensor(np.eye(rows, columns), dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Weights (n_out, n_in, *kernel) of a convolution that passes its inputs through, in place; returns the tensor.

    1 in the kernel's centre, else 0. groups: the first n_in outputs of each group pass them. Raises ArgumentError for
    other than 3, 4 or 5 axes, and where groups does not divide n_out.

    >>> nn.init.dirac_(sg.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
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
    """Make a matrix (semi-)orthogonal, times gain, in place; returns it (Saxe et al., 2014).

    (rows, ...) is taken as (rows, product of the others). From the QR factors of normal numbers; computed on the host,
    so not within a compiled step. Raises ArgumentError for fewer than 2 axes.

    >>> w = nn.init.orthogonal_(sg.empty(2, 3))
    >>> (w @ w.t() - sg.eye(2)).abs().max() < 1e-5
    tensor(True)
    """
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
    """The factor for a weight with which the variance stays constant through a nonlinearity, a number.

    nonlinearity: 'linear', 'sigmoid', 'conv1d' and its like: 1; 'tanh': 5/3; 'relu': sqrt(2); 'leaky_relu':
    sqrt(2 / (1 + param^2)), 0.01 by default; 'selu': 3/4. Raises ArgumentError for another.

    >>> nn.init.calculate_gain("leaky_relu", 1.0), nn.init.calculate_gain("selu")
    (1.0, 0.75)
    """
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


def fans(tensor: Tensor) -> tuple[int, int]:
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
    fan = fans(tensor)[mode.lower() == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return 0 in tensor.shape


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers uniform on +-gain sqrt(6 / (fan_in + fan_out)), in place (Glorot and Bengio, 2010).

    Of weights (n_out, n_in, *kernel), fan_in is n_in and fan_out n_out times the size of the kernel. Returns the
    tensor.
    Raises ArgumentError for fewer than 2 axes.

    >>> w = nn.init.xavier_uniform_(sg.empty(3, 3))
    >>> w.abs().max() <= 1.0
    tensor(True)
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers, std gain sqrt(2 / (fan_in + fan_out)), in place (Glorot and Bengio, 2010).

    Weights, fans and errors as of xavier_uniform_.

    >>> w = nn.init.xavier_normal_(sg.empty(100, 100))
    >>> round(w.std().item(), 2)
    0.1
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with numbers uniform on +-gain sqrt(3 / fan), in place (He et al., 2015).

    mode: 'fan_in' keeps the variance forwards, 'fan_out' backwards; fans as in xavier_uniform_. gain: calculate_gain of
    nonlinearity, with the slope a of leaky_relu. Returns the tensor, with a warning if it has no elements.
    Raises ArgumentError for another mode or nonlinearity, and for fewer than 2 axes.

    >>> w = nn.init.kaiming_uniform_(sg.empty(5, 6), nonlinearity="relu")
    >>> w.abs().max() <= 1.0
    tensor(True)
    """
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
    """Fill with normal numbers, std gain / sqrt(fan), in place (He et al., 2015).

    Arguments and errors as of kaiming_uniform_.

    >>> w = nn.init.kaiming_normal_(sg.empty(100, 200), nonlinearity="relu")
    >>> round(w.std().item(), 2)
    0.1
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers, and the share `sparsity` of each column with zeros at random, in place (Martens, 2010).

    tensor (n, m); of each column ceil(sparsity n) elements are 0. Returns the tensor. Raises ArgumentError for another number of
    axes.

    >>> w = nn.init.sparse_(sg.empty(10, 4), sparsity=0.3)
    >>> (w == 0).sum(0)
    tensor([3, 3, 3, 3])
    """
    if tensor.ndim != 2:
        raise ArgumentError("Only tensors with 2 dimensions are supported")
    zeros = math.ceil(sparsity * tensor.shape[0])
    normal_(tensor, 0.0, std, generator)
    with grad_mode(False):
        order = rand(*tensor.shape, device=tensor.device, generator=generator).argsort(0).argsort(0)
        tensor.copy_(where(order < zeros, 0.0, tensor))
    return tensor


def _older(name: str) -> Any:
    """A function under its name before PyTorch 0.4, with PyTorch's warning."""

    def filled(*args: Any, **options: Any) -> Tensor:
        warnings.warn(f"nn.init.{name} is now deprecated in favor of nn.init.{name}_.", FutureWarning, stacklevel=2)
        return globals()[f"{name}_"](*args, **options)

    return filled


for _name, _function in list(globals().items()):
    if inspect.isfunction(_function) and _name.endswith("_"):
        globals()[_name] = takes_tensors(_function)
        globals()[_name[:-1]] = _older(_name[:-1])
