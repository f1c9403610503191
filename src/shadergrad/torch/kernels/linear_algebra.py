"""Factorizations, and the values that PyTorch's gradients read of them.

PyTorch's det and slogdet return the LU factors of A transposed if A is contiguous and real: their gradients expect them so.
"""

from __future__ import annotations

from typing import Any

import torch

import shadergrad as sg

from ...tensor import Tensor
from ..storage import read, wrap, write
from ..table import kernel, on_tensors

L = sg.linalg


def _nothing(x: Tensor) -> Tensor:
    return sg.zeros(0, dtype=x.dtype, device=x.device)


@kernel("_linalg_svd")
def svd(a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    if not compute_uv:
        return _nothing(a), L.svdvals(a), _nothing(a)
    return tuple(L.svd(a, full_matrices))


@kernel("_linalg_eigh")
def eigh(a: Tensor, uplo: str = "L", compute_v: bool = True) -> Any:
    return tuple(L.eigh(a, uplo)) if compute_v else (L.eigvalsh(a, uplo), _nothing(a))


kernel("_linalg_eigvals")(lambda a: L.eigvals(a))


@on_tensors("linalg_eigvals.out")
def eigvals_into(a: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    value = L.eigvals(read(a))
    return write(out.resize_(value.shape), value)


def _factors(a: torch.Tensor) -> tuple[Tensor, Any]:
    value = read(a)
    return value, L.lu_factor_ex(value.mT if a.is_contiguous() and not a.is_complex() else value)


@on_tensors("_linalg_solve_ex")
def solve_ex(a: torch.Tensor, b: torch.Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    value = read(a)
    factors = L.lu_factor_ex(value)
    found = L.solve_ex(value, read(b), left=left, check_errors=check_errors)
    return wrap(found[0]), wrap(factors[0]), wrap(factors[1].to(sg.int32)), wrap(found[1].to(sg.int32))


@on_tensors("_linalg_det")
def det(a: torch.Tensor) -> Any:
    value, factors = _factors(a)
    return wrap(L.det(value)), wrap(factors[0]), wrap(factors[1].to(sg.int32))


@on_tensors("_linalg_slogdet")
def slogdet(a: torch.Tensor) -> Any:
    value, factors = _factors(a)
    sign, size = L.slogdet(value)
    return wrap(sign), wrap(size), wrap(factors[0]), wrap(factors[1].to(sg.int32))


@kernel("linalg_lu_solve")
def lu_solve(lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    return L.lu_solve(lu, pivots, b, left=left, adjoint=adjoint)


@kernel("_cholesky_solve_helper")
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool) -> Tensor:
    return sg.cholesky_solve(b, factor, upper)


@kernel("linalg_lstsq")
def lstsq(a: Tensor, b: Tensor, rcond: Any = None, *, driver: Any = None) -> Any:
    found = L.lstsq(a, b, rcond, driver=driver)
    return found[0], found[1], found[2].to(sg.int64), found[3]


@kernel("ormqr")
def ormqr(a: Tensor, tau: Tensor, b: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q of Householder vectors, all its columns, times b."""
    m, k = a.shape[-2], tau.shape[-1]
    batch = tuple(a.shape[:-2])
    whole = sg.cat([a[..., :k], sg.zeros((*batch, m, m - k), dtype=a.dtype, device=a.device)], -1)
    scales = sg.cat([tau, sg.zeros((*batch, m - k), dtype=a.dtype, device=a.device)], -1)
    q = L.householder_product(whole, scales)
    q = q.mT.conj() if transpose else q
    return q @ b if left else b @ q


@kernel("geqrf")
def geqrf(a: Tensor) -> Any:
    """R above the diagonal, Householder vectors below it, and their scales: one column after another."""
    m, n = a.shape[-2:]
    scales, rows = [], sg.arange(m, device=a.device)
    for k in range(min(m, n)):
        column = a[..., k]
        below = sg.where(rows > k, column, 0.0)
        alpha, rest = column[..., k], (below * below).sum(-1)
        is_done = rest == 0
        beta = -sg.copysign((alpha * alpha + rest).sqrt(), alpha)
        tau = sg.where(is_done, 0.0, (beta - alpha) / sg.where(is_done, 1.0, beta))
        v = below / sg.where(is_done, 1.0, alpha - beta).unsqueeze(-1) + (rows == k).to(a.dtype)
        right = a[..., k:]
        moved = right - tau[..., None, None] * v.unsqueeze(-1) * (v.unsqueeze(-2) @ right)
        first = sg.where(rows > k, v, moved[..., 0])
        a = sg.cat([a[..., :k], first.unsqueeze(-1), moved[..., 1:]], -1)
        scales.append(tau)
    return a, sg.stack(scales, -1) if scales else sg.zeros((*a.shape[:-2], 0), dtype=a.dtype, device=a.device)
