"""The public decompositions. Their results are named tuples, as in PyTorch."""

from __future__ import annotations

from typing import NamedTuple

from ..arguments import checked_with_out
from ..dtypes import int32
from ..errors import ArgumentError, LinAlgError, ShapeError
from ..host_operations import unpacked
from ..tensor import Tensor, check_storable, eye, zeros
from .arguments import check_floating, check_matrices, check_square, same_batch
from .factorizations import (
    Cholesky,
    Eig,
    Eigh,
    LuFactors,
    LuPivots,
    Qr,
    SingularValues,
    Svd,
    SymmetricEigenvalues,
    permutation,
)
from .solving import SolveTriangular


class QrResult(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class SvdResult(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class CholeskyEx(NamedTuple):
    """The result of `cholesky_ex`."""

    L: Tensor
    info: Tensor


class LuFactorResult(NamedTuple):
    """The result of `lu_factor`."""

    LU: Tensor
    pivots: Tensor


class LuFactorEx(NamedTuple):
    """The result of `lu_factor_ex`."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LuResult(NamedTuple):
    """The result of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


@checked_with_out
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L, lower, of A = L L^T, for symmetric positive definite A (*, n, n); upper: L^T. One triangle of A is read.

    Raises LinAlgError if A is not positive definite, ShapeError if it is not square.

    >>> sg.linalg.cholesky(sg.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    check_square("linalg.cholesky", A)
    return Cholesky()(A.mT).mT if upper else Cholesky()(A)


@checked_with_out
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """(L, info): info is not 0 for matrices that are not positive definite, whose L is NaN. check_errors: LinAlgError.

    >>> sg.linalg.cholesky_ex(sg.tensor([[-1.0]])).info
    tensor(1)
    """
    check_square("linalg.cholesky_ex", A)
    found = Cholesky(check_errors)(A.mT if upper else A)
    info = found.detach().isnan().flatten(-2).any(-1).to(int32)
    return CholeskyEx(found.mT if upper else found, info)


@checked_with_out
def qr(A: Tensor, mode: str = "reduced") -> QrResult:
    """(Q, R) of A = Q R: Q has orthonormal columns, R is upper triangular; A (*, m, n).

    mode: 'reduced' (Q (*, m, k), k = min(m, n)), 'complete' (Q square; no gradient where m > n) or 'r' (no Q: it is empty).
    Raises ArgumentError for another mode.

    >>> sg.linalg.qr(sg.tensor([[0.0], [2.0]])).R.abs()
    tensor([[2.]])
    """
    check_matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"qr received unrecognized mode {mode!r} but expected one of 'reduced', 'r', or 'complete'")
    operation = Qr(mode == "complete")
    q, r = unpacked(operation(A), operation.shapes(*A.shape[-2:]))
    return QrResult(zeros(0, dtype=A.dtype, device=A.device) if mode == "r" else q, r)


@checked_with_out
def svd(A: Tensor, full_matrices: bool = True) -> SvdResult:
    """(U, S, Vh) of A = U diag(S) Vh; A (*, m, n), S (*, min(m, n)) descending, U and Vh orthogonal.

    full_matrices: U is (*, m, m) and Vh (*, n, n), of which only the parts that go with S have a gradient; else they are
    (*, m, k) and (*, k, n). Gradients of U and Vh are those of a loss that does not depend on their signs.

    >>> sg.linalg.svd(sg.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    check_matrices("linalg.svd", A)
    operation = Svd(full_matrices)
    return SvdResult(*unpacked(operation(A), operation.shapes(*A.shape[-2:])))


@checked_with_out
def svdvals(A: Tensor) -> Tensor:
    """The singular values of (*, m, n), descending: (*, min(m, n)). Differentiable where some are equal, too.

    >>> sg.linalg.svdvals(sg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    check_matrices("linalg.svdvals", A)
    return SingularValues()(A)


def _upper(what: str, UPLO: str) -> bool:
    if UPLO.upper() not in ("U", "L"):
        raise ArgumentError(f"{what}: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


@checked_with_out
def eig(A: Tensor) -> EigResult:
    """(eigenvalues, and eigenvectors of length 1, as columns) of real square A (*, n, n): complex, so on the cpu device.

    The phase of the vectors is arbitrary, and cotangents should not depend on it. The gradient is NaN if eigenvectors are
    missing. Raises LinAlgError for infinities and NaN.

    >>> sg.linalg.eig(sg.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    check_square("linalg.eig", A)
    n = A.shape[-1]
    check_storable(A.dtype.complex, str(A.device))
    values, vectors, _ = unpacked(Eig()(A), [(n,), (n, n), (n, n)])
    return EigResult(values, vectors)


@checked_with_out
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of real square A (*, n, n): complex, (*, n), on the cpu device, as `eig`.

    >>> sg.linalg.eigvals(sg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([2.+0.j, 1.+0.j])
    """
    check_square("linalg.eigvals", A)
    return eig(A).eigenvalues


@checked_with_out
def eigh(A: Tensor, UPLO: str = "L") -> EighResult:
    """(eigenvalues, ascending, and eigenvectors, as columns) of symmetric A (*, n, n), of which one triangle is read.

    >>> sg.linalg.eigh(sg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check_square("linalg.eigh", A)
    n = A.shape[-1]
    return EighResult(*unpacked(Eigh(_upper("linalg.eigh", UPLO))(A), [(n,), (n, n)]))


@checked_with_out
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric A (*, n, n), ascending: (*, n). Differentiable where some are equal, too.

    >>> sg.linalg.eigvalsh(sg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    check_square("linalg.eigvalsh", A)
    return SymmetricEigenvalues(_upper("linalg.eigvalsh", UPLO))(A)


@checked_with_out
def lu_factor(A: Tensor, *, pivot: bool = True) -> LuFactorResult:
    """(LU, pivots): L below the diagonal, U from it up, and the rows exchanged, from 1; for `lu_solve`. A (*, m, n).

    Raises ArgumentError for pivot=False, which LAPACK lacks.

    >>> sg.linalg.lu_factor(sg.tensor([[2.0, 1.0], [1.0, 1.0]])).LU
    tensor([[2. , 1. ],
            [0.5, 0.5]])
    """
    check_matrices("linalg.lu_factor", A)
    if not pivot:
        raise ArgumentError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    return LuFactorResult(LuFactors()(A), LuPivots()(A.detach()))


@checked_with_out
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LuFactorEx:
    """`lu_factor`, with info: the first place, from 1, where U has a 0 on its diagonal, or 0. check_errors: LinAlgError.

    >>> sg.linalg.lu_factor_ex(sg.tensor([[2.0]])).info
    tensor(0)
    """
    factors, pivots = lu_factor(A, pivot=pivot)
    zero = factors.detach().diagonal(0, -2, -1) == 0
    info = (zero.any(-1).int() * (zero.int().argmax(-1) + 1)) if zero.shape[-1] else zero.sum(-1).int()
    if check_errors and bool((info > 0).any().item()):
        raise LinAlgError("linalg.lu_factor_ex: a diagonal element of U is zero, the matrix is singular.")
    return LuFactorEx(factors, pivots, info.to(int32))


@checked_with_out
def lu(A: Tensor, *, pivot: bool = True) -> LuResult:
    """(P, L, U) of A = P L U: a permutation, unit lower and upper triangular matrices. A (*, m, n), k = min(m, n).

    >>> sg.linalg.lu(sg.tensor([[1.0, 1.0], [2.0, 1.0]])).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    factors, pivots = lu_factor(A, pivot=pivot)
    return lu_parts(factors, pivots)


def lu_parts(factors: Tensor, pivots: Tensor) -> LuResult:
    """P, L and U from the result of `lu_factor`."""
    m, n = factors.shape[-2:]
    k = min(m, n)
    lower = factors[..., :k].tril(-1) + eye(m, k, dtype=factors.dtype, device=factors.device)
    return LuResult(permutation(pivots, m, factors.dtype), lower, factors[..., :k, :].triu())


@checked_with_out
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X of A X = B (X A = B where not left), from the result of `lu_factor` of A; adjoint: of A^T X = B. B (*, n, k).

    >>> LU, pivots = sg.linalg.lu_factor(sg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> sg.linalg.lu_solve(LU, pivots, sg.tensor([[2.0], [2.0]]))
    tensor([[1. ],
            [0.5]])
    """
    what = "linalg.lu_solve"
    check_square(what, LU, "LU")
    check_matrices(what, B, "B")
    check_floating(what, LU, B)
    if B.shape[-2 if left else -1] != LU.shape[-1]:
        raise ShapeError(f"{what}: Incompatible shapes of LU and B: {tuple(LU.shape)}, {tuple(B.shape)}.")
    if not left:
        return lu_solve(LU, pivots, B.mT, adjoint=not adjoint).mT
    p, factors, b = same_batch(permutation(pivots, LU.shape[-1], LU.dtype), LU, B)
    if adjoint:
        inner = SolveTriangular(False, False)(factors.mT, b)
        return p @ SolveTriangular(True, True)(factors.mT, inner)
    inner = SolveTriangular(False, True)(factors, p.mT @ b)
    return SolveTriangular(True, False)(factors, inner)
