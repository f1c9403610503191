"""Sample frequencies of transforms, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arguments import checked
from ..dtypes import default_dtype
from ..tensor import Tensor, arange, cat


@checked
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The sample frequencies of `fft`'s n bins for a sample spacing d: 0 and up, then the negative ones.

    >>> sg.fft.fftfreq(4)
    tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    both = cat([arange(0, (n + 1) // 2, device=device), arange(-(n // 2), 0, device=device)])
    found = both.to(default_dtype() if dtype is None else dtype) * (1.0 / (n * d))
    return found.requires_grad_() if requires_grad else found


@checked
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The sample frequencies of `rfft`'s n // 2 + 1 bins.

    >>> sg.fft.rfftfreq(4)
    tensor([0.  , 0.25, 0.5 ])
    """
    found = arange(0, n // 2 + 1, device=device).to(default_dtype() if dtype is None else dtype) * (1.0 / (n * d))
    return found.requires_grad_() if requires_grad else found


def _shifted(x: Tensor, dim: Any, back: bool) -> Tensor:
    axes = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    by = [(x.shape[a] + 1) // 2 if back else x.shape[a] // 2 for a in axes]
    return x.roll(by, axes)


@checked
def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Move frequency 0 to the middle, negative frequencies first, by default along all axes.

    >>> sg.fft.fftshift(sg.fft.fftfreq(4))
    tensor([-0.5 , -0.25,  0.  ,  0.25])
    """
    return _shifted(input, dim, False)


@checked
def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> sg.fft.ifftshift(sg.tensor([-1, 0, 1]))
    tensor([ 0,  1, -1])
    """
    return _shifted(input, dim, True)
