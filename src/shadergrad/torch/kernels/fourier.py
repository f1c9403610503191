"""Fourier transforms, and signs and conjugates of complex numbers."""

from __future__ import annotations

from typing import Any

import shadergrad as sg

from ...tensor import Tensor
from ..table import kernel

FORWARD = ("backward", "ortho", "forward")  # by PyTorch's number of a normalization: by 1, sqrt(n), n
INVERSE = ("forward", "ortho", "backward")


@kernel("_fft_r2c")
def real_to_complex(x: Tensor, dim: Any, normalization: int, onesided: bool) -> Tensor:
    transform = sg.fft.rfftn if onesided else sg.fft.fftn
    return transform(x, dim=tuple(dim), norm=FORWARD[normalization])


@kernel("_fft_c2c")
def complex_to_complex(x: Tensor, dim: Any, normalization: int, forward: bool) -> Tensor:
    if not dim:
        return x.clone()
    if forward:
        return sg.fft.fftn(x, dim=tuple(dim), norm=FORWARD[normalization])
    return sg.fft.ifftn(x, dim=tuple(dim), norm=INVERSE[normalization])


@kernel("_fft_c2r")
def complex_to_real(x: Tensor, dim: Any, normalization: int, size: int) -> Tensor:
    sizes = [x.shape[d] for d in dim[:-1]]
    return sg.fft.irfftn(x, s=(*sizes, size), dim=tuple(dim), norm=INVERSE[normalization])


kernel("_conj_physical")(lambda x: x.conj() if x.dtype in (sg.complex64, sg.complex128) else x.clone())


@kernel("sgn")
def sgn(x: Tensor) -> Tensor:
    """A complex number over its size, 0 for 0."""
    if x.dtype not in (sg.complex64, sg.complex128):
        return x.sign()
    size = x.abs()
    return x / sg.where(size == 0, 1.0, size)
