"""Equations, inverses, determinants and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..arguments import checked, checked_with_out
from ..dtypes import FloatLimits, int32, int64
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor, cat, check_axis, common_shape, eye, where, zeros
from ..tensor.precision import policy
from .arguments import check_floating, check_matrices, check_square, same_batch
from .factorizations import SingularValues
from .norms import matrix_rank
from .solving import (
    Determinant,
    Inverse,
    MatrixExponential,
    PseudoInverse,
    SignAndLogDeterminant,
    Solve,
    SolveTriangular,
    identity_like,
)


class InvEx(NamedTuple):
    """The result of `inv_ex`."""

    inverse: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    """The result of `solve_ex`."""

    result: Tensor
    info: Tensor


class Slogdet(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class Lstsq(NamedTuple):
    """The result of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _info(result: Tensor, batch_axes: int) -> Tensor:
    """The info of each matrix: 0, or 1 where the result is NaN throughout."""
    axes = tuple(range(batch_axes, result.ndim))
    bad = ~result.detach().isfinite()
    return (bad.any(axes[0]) if len(axes) == 1 else bad.flatten(batch_axes).any(-1)).to(int32)


@checked_with_out
def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices (*, n, n).

    Raises LinAlgError for a singular one, ShapeError for matrices that are not square, DTypeError for a dtype that is not floating.

    >>> sg.linalg.inv(sg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    check_square("linalg.inv", A)
    return Inverse()(A)


@checked_with_out
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx:
    """(inverse, info): info is not 0 for matrices that have none, whose inverse is NaN. check_errors: raise LinAlgError.

    >>> sg.linalg.inv_ex(sg.tensor([[2.0]])).info
    tensor(0)
    """
    check_square("linalg.inv_ex", A)
    found = Inverse(check_errors)(A)
    return InvEx(found, _info(found, A.ndim - 2))


def _as_columns(what: str, A: Tensor, B: Tensor) -> bool:
    """Whether B is a vector, or a batch of vectors, one for each matrix."""
    return B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))


@checked_with_out
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B, or of X A = B where not left. A (*, n, n); B (*, n, k), or (*, n) where batches are equal, or (n,).

    Raises LinAlgError for a singular A, ShapeError where sizes do not fit, DTypeError for a dtype that is not floating.

    >>> sg.linalg.solve(sg.tensor([[2.0, 0.0], [0.0, 4.0]]), sg.tensor([2.0, 2.0]))
    tensor([1. , 0.5])
    """
    what = "linalg.solve"
    check_square(what, A)
    check_floating(what, A, B)
    if B.ndim == 0:
        raise ShapeError(f"{what}: Expected B to have at least 1 dimension, but it has 0.")
    vectors = _as_columns(what, A, B)
    if vectors and not left:
        raise ShapeError(f"{what}: Vector broadcasting of the left hand side is not supported for left=False")
    columns = B.unsqueeze(-1) if vectors else B
    if columns.shape[-2 if left else -1] != A.shape[-1]:
        raise ShapeError(
            f"{what}: Incompatible shapes of A and B for the equation: {tuple(A.shape)}, {tuple(B.shape)}."
        )
    a, b = same_batch(A, columns)
    found = Solve()(a, b) if left else Solve()(a.mT, b.mT).mT
    return found.squeeze(-1) if vectors else found


@checked_with_out
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """(result, info): `solve`, with info 0 for each matrix. Raises LinAlgError for a singular A.

    >>> sg.linalg.solve_ex(sg.tensor([[2.0]]), sg.tensor([4.0])).result
    tensor([2.])
    """
    found = solve(A, B, left=left)
    return SolveEx(found, zeros(A.shape[:-2], dtype=int32, device=A.device))


@checked_with_out
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X of A X = B (X A = B where not left), where of A (*, n, n) one triangle alone is read. B (*, n, k).

    unitriangular: the diagonal counts as ones. Raises ShapeError if sizes do not fit.

    >>> A = sg.tensor([[2.0, 1.0], [0.0, 4.0]])
    >>> sg.linalg.solve_triangular(A, sg.tensor([[4.0], [4.0]]), upper=True)
    tensor([[1.5],
            [1. ]])
    """
    what = "linalg.solve_triangular"
    check_square(what, A)
    check_matrices(what, B, "B")
    check_floating(what, A, B)
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise ShapeError(
            f"{what}: Incompatible shapes of A and B for the equation: {tuple(A.shape)}, {tuple(B.shape)}."
        )
    a, b = same_batch(A, B)
    if left:
        return SolveTriangular(upper, unitriangular)(a, b)
    return SolveTriangular(not upper, unitriangular)(a.mT, b.mT).mT


@checked_with_out
def det(A: Tensor) -> Tensor:
    """The determinant of square matrices (*, n, n): (*).

    >>> sg.linalg.det(sg.tensor([[1.0, 2.0], [3.0, 4.0]])).round(decimals=4)
    tensor(-2.)
    """
    check_square("linalg.det", A)
    return Determinant()(A)


@checked_with_out
def slogdet(A: Tensor) -> Slogdet:
    """(sign, logabsdet) of the determinant of square matrices; 0 and -inf where it is 0. The gradient of the sign is 0.

    >>> sg.linalg.slogdet(sg.tensor([[-2.0]])).sign
    tensor(-1.)
    """
    check_square("linalg.slogdet", A)
    both = SignAndLogDeterminant()(A)
    return Slogdet(both[..., 0], both[..., 1])


@checked_with_out
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The pseudoinverse of (*, m, n): (*, n, m). Singular values not above max(atol, rtol * the largest) count as 0.

    rtol: by default max(m, n) times eps, where no atol is given. rcond is its older name. hermitian: A is symmetric.
    The tolerances are numbers. Raises ShapeError for tensors without two axes.

    >>> sg.linalg.pinv(sg.tensor([[1.0], [1.0]]))
    tensor([[0.5, 0.5]])
    """
    what = "linalg.pinv"
    check_matrices(what, A) if not hermitian else check_square(what, A)
    absolute = 0.0 if atol is None else _number(what, "atol", atol)
    relative = rtol if rtol is not None else rcond
    if relative is None:
        relative = 0.0 if absolute > 0 else max(A.shape[-2:]) * float(FloatLimits.of(A.dtype).eps)
    return PseudoInverse(absolute, _number(what, "rtol", relative), hermitian)(A)


def _number(what: str, name: str, value: Any) -> float:
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ArgumentError(
            f"{what}: {name} is one number here, not a tensor of {value.numel()}. Hint: loop over the batch."
        )
    return float(value)


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _least_counted(A: Tensor, rcond: float | None, driver: str) -> float:
    """The part of the largest singular value up to which others count as 0, by the rules of each LAPACK driver."""
    eps = float(FloatLimits.of(A.dtype).eps)
    if rcond is None or driver == "gels":
        return max(A.shape[-2:]) * eps
    part = float(rcond)
    if driver == "gelsd":
        return part if 0 < part < 1 else eps
    if driver == "gelss":
        return part if part >= 0 else eps
    return max(part, 0.0) if part < 1 else 1 - eps  # the pivot always counts


@checked_with_out
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Lstsq:
    """The X (*, n, k) that makes the sum of squares of A X - B least, the smallest such X; A (*, m, n), B (*, m, k).

    Also the sums of squares (but for the driver 'gelsy', which is the default; where m > n and A has full rank), the rank of A (but for the driver 'gels') and its singular
    values (for 'gelsd' and 'gelss'); else those are empty. The solution is differentiable. rcond: singular values below
    that part of the largest count as 0, by default max(m, n) times eps. As in LAPACK, 'gels' ignores it, 'gelsd' takes eps
    where it is not between 0 and 1, and for 'gelsy' the largest singular value always counts.

    >>> sg.linalg.lstsq(sg.tensor([[1.0], [1.0]]), sg.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """
    what = "linalg.lstsq"
    check_matrices(what, A)
    check_floating(what, A, B)
    driver = driver or "gelsy"
    if driver not in DRIVERS:
        raise ArgumentError(f"{what}: parameter `driver` should be one of {', '.join(DRIVERS)}, but it is {driver!r}.")
    vectors = B.ndim == A.ndim - 1
    b = B.unsqueeze(-1) if vectors else B
    if b.ndim < 2 or b.shape[-2] != A.shape[-2]:
        raise ShapeError(f"{what}: input.size(-2) should match other.size(-2): {tuple(A.shape)}, {tuple(B.shape)}.")
    a, b = same_batch(A, b)
    bound = _least_counted(A, rcond, driver)
    solution = PseudoInverse(0.0, bound, False)(a) @ b
    ranks = matrix_rank(a, rtol=bound)
    nothing = zeros(0, dtype=A.dtype, device=A.device)
    m, n = A.shape[-2:]
    residuals = solution.reshape(solution.numel())[:0]  # requires a gradient as the solution does
    if driver != "gelsy" and m > n and bool((ranks == n).all().item()):
        residuals = (a @ solution - b).square().sum(-2)
    found = solution.squeeze(-1) if vectors else solution
    values = SingularValues()(a.detach()) if driver in ("gelsd", "gelss") else nothing
    return Lstsq(found, residuals, zeros(0, dtype=int32) if driver == "gels" else ranks, values)


def _whatever(A: Tensor, value: Tensor) -> Tensor:
    """A constant of A that keeps A on the tape, with a gradient of zeros."""
    return where((A == A) | (A != A), value, A)


@checked_with_out
def matrix_power(A: Tensor, n: int) -> Tensor:
    """A (*, m, m) to the power of a whole number; below 0, of the inverse.

    >>> sg.linalg.matrix_power(sg.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    check_square("linalg.matrix_power", A)
    if n < 0:
        return matrix_power(Inverse()(A), -n)
    if n == 0:
        return _whatever(A, identity_like(A))
    result = None
    power = A
    while True:
        if n & 1:
            result = power if result is None else result @ power
        n >>= 1
        if not n:
            return A.clone() if result is A or result is None else result
        power = power @ power


@checked
def matrix_exp(A: Tensor) -> Tensor:
    """e to the power of each square matrix (*, n, n).

    >>> sg.linalg.matrix_exp(sg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_square("linalg.matrix_exp", A)
    return MatrixExponential()(A)


@checked_with_out
@policy("multi_dot")
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices in the cheapest order; the first and the last may be vectors.

    Raises ShapeError for fewer than two, and where sizes do not fit.

    >>> sg.linalg.multi_dot([sg.ones(2, 3), sg.ones(3, 4), sg.ones(4)])
    tensor([12., 12.])
    """
    what = "multi_dot()"
    if len(tensors) < 2:
        raise ShapeError(f"{what}: expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0], tensors[-1]
    parts = [first.unsqueeze(0) if first.ndim == 1 else first, *tensors[1:-1]]
    parts.append(last.unsqueeze(1) if last.ndim == 1 else last)
    for k, x in enumerate(parts):
        if x.ndim != 2:
            raise ShapeError(
                f"{what}: tensor {k} must be 2D (the first and the last 1D or 2D) but got {tensors[k].ndim}D"
            )
        if k and parts[k - 1].shape[1] != x.shape[0]:
            raise ShapeError(
                f"{what}: tensors {k - 1} and {k} with shapes {list(parts[k - 1].shape)} and {list(x.shape)} cannot be "
                "multiplied"
            )
    sizes = [parts[0].shape[0], *(x.shape[1] for x in parts)]
    found = _product(parts, _splits(sizes), 0, len(parts) - 1)
    shape = [*(() if first.ndim == 1 else (sizes[0],)), *(() if last.ndim == 1 else (sizes[-1],))]
    return found.reshape(*shape)


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of a chain of products so that it costs least."""
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    best: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            prices = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i, j] = min(prices)
            best[i, j] = i + prices.index(cost[i, j])
    return best


def _product(parts: list[Tensor], splits: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return parts[i]
    k = splits[i, j]
    return _product(parts, splits, i, k) @ _product(parts, splits, k + 1, j)


@checked_with_out
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross products of vectors of three along `dim`; the two broadcast. Raises ShapeError for other sizes.

    >>> sg.linalg.cross(sg.tensor([1.0, 0.0, 0.0]), sg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise ShapeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = check_axis(dim, input.ndim, "linalg.cross")
    if input.ndim == 0 or input.shape[axis] != 3 or other.shape[axis] != 3:
        raise ShapeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {tuple(input.shape)} and {tuple(other.shape)}."
        )
    shape = common_shape(tuple(input.shape), tuple(other.shape))
    a, b = input.expand(*shape), other.expand(*shape)
    return a.roll(-1, axis) * b.roll(-2, axis) - a.roll(-2, axis) * b.roll(-1, axis)


@checked_with_out
@policy("vecdot")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of products along an axis; the two broadcast. x is conjugated where it is complex.

    >>> sg.linalg.vecdot(sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    return ((x.conj() if x.dtype.is_complex else x) * y).sum(dim)  # type: ignore[attr-defined]


@checked_with_out
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product, as `sg.matmul`.

    >>> sg.linalg.matmul(sg.ones(2, 3), sg.ones(3))
    tensor([3., 3.])
    """
    return input @ other


@checked
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as a view whose last axis runs along them.

    >>> sg.linalg.diagonal(sg.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return A.diagonal(offset, dim1, dim2)


@checked
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers of the elements, 0 to N - 1 along a new last axis; N is the size of the last axis if left out. Of integers in int64.

    >>> sg.linalg.vander(sg.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]], dtype=shadergrad.int64)
    """
    x = x if x.ndim else x.reshape(1)
    if x.dtype.category == 1:
        x = x.to(dtype=int64)
    count = x.shape[-1] if N is None else N
    if count <= 1 and N is not None:
        raise ShapeError(f"linalg.vander: N must be greater than 1, but it is {N}.")
    column = x.unsqueeze(-1)
    powers = [column * 0 + 1]
    for _ in range(count - 1):
        powers.append(powers[-1] * column)
    return cat(powers, -1)


@checked_with_out
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of reflections I - tau[k] v v^T, where v is column k of A (*, m, n), with 0 above
    and 1 on its diagonal. m >= n >= k; tau (*, k). Raises ShapeError for other sizes.

    >>> sg.linalg.householder_product(sg.tensor([[1.0], [0.0]]), sg.tensor([2.0]))
    tensor([[-1.],
            [ 0.]])
    """
    what = "linalg.householder_product"
    check_matrices(what, A)
    check_floating(what, A, tau)
    m, n = A.shape[-2:]
    if m < n:
        raise ShapeError(f"{what}: input.shape[-2] must be greater than or equal to input.shape[-1]: {tuple(A.shape)}.")
    if tau.ndim != A.ndim - 1 or tau.shape[-1] > n or tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise ShapeError(f"{what}: tau is {tuple(tau.shape)}, which does not fit A, {tuple(A.shape)}.")
    vectors = A.tril(-1) + eye(m, n, dtype=A.dtype, device=A.device)
    result = eye(m, n, dtype=A.dtype, device=A.device).expand(A.shape)
    for k in reversed(range(tau.shape[-1])):
        v = vectors[..., k : k + 1]
        result = result - tau[..., k : k + 1].unsqueeze(-1) * (v @ (v.mT @ result))
    return result if tau.shape[-1] else _whatever(A, result)


@checked_with_out
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a matrix whose rows are its first `ind` axes and whose columns are the others.

    >>> sg.linalg.tensorinv(sg.eye(4).reshape(4, 2, 2), ind=1).shape
    shadergrad.Size([2, 2, 4])
    """
    if ind <= 0:
        raise ShapeError("Expected a strictly positive integer for 'ind'")
    rows, columns = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(rows) != math.prod(columns):
        raise ShapeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), got {tuple(A.shape)}"
        )
    return inv(A.reshape(math.prod(rows), math.prod(columns))).reshape(*columns, *rows)


@checked_with_out
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X of tensordot(A, X, X.ndim) = B. dims: axes of A that are moved behind the others first.

    >>> sg.linalg.tensorsolve(sg.eye(4).reshape(2, 2, 4), sg.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    a = A
    if dims is not None:
        moved = [check_axis(d, A.ndim, "linalg.tensorsolve") for d in dims]
        a = A.permute(*(d for d in range(A.ndim) if d not in moved), *moved)
    shape = tuple(a.shape[B.ndim :])
    if math.prod(shape) != B.numel() or math.prod(a.shape[: B.ndim]) != B.numel():
        raise ShapeError(
            f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), got {tuple(a.shape)}"
        )
    return solve(a.reshape(B.numel(), B.numel()), B.reshape(-1)).reshape(*shape)
