"""Inverses, systems of equations, determinants and the exponential: LAPACK's values, gradients in tensors.

In: batches of matrices (*, m, n), floating. The gradients are those of Giles, 2008, "Collected matrix derivative results", and
of Golub and Pereyra, 1973, for the pseudoinverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LinAlgError
from ..host_operations import HostOperation, packed, unpacked
from ..system.browser import Late
from ..tensor import cat, eye

lapack = Late("scipy.linalg")


def identity_like(x: Any) -> Any:
    """The identity of the size of the last axis of x."""
    return eye(x.shape[-1], dtype=x.dtype, device=x.device)


def singular(name: str) -> LinAlgError:
    """The error for a singular matrix."""
    return LinAlgError(f"linalg.{name}: The diagonal element is zero, the matrix is singular and has no inverse.")


@dataclass(frozen=True, eq=False)
class Inverse(HostOperation):
    """The inverse of (*, n, n). strict: raise for a singular matrix; else its inverse holds inf and NaN."""

    kind = "host"
    may_fail = True
    strict: bool = True

    def numpy(self, a):  # type: ignore[override]
        try:
            return np.linalg.inv(a)
        except np.linalg.LinAlgError:
            if self.strict:
                raise singular("inv") from None
        return _each(_inverse_or_nan, a)

    def gradient(self, g, result, a):  # type: ignore[override]
        back = result.mT
        return -(back @ g @ back)


def _inverse_or_nan(a: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan)


def _each(function: Any, *arrays: np.ndarray) -> np.ndarray:
    """Apply a function of one matrix to each of a batch."""
    batch = arrays[0].shape[:-2]
    if not batch:
        return function(*arrays)
    flat = [a.reshape(-1, *a.shape[-2:]) for a in arrays]
    if not flat[0].shape[0]:
        result = function(*(np.zeros(a.shape[1:], a.dtype) + np.eye(*a.shape[1:], dtype=a.dtype) for a in flat))
        return np.zeros((*batch, *result.shape), result.dtype)
    done = np.stack([function(*parts) for parts in zip(*flat, strict=True)])
    return done.reshape(*batch, *done.shape[1:])


@dataclass(frozen=True, eq=False)
class Solve(HostOperation):
    """X of A X = B: a (*, n, n), b (*, n, k)."""

    kind = "host"
    may_fail = True

    def infer(self, *inputs):
        return inputs[1].shape, inputs[1].dtype

    def numpy(self, a, b):  # type: ignore[override]
        try:
            return np.linalg.solve(a, b)
        except np.linalg.LinAlgError:
            raise singular("solve") from None

    def gradient(self, g, result, a, b):  # type: ignore[override]
        of_b = Solve()(a.mT, g)
        return -(of_b @ result.mT), of_b


@dataclass(frozen=True, eq=False)
class SolveTriangular(HostOperation):
    """X of A X = B, where of a (*, n, n) one triangle is read; b (*, n, k)."""

    kind = "host"
    upper: bool
    unitriangular: bool

    def infer(self, *inputs):
        return inputs[1].shape, inputs[1].dtype

    def numpy(self, a, b):  # type: ignore[override]
        if not b.size:
            return np.zeros_like(b)
        diagonal = np.ones(a.shape[-1], bool) if self.unitriangular else np.diagonal(a, axis1=-2, axis2=-1) != 0
        if not diagonal.all():  # as LAPACK without its check: infinities
            with np.errstate(all="ignore"):
                return _each(self._substituted, a, b)
        return _each(self._solved, a, b)

    def _solved(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = lapack.solve_triangular(
            a, b, lower=not self.upper, unit_diagonal=self.unitriangular, check_finite=False
        )
        return np.asarray(found, b.dtype)

    def _substituted(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x = b.copy()
        for k in range(len(x))[:: -1 if self.upper else 1]:
            later = slice(k + 1, None) if self.upper else slice(0, k)
            x[k] = (b[k] - a[k, later] @ x[later]) / a[k, k]
        return x

    def gradient(self, g, result, a, b):  # type: ignore[override]
        of_b = SolveTriangular(not self.upper, self.unitriangular)(a.mT, g)
        whole = -(of_b @ result.mT)
        edge = 1 if self.unitriangular else 0
        return (whole.triu(edge) if self.upper else whole.tril(-edge)), of_b


@dataclass(frozen=True, eq=False)
class Determinant(HostOperation):
    """The determinants of (*, n, n): (*)."""

    kind = "host"

    def infer(self, *inputs):
        return inputs[0].shape[:-2], inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        return np.asarray(np.linalg.det(a), a.dtype)

    def gradient(self, g, result, a):  # type: ignore[override]
        return g.unsqueeze(-1).unsqueeze(-1) * Cofactors()(a)


@dataclass(frozen=True, eq=False)
class Cofactors(HostOperation):
    """The derivative of the determinant: det(A) A^-T where there is an inverse, and finite if there is none."""

    kind = "host"

    def numpy(self, a):  # type: ignore[override]
        n = a.shape[-1]
        u, s, vh = np.linalg.svd(a)
        others = np.stack([np.prod(np.delete(s, k, -1), -1) for k in range(n)], -1) if n else s
        sign = np.linalg.det(u) * np.linalg.det(vh)
        return np.asarray((u * (others * sign[..., None])[..., None, :]) @ vh, a.dtype)

    def gradient(self, g, result, a):  # type: ignore[override]
        back = Inverse(False)(a).mT
        inner = (g * back).sum((-2, -1), keepdim=True)
        return result * inner - result @ g.mT @ back


@dataclass(frozen=True, eq=False)
class SignAndLogDeterminant(HostOperation):
    """The signs of the determinants of (*, n, n) and the logarithms of their sizes, packed: (*, 2)."""

    kind = "host"

    def infer(self, *inputs):
        return (*inputs[0].shape[:-2], 2), inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        sign, logarithm = np.linalg.slogdet(a)
        return packed([sign, logarithm], a.shape[:-2], a.dtype)

    def gradient(self, g, result, a):  # type: ignore[override]
        _, of_logarithm = unpacked(g, [(), ()])
        return of_logarithm.unsqueeze(-1).unsqueeze(-1) * Inverse(False)(a).mT


@dataclass(frozen=True, eq=False)
class PseudoInverse(HostOperation):
    """Moore and Penrose's inverse of (*, m, n): (*, n, m).

    Singular values not above max(atol, rtol * the largest) count as 0. hermitian: a is symmetric.
    """

    kind = "host"
    atol: float
    rtol: float
    hermitian: bool = False

    def infer(self, *inputs):
        *batch, m, n = inputs[0].shape
        return (*batch, n, m), inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        if not a.size:
            return np.zeros(self._shape(a), a.dtype)
        if self.hermitian:
            w, v = np.linalg.eigh(a)
            u, s, vh = v, np.abs(w), np.sign(w)[..., :, None] * np.swapaxes(v, -1, -2)
        else:
            u, s, vh = np.linalg.svd(a, full_matrices=False)
        kept = s > np.maximum(self.atol, self.rtol * s.max(-1, keepdims=True))
        inverted = np.where(kept, 1 / np.where(kept, s, 1), 0)
        return np.asarray(np.swapaxes(vh, -1, -2) @ (inverted[..., :, None] * np.swapaxes(u, -1, -2)), a.dtype)

    @staticmethod
    def _shape(a: np.ndarray) -> tuple[int, ...]:
        return (*a.shape[:-2], a.shape[-1], a.shape[-2])

    def gradient(self, g, result, a):  # type: ignore[override]
        p, pt = result, result.mT
        rows = identity_like(p) - a @ p
        columns = identity_like(a) - p @ a
        return -(pt @ g @ pt) + rows @ g.mT @ p @ pt + pt @ p @ g.mT @ columns


@dataclass(frozen=True, eq=False)
class MatrixExponential(HostOperation):
    """e to the power of each matrix of (*, n, n); Al-Mohy and Higham, 2009."""

    kind = "host"

    def numpy(self, a):  # type: ignore[override]
        return np.asarray(_each(lapack.expm, a), a.dtype) if a.size else a

    def gradient(self, g, result, a):  # type: ignore[override]
        n = a.shape[-1]
        top = cat([a.mT, g], -1)
        bottom = cat([a * 0, a.mT], -1)
        return MatrixExponential()(cat([top, bottom], -2))[..., :n, n:]
