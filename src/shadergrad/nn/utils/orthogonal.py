"""Matrices that stay orthogonal while they train, as torch.nn.utils.parametrizations.orthogonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import no_grad
from ...dtypes import FloatLimits, int32
from ...errors import ArgumentError
from ...linalg import householder_product, matrix_exp, qr, solve
from ...tensor import Tensor, cat, eye, randn, tensor, zeros
from ..module import Module
from .parametrize import register_parametrization

MAPS = ("matrix_exp", "cayley", "householder")


def _made_orthogonal(x: Tensor) -> Tensor:
    """The orthogonal factor of x = Q R, of which R has a positive diagonal."""
    q, r = qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _is_orthogonal(x: Tensor) -> bool:
    n, k = x.shape[-2:]
    apart = (x.mT @ x - eye(k, dtype=x.dtype, device=x.device)).abs().amax().item()
    return apart <= 10 * n * float(FloatLimits.of(x.dtype).eps)


class _Orthogonal(Module):
    """Orthonormal columns, or rows, of a matrix or several: base times a map of the original (Lezcano-Casado, 2019)."""

    base: Tensor | None

    def __init__(self, shape: Any, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        found = self._reflected(x) if self.orthogonal_map == "householder" else self._turned(x)
        if self.use_trivialization:
            found = self.base @ found  # type: ignore[operator]
        return found.mT if wide else found

    def _turned(self, x: Tensor) -> Tensor:
        """The exponential, or the Cayley map, of the skew-symmetric matrix whose part below the diagonal is that of x."""
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            x = cat([x, zeros(*x.shape[:-1], n - k, dtype=x.dtype, device=x.device)], -1)
        skew = x - x.mT
        if self.orthogonal_map == "matrix_exp":
            return matrix_exp(skew)[..., :k]
        one = eye(n, dtype=x.dtype, device=x.device)
        return solve(one - skew * 0.5, one + skew * 0.5)[..., :k]

    def _reflected(self, x: Tensor) -> Tensor:
        """A product of reflections, whose vectors are below the diagonal of x, and whose signs are on it."""
        below = x.tril(-1)
        tau = 2.0 / (1.0 + (below * below).sum(-2))
        signs = x.detach().diagonal(dim1=-2, dim2=-1).to(dtype=int32).to(dtype=x.dtype)
        return householder_product(below, tau) * signs.unsqueeze(-2)

    def right_inverse(self, value: Tensor) -> Tensor:
        """The original of an orthogonal matrix; another matrix is first made orthogonal by QR."""
        if tuple(value.shape) != self.shape:
            raise ArgumentError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {tuple(value.shape)}."
            )
        with no_grad():
            wide = value.shape[-2] < value.shape[-1]
            tall = value.mT if wide else value
            if not self.use_trivialization:
                found = self._reflections_of(tall)
                return found.mT if wide else found
            n, k = tall.shape[-2:]
            if n != k:
                more = randn(*tall.shape[:-2], n, n - k, dtype=tall.dtype, device=tall.device)
                tall = cat([tall, more], -1)
            whole = n == k and _is_orthogonal(tall)
            self.base = tall.clone() if whole else _made_orthogonal(tall)
            rows, columns = value.shape[-2:]
            return -eye(rows, columns, dtype=value.dtype, device=value.device).expand(*value.shape).clone()

    def _reflections_of(self, x: Tensor) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        packed, tau = np.linalg.qr(x.detach().numpy(), mode="raw")  # LAPACK's geqrf
        packed = np.array(np.swapaxes(packed, -1, -2))
        k = np.arange(x.shape[-1])
        signs = np.sign(packed[..., k, k])
        packed[..., k, k] = np.where(tau == 0.0, -signs, signs)
        return tensor(packed, dtype=x.dtype, device=x.device)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """A parameter (..., m, n) whose columns, or rows where there are fewer, stay orthonormal; returns the module.

    orthogonal_map: 'matrix_exp', by default of square matrices, 'cayley', or 'householder', by default of others.
    use_trivialization: the map starts at the present value, which is stored in the buffer `base` (Lezcano-Casado, 2019). A value
    that is not orthogonal is made so by QR. Raises ArgumentError for a name that is no tensor of two axes or more, and for another map.

    >>> layer = sg.nn.utils.parametrizations.orthogonal(nn.Linear(3, 2).double())
    >>> (layer.weight @ layer.weight.T).detach().allclose(sg.eye(2, dtype=sg.float64))
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ArgumentError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in MAPS:
        raise ArgumentError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight.shape, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)
