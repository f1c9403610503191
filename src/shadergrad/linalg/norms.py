"""Norms of vectors and matrices, condition numbers and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..arguments import checked_with_out
from ..dtypes import FloatLimits, parse_dtype
from ..errors import DTypeError, ShapeError
from ..tensor import Tensor, check_axis, where
from ..tensor import vector_norm as norm_of_vectors
from ..tensor.precision import policy
from .arguments import check_floating, check_matrices
from .factorizations import SingularValues, SymmetricEigenvalues
from .solving import Inverse

SPECTRAL = ("nuc", 2, -2)  # of singular values, which real matrices alone have here
MATRIX_ORDERS = ("fro", math.inf, -math.inf, 1, -1, *SPECTRAL)


def _converted(what: str, x: Tensor, dtype: Any) -> Tensor:
    if dtype is None:
        if not x.dtype.is_complex:
            check_floating(what, x)
        return x.abs() if x.dtype.is_complex else x
    kind = parse_dtype(dtype)
    if not kind.is_floating_point:
        raise DTypeError(f"{what}: dtype should be floating point, but got {kind!r}.")
    return x.to(kind)


@checked_with_out
@policy("vector_norm")
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """The norm of vectors along `dim`, an axis, several, or None for all: (sum |x|^ord)^(1 / ord).

    ord: a number, inf (the largest |x|), -inf (the smallest) or 0 (how many are not 0). Raises DTypeError for integers, ShapeError for ord below 0 of nothing.

    >>> sg.linalg.vector_norm(sg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = _converted("linalg.vector_norm", x, dtype)
    axes = range(x.ndim) if dim is None or dim == () else [dim] if isinstance(dim, int) else dim
    empty = any(x.shape[check_axis(d, x.ndim, "linalg.vector_norm")] == 0 for d in axes if x.ndim)
    if empty and (ord < 0 or ord == math.inf):
        raise ShapeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an "
            "identity"
        )
    return norm_of_vectors(x, float(ord), dim, keepdim)


def _matrix_axes(what: str, x: Tensor, dim: Any) -> tuple[int, int]:
    if not isinstance(dim, list | tuple) or len(dim) != 2:
        raise ShapeError(f"{what}: dim must be a 2-tuple. Got {dim}.")
    first, second = (check_axis(d, x.ndim, what) for d in dim)
    if first == second:
        raise ShapeError(f"{what}: dims must be different. Got {tuple(dim)}.")
    return first, second


@checked_with_out
@policy("matrix_norm")
def matrix_norm(
    A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of the matrices in the axes `dim`.

    ord: 'fro' (the root of the sum of squares), 'nuc' (the sum of singular values), 2 and -2 (the largest and the smallest of
    them), inf and -inf (of the sums of |rows|), 1 and -1 (of columns). Raises ShapeError for another one and for what is no
    matrix, DTypeError for a dtype that is not floating.

    >>> sg.linalg.matrix_norm(sg.tensor([[1.0, 2.0], [3.0, 4.0]]), 1)
    tensor(6.)
    """
    what = "linalg.matrix_norm"
    if dtype is None and (ord in SPECTRAL or not A.dtype.is_complex):
        check_matrices(what, A)
    x = _converted(what, A, dtype)
    if x.ndim < 2:
        raise ShapeError(f"{what}: The input tensor A must have at least 2 dimensions.")
    rows, columns = _matrix_axes(what, x, dim)
    if ord not in MATRIX_ORDERS:
        raise ShapeError(f"{what}: Order {ord} not supported.")
    if ord == "fro":
        return vector_norm(x, 2, (rows, columns), keepdim)
    if ord in SPECTRAL:
        values = SingularValues()(x.movedim((rows, columns), (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else _extreme(values, -1, ord)
        if not keepdim:
            return found
        return found.reshape(*(1 if a in (rows, columns) else n for a, n in enumerate(x.shape)))
    summed, left = (columns, rows) if abs(float(ord)) == math.inf else (rows, columns)
    found = _extreme(x.abs().sum(summed, keepdim=True), left, float(ord))
    return found.unsqueeze(left) if keepdim else found.squeeze(summed - (summed > left))


def _extreme(x: Tensor, dim: int, ord: Any) -> Tensor:
    """The largest along an axis for a positive order, else the smallest."""
    return x.amax(dim) if float(ord) > 0 else x.amin(dim)


@checked_with_out
@policy("norm")
def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """`vector_norm`, or `matrix_norm` where `dim` has two axes, or A two and an order is given.

    Without ord and dim: of all elements. Raises as those two.

    >>> sg.linalg.norm(sg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    if dim is None and ord is None:
        found = vector_norm(A.reshape(-1), 2, 0, dtype=dtype)
        return found.reshape(*[1] * A.ndim) if keepdim else found
    if ord is not None and dim is None and A.ndim not in (1, 2):
        raise ShapeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
    axes = (0, 1) if dim is None and A.ndim == 2 else () if dim is None or isinstance(dim, int) else dim
    if ord is not None and len(axes) == 2:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ShapeError(f"linalg.norm: Order {ord} is of matrices; dim is {dim} and the input has {A.ndim} axes.")
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@checked_with_out
def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """The condition number of each matrix: the norm of A times that of its inverse; p as in `matrix_norm`, None is 2.

    inf where there is no inverse. Raises ShapeError for matrices that are not square (but for 2 and -2).

    >>> sg.linalg.cond(sg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor(2.)
    """
    check_matrices("linalg.cond", A)
    if p in (None, 2, -2):
        values = SingularValues()(A)
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    if A.shape[-1] != A.shape[-2]:
        raise ShapeError(f"linalg.cond: A must be batches of square matrices for p={p}.")
    product = matrix_norm(A, p) * matrix_norm(Inverse(False)(A), p)
    return where(product.isnan() & ~A.isnan().flatten(-2).any(-1), math.inf, product)


@checked_with_out
def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """How many singular values of each matrix are above max(atol, rtol * the largest). int32 (*).

    rtol: by default max(m, n) times the dtype's eps, where no atol is given. tol: an absolute one, the older name.

    >>> sg.linalg.matrix_rank(sg.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    check_matrices("linalg.matrix_rank", A)
    a = A.detach()
    values = SymmetricEigenvalues()(a).abs() if hermitian else SingularValues()(a)
    if 0 in a.shape[-2:]:
        return values.sum(-1).int()
    bound = tolerance(a, values, tol if atol is None else atol, rtol)
    return (values > bound.unsqueeze(-1)).sum(-1)


def tolerance(a: Tensor, values: Tensor, atol: Any, rtol: Any) -> Tensor:
    """max(atol, rtol * the largest value), with PyTorch's defaults."""
    if rtol is None:
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        rtol = 0.0 if given else max(a.shape[-2:]) * float(np_eps(a))
    relative = values.amax(-1) * rtol
    return relative.maximum(relative * 0 + (0.0 if atol is None else atol))


def np_eps(a: Tensor) -> float:
    """The machine epsilon of the dtype."""
    return float(FloatLimits.of(a.dtype).eps)
