"""Windows under PyTorch's top-level names, functions of the package, which are periodic if not said otherwise."""

from __future__ import annotations

from typing import Any

from ..arguments import checked
from ..tensor import Tensor
from . import windows


@checked
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`signal.windows.hann`, periodic if not said otherwise.

    >>> sg.hann_window(4)
    tensor([0. , 0.5, 1. , 0.5])
    """
    return windows.hann(window_length, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad)


@checked
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2 pi x), periodic if not said otherwise.

    >>> sg.hamming_window(2)
    tensor([0.08, 1.  ])
    """
    return windows.general_cosine(
        window_length, a=(alpha, beta), sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad
    )


@checked
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`signal.windows.bartlett`, periodic if not said otherwise.

    >>> sg.bartlett_window(4)
    tensor([0. , 0.5, 1. , 0.5])
    """
    return windows.bartlett(window_length, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad)


@checked
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`signal.windows.blackman`, periodic if not said otherwise.

    >>> sg.blackman_window(2)[1]
    tensor(1.)
    """
    return windows.blackman(window_length, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad)


@checked
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`signal.windows.kaiser`, periodic if not said otherwise.

    >>> sg.kaiser_window(2)[1]
    tensor(1.)
    """
    return windows.kaiser(
        window_length, beta=beta, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad
    )
