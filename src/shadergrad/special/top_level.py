"""Special functions under PyTorch's top-level names: functions of the package, methods of tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..arguments import checked, checked_with_out
from ..tensor import Tensor
from . import elementary

polygamma = elementary.polygamma
i0 = elementary.i0


@checked_with_out
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of p dimensions, as `sg.special.multigammaln`.

    >>> sg.mvlgamma(sg.tensor([2.0]), 2)
    tensor([0.4516])
    """
    return elementary.multigammaln(input, p)


@checked_with_out
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function, as `sg.special.gammainc`.

    >>> sg.igamma(sg.tensor([1.0]), sg.tensor([1.0]))
    tensor([0.6321])
    """
    return elementary.gammainc(input, other)


@checked_with_out
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function, as `sg.special.gammaincc`.

    >>> sg.igammac(sg.tensor([1.0]), sg.tensor([1.0]))
    tensor([0.3679])
    """
    return elementary.gammaincc(input, other)


def _polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma, as `sg.polygamma(n, self)`.

    >>> sg.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return polygamma(n, self)


def _mvlgamma(self: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of p dimensions, as `sg.mvlgamma`.

    >>> sg.tensor([2.0]).mvlgamma(2)
    tensor([0.4516])
    """
    return mvlgamma(self, p)


def _i0(self: Tensor) -> Tensor:
    """The modified Bessel function of order 0, as `sg.i0`.

    >>> sg.tensor([1.0]).i0()
    tensor([1.2661])
    """
    return i0(self)


def _igamma(self: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function, as `sg.igamma`.

    >>> sg.tensor([1.0]).igamma(sg.tensor([1.0]))
    tensor([0.6321])
    """
    return igamma(self, other)


def _igammac(self: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function, as `sg.igammac`.

    >>> sg.tensor([1.0]).igammac(sg.tensor([1.0]))
    tensor([0.3679])
    """
    return igammac(self, other)


def _in_place(name: str, method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The form of a method that overwrites the tensor; its example gives the same."""

    @functools.wraps(method)
    def form(self: Tensor, *args: Any, **options: Any) -> Tensor:
        return self._update_in_place(method(self, *args, **options), f"{name}_")

    example = inspect.cleandoc(method.__doc__ or "").partition("\n\n")[2].replace(f".{name}(", f".{name}_(", 1)
    form.__doc__ = f"`{name}` into the tensor itself, and gives it.\n\n{example}\n"
    return form


METHODS: dict[str, Callable[..., Tensor]] = {
    "polygamma": _polygamma,
    "mvlgamma": _mvlgamma,
    "i0": _i0,
    "igamma": _igamma,
    "igammac": _igammac,
}
METHODS |= {f"{_name}_": _in_place(_name, _method) for _name, _method in METHODS.items()}
for _name, _method in METHODS.items():
    _method.__name__ = _method.__qualname__ = _name
    setattr(Tensor, _name, checked(_method, _name, method=True))
