"""Methods that split and rotate tensors; Kronecker, outer and cross products; sums of batched products; covariance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..dtypes import bool_, default_dtype, int32
from ..errors import DTypeError, ShapeError
from ..graph.node import make
from ..primitives.complex import Conj
from .axes import check_axis, sizes_of
from .base import TensorBase
from .handle import wrap
from .joining import stack
from .norms import vector_norm
from .products import ProductTensor, _added


class DividedTensor(ProductTensor):
    """Methods that split and rotate tensors; Kronecker, outer and cross products; covariance."""

    __slots__ = ()

    def tensor_split(self, indices_or_sections: int | Sequence[int] | DividedTensor, dim: int = 0) -> tuple[Self, ...]:
        """Parts along `dim`: that many, the first ones larger by one if the size does not divide; or cut at given positions.

        Positions may be a tensor, which is read. Raises ShapeError for fewer than one part.

        >>> sg.arange(5).tensor_split(2)
        (tensor([0, 1, 2]), tensor([3, 4]))
        >>> sg.arange(5).tensor_split([1, 3])
        (tensor([0]), tensor([1, 2]), tensor([3, 4]))
        """
        if not self.ndim:
            raise ShapeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
        axis = check_axis(dim, self.ndim, "tensor_split")
        n = self.shape[axis]
        cuts = _cuts(indices_or_sections)
        if isinstance(cuts, int):
            if cuts < 1:
                raise ShapeError(f"number of sections must be larger than 0, got {cuts}")
            small, larger = divmod(n, cuts)
            sizes = [small + 1] * larger + [small] * (cuts - larger)
            starts = np.cumsum([0, *sizes[:-1]])
            return tuple(self.narrow(axis, int(a), k) for a, k in zip(starts, sizes, strict=True))
        front = (slice(None),) * axis
        return tuple(self[(*front, slice(a, b))] for a, b in zip([None, *cuts], [*cuts, None], strict=True))

    def hsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Self, ...]:
        """tensor_split along axis 1, or 0 of a vector; a number of sections must divide the axis.

        >>> sg.arange(4).hsplit(2)
        (tensor([0, 1]), tensor([2, 3]))
        """
        return self._split_evenly("hsplit", indices_or_sections, 0 if self.ndim == 1 else 1, 1)

    def vsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Self, ...]:
        """tensor_split along axis 0 of at least 2; a number of sections must divide the axis.

        >>> sg.tensor([[1, 2], [3, 4]]).vsplit(2)
        (tensor([[1, 2]]), tensor([[3, 4]]))
        """
        return self._split_evenly("vsplit", indices_or_sections, 0, 2)

    def dsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Self, ...]:
        """tensor_split along axis 2 of at least 3; a number of sections must divide the axis.

        >>> sg.zeros(1, 1, 4).dsplit(2)
        (tensor([[[0., 0.]]]), tensor([[[0., 0.]]]))
        """
        return self._split_evenly("dsplit", indices_or_sections, 2, 3)

    def _split_evenly(self, what: str, sections: int | Sequence[int], axis: int, least: int) -> tuple[Self, ...]:
        if self.ndim < least:
            raise ShapeError(
                f"torch.{what} requires a tensor with at least {least} dimension, but got a tensor with {self.ndim} dimensions!"
            )
        if isinstance(sections, int) and (sections < 1 or self.shape[axis] % sections):
            raise ShapeError(
                f"torch.{what} attempted to split along dimension {axis}, but the size of the dimension {self.shape[axis]} "
                f"is not divisible by the split_size {sections}!"
            )
        return self.tensor_split(sections, axis)

    def split_with_sizes(self, split_sizes: Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """`split` into parts of the sizes that a sequence lists.

        >>> sg.arange(3).split_with_sizes([1, 2])
        (tensor([0]), tensor([1, 2]))
        """
        return self.split(split_sizes, dim)

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Self:
        """Rotated k times by 90 degrees in the plane of two axes, from the first towards the second.

        Raises ShapeError unless the two axes are different.

        >>> sg.tensor([[1, 2], [3, 4]]).rot90()
        tensor([[2, 4],
                [1, 3]])
        """
        if len(dims) != 2:
            raise ShapeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
        if self.ndim < 2:
            raise ShapeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
        a, b = (check_axis(d, self.ndim, "rot90") for d in dims)
        if a == b:
            raise ShapeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
        turns = k % 4
        if turns == 2:
            return self.flip(a, b)
        turned = self.flip(b).transpose(a, b) if turns == 1 else self.flip(a).transpose(a, b) if turns == 3 else self
        return turned._copied()

    def sum_to_size(self, *size: Any) -> Self:
        """Summed to a shape that broadcasts to this one: over the additional leading axes, and those of size 1 there.

        Raises ShapeError for another shape.

        >>> sg.ones(2, 3).sum_to_size(3)
        tensor([2., 2., 2.])
        """
        wanted = sizes_of(size, "sum_to_size")
        extra = self.ndim - len(wanted)
        fits = extra >= 0 and all(n in (1, m) for n, m in zip(wanted, self.shape[extra:], strict=True))
        if not fits:
            raise ShapeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(self.shape)}}}.")
        x = self.sum(tuple(range(extra))) if extra else self
        axes = tuple(a for a, n in enumerate(wanted) if n == 1 and x.shape[a] != 1)
        return x.sum(axes, keepdim=True) if axes else x.to(dtype=int32) if x.dtype is bool_ and not x.ndim else x

    def vdot(self, other: DividedTensor) -> Self:
        """The dot product of two vectors (n,); a complex self is conjugated.

        >>> sg.tensor([1, 2]).vdot(sg.tensor([3, 4]))
        tensor(11)
        >>> sg.tensor([1j, 2]).vdot(sg.tensor([1j, 1]))
        tensor(3.+0.j)
        """
        x = wrap(make(Conj(), self._node)) if self.dtype.is_complex else self
        return x.dot(other)

    def addr(self, vec1: DividedTensor, vec2: DividedTensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * vec1.outer(vec2): self broadcast to (n, m). With beta = 0 self is ignored.

        >>> x = sg.zeros(2, 2)
        >>> x.addr(sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
        """
        if self.dtype is bool_ and vec1.dtype is bool_ and vec2.dtype is bool_:
            beta, alpha = bool(beta), bool(alpha)
            product = vec1.outer(vec2)
            return _added(self, product if alpha else product ^ product, beta, 1, "addr")
        return _added(self, vec1.outer(vec2), beta, alpha, "addr")

    def addbmm(self, batch1: DividedTensor, batch2: DividedTensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * the sum of batch1.bmm(batch2): self broadcast to (n, m). With beta = 0 self is ignored.

        >>> x = sg.zeros(1, 1)
        >>> x.addbmm(sg.ones(2, 1, 3), sg.ones(2, 3, 1))
        tensor([[6.]])
        """
        return _added(self, batch1.bmm(batch2).sum(0), beta, alpha, "addbmm")

    def kron(self, other: DividedTensor) -> Self:
        """The Kronecker product: each element of self times all of `other`, axis by axis.

        >>> sg.tensor([1, 10]).kron(sg.tensor([1, 2]))
        tensor([ 1,  2, 10, 20])
        """
        rank = max(self.ndim, other.ndim)
        a = (1,) * (rank - self.ndim) + tuple(self.shape)
        b = (1,) * (rank - other.ndim) + tuple(other.shape)
        left = self.reshape([k for n in a for k in (n, 1)])
        right = other.reshape([k for n in b for k in (1, n)])
        return (left * right).reshape([n * m for n, m in zip(a, b, strict=True)])

    def cross(self, other: DividedTensor, dim: int | None = None) -> Self:
        """The cross product along an axis of size 3: `dim`, or the first of that size. The two are broadcast.

        Raises ShapeError if there is no such axis.

        >>> sg.tensor([1, 0, 0]).cross(sg.tensor([0, 1, 0]))
        tensor([0, 0, 1])
        """
        if self.ndim != other.ndim:
            raise ShapeError(
                f"linalg.cross: inputs must have the same number of dimensions, but got {self.ndim} and {other.ndim}."
            )
        if dim is None:
            dim = next((a for a, n in enumerate(self.shape) if n == 3), None)
            if dim is None:
                raise ShapeError("no dimension of size 3 in input")
        axis = check_axis(dim, self.ndim, "cross")
        if self.shape[axis] != 3 or other.shape[axis] != 3:
            raise ShapeError(
                f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape[axis]} and {other.shape[axis]}"
            )
        a1, a2, a3 = self.unbind(axis)
        b1, b2, b3 = other.unbind(axis)
        parts = [a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1]
        return stack(parts, axis - self.ndim)

    def renorm(self, p: float, dim: int, maxnorm: float) -> Self:
        """self, with slices along `dim` whose p-norm exceeds `maxnorm` scaled down to it.

        Raises ShapeError for p <= 0, a negative maxnorm and fewer than two axes.

        >>> x = sg.tensor([[3.0, 4.0], [0.3, 0.4]])
        >>> x.renorm(2, 0, 1.0)
        tensor([[0.6, 0.8],
                [0.3, 0.4]])
        """
        if self.ndim < 2:
            raise ShapeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
        if p <= 0:
            raise ShapeError("renorm: non-positive-norm not supported")
        if maxnorm < 0:
            raise ShapeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
        axis = check_axis(dim, self.ndim, "renorm")
        others = tuple(a for a in range(self.ndim) if a != axis)
        length = vector_norm(self, float(p), others, keepdim=True)
        too_long = length > maxnorm
        return self * ((float(maxnorm) / (length + 1e-7)) * too_long + ~too_long)

    def cov(
        self, *, correction: int = 1, fweights: DividedTensor | None = None, aweights: DividedTensor | None = None
    ) -> Self:
        """The covariance matrix of variables (rows) from observations (columns): (n, n), or () for a vector.

        correction: subtracted from the number of observations. fweights: the frequency of each observation, integers; aweights: its
        weight. Raises ShapeError for more than two axes and weights of another shape.

        >>> sg.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).cov()
        tensor([[ 1., -1.],
                [-1.,  1.]])
        """
        if self.ndim > 2:
            raise ShapeError(
                f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
            )
        x: Any = self.reshape(1, -1) if self.ndim < 2 else self
        norm: Any
        x = x if x.dtype.category == 2 else x.to(dtype=default_dtype())
        weights = _weights(x.shape[1], fweights, aweights)
        if weights is None:
            total: Any = x.shape[1]
            mean, norm = x.mean(1, keepdim=True), x.shape[1] - correction
            centred = x - mean
            product = centred @ centred.t()
        else:
            w = weights if weights.dtype.category == 2 else weights.to(dtype=x.dtype)
            total = w.sum()
            centred = x - (x * w).sum(1, keepdim=True) / total
            norm = total - correction
            if aweights is not None and correction:
                norm = total - correction * (w * aweights).sum() / total
            product = (centred * w) @ centred.t()
        return (product / (max(norm, 0) if weights is None else norm.clamp(min=0))).squeeze()

    def corrcoef(self) -> Self:
        """The correlation coefficients of variables (rows) from observations (columns): (n, n), within [-1, 1].

        >>> sg.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).corrcoef()
        tensor([[ 1., -1.],
                [-1.,  1.]])
        """
        if self.ndim > 2:
            raise ShapeError(
                f"corrcoef(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
            )
        c = self.cov()
        if c.ndim == 0:
            return c / c
        deviation = c.diagonal().sqrt()
        return (c / deviation.unsqueeze(1) / deviation).clamp(-1, 1)


def _cuts(given: Any) -> Any:
    """A number of sections, or a list of positions."""
    if isinstance(given, TensorBase):
        if given.ndim > 1 or not given.dtype.is_position:
            raise ShapeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor of int64 or "
                f"int32, but got {given.dtype.name} of shape {tuple(given.shape)}. Hint: .long() it."
            )
        return given._read("tensor_split()").tolist()
    return given if isinstance(given, int) else list(given)


def _weights(count: int, fweights: Any, aweights: Any) -> Any:
    for name, w, kind in (("fweights", fweights, 1), ("aweights", aweights, 2)):
        if w is None:
            continue
        if w.ndim > 1 or w.numel() != count:
            raise ShapeError(
                f"cov(): expected {name} to have one element for each of {count} observations, but got {list(w.shape)}."
            )
        if w.dtype.category != kind:
            wanted = "integral" if kind == 1 else "floating point"
            raise DTypeError(f"cov(): expected {name} to have {wanted} dtype but got {name} with {w.dtype.name} dtype")
        if (w._read("cov()") < 0).any():
            raise ShapeError(f"cov(): {name} cannot be negative")
    if fweights is None or aweights is None:
        return aweights if fweights is None else fweights
    return fweights.to(dtype=aweights.dtype) * aweights
