"""Decompositions: LAPACK's values, several results packed into one, gradients in tensors.

In: batches of matrices (*, m, n), floating. Gradients: Giles, 2008; of QR and SVD, Townsend, 2016, "Differentiating the singular
value decomposition", and Liao, 2019, "Differentiable programming tensor networks".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import int32
from ..errors import LinAlgError
from ..host_operations import HostOperation, packed, unpacked
from ..system.browser import Late
from ..tensor import cat, eye, where
from .solving import SolveTriangular, identity_like

lapack = Late("scipy.linalg")


def symmetric(x: Any) -> Any:
    """(X + X^T) / 2."""
    return (x + x.mT) * 0.5


def quotient(numerator: Any, denominator: Any) -> Any:
    """Division in which 0 / 0 is 0: degenerate values pass no gradient where none arrives."""
    none = numerator == 0
    return where(none, 0.0, numerator / where(none, 1.0, denominator))


def differences(x: Any) -> Any:
    """x[j] - x[i] at (i, j), with 1 on the diagonal."""
    return x.unsqueeze(-2) - x.unsqueeze(-1) + identity_like(x)


@dataclass(frozen=True, eq=False)
class Cholesky(HostOperation):
    """L, lower, of A = L L^T: the lower triangle of a (*, n, n) is read. strict: else NaN where A is not positive definite."""

    kind = "host"
    may_fail = True
    strict: bool = True

    def numpy(self, a):  # type: ignore[override]
        try:
            return np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            if self.strict:
                raise LinAlgError(
                    "linalg.cholesky: The factorization could not be completed because the input is not positive-definite."
                ) from None
        flat = a.reshape(-1, *a.shape[-2:])
        return np.stack([_cholesky_or_nan(m) for m in flat]).reshape(a.shape)

    def gradient(self, g, result, a):  # type: ignore[override]
        inner = (result.mT @ g).tril()
        inner = inner - (inner * identity_like(a)) * 0.5
        left = SolveTriangular(True, False)(result.mT, inner)
        return symmetric(SolveTriangular(True, False)(result.mT, left.mT))


def _cholesky_or_nan(a: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan)


@dataclass(frozen=True, eq=False)
class Eig(HostOperation):
    """Eigenvalues, eigenvectors as columns of length 1, and the inverse of these, of a (*, n, n): complex, packed.

    The inverse is for the gradient; it is NaN where there are fewer than n eigenvectors.
    """

    kind = "host"

    def infer(self, a):  # type: ignore[override]
        n = a.shape[-1]
        return (*a.shape[:-2], n + 2 * n * n), a.dtype.complex

    def numpy(self, a):  # type: ignore[override]
        if not np.isfinite(a).all():
            raise LinAlgError("linalg.eig: input tensor should not contain infs or NaNs.")
        values, vectors = np.linalg.eig(a)
        return packed([values, vectors, _inverse_or_nan(vectors)], a.shape[:-2], np.result_type(a.dtype, np.complex64))

    def gradient(self, g, result, a):  # type: ignore[override]
        n = a.shape[-1]
        shapes = [(n,), (n, n), (n, n)]
        values, vectors, inverse = unpacked(result, shapes)
        of_values, of_vectors, of_inverse = unpacked(g, shapes)
        adjoint, back = vectors.mH, inverse.mH
        inner = adjoint @ (of_vectors - back @ of_inverse @ back)
        one = identity_like(a).to(dtype=values.dtype)
        lengths = (inner * one).sum(-1).real.to(dtype=values.dtype)  # eigenvectors keep unit norm
        inner = inner - adjoint @ (vectors * lengths.unsqueeze(-2))
        apart = (values.unsqueeze(-2) - values.unsqueeze(-1)).conj() + one
        inner = inner * (1 - one) / apart + one * of_values.unsqueeze(-2)
        return (back @ inner @ adjoint).real


def _inverse_or_nan(a: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan)


@dataclass(frozen=True, eq=False)
class Qr(HostOperation):
    """Q and R of A = Q R, packed. complete: Q is square."""

    kind = "host"
    complete: bool = False

    def shapes(self, m: int, n: int) -> list[tuple[int, ...]]:
        """The shapes of Q and R."""
        k = m if self.complete else min(m, n)
        return [(m, k), (k, n)]

    def infer(self, *inputs):
        *batch, m, n = inputs[0].shape
        return (*batch, sum(a * b for a, b in self.shapes(m, n))), inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        q, r = np.linalg.qr(a, "complete" if self.complete else "reduced")
        return packed([q, r], a.shape[:-2], a.dtype)

    def gradient(self, g, result, a):  # type: ignore[override]
        m, n = a.shape[-2:]
        if self.complete and m > n:
            raise LinAlgError(
                "The QR decomposition is not differentiable when mode='complete' and nrows > ncols. Hint: mode='reduced'."
            )
        shapes = self.shapes(m, n)
        (q, r), (gq, gr) = unpacked(result, shapes), unpacked(g, shapes)
        if m >= n:
            return _qr_gradient(q, r, gq, gr)
        rest = q @ gr[..., m:]
        first = _qr_gradient(q, r[..., :m], gq + a[..., m:] @ gr[..., m:].mT, gr[..., :m])
        return cat([first, rest], -1)


def _qr_gradient(q: Any, r: Any, gq: Any, gr: Any) -> Any:
    """Of A (m, n) = Q R, m >= n: (Q sym(triu(M)) + gQ) R^-T, where M = gR R^T - Q^T gQ."""
    upper = (gr @ r.mT - q.mT @ gq).triu()
    inner = upper + upper.mT
    inner = inner - inner * identity_like(inner) * 0.5
    whole = q @ inner + gq
    return SolveTriangular(True, False)(r, whole.mT).mT


@dataclass(frozen=True, eq=False)
class Svd(HostOperation):
    """U, the singular values and V^T, packed. full: U and V are square; their further columns have no gradient."""

    kind = "host"
    may_fail = True
    full: bool = False

    def shapes(self, m: int, n: int) -> list[tuple[int, ...]]:
        """The shapes of U, S and V^T."""
        k = min(m, n)
        return [(m, m), (k,), (n, n)] if self.full else [(m, k), (k,), (k, n)]

    def infer(self, *inputs):
        *batch, m, n = inputs[0].shape
        sizes = [int(np.prod(s, dtype=np.int64)) for s in self.shapes(m, n)]
        return (*batch, sum(sizes)), inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        try:
            found = np.linalg.svd(a, full_matrices=self.full)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"linalg.svd: The algorithm failed to converge: {error}.") from None
        return packed(list(found), a.shape[:-2], a.dtype)

    def gradient(self, g, result, a):  # type: ignore[override]
        m, n = a.shape[-2:]
        k = min(m, n)
        shapes = self.shapes(m, n)
        (u, s, vh), (gu, gs, gvh) = unpacked(result, shapes), unpacked(g, shapes)
        u, gu, vh, gvh = u[..., :k], gu[..., :k], vh[..., :k, :], gvh[..., :k, :]
        gaps = (s.unsqueeze(-2) - s.unsqueeze(-1)) * (s.unsqueeze(-2) + s.unsqueeze(-1)) + identity_like(s)
        of_u, of_v = u.mT @ gu, vh @ gvh.mT
        inner = quotient(of_u - of_u.mT, gaps) * s.unsqueeze(-2)
        inner = inner + s.unsqueeze(-1) * quotient(of_v - of_v.mT, gaps) + gs.unsqueeze(-1) * identity_like(s)
        whole = u @ inner @ vh
        if m > k:
            scaled = quotient(gu, s.unsqueeze(-2).expand(gu.shape))
            whole = whole + (scaled - u @ (u.mT @ scaled)) @ vh
        if n > k:
            scaled = quotient(gvh, s.unsqueeze(-1).expand(gvh.shape))
            whole = whole + u @ (scaled - (scaled @ vh.mT) @ vh)
        return whole


@dataclass(frozen=True, eq=False)
class SingularValues(HostOperation):
    """The singular values alone, (*, min(m, n)): differentiable where some are equal, too."""

    kind = "host"
    may_fail = True

    def infer(self, *inputs):
        *batch, m, n = inputs[0].shape
        return (*batch, min(m, n)), inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        try:
            return np.asarray(np.linalg.svd(a, compute_uv=False), a.dtype)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"linalg.svdvals: The algorithm failed to converge: {error}.") from None

    def gradient(self, g, result, a):  # type: ignore[override]
        svd = Svd()
        u, _, vh = unpacked(svd(a), svd.shapes(*a.shape[-2:]))
        return (u * g.unsqueeze(-2)) @ vh


@dataclass(frozen=True, eq=False)
class Eigh(HostOperation):
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices, packed. upper: which triangle is read."""

    kind = "host"
    may_fail = True
    upper: bool = False

    def infer(self, *inputs):
        *batch, n, _ = inputs[0].shape
        return (*batch, n * (n + 1)), inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        try:
            found = np.linalg.eigh(a, "U" if self.upper else "L")
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"linalg.eigh: The algorithm failed to converge: {error}.") from None
        return packed(list(found), a.shape[:-2], a.dtype)

    def gradient(self, g, result, a):  # type: ignore[override]
        n = a.shape[-1]
        (w, v), (gw, gv) = (unpacked(x, [(n,), (n, n)]) for x in (result, g))
        turned = v.mT @ gv
        inner = quotient(turned * (1 - identity_like(w)), differences(w)) + gw.unsqueeze(-1) * identity_like(w)
        return v @ inner @ v.mT


@dataclass(frozen=True, eq=False)
class SymmetricEigenvalues(HostOperation):
    """The eigenvalues of symmetric matrices alone, ascending, (*, n): differentiable where some are equal, too."""

    kind = "host"
    may_fail = True
    upper: bool = False

    def infer(self, *inputs):
        return inputs[0].shape[:-1], inputs[0].dtype

    def numpy(self, a):  # type: ignore[override]
        try:
            return np.asarray(np.linalg.eigvalsh(a, "U" if self.upper else "L"), a.dtype)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"linalg.eigvalsh: The algorithm failed to converge: {error}.") from None

    def gradient(self, g, result, a):  # type: ignore[override]
        n = a.shape[-1]
        _, v = unpacked(Eigh(self.upper)(a), [(n,), (n, n)])
        return (v * g.unsqueeze(-2)) @ v.mT


def _lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """LAPACK's getrf of each matrix: L and U packed in one matrix, and the pivot rows, zero-based."""
    *batch, m, n = a.shape
    factors = np.zeros((int(np.prod(batch, dtype=np.int64)), m, n), a.dtype)
    pivots = np.zeros((len(factors), min(m, n)), np.int32)
    if factors.size:
        (getrf,) = lapack.get_lapack_funcs(("getrf",), dtype=a.dtype)
        for k, matrix in enumerate(a.reshape(-1, m, n)):
            factors[k], pivots[k], _ = getrf(matrix)
    return factors.reshape(*batch, m, n), pivots.reshape(*batch, min(m, n))


@dataclass(frozen=True, eq=False)
class LuPivots(HostOperation):
    """The pivot rows of partial pivoting, one-based as LAPACK's: int32 (*, min(m, n))."""

    kind = "host"
    differentiable = False

    def infer(self, *inputs):
        *batch, m, n = inputs[0].shape
        return (*batch, min(m, n)), int32

    def numpy(self, a):  # type: ignore[override]
        return _lu(a)[1] + np.int32(1)


@dataclass(frozen=True, eq=False)
class LuFactors(HostOperation):
    """L and U of P A = L U in one matrix (*, m, n); the permutation comes from LuPivots."""

    kind = "host"

    def numpy(self, a):  # type: ignore[override]
        return _lu(a)[0]

    def gradient(self, g, result, a):  # type: ignore[override]
        m, n = a.shape[-2:]
        k = min(m, n)
        lower = result[..., :k].tril(-1) + eye(m, k, dtype=a.dtype, device=a.device)
        upper = result[..., :k, :].triu()
        gl, gu = g[..., :k].tril(-1), g[..., :k, :].triu()
        square_l, square_u = lower[..., :k, :], upper[..., :k]
        parts_l, parts_u = gl[..., :k, :], gu[..., :k]
        rest = None
        if n > k:  # U = [U1, L^-1 A2]
            rest = SolveTriangular(True, True)(square_l.mT, gu[..., k:])
            parts_l = parts_l - (rest @ upper[..., k:].mT).tril(-1)
        if m > k:  # L = [L1; A2 U^-1]
            rest = SolveTriangular(True, False)(square_u, gl[..., k:, :].mT).mT
            parts_u = parts_u - (lower[..., k:, :].mT @ rest).triu()
        inner = (square_l.mT @ parts_l).tril(-1) + (parts_u @ square_u.mT).triu()
        left = SolveTriangular(True, True)(square_l.mT, inner)
        whole = SolveTriangular(True, False)(square_u, left.mT).mT
        if rest is not None:
            whole = cat([whole, rest], -1 if n > k else -2)
        return permutation(LuPivots()(a), m, a.dtype) @ whole


@dataclass(frozen=True, eq=False)
class Permutation(HostOperation):
    """The matrices P of A = P L U, (*, m, m), of pivots (*, k)."""

    kind = "host"
    differentiable = False
    size: int
    dtype: Any

    def infer(self, *inputs):
        return (*inputs[0].shape[:-1], self.size, self.size), self.dtype

    def numpy(self, pivots):  # type: ignore[override]
        batch = pivots.shape[:-1]
        rows = np.tile(np.arange(self.size), (int(np.prod(batch, dtype=np.int64)), 1))
        for order, exchanged in zip(rows, pivots.reshape(len(rows), pivots.shape[-1]), strict=True):
            for k, other in enumerate(exchanged):
                order[[k, other - 1]] = order[[other - 1, k]]
        eyes = np.eye(self.size, dtype=self.dtype.numpy)[rows]  # row i of P^T A is row order[i] of A
        return np.swapaxes(eyes, -1, -2).reshape(*batch, self.size, self.size)


def permutation(pivots: Any, size: int, dtype: Any) -> Any:
    """P of A = P L U."""
    return Permutation(size, dtype)(pivots)
