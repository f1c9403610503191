"""Transforms of vectors and matrices: to simplices, Cholesky factors, positive definite matrices, other shapes."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ShapeError
from ..linalg import cholesky
from ..nn import functional as F
from ..tensor import Size, Tensor, eye
from . import constraints
from .scalar_transforms import clipped_sigmoid
from .transform import Transform
from .utils import epsilon, positions, tiny, tril_matrix_to_vec, vec_to_tril_matrix


def _needs(shape: Any, axes: int) -> None:
    if len(shape) < axes:
        raise ShapeError("Too few dimensions on input")


class ReshapeTransform(Transform):
    """The last axes from in_shape to out_shape. Raises ShapeError where the two have different numbers of elements.

    >>> sg.distributions.ReshapeTransform((4,), (2, 2))(sg.arange(4.0))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ShapeError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The constraint of x."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The constraint of y."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(tuple(x.shape[: x.ndim - len(self.in_shape)]))

    def forward_shape(self, shape: Any) -> Size:
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Size:
        return _reshaped(shape, self.out_shape, self.in_shape)


def _reshaped(shape: Any, before: Size, after: Size) -> Size:
    _needs(shape, len(before))
    cut = len(shape) - len(before)
    if tuple(shape[cut:]) != tuple(before):
        raise ShapeError(f"Shape mismatch: expected {Size(shape[cut:])} but got {before}")
    return Size((*shape[:cut], *after))


class CorrCholeskyTransform(Transform):
    """Vectors of D (D - 1) / 2 numbers to Cholesky factors (D, D) of correlation matrices, with rows of length 1.

    tanh of the numbers are canonical partial correlations, which break a stick along each row (Lewandowski, Kurowicka and Joe,
    2009). log_abs_det_jacobian is that of the elements below the diagonal.

    >>> sg.distributions.CorrCholeskyTransform()(sg.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = epsilon(x)
        r = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), diag=-1)
        rest = (1 - r.square()).sqrt().cumprod(-1)  # of the length of a row, behind each element
        r = r + eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(rest[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        rest = F.pad((1 - y.square().cumsum(-1))[..., :-1], (1, 0), value=1.0)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        rest = 1 - y.square().cumsum(-1)
        sticks = tril_matrix_to_vec(rest, diag=-2).log().sum(-1) * 0.5
        return sticks - (x + F.softplus(x * -2) - math.log(2.0)).sum(-1) * 2

    def forward_shape(self, shape: Any) -> Size:
        _needs(shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ShapeError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Size:
        _needs(shape, 2)
        if shape[-2] != shape[-1]:
            raise ShapeError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class SoftmaxTransform(Transform):
    """Vectors to probabilities, e ** x over its sum. Not bijective: inv gives logarithms.

    >>> sg.distributions.SoftmaxTransform()(sg.zeros(2))
    tensor([0.5, 0.5])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Size:
        _needs(shape, 1)
        return Size(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Vectors of n numbers to n + 1 probabilities: each number's sigmoid is the part of the rest of a stick that is taken.

    Zeros become equal probabilities. Bijective; it mixes coordinates, so `SoftmaxTransform` suits optimisers better.

    >>> sg.distributions.StickBreakingTransform()(sg.zeros(3))
    tensor([0.25, 0.25, 0.25, 0.25])
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    def _call(self, x: Tensor) -> Tensor:
        z = clipped_sigmoid(x - _shares(x.shape[-1], x).log())
        return F.pad(z, (0, 1), value=1.0) * F.pad((1 - z).cumprod(-1), (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        rest = (1 - taken.cumsum(-1)).clamp(min=tiny(y))
        return taken.log() - rest.log() + _shares(taken.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shifted = x - _shares(x.shape[-1], x).log()
        return (-shifted + F.logsigmoid(shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Size:
        _needs(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Size:
        _needs(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


def _shares(n: int, like: Tensor) -> Tensor:
    """n to 1: how many shares are left behind each."""
    return n - positions(n, like)


class LowerCholeskyTransform(Transform):
    """Matrices to lower triangular ones: the part below the diagonal, and e to the power of the diagonal.

    >>> sg.distributions.LowerCholeskyTransform()(sg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive definite ones: L @ L.mT of `LowerCholeskyTransform`'s L.

    >>> sg.distributions.PositiveDefiniteTransform()(sg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))
