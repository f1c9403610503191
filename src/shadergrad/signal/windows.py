"""Window functions, as torch.signal.windows: M numbers, largest in the middle. Harris, 1978, "On the use of windows".

sym: symmetric; else periodic, M numbers of a symmetric one of M + 1, as spectra want. Floating dtypes only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from ..arguments import checked
from ..dtypes import default_dtype, float32, float64, parse_dtype
from ..errors import ArgumentError, ArgumentTypeError, DTypeError
from ..system.browser import Late
from ..tensor import Tensor, tensor

special = Late("scipy.special")


def _positions(what: str, M: int, sym: bool) -> np.ndarray:
    """0 to 1 over the window."""
    if M < 0:
        raise ArgumentError(f"{what} window requires non-negative window length, got M={M}")
    last = M - 1 if sym else M
    return np.arange(M) / last if last > 0 else np.full(M, 0.5)


def _made(what: str, values: np.ndarray, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    kind = default_dtype() if dtype is None else parse_dtype(dtype)
    if kind not in (float32, float64):
        raise DTypeError(f"{what} window expects float32 or float64 dtypes, got: {kind!r}")
    return tensor(np.ones(1) if len(values) == 1 else values, dtype=kind, device=device, requires_grad=requires_grad)


def _cosines(x: np.ndarray, a: Iterable[float]) -> np.ndarray:
    """The sum of (-1)^k a[k] cos(2 pi k x)."""
    total = np.zeros_like(x)
    for k, factor in enumerate(a):
        total += (-1) ** k * factor * np.cos(2 * math.pi * k * x)
    return total


class Window(Protocol):
    """A window without arguments of its own."""

    def __call__(
        self, M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor: ...


def _window(name: str, formula: Callable[[np.ndarray], np.ndarray], says: str, gives: str) -> Window:
    """A formula of x, 0 to 1 over the window. says: its docstring, whose example shows what three numbers it `gives`."""

    def window(
        M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        return _made(name, formula(_positions(name, M, sym)), dtype, device, requires_grad)

    window.__name__ = name
    window.__doc__ = f"{says}\n\n>>> sg.signal.windows.{name}(3)\ntensor({gives})\n"
    return checked(window)


# fmt: off
bartlett = _window("bartlett", lambda x: 1 - np.abs(2 * x - 1),
    "A triangle from 0 to 1 and back.", "[0., 1., 0.]")
blackman = _window("blackman", lambda x: _cosines(x, (0.42, 0.5, 0.08)),
    "0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x), for x from 0 to 1.", "[-1.3878e-17,  1.0000e+00, -1.3878e-17]")
hamming = _window("hamming", lambda x: _cosines(x, (0.54, 0.46)),
    "0.54 - 0.46 cos(2 pi x), for x from 0 to 1.", "[0.08, 1.  , 0.08]")
hann = _window("hann", lambda x: _cosines(x, (0.5, 0.5)),
    "(1 - cos(2 pi x)) / 2, for x from 0 to 1.", "[0., 1., 0.]")
nuttall = _window("nuttall", lambda x: _cosines(x, (0.3635819, 0.4891775, 0.1365995, 0.0106411)),
    "Nuttall's minimum of four cosines, 1981.", "[3.628e-04, 1.000e+00, 3.628e-04]")
# fmt: on


@checked
def cosine(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Half a wave of the sine, between its zeros.

    >>> sg.signal.windows.cosine(2)
    tensor([0.7071, 0.7071])
    """
    _positions("cosine", M, sym)
    return _made("cosine", np.sin(math.pi * (np.arange(M) + 0.5) / (M if sym else M + 1)), dtype, device, requires_grad)


@checked
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """e ** (-|n - center| / tau); center is the middle if left out, as it must be where sym.

    Raises ArgumentError for tau not above 0, and for a center where sym.

    >>> sg.signal.windows.exponential(3)
    tensor([0.3679, 1.    , 0.3679])
    """
    if tau <= 0:
        raise ArgumentError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ArgumentError("Center must be None for symmetric windows")
    _positions("exponential", M, sym)
    return _made(
        "exponential",
        np.exp(-np.abs(np.arange(M) - ((M - 1 if sym else M) / 2 if center is None else center)) / tau),
        dtype,
        device,
        requires_grad,
    )


@checked
def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """e ** (-(n - middle)^2 / (2 std^2)). Raises ArgumentError for std not above 0.

    >>> sg.signal.windows.gaussian(3)
    tensor([0.6065, 1.    , 0.6065])
    """
    if std <= 0:
        raise ArgumentError(f"Standard deviation must be positive, got: {std} instead.")
    _positions("gaussian", M, sym)
    return _made(
        "gaussian", np.exp(-0.5 * ((np.arange(M) - (M - 1 if sym else M) / 2) / std) ** 2), dtype, device, requires_grad
    )


@checked
def general_cosine(
    M: int, *, a: Any, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The sum of (-1)^k a[k] cos(2 pi k x), for x from 0 to 1. Raises ArgumentError without coefficients.

    >>> sg.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not isinstance(a, Iterable):
        raise ArgumentTypeError(f"general_cosine(): argument 'a' must be a list of numbers, not {type(a).__name__}.")
    factors = list(a)
    if not factors:
        raise ArgumentError("Coefficients cannot be empty")
    x = _positions("general_cosine", M, sym)
    return _made("general_cosine", _cosines(x, factors), dtype, device, requires_grad)


@checked
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi x), for x from 0 to 1.

    >>> sg.signal.windows.general_hamming(3)
    tensor([0.08, 1.  , 0.08])
    """
    x = _positions("general_hamming", M, sym)
    return _made("general_hamming", _cosines(x, (alpha, 1 - alpha)), dtype, device, requires_grad)


@checked
def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta). Raises ArgumentError for beta below 0.

    >>> sg.signal.windows.kaiser(3)
    tensor([5.2773e-05, 1.0000e+00, 5.2773e-05])
    """
    if beta < 0:
        raise ArgumentError(f"beta must be non-negative, got: {beta} instead.")
    x = _positions("kaiser", M, sym)
    return _made(
        "kaiser",
        special.i0e(beta * np.sqrt(1 - (2 * x - 1) ** 2))
        / special.i0e(beta)
        * np.exp(beta * (np.sqrt(1 - (2 * x - 1) ** 2) - 1)),
        dtype,
        device,
        requires_grad,
    )


__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]
