"""Special functions of SciPy that run on the host (shadergrad/host_operations.py), from webgpu with one warning.

Where PyTorch has no gradient of one, there is one here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from ..host_operations import HostOperation
from ..system.browser import Late
from ..tensor import where
from .elementary import OfInput, OfX, as_float, unary

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1",
    "modified_bessel_k0", "modified_bessel_k1", "ndtri", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
]  # fmt: skip


special = Late("scipy.special")


class Known(NamedTuple):
    """A function of one number: SciPy's, and dy/dx from tensors x and y."""

    value: Callable[[Any], Any]
    slope: Callable[[Any, Any], Any]


def _over(y: Any, x: Any, at_0: float) -> Any:
    """y / x, and its limit at 0."""
    zero = x == 0
    return where(zero, at_0, y / where(zero, 1.0, x))


@dataclass(frozen=True, eq=False)
class HostFunction(HostOperation):
    """A function of KNOWN, of every element."""

    kind = "host"
    function: str

    @property
    def name(self) -> str:
        return f"special.{self.function}"

    def numpy(self, x):  # type: ignore[override]
        with np.errstate(all="ignore"):
            return np.asarray(KNOWN[self.function].value(x), x.dtype)

    def gradient(self, g, result, x):  # type: ignore[override]
        return g * KNOWN[self.function].slope(x, result)


def _of(name: str, x: Any) -> Any:
    return HostFunction(name)(x)


@overload
def _on_host(name: str, known: Known, says: str, at: str, gives: str, takes_x: Literal[False] = False) -> OfInput: ...


@overload
def _on_host(name: str, known: Known, says: str, at: str, gives: str, takes_x: Literal[True]) -> OfX: ...


def _on_host(name: str, known: Known, says: str, at: str, gives: str, takes_x: bool = False) -> Any:
    """As `unary`, for a function that is `known` to SciPy."""
    KNOWN[name] = known
    if takes_x:
        return unary(name, lambda x: _of(name, as_float(x)), says, at, gives, True)
    return unary(name, lambda x: _of(name, as_float(x)), says, at, gives)


# fmt: off
KNOWN: dict[str, Known] = {}
KNOWN["airy_ai_slope"] = Known(lambda x: special.airy(x)[1], lambda x, y: x * _of("airy_ai", x))
airy_ai = _on_host("airy_ai", Known(lambda x: special.airy(x)[0], lambda x, y: _of("airy_ai_slope", x)),
    "Airy's function Ai.", "[0.0]", "[0.355]", takes_x=True)
bessel_j0 = _on_host("bessel_j0", Known(special.j0, lambda x, y: -_of("bessel_j1", x)),
    "The Bessel function of the first kind of order 0.", "[1.0]", "[0.7652]")
bessel_j1 = _on_host("bessel_j1", Known(special.j1, lambda x, y: _of("bessel_j0", x) - _over(y, x, 0.5)),
    "The Bessel function of the first kind of order 1.", "[1.0]", "[0.4401]")
bessel_y0 = _on_host("bessel_y0", Known(special.y0, lambda x, y: -_of("bessel_y1", x)),
    "The Bessel function of the second kind of order 0.", "[1.0]", "[0.0883]")
bessel_y1 = _on_host("bessel_y1", Known(special.y1, lambda x, y: _of("bessel_y0", x) - y / x),
    "The Bessel function of the second kind of order 1.", "[1.0]", "[-0.7812]")
modified_bessel_k0 = _on_host("modified_bessel_k0", Known(special.k0, lambda x, y: -_of("modified_bessel_k1", x)),
    "The modified Bessel function of the second kind of order 0.", "[1.0]", "[0.421]")
modified_bessel_k1 = _on_host("modified_bessel_k1", Known(special.k1, lambda x, y: -_of("modified_bessel_k0", x) - y / x),
    "The modified Bessel function of the second kind of order 1.", "[1.0]", "[0.6019]")
scaled_modified_bessel_k0 = _on_host("scaled_modified_bessel_k0", Known(special.k0e, lambda x, y: y - _of("scaled_modified_bessel_k1", x)),
    "`modified_bessel_k0` times e ** x.", "[1.0]", "[1.1445]", takes_x=True)
scaled_modified_bessel_k1 = _on_host("scaled_modified_bessel_k1", Known(special.k1e, lambda x, y: y - _of("scaled_modified_bessel_k0", x) - y / x),
    "`modified_bessel_k1` times e ** x.", "[1.0]", "[1.6362]", takes_x=True)
ndtri = _on_host("ndtri", Known(special.ndtri, lambda x, y: (y * y * 0.5).exp() * math.sqrt(2 * math.pi)),
    "The inverse of `ndtr`: infinite at 0 and 1, NaN outside.", "[0.975]", "[1.96]")
# fmt: on
