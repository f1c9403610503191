"""Methods that multiply vectors and matrices, and einsum."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any, Self, TypeVar, overload

from ..arguments import checked
from ..errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from ..graph import build
from ..graph.node import Node, make
from ..primitives.dot import Dot
from .axes import check_axis, common_shape
from .base import TensorBase
from .coercion import not_ours, unsupported
from .handle import wrap
from .order import OrderTensor
from .precision import policy

T = TypeVar("T", bound="ProductTensor")


class ProductTensor(OrderTensor):
    """Products of vectors and matrices, and einsum."""

    __slots__ = ()

    def matmul(self, other: ProductTensor) -> Self:
        """The product of vectors, matrices, or batches of matrices: (..., n, k) @ (..., k, m) -> (..., n, m).

        Batch axes are broadcast; a vector (k,) is a row on the left, a column on the right, and its axis is removed. Also a @
        b. Raises ShapeError for sizes that do not fit, and DTypeError or DeviceError if the two differ.

        >>> sg.tensor([[1, 2], [3, 4]]) @ sg.tensor([1, 1])
        tensor([3, 7])
        """
        return _matmul(self, other)

    def __matmul__(self, other: ProductTensor) -> Self:
        return _matmul(self, other) if isinstance(other, TensorBase) else not_ours("@", self, other)

    def __rmatmul__(self, other: Any) -> Self:
        if isinstance(other, TensorBase):
            return _matmul(other, self)  # type: ignore[return-value]
        raise unsupported("@", other, self)

    def mm(self, mat2: ProductTensor) -> Self:
        """The product of matrices (n, k) and (k, m): (n, m). Raises ShapeError for anything else; matmul takes more.

        >>> sg.tensor([[1, 2], [3, 4]]).mm(sg.tensor([[0, 1], [1, 0]]))
        tensor([[2, 1],
                [4, 3]])
        """
        if self.ndim != 2 or mat2.ndim != 2:
            raise ShapeError(f"[mm] both must be matrices: {tuple(self.shape)}, {tuple(mat2.shape)}.")
        return _matmul(self, mat2)

    def bmm(self, mat2: ProductTensor) -> Self:
        """Batched matrix multiplication, (b, n, k) and (b, k, m): (b, n, m). Raises ShapeError for anything else.

        >>> sg.ones(2, 1, 3).bmm(sg.ones(2, 3, 1)).shape
        shadergrad.Size([2, 1, 1])
        """
        if self.ndim != 3 or mat2.ndim != 3 or self.shape[0] != mat2.shape[0]:
            raise ShapeError(
                f"[bmm] both must be batches of matrices of one size: {tuple(self.shape)}, {tuple(mat2.shape)}."
            )
        return _matmul(self, mat2)

    def dot(self, tensor: ProductTensor) -> Self:
        """The dot product of two vectors (n,), of shape (). Raises ShapeError for anything else.

        >>> sg.tensor([1, 2]).dot(sg.tensor([3, 4]))
        tensor(11)
        """
        if self.ndim != 1 or tensor.ndim != 1:
            raise ShapeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
        return _matmul(self, tensor)

    def addmm(self, mat1: ProductTensor, mat2: ProductTensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * mat1 @ mat2: self broadcast to (n, m), mat1 (n, k), mat2 (k, m). With beta = 0 self is
        ignored.

        Raises ShapeError for others.

        >>> x = sg.tensor([[10, 20]])
        >>> x.addmm(sg.tensor([[1, 2]]), sg.tensor([[1, 0], [0, 1]]))
        tensor([[11, 22]])
        """
        return _added(self, mat1.mm(mat2), beta, alpha, "addmm")

    def addmv(self, mat: ProductTensor, vec: ProductTensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * mat @ vec: self broadcast to (n,), mat (n, k), vec (k,). With beta = 0 self is ignored.

        Raises ShapeError for others.

        >>> x = sg.tensor([10, 20])
        >>> x.addmv(sg.tensor([[1, 2], [3, 4]]), sg.tensor([1, 1]))
        tensor([13, 27])
        """
        return _added(self, mat.mv(vec), beta, alpha, "addmv")

    def baddbmm(self, batch1: ProductTensor, batch2: ProductTensor, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta * self + alpha * batch1.bmm(batch2): self broadcast to (b, n, m), batch1 (b, n, k), batch2 (b, k, m).

        With beta = 0 self is ignored. Raises ShapeError for others.

        >>> x = sg.tensor([[[1.0]]])
        >>> x.baddbmm(sg.ones(1, 1, 3), sg.ones(1, 3, 1))
        tensor([[[4.]]])
        """
        return _added(self, batch1.bmm(batch2), beta, alpha, "baddbmm")

    def mv(self, vec: ProductTensor) -> Self:
        """The product of a matrix (n, k) and a vector (k,): (n,). Raises ShapeError for anything else.

        >>> sg.tensor([[1, 2], [3, 4]]).mv(sg.tensor([1, 0]))
        tensor([1, 3])
        """
        if self.ndim != 2 or vec.ndim != 1:
            raise ShapeError(f"[mv] a matrix and a vector are wanted, not {tuple(self.shape)} and {tuple(vec.shape)}.")
        return self @ vec

    def outer(self, vec2: ProductTensor) -> Self:
        """The outer product of two vectors, (n,) and (m,): (n, m). Raises ShapeError for anything else.

        >>> sg.tensor([1, 2]).outer(sg.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
        """
        if self.ndim != 1 or vec2.ndim != 1:
            raise ShapeError(f"[outer] vectors are wanted, not {tuple(self.shape)} and {tuple(vec2.shape)}.")
        return self.unsqueeze(1) * vec2

    def inner(self, other: ProductTensor) -> Self:
        """Sums of products along the last axes, (..., k) and (..., k); with a 0-d tensor, the product. Raises
        ShapeError.

        >>> sg.tensor([[1, 2], [3, 4]]).inner(sg.tensor([1, 1]))
        tensor([3, 7])
        """
        if self.ndim == 0 or other.ndim == 0:
            return self * other
        if self.ndim == other.ndim == 1:
            return self.dot(other)
        return tensordot(self, other, [[self.ndim - 1], [other.ndim - 1]])


@policy("matmul")
def _matmul(a: T, b: ProductTensor) -> T:
    return wrap(product_of(a._node, b._node))


def product_of(a: Node, b: Node) -> Node:
    """`matmul` of nodes."""
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D")
    if a.dtype is not b.dtype:
        raise DTypeError(f"[matmul] expected both to have the same dtype, but got: {a.dtype.name} != {b.dtype.name}")
    if a.device != b.device:
        raise DeviceError(
            f"[matmul] operands are on different devices: {list(a.shape)} on {a.device}, {list(b.shape)} on {b.device}."
            f" Hint: move one with .to({a.device!r})."
        )
    contracted = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != contracted:
        raise ShapeError(
            f"[matmul] cannot contract: a is {a.shape}, b is {b.shape}; a's last axis ({a.shape[-1]}) != "
            f"b's {'second-last' if b.ndim > 1 else 'only'} ({contracted})."
        )
    left = a if a.ndim > 1 else build.reshape(a, (1, a.shape[0]))
    right = b if b.ndim > 1 else build.reshape(b, (b.shape[0], 1))
    k, m, n = a.shape[-1], left.shape[-2], right.shape[-1]
    try:
        batch = common_shape(left.shape[:-2], right.shape[:-2])
    except ShapeError:
        raise ShapeError(f"[matmul] the batch axes do not broadcast: a is {a.shape}, b is {b.shape}.") from None
    if right.ndim == 2 or math.prod(right.shape[:-2]) == 1:  # one matrix for all: rows of all batches are one product
        product = make(Dot(), build.reshape(left, (1, math.prod(left.shape[:-1]), k)), build.reshape(right, (1, k, n)))
    else:
        size = math.prod(batch)
        left = build.reshape(build.broadcast(left, (*batch, m, k)), (size, m, k))
        right = build.reshape(build.broadcast(right, (*batch, k, n)), (size, k, n))
        product = make(Dot(), left, right)
    shape = (*batch, *((m,) if a.ndim > 1 else ()), *((n,) if b.ndim > 1 else ()))
    return build.reshape(product, shape)


def _added(x: T, product: Any, beta: float, alpha: float, what: str) -> T:
    pairs = zip(reversed(x.shape), reversed(product.shape), strict=False)
    if x.ndim > product.ndim or any(n not in (1, m) for n, m in pairs):
        raise ShapeError(
            f"[{what}] {tuple(x.shape)} does not broadcast to the product's shape, {tuple(product.shape)}."
        )
    if product.dtype.category == 1:  # as PyTorch, whose factors are of the elements' dtype
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (x if beta == 1 else x * beta) + scaled


@policy("tensordot")
@checked
def tensordot(a: T, b: ProductTensor, dims: int | Sequence[Sequence[int]] = 2) -> T:
    """Contracts the last `dims` axes of a with the first of b, or the axes listed for each: dims=([0], [1]).

    Shape: the other axes of a, then those of b. Raises ShapeError if the contracted sizes differ.

    >>> sg.tensordot(sg.ones(2, 3), sg.ones(3, 4), 1).shape
    shadergrad.Size([2, 4])
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(f"[tensordot] dims is {dims}; the tensors have {a.ndim} and {b.ndim} dimensions.")
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left = [check_axis(d, a.ndim, "tensordot") for d in dims[0]]
        right = [check_axis(d, b.ndim, "tensordot") for d in dims[1]]
        if len(left) != len(right):
            raise ShapeError(f"both dimension lists should have same length, got {list(dims[0])} and {list(dims[1])}")
    for k, m in zip(left, right, strict=True):  # an axis of size 1 is summed over the other's
        if a.shape[k] != b.shape[m] and a.shape[k] == 1:
            b = b.sum(m, keepdim=True)  # type: ignore[assignment]
        elif a.shape[k] != b.shape[m] and b.shape[m] == 1:
            a = a.sum(k, keepdim=True)
    if [a.shape[k] for k in left] != [b.shape[k] for k in right]:
        raise ShapeError(
            f"[tensordot] contracted axes {left} of {tuple(a.shape)} and {right} of {tuple(b.shape)} differ."
        )
    rows = [k for k in range(a.ndim) if k not in left]
    columns = [k for k in range(b.ndim) if k not in right]
    size = math.prod(a.shape[k] for k in left)
    row_shape, column_shape = [a.shape[k] for k in rows], [b.shape[k] for k in columns]
    first = a.permute(*rows, *left).reshape(math.prod(row_shape), size)
    second = b.permute(*right, *columns).reshape(size, math.prod(column_shape))
    return (first @ second).reshape(*row_shape, *column_shape)


@overload
def einsum(equation: str, *operands: T | Sequence[ProductTensor]) -> T: ...
@overload
def einsum(equation: T, *operands: T | Sequence[Any]) -> T: ...
@policy("einsum")
@checked
def einsum(equation: Any, *operands: Any) -> Any:
    """Einstein summation: any equation with letters, '...', repeated letters and an optional '->'.

    Or without an equation: each operand is followed by a list of its axes, numbers from 0 to 51 and an Ellipsis; a last list gives the
    result's axes.

    Operands, of one dtype, are contracted from left to right, two at a time, each time as one batched product. Raises
    ShapeError for an equation that does not fit them, DTypeError if dtypes differ.

    >>> sg.einsum("ij,j->i", sg.tensor([[1, 2], [3, 4]]), sg.tensor([1, 1]))
    tensor([3, 7])
    """
    if isinstance(equation, ProductTensor):
        equation, operands = _from_lists((equation, *operands))
    if not isinstance(equation, str):
        raise ArgumentTypeError(f"einsum(): argument 'equation' must be str, not {type(equation).__name__}.")
    tensors: list[Any] = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else list(operands)
    )  # type: ignore[arg-type]
    if other := [type(t).__name__ for t in tensors if not isinstance(t, ProductTensor)]:
        raise ArgumentTypeError(f"einsum(): argument 'operands' must be Tensor or tuple of Tensors, not {other[0]}.")
    inputs, output = _parse(equation, tensors)
    sizes: dict[str, int] = {}
    for labels, t in zip(inputs, tensors, strict=True):
        for label, n in zip(labels, t.shape, strict=True):
            known = sizes.setdefault(label, n)
            if n != known and 1 not in (n, known):
                raise ShapeError(f"[einsum] {equation!r}: {label!r} has sizes {known} and {n}.")
            sizes[label] = max(known, n) if n and known else 0
    prepared = [_diagonals(t, labels) for labels, t in zip(inputs, tensors, strict=True)]
    prepared = [(t.expand(*(sizes[c] for c in labels)) if labels else t, labels) for t, labels in prepared]
    result, labels = prepared[0]
    for k, (t, other) in enumerate(prepared[1:], 1):
        later = set(output).union(*(set(rest) for _, rest in prepared[k + 1 :]))
        result, labels = _contract(result, labels, t, other, later)
    surplus = [k for k, c in enumerate(labels) if c not in output]
    if surplus:
        result = result.sum(surplus)
        labels = "".join(c for c in labels if c in output)
    return result.permute(*(labels.index(c) for c in output)) if output else result


def _from_lists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of einsum(x, [0, 1], y, [1, 2], [0, 2])."""

    def text(axes: Any) -> str:
        if not isinstance(axes, list | tuple):
            raise ArgumentTypeError(
                f"einsum(): each operand is followed by a list of its axes, not by {type(axes).__name__}."
            )
        if wrong := [a for a in axes if a is not ... and a not in range(52)]:
            raise ArgumentError(f"einsum(): axes are numbers from 0 to 51 and an Ellipsis, but got {wrong[0]!r}.")
        return "".join("..." if a is ... else letters[a] for a in axes)

    letters = string.ascii_uppercase + string.ascii_lowercase
    pairs, rest = len(arguments) // 2 * 2, len(arguments) % 2
    equation = ",".join(text(axes) for axes in arguments[1:pairs:2])
    return equation + ("->" + text(arguments[-1]) if rest else ""), arguments[:pairs:2]


def _parse(equation: str, tensors: list[ProductTensor]) -> tuple[list[str], str]:
    """Labels of every operand and of the result, with letters in place of '...'."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise ShapeError(f"[einsum] {equation!r} names {len(parts)} operands, got {len(tensors)}.")
    unused = [c for c in string.ascii_letters if c not in text]
    widest = max(
        (t.ndim - len(p.replace("...", "")) for p, t in zip(parts, tensors, strict=True) if "..." in p), default=0
    )
    dots = "".join(unused[:widest])
    inputs = []
    for part, t in zip(parts, tensors, strict=True):
        labels = part.replace("...", "")
        if "..." in part:
            count = t.ndim - len(labels)
            labels = part.replace("...", dots[widest - count :] if count > 0 else "")
        if len(labels) != t.ndim or (not labels.isalpha() * bool(labels) and labels):
            raise ShapeError(f"[einsum] {equation!r}: {part!r} does not fit an operand of shape {tuple(t.shape)}.")
        inputs.append(labels)
    if arrow:
        output = right.replace("...", dots)
    else:
        every = "".join(inputs)
        output = dots + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in dots))
    if len(set(output)) != len(output) or any(c not in "".join(inputs) for c in output):
        raise ShapeError(f"[einsum] {equation!r}: the output repeats a label, or names one that no operand has.")
    return inputs, output


def _diagonals(x: T, labels: str) -> tuple[T, str]:
    """The diagonal for repeated labels of one operand."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            a = labels.index(c)
            b = labels.index(c, a + 1)
            x = x.diagonal(0, a, b)
            labels = labels[:a] + labels[a + 1 : b] + labels[b + 1 :] + c
    return x, labels


def _contract(a: T, left: str, b: ProductTensor, right: str, needed: set[str]) -> tuple[T, str]:
    """One batched matrix multiplication: common labels that are still needed are batch axes, other common labels are contracted."""
    for labels, mine in ((left, True), (right, False)):
        alone = [k for k, c in enumerate(labels) if c not in needed and c not in (right if mine else left)]
        if alone and mine:
            a, left = a.sum(alone), "".join(c for k, c in enumerate(labels) if k not in alone)
        elif alone:
            b, right = b.sum(alone), "".join(c for k, c in enumerate(labels) if k not in alone)
    batch = [c for c in left if c in right and c in needed]
    inner = [c for c in left if c in right and c not in needed]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    shape_of = {**dict(zip(right, b.shape, strict=True)), **dict(zip(left, a.shape, strict=True))}

    def product(labels: list[str]) -> int:
        return math.prod(shape_of[c] for c in labels)

    first = a.permute(*(left.index(c) for c in [*batch, *rows, *inner])).reshape(
        product(batch), product(rows), product(inner)
    )
    second = b.permute(*(right.index(c) for c in [*batch, *inner, *columns])).reshape(
        product(batch), product(inner), product(columns)
    )
    labels = [*batch, *rows, *columns]
    return (first @ second).reshape(*(shape_of[c] for c in labels)), "".join(labels)
