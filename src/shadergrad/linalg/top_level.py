"""PyTorch's older names of torch.linalg, as functions of the package and methods of tensors: sg.inverse(x), x.det(), ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..arguments import checked, checked_with_out
from ..dtypes import int32
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor, randn
from . import decompositions, functions, norms
from .arguments import check_floating, check_matrices, check_square, same_batch
from .solving import SolveTriangular, identity_like


class SvdUsv(NamedTuple):
    """The result of `sg.svd`: V, not its transpose."""

    U: Tensor
    S: Tensor
    V: Tensor


class TriangularSolve(NamedTuple):
    """The result of `triangular_solve`."""

    solution: Tensor
    cloned_coefficient: Tensor


@checked_with_out
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices, as `sg.linalg.inv`.

    >>> sg.inverse(sg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    return functions.inv(input)


@checked
def det(input: Tensor) -> Tensor:
    """The determinant of square matrices, as `sg.linalg.det`.

    >>> sg.det(sg.tensor([[2.0]]))
    tensor(2.)
    """
    return functions.det(input)


@checked
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant of square matrices: -inf where it is 0, NaN where it is negative.

    >>> sg.logdet(sg.eye(2))
    tensor(0.)
    """
    sign, logarithm = functions.slogdet(input)
    return logarithm + sign.detach().clamp(max=0.0).sqrt()


@checked
def slogdet(input: Tensor) -> functions.Slogdet:
    """(sign, logabsdet) of the determinant, as `sg.linalg.slogdet`.

    >>> sg.slogdet(sg.tensor([[-1.0]])).sign
    tensor(-1.)
    """
    return functions.slogdet(input)


@checked_with_out
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """L of A = L L^T, as `sg.linalg.cholesky`.

    >>> sg.cholesky(sg.tensor([[4.0]]))
    tensor([[2.]])
    """
    return decompositions.cholesky(input, upper=upper)


@checked_with_out
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X of A X = B, where B is the input (*, n, k) and A = L L^T (upper: L^T L).

    >>> sg.cholesky_solve(sg.tensor([[8.0]]), sg.tensor([[2.0]]))
    tensor([[2.]])
    """
    check_square("cholesky_solve", L, "L")
    check_matrices("cholesky_solve", input, "B")
    check_floating("cholesky_solve", input, L)
    if input.shape[-2] != L.shape[-1]:
        raise ShapeError(
            f"cholesky_solve: Incompatible matrix sizes: A is {L.shape[-1]} by {L.shape[-1]}, B {tuple(input.shape)}."
        )
    b, factor = same_batch(input, L)
    lower = factor.mT if upper else factor
    return SolveTriangular(True, False)(lower.mT, SolveTriangular(False, False)(lower, b))


@checked_with_out
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A = L L^T, of which L is the input.

    >>> sg.cholesky_inverse(sg.tensor([[2.0]]))
    tensor([[0.25]])
    """
    check_square("cholesky_inverse", input)
    return cholesky_solve(identity_like(input).expand(input.shape), input, upper)


@checked_with_out
def qr(input: Tensor, some: bool = True) -> decompositions.QrResult:
    """(Q, R), as `sg.linalg.qr`; some=False: with a square Q.

    >>> sg.qr(sg.tensor([[2.0]])).R.abs()
    tensor([[2.]])
    """
    return decompositions.qr(input, "reduced" if some else "complete")


@checked_with_out
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SvdUsv:
    """(U, S, V) of A = U diag(S) V^T. some=False: U and V are square. compute_uv=False: they are zeros.

    >>> sg.svd(sg.tensor([[2.0]])).S
    tensor([2.])
    """
    if not compute_uv:
        check_matrices("svd", input)
        *batch, m, n = input.shape
        return SvdUsv(input.new_zeros(*batch, m, m), decompositions.svdvals(input), input.new_zeros(*batch, n, n))
    u, s, vh = decompositions.svd(input, not some)
    return SvdUsv(u, s, vh.mT)


@checked
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudoinverse, as `sg.linalg.pinv`.

    >>> sg.pinverse(sg.tensor([[2.0], [0.0]]))
    tensor([[0.5, 0. ]])
    """
    return functions.pinv(input, rcond)


@checked_with_out
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A whole power of square matrices, as `sg.linalg.matrix_power`.

    >>> sg.matrix_power(sg.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    return functions.matrix_power(input, n)


@checked
def matrix_exp(input: Tensor) -> Tensor:
    """e to the power of square matrices, as `sg.linalg.matrix_exp`.

    >>> sg.matrix_exp(sg.zeros(1, 1))
    tensor([[1.]])
    """
    return functions.matrix_exp(input)


@checked_with_out
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """(X, A) of A X = B, or of A^T X = B, where B is the input, and of A one triangle is read.

    >>> sg.triangular_solve(sg.tensor([[4.0]]), sg.tensor([[2.0]])).solution
    tensor([[2.]])
    """
    a = A.mT if transpose else A
    found = functions.solve_triangular(a, input, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolve(found, A.clone())


@checked
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the cheapest order, as `sg.linalg.multi_dot`.

    >>> sg.chain_matmul(sg.ones(1, 2), sg.ones(2, 1))
    tensor([[2.]])
    """
    if not matrices:
        raise ShapeError("chain_matmul(): Expected one or more matrices")
    return matrices[0].clone() if len(matrices) == 1 else functions.multi_dot(matrices)


@checked_with_out
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X of A X = b (*, n, k), from what `sg.linalg.lu_factor` of A gave, as `sg.linalg.lu_solve`.

    >>> sg.lu_solve(sg.tensor([[4.0]]), *sg.linalg.lu_factor(sg.tensor([[2.0]])))
    tensor([[2.]])
    """
    return decompositions.lu_solve(LU_data, LU_pivots, b)


@checked_with_out
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> decompositions.LuResult:
    """(P, L, U) of A = P L U, from what `sg.linalg.lu_factor` of A gave; empty where they are not to be unpacked.

    >>> sg.lu_unpack(*sg.linalg.lu_factor(sg.tensor([[1.0, 1.0], [2.0, 1.0]]))).L
    tensor([[1. , 0. ],
            [0.5, 1. ]])
    """
    if LU_pivots.dtype is not int32:
        raise DTypeError(f"lu_unpack: LU_pivots is expected to be of int32, but it is of {LU_pivots.dtype.name}.")
    p, lower, upper = decompositions.lu_parts(LU_data, LU_pivots)
    nothing = LU_data.new_zeros(0)
    return decompositions.LuResult(
        p if unpack_pivots else nothing, lower if unpack_data else nothing, upper if unpack_data else nothing
    )


@checked_with_out
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots) of `sg.linalg.lu_factor`; with get_infos also its info, (LU, pivots, info).

    >>> sg.lu(sg.tensor([[2.0, 1.0], [1.0, 1.0]]))[0]
    tensor([[2. , 1. ],
            [0.5, 0.5]])
    """
    factors, pivots, info = decompositions.lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    return (factors, pivots, info) if get_infos else (factors, pivots)


@checked_with_out
def nuclear_norm(input: Tensor, dim: Sequence[int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values of the matrices in two axes, as `sg.linalg.matrix_norm` of order 'nuc'.

    >>> sg.nuclear_norm(sg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    return norms.matrix_norm(input, "nuc", dim, keepdim)


@checked
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> SvdUsv:
    """(U, S, V) of nearly A (*, m, n), or A - M: q singular values, by a drawn basis (Halko, Martinsson and Tropp, 2011).

    niter: how often the basis is improved. Raises ArgumentError unless 0 <= q <= min(m, n).

    >>> sg.svd_lowrank(sg.eye(4), q=2).S
    tensor([1., 1.])
    """
    check_matrices("svd_lowrank", A)
    x = A if M is None else A - M
    if not 0 <= q <= min(x.shape[-2:]):
        raise ArgumentError(
            f"svd_lowrank: q(={q}) must be a non-negative integer and not greater than {min(x.shape[-2:])}."
        )
    wide = x.shape[-2] < x.shape[-1]
    tall = x.mT if wide else x
    basis = decompositions.qr(tall @ randn(*tall.shape[:-2], tall.shape[-1], q, dtype=x.dtype, device=x.device)).Q
    for _ in range(niter):
        basis = decompositions.qr(tall @ decompositions.qr(tall.mT @ basis).Q).Q
    u, s, vh = decompositions.svd(basis.mT @ tall, full_matrices=False)
    u = basis @ u
    return SvdUsv(vh.mT, s, u) if wide else SvdUsv(u, s, vh.mT)


@checked
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> SvdUsv:
    """`svd_lowrank` of A (*, m, n) without the means of its columns: V holds the principal directions of m samples.

    q: 6 if left out, or the smaller size. center: False leaves the means.

    >>> sg.pca_lowrank(sg.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]]), q=1).S
    tensor([2.8284])
    """
    check_matrices("pca_lowrank", A)
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


METHODS = (
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "inverse", "logdet", "lu", "lu_solve", "matrix_exp", "matrix_power", "pinverse",
    "qr", "slogdet", "svd", "triangular_solve",
)  # fmt: skip
__all__ = [*METHODS, "chain_matmul", "lu_unpack", "nuclear_norm", "pca_lowrank", "svd_lowrank"]  # pyright: ignore[reportUnsupportedDunderAll]


def _method(name: str) -> Any:
    function: Any = globals()[name].__wrapped__

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return globals()[name](self, *args, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    return method


for _name in METHODS:
    setattr(Tensor, _name, _method(_name))
Tensor._nuclear_norm = nuclear_norm  # type: ignore[attr-defined]  # for `norm`, which stands below
