"""Softmax, PReLU, norms, cumulative sums and products, and comparisons of whole tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from ..dtypes import bool_
from ..errors import ShapeError
from ..graph import build
from ..graph.node import Node, make
from ..primitives import elementwise as e
from ..primitives import views as v
from ..primitives.reduce import ReduceMax
from ..primitives.scan import RunningSum
from .axes import check_axes, check_axis
from .coercion import floating
from .comparison import where
from .composed import composed
from .handle import wrap
from .reduce import ReduceTensor, _power, _summable, _totals, _without
from .succession import without_history

T = TypeVar("T", bound="ReduceTensor")


class NormTensor(ReduceTensor):
    """Softmax, PReLU, norms, cumulative sums and products, and comparisons of whole tensors."""

    __slots__ = ()

    def logsumexp(self, dim: int | Sequence[int], keepdim: bool = False) -> Self:
        """log(sum(exp(x))) over `dim` (an axis or several), without overflow; -inf for no elements. Shape: as in sum. Integers give
        float32.

        >>> sg.tensor([0.0, 0.0]).logsumexp(0)
        tensor(0.6931)
        """
        x: Any = wrap(floating(self))
        if x.numel():
            top = _finite_top(x, dim)
            result = (x - top).exp().sum(dim, keepdim=True).log() + top
        else:  # log(0) where the axis is empty
            result = x.exp().sum(dim, keepdim=True).log()
        return result if keepdim else _without(result, check_axes(dim, self.ndim, "logsumexp"))

    @composed
    def softmax(self, dim: int, dtype: Any = None) -> Self:
        """exp(x) / sum(exp(x)) along `dim`, without overflow; of the shape of x. Integers give float32 (PyTorch
        raises).

        dtype: x is cast to it first.

        >>> sg.tensor([0.0, math.log(3.0)]).softmax(0)
        tensor([0.25, 0.75])
        """
        x = self if dtype is None else self.to(dtype=dtype)
        if not x.numel():
            check_axis(dim, x.ndim, "softmax")
            return wrap(floating(x))
        shifted = (x - _top(x, dim, "softmax")).exp()
        return shifted / shifted.sum(dim, keepdim=True)

    @composed
    def log_softmax(self, dim: int, dtype: Any = None) -> Self:
        """log(softmax(x)) along `dim`, without overflow; of the shape of x. Integers give float32 (PyTorch raises).

        dtype: x is cast to it first.

        >>> sg.tensor([0.0, 0.0]).log_softmax(0)
        tensor([-0.6931, -0.6931])
        """
        x = self if dtype is None else self.to(dtype=dtype)
        if not x.numel():
            check_axis(dim, x.ndim, "log_softmax")
            return wrap(floating(x))
        shifted = x - _top(x, dim, "log_softmax")
        return shifted - shifted.exp().sum(dim, keepdim=True).log()

    def prelu(self, weight: ReduceTensor) -> Self:
        """x where positive, weight * x elsewhere; a weight for each channel (axis 1), or one for all (He et al., 2015).

        Raises ShapeError for another number of weights.

        >>> sg.tensor([-2.0, 3.0]).prelu(sg.tensor([0.5]))
        tensor([-1.,  3.])
        """
        if weight.ndim > 1:
            raise ShapeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
        if weight.numel() != 1:
            channels = self.shape[1] if self.ndim > 1 else 1
            if weight.numel() != channels:
                raise ShapeError(
                    "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                    f"{weight.numel()} and channel size = {channels}."
                )
            weight = weight.reshape(-1, *(1,) * (self.ndim - 2))
        elif self.ndim == 0:
            weight = weight.reshape(())
        return where(self > 0, self, weight * self)

    def cumsum(self, dim: int, *, dtype: Any = None) -> Self:
        """The cumulative sum along `dim`, of the shape of x; bools and integers of 8 and 16 bits give int32.

        >>> sg.tensor([1, 2, 3]).cumsum(0)
        tensor([1, 3, 6])
        """
        return _totals(
            _summable(self, dtype), lambda x: _along_last(x, dim, "cumsum", lambda rows: make(RunningSum(), rows))
        )

    def cumprod(self, dim: int, *, dtype: Any = None) -> Self:
        """The cumulative product along `dim`, of the shape of x; bools and integers of 8 and 16 bits give int32.

        By doubling (Hillis and Steele, "Data parallel algorithms", 1986).

        >>> sg.tensor([1, 2, 3]).cumprod(0)
        tensor([1, 2, 6])
        """
        return _totals(_summable(self, dtype), lambda x: _along_last(x, dim, "cumprod", _running_product))

    def norm(
        self,
        p: float | str | None = "fro",
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
    ) -> Self:
        """The p-norm over `dim` (an axis, several, or None for all): (sum |x|^p)^(1/p). Shape: as sum's.

        p: 'fro' or 2, 1, inf (the largest |x|), -inf (the smallest), 0 (how many are not 0), or any other number. Its
        gradient at 0 is 0; or 'nuc', of matrices. Integers give float32. Raises ShapeError for another p.

        >>> sg.tensor([3.0, 4.0]).norm()
        tensor(5.)
        >>> sg.tensor([3.0, -4.0]).norm(1)
        tensor(7.)
        """
        if p == "nuc":
            matrices: Any = self if dtype is None else self.to(dtype=dtype)
            return matrices._nuclear_norm((-2, -1) if dim is None else dim, keepdim)
        if p not in ("fro", None) and not isinstance(p, int | float):
            raise ShapeError(f"[norm] p is {p!r}; known are 'fro', 'nuc' and numbers.")
        x = self if dtype is None else self.to(dtype=dtype)
        return vector_norm(wrap(floating(x)), float(p) if isinstance(p, int | float) else 2.0, dim, keepdim)

    def dist(self, other: ReduceTensor, p: float = 2) -> Self:
        """The p-norm of self - other, of all elements; the two are broadcast.

        >>> sg.tensor([1.0, 1.0]).dist(sg.tensor([4.0, 5.0]))
        tensor(5.)
        """
        return (self - other).norm(p)

    def allclose(self, other: ReduceTensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
        """Whether |self - other| <= atol + rtol * |other| everywhere, as a Python bool. Reads the result.

        >>> sg.tensor([1.0, 2.0]).allclose(sg.tensor([1.0, 2.000001]))
        True
        """
        return bool(self.isclose(other, rtol, atol, equal_nan).all().item())

    def equal(self, other: ReduceTensor) -> bool:
        """Whether shape and all elements are equal, as a Python bool; NaN equals nothing. Reads the result.

        >>> sg.tensor([1, 2]).equal(sg.tensor([1, 2]))
        True
        """
        return self.shape == other.shape and bool((self.detach() == other.detach()).all().item())


def _top(x: T, dim: int, what: str) -> T:
    """The maximum along an axis, which is kept, without history."""
    if x.ndim == 0 or x.dtype is bool_:
        return x.detach().amax(dim, keepdim=True)
    return wrap(make(ReduceMax((check_axis(dim, x.ndim, what),)), without_history(x._node)))


def _finite_top(x: T, dim: Any) -> T:
    """The maximum without history, 0 if it is infinite: a number that may be subtracted before exp."""
    top = x.detach().amax(dim, keepdim=True)
    return where(top.isfinite(), top, 0.0)


def _along_last(node: Node, dim: int, what: str, scan: Any) -> Any:
    """A scan of rows, applied along any axis."""
    axis = check_axis(dim, node.ndim, what)
    if node.ndim == 0 or node.size == 0:
        return wrap(node)
    order = (*(a for a in range(node.ndim) if a != axis), axis)
    moved = build.permute(node, order)
    rows = build.reshape(moved, (node.size // node.shape[axis], node.shape[axis]))
    back = tuple(int(a) for a in np.argsort(order))
    return wrap(build.permute(build.reshape(scan(rows), moved.shape), back))


def _running_product(rows: Node) -> Node:
    """Doubling (Hillis and Steele, 1986): after the pass with distance d, an element is the product of the last 2 d."""
    count, n = rows.shape
    distance = 1
    while distance < n:
        one = 1 if rows.dtype.category == 1 else 1.0
        shifted = make(v.Pad((0, distance), (0, 0), (0, 0), one), rows)
        rows = make(e.Mul(), rows, make(v.Slice((0, 0), (count, n), (1, 1)), shifted))
        distance *= 2
    return rows


def vector_norm(x: T, p: float = 2.0, dim: int | Sequence[int] | None = -1, keepdim: bool = False) -> T:
    """The p-norm along `dim` (None: of all elements): (sum |x|^p)^(1/p), the largest or smallest |x| for p = inf or
    -inf, the number of elements other than 0 for p = 0.

    >>> sg.tensor([[3.0, 4.0]]).norm(2, dim=1)
    tensor([5.])
    """
    x = x.abs() if x.dtype.is_complex else x
    if p == math.inf:
        return x.abs().amax(dim, keepdim=keepdim)
    if p == -math.inf:
        return x.abs().amin(dim, keepdim=keepdim)
    if p == 0:
        return where(x != 0, 1.0, x * 0.0).sum(dim, keepdim=keepdim)
    if p == 1:
        return x.abs().sum(dim, keepdim=keepdim)
    if p == 2:
        return _power((x * x).sum(dim, keepdim=keepdim), 0.5)
    return _power(_power(x.abs(), p).sum(dim, keepdim=keepdim), 1.0 / p)
