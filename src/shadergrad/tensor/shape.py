"""Methods that move elements: shapes, axes, repetition, padding, windows, joining."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from ..arguments import checked
from ..drive.tracing import current
from ..dtypes import bool_, promote_operands
from ..errors import ArgumentTypeError, AutogradError, CompileError, IndexRangeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import make, mode
from ..primitives import views as v
from ..primitives.window import Window
from .axes import check_axes, check_axis, sizes_of
from .comparison import where
from .handle import wrap
from .numeric import NumericTensor
from .strides import row_major, strides_of_view

T = TypeVar("T", bound="ShapeTensor")


class ShapeTensor(NumericTensor):
    """Methods that move elements: shapes, axes, repetition, padding, windows, joining."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        """The same elements, row by row, in another shape, given as sizes or a sequence; one size may be -1: what the
        others leave.

        A view where the elements lie so in memory, else a copy, as in PyTorch. Raises ShapeError where the sizes do not
        multiply to the number of elements.

        >>> sg.arange(6).reshape(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
        """
        found = self._viewed(shape, "reshape")
        layout = self._strides()[0]
        if layout == row_major(self._node.shape) or strides_of_view(self._node.shape, layout, found._node.shape):
            return found
        return found._copied()

    def view(self, *shape: Any) -> Self:
        """The same elements in another shape, as `reshape`, and always a view: no strides stand in its way.

        There is no view as another dtype. Raises ShapeError where the sizes do not multiply to the number of elements.

        >>> x = sg.arange(4)
        >>> x.view(2, 2)[0].zero_()
        tensor([0, 0])
        >>> x
        tensor([0, 0, 2, 3])
        """
        return self._viewed(shape, "view")

    def _viewed(self, shape: tuple[Any, ...], what: str) -> Self:
        sizes = list(sizes_of(shape, what, "shape"))
        unknown = [k for k, n in enumerate(sizes) if n == -1]
        rest = math.prod(n for n in sizes if n != -1)
        if len(unknown) > 1:
            raise ShapeError(f"[{what}] only one dimension can be inferred")
        if unknown:
            if rest == 0 or self._node.size % rest:
                raise ShapeError(f"[{what}] shape {sizes} is invalid for input of size {self._node.size}")
            sizes[unknown[0]] = self._node.size // rest
        if min(sizes, default=0) < 0:
            raise ShapeError(f"[{what}] invalid shape dimension {min(sizes)}")
        return self._view(lambda x: build.reshape(x, tuple(sizes)))

    def reshape_as(self, other: ShapeTensor) -> Self:
        """The same elements in the shape of `other`. Raises ShapeError where that has another number of elements.

        >>> sg.arange(4).reshape_as(sg.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
        """
        return self.reshape(other.shape)

    def view_as(self, other: ShapeTensor) -> Self:
        """`view` in the shape of `other`.

        >>> sg.arange(4).view_as(sg.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
        """
        return self.view(other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """The axes from start_dim to end_dim as one; of a tensor of shape (), one of shape (1,).

        Raises IndexRangeError for an axis that is not there, ShapeError where start_dim comes after end_dim.

        >>> sg.zeros(2, 3, 4).flatten(1).shape
        shadergrad.Size([2, 12])
        """
        start, end = check_axis(start_dim, self.ndim, "flatten"), check_axis(end_dim, self.ndim, "flatten")
        if self.ndim == 0:
            return self.reshape(1)
        if start == end:
            return self
        if start > end:
            raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim")
        return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """One axis as several, of `sizes`, one of which may be -1. Raises ShapeError where they do not multiply to its
        size.

        >>> sg.zeros(2, 12).unflatten(1, (3, -1)).shape
        shadergrad.Size([2, 3, 4])
        """
        if self.ndim == 0:
            raise ShapeError("unflatten: a tensor of shape () has no axis")
        if not isinstance(sizes, Iterable):
            raise ArgumentTypeError(f"unflatten(): argument 'sizes' must be tuple of ints, not {sizes!r}")
        axis = check_axis(dim, self.ndim, "unflatten")
        shape, wanted = list(self.shape), list(sizes_of((sizes,), "unflatten"))
        if wanted.count(-1) == 1:
            known = -math.prod(wanted)
            wanted[wanted.index(-1)] = shape[axis] // known if known else 0
        if math.prod(wanted) != shape[axis]:
            raise ShapeError(
                f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({shape[axis]}) in the input tensor"
            )
        return self.view(*shape[:axis], *wanted, *shape[axis + 1 :])

    def ravel(self) -> Self:
        """All elements along one axis, row by row.

        >>> sg.tensor([[1, 2], [3, 4]]).ravel()
        tensor([1, 2, 3, 4])
        """
        return self.contiguous().view(-1)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Without axes of size 1: all, or those of `dim` (an axis or several) that have size 1.

        >>> sg.zeros(1, 3, 1).squeeze().shape
        shadergrad.Size([3])
        >>> sg.zeros(1, 3, 1).squeeze(0).shape
        shadergrad.Size([3, 1])
        """
        axes = range(self.ndim) if dim is None else check_axes(dim, self.ndim, "squeeze") if dim != () else ()
        return self.view([n for a, n in enumerate(self.shape) if n != 1 or a not in axes])

    def unsqueeze(self, dim: int) -> Self:
        """With an axis of size 1 inserted before `dim`; -1 appends one. Raises IndexRangeError outside [-ndim - 1,
        ndim].

        >>> sg.tensor([1, 2]).unsqueeze(0)
        tensor([[1, 2]])
        """
        at = check_axis(dim, self.ndim + 1, "unsqueeze")
        return self.view(*self.shape[:at], 1, *self.shape[at:])

    def _turned_into(self, view: Self, what: str) -> Self:
        """Show henceforth what a view of this tensor shows."""
        if mode.grad and self.is_leaf and self.requires_grad:
            raise AutogradError(
                f"a leaf Variable that requires grad is being used in an in-place operation ({what}). Hint: do it under sg.no_grad()."
            )
        if current.trace is not None and self._serial <= current.trace.began:
            raise CompileError(
                f"[{what}] a compiled step cannot give a tensor from outside other axes. Hint: do it before."
            )
        self._join(view, view._node)
        return self

    def squeeze_(self, dim: int | Sequence[int] | None = None) -> Self:
        """`squeeze`, in place: the tensor loses axes of size 1, and is returned. Raises AutogradError for a leaf that
        requires grad.

        >>> x = sg.zeros(1, 3)
        >>> x.squeeze_().shape
        shadergrad.Size([3])
        """
        return self._turned_into(self.squeeze(dim), "squeeze_")

    def unsqueeze_(self, dim: int) -> Self:
        """`unsqueeze`, in place: the tensor gets an axis of size 1, and is returned. Raises AutogradError for a leaf that
        requires grad.

        >>> x = sg.zeros(3)
        >>> x.unsqueeze_(0).shape
        shadergrad.Size([1, 3])
        """
        return self._turned_into(self.unsqueeze(dim), "unsqueeze_")

    def transpose_(self, dim0: int, dim1: int) -> Self:
        """`transpose`, in place: two axes of the tensor change places, and it is returned. Raises AutogradError for a leaf
        that requires grad.

        >>> x = sg.zeros(2, 3)
        >>> x.transpose_(0, 1).shape
        shadergrad.Size([3, 2])
        """
        return self._turned_into(self.transpose(dim0, dim1), "transpose_")

    def t_(self) -> Self:
        """`t`, in place: the tensor becomes its transpose, and is returned. Raises AutogradError for a leaf that requires
        grad.

        >>> x = sg.zeros(2, 3)
        >>> x.t_().shape
        shadergrad.Size([3, 2])
        """
        return self._turned_into(self.t(), "t_")

    def permute(self, *dims: Any) -> Self:
        """The axes in another order: axis k of the result is axis dims[k] of the tensor. Raises ShapeError unless every
        axis is named once.

        >>> sg.zeros(2, 3, 4).permute(2, 0, 1).shape
        shadergrad.Size([4, 2, 3])
        """
        axes = sizes_of(dims, "permute", "dims")
        if len(axes) != self.ndim:
            raise ShapeError(f"[permute] {len(axes)} dims for a tensor of {self.ndim}.")
        order = tuple(check_axis(a, self.ndim, "permute") for a in axes)
        return self._view(lambda x: build.permute(x, order))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """With two axes exchanged. Raises IndexRangeError for an axis that is not there.

        >>> x = sg.tensor([[1, 2], [3, 4]])
        >>> x.transpose(0, 1)
        tensor([[1, 3],
                [2, 4]])
        """
        axes = list(range(self.ndim))
        a, b = check_axis(dim0, self.ndim, "transpose"), check_axis(dim1, self.ndim, "transpose")
        if self.ndim == 0:
            return self._view(lambda x: x)
        axes[a], axes[b] = axes[b], axes[a]
        return self._view(lambda x: build.permute(x, tuple(axes)))

    def t(self) -> Self:
        """The transpose of a matrix; a vector or a tensor of shape () is given as it is. Raises ShapeError for more
        than 2 axes.

        >>> sg.tensor([[1, 2], [3, 4]]).t()
        tensor([[1, 3],
                [2, 4]])
        """
        if self.ndim > 2:
            raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
        return self._view(lambda x: x) if self.ndim < 2 else self.transpose(0, 1)

    @property
    def T(self) -> Self:
        """The axes in reverse order; for a matrix, its transpose.

        >>> sg.zeros(2, 3).T.shape
        shadergrad.Size([3, 2])
        """
        return self.permute(*reversed(range(self.ndim)))

    @property
    def H(self) -> Self:
        """The transpose of a matrix, conjugated, which changes nothing here. Raises ShapeError for other than 0 or 2 axes.

        >>> sg.zeros(2, 3).H.shape
        shadergrad.Size([3, 2])
        """
        if self.ndim not in (0, 2):
            raise ShapeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
        return self.transpose(0, 1) if self.ndim else self

    @property
    def mH(self) -> Self:
        """The last two axes exchanged, and conjugated, which changes nothing here: `mT`.

        >>> sg.zeros(5, 2, 3).mH.shape
        shadergrad.Size([5, 3, 2])
        """
        return self.mT

    def adjoint(self) -> Self:
        """The last two axes exchanged, and conjugated, which changes nothing here: `mH`, a view. Raises ShapeError for a
        vector.

        >>> sg.tensor([[1, 2], [3, 4]]).adjoint()
        tensor([[1, 3],
                [2, 4]])
        """
        if self.ndim == 1:
            raise ShapeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
        return self.mH

    @property
    def mT(self) -> Self:
        """The last two axes exchanged: every matrix (..., n, m) transposed to (..., m, n). Raises ShapeError for a vector.

        >>> sg.zeros(5, 2, 3).mT.shape
        shadergrad.Size([5, 3, 2])
        """
        if self.ndim == 1:
            raise ShapeError("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.")
        return self.transpose(-2, -1) if self.ndim else self

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """With the axes `source` at the places `destination`, the others in order. Raises IndexRangeError for an axis
        that is not there.

        >>> x = sg.zeros(2, 3, 4)
        >>> x.movedim(0, -1).shape
        shadergrad.Size([3, 4, 2])
        """
        sources = [check_axis(a, self.ndim, "movedim") for a in ([source] if isinstance(source, int) else source)]
        targets = [
            check_axis(a, self.ndim, "movedim")
            for a in ([destination] if isinstance(destination, int) else destination)
        ]
        if len(sources) != len(targets) or len(set(sources)) < len(sources) or len(set(targets)) < len(targets):
            raise ShapeError(
                f"movedim: source {source} and destination {destination} must name as many axes, each once."
            )
        order = [a for a in range(self.ndim) if a not in sources]
        for target, axis in sorted(zip(targets, sources, strict=True)):
            order.insert(target, axis)
        return self.permute(order)

    def expand(self, *sizes: Any) -> Self:
        """Axes of size 1 repeated to `sizes`, and new ones before; -1 keeps a size. Nothing is copied.

        Raises ShapeError where an axis has neither size 1 nor the one asked for.

        >>> sg.tensor([[1], [2]]).expand(-1, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
        """
        wanted = list(sizes_of(sizes, "expand"))
        extra = len(wanted) - self.ndim
        if extra < 0:
            raise ShapeError(
                f"[expand] the number of sizes provided ({len(wanted)}) must be greater or equal to the number of dimensions ({self.ndim})"
            )
        for k, n in enumerate(wanted):
            if n == -1:
                if k < extra:
                    raise ShapeError("[expand] -1 is not allowed in a leading, non-existing dimension")
                wanted[k] = self.shape[k - extra]
            elif n < 0 or (k >= extra and self.shape[k - extra] not in (1, n)):
                existing = " is negative" if k < extra else f" must match the existing size ({self.shape[k - extra]})"
                raise ShapeError(
                    f"[expand] the expanded size ({n}){existing} at dimension {k}: {tuple(self.shape)} to {tuple(wanted)}."
                )
        return self._view(lambda x: build.broadcast(x, tuple(wanted)))

    def expand_as(self, other: ShapeTensor) -> Self:
        """Expanded to the shape of `other`, as by `expand`.

        >>> sg.tensor([1, 2]).expand_as(sg.zeros(2, 2))
        tensor([[1, 2],
                [1, 2]])
        """
        return self.expand(other.shape)

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        """Expanded to `shape`, as by `expand`.

        >>> sg.tensor([1, 2]).broadcast_to((2, 2))
        tensor([[1, 2],
                [1, 2]])
        """
        return self.expand(*sizes_of((shape,), "broadcast_to"))

    def flip(self, *axes: Any, dims: int | Sequence[int] | None = None) -> Self:
        """In reverse order along axes, given as arguments or a sequence, also by the name `dims`.

        >>> sg.tensor([[1, 2], [3, 4]]).flip(1)
        tensor([[2, 1],
                [4, 3]])
        """
        wanted = sizes_of((dims,) if dims is not None else axes, "flip", "dims")
        found = check_axes(wanted, self.ndim, "flip") if wanted else ()
        return wrap(make(v.Flip(found), self._node)) if found else self._copied()

    def fliplr(self) -> Self:
        """In reverse order along axis 1; at least 2 axes.

        >>> sg.tensor([[1, 2], [3, 4]]).fliplr()
        tensor([[2, 1],
                [4, 3]])
        """
        if self.ndim < 2:
            raise ShapeError(f"fliplr(): input must be >= 2-d, but its shape is {tuple(self.shape)}.")
        return self.flip(1)

    def flipud(self) -> Self:
        """In reverse order along axis 0; at least 1 axis.

        >>> sg.tensor([[1, 2], [3, 4]]).flipud()
        tensor([[3, 4],
                [1, 2]])
        """
        if self.ndim == 0:
            raise ShapeError("[flipud] a tensor of shape () has no axis.")
        return self.flip(0)

    def pad(self, padding: Sequence[int], value: float = 0.0) -> Self:
        """With `value` added around it: padding holds (before, after) pairs from the last axis backwards; negative
        amounts cut.

        Raises ShapeError for half a pair, more pairs than axes, or where more is cut than there is. Other modes:
        nn.functional.pad.

        >>> sg.tensor([1, 2]).pad((1, 2), value=9)
        tensor([9, 1, 2, 9, 9])
        """
        if len(padding) % 2:
            raise ShapeError(f"[pad] padding holds pairs of numbers, got {tuple(padding)}.")
        pairs = list(zip(padding[::2], padding[1::2], strict=True))
        if len(pairs) > self.ndim:
            raise ShapeError(f"[pad] {len(pairs)} pairs of padding for a tensor of {self.ndim} dimensions.")
        low = [0] * self.ndim
        high = [0] * self.ndim
        for k, (a, b) in enumerate(pairs):
            low[-1 - k], high[-1 - k] = a, b
        result = self
        if min([*low, *high], default=0) < 0:
            starts = tuple(max(-a, 0) for a in low)
            sizes = tuple(n - s + min(b, 0) for n, s, b in zip(self.shape, starts, high, strict=True))
            if min(sizes, default=0) < 0:
                raise ShapeError(f"[pad] padding {tuple(padding)} cuts more than shape {tuple(self.shape)} has.")
            result = wrap(make(v.Slice(starts, sizes, (1,) * self.ndim), self._node))
        number = bool(value) if self.dtype is bool_ else int(value) if self.dtype.category == 1 else float(value)
        lows, highs = tuple(max(a, 0) for a in low), tuple(max(b, 0) for b in high)
        return wrap(make(v.Pad(lows, highs, (0,) * self.ndim, number), result._node))

    def repeat(self, *repeats: Any) -> Self:
        """The tensor tiled so many times along every axis; extra counts come first. Raises ShapeError for fewer counts
        than axes.

        >>> sg.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
        """
        counts = sizes_of(repeats, "repeat", "repeats")
        if len(counts) < self.ndim:
            raise ShapeError(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            )
        shape = (1,) * (len(counts) - self.ndim) + tuple(self.shape)
        spread = self.reshape([k for n in shape for k in (1, n)])
        spread = spread.expand(*(k for c, n in zip(counts, shape, strict=True) for k in (c, n)))
        return spread._viewed(tuple(c * n for c, n in zip(counts, shape, strict=True)), "repeat")._copied()

    def tile(self, *dims: Any) -> Self:
        """The tensor tiled so many times along the last axes; `repeat` with 1 for the counts that are missing in front.

        >>> sg.tensor([[1, 2], [3, 4]]).tile(2)
        tensor([[1, 2, 1, 2],
                [3, 4, 3, 4]])
        """
        counts = sizes_of(dims, "tile", "dims")
        return self.repeat((1,) * max(0, self.ndim - len(counts)) + counts)

    def prelu(self, weight: ShapeTensor) -> Self:
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

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Windows of `size` every `step` along an axis, which counts them; the elements of a window lie along a new
        last axis.

        Raises ShapeError where the axis is shorter than a window, or step < 1.

        >>> sg.arange(5).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
        """
        if self.ndim == 0:
            check_axis(dimension, 0, "unfold")
            return self.reshape(1).unfold(0, size, step).reshape(size)
        axis = check_axis(dimension, self.ndim, "unfold")
        if size > self.shape[axis] or step < 1:
            raise ShapeError(
                f"maximum size for tensor at dimension {axis} is {self.shape[axis]} but size is {size}; step is {step}"
            )
        return self._view(lambda x: make(Window((axis,), (size,), (step,), (1,)), x))

    def is_contiguous(self) -> bool:
        """Whether the elements lie row by row in what the tensor shares.

        >>> x = sg.zeros(2, 3)
        >>> x.is_contiguous(), x.t().is_contiguous()
        (True, False)
        """
        return self._is_row_major()

    def stride(self, dim: int | None = None) -> Any:
        """How many elements lie from one to the next along every axis, or along `dim`, in what the tensor shares.

        Raises IndexRangeError for an axis that is not there.

        >>> sg.zeros(2, 3).stride(), sg.zeros(2, 3).t().stride(0)
        ((3, 1), 1)
        """
        layout = self._strides()[0]
        return layout if dim is None else layout[check_axis(dim, self.ndim, "stride")]

    def storage_offset(self) -> int:
        """How many elements lie before the first in what the tensor shares.

        >>> sg.arange(5)[2:].storage_offset()
        2
        """
        return self._strides()[1]

    def data_ptr(self) -> int:
        """A number for where the first element is: equal for tensors that begin at the same element of the same memory,
        different otherwise. No address.

        >>> x = sg.zeros(2, 3)
        >>> x.data_ptr() == x.t().data_ptr(), x.data_ptr() == x[1].data_ptr(), x.data_ptr() == x.clone().data_ptr()
        (True, False, False)
        """
        return self.untyped_storage().data_ptr() + self.storage_offset() * self.element_size()

    def untyped_storage(self) -> StorageHandle:
        """The memory that the tensor shares with its views and aliases: to be compared, by data_ptr(), and no more.

        >>> x = sg.zeros(2, 3)
        >>> x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr()
        True
        """
        shared = self._shared
        if shared is None:
            return StorageHandle(self._serial, self._node.size * self.element_size())
        return StorageHandle(shared.storage.origin, shared.storage.node.size * self.element_size())

    def storage(self) -> StorageHandle:
        """`untyped_storage` by another name.

        >>> x = sg.zeros(2, 3)
        >>> x.storage().data_ptr() == x.detach().storage().data_ptr()
        True
        """
        return self.untyped_storage()


@dataclass(frozen=True)
class StorageHandle:
    """The memory behind tensors, as far as programs look at it: whether two tensors share it, and its size."""

    origin: int
    nbytes_: int

    def data_ptr(self) -> int:
        """A number that is equal for tensors that share their memory, and different for others. No address.

        >>> x = sg.zeros(2)
        >>> x.untyped_storage().data_ptr() == x.data.untyped_storage().data_ptr()
        True
        """
        return self.origin << 40

    def nbytes(self) -> int:
        """Bytes of all the elements.

        >>> sg.zeros(2, 3)[0].untyped_storage().nbytes()
        24
        """
        return self.nbytes_


def _several(what: str, tensors: Sequence[T]) -> list[T]:
    """The tensors of a sequence, which must hold at least one."""
    if not tensors:
        raise ShapeError(f"{what} expects a non-empty TensorList")
    return list(tensors)


@checked
def cat(tensors: Sequence[T], dim: int = 0) -> T:
    """One after another along `dim`, on which alone the shapes may differ; dtypes are promoted. Empty vectors are left
    out.

    Raises ShapeError for no tensors, tensors of shape (), and shapes that do not fit.

    >>> sg.cat([sg.tensor([[1, 2]]), sg.tensor([[3, 4], [5, 6]])])
    tensor([[1, 2],
            [3, 4],
            [5, 6]])
    """
    tensors = _several("cat", tensors)
    scalar = next((k for k, t in enumerate(tensors) if t.ndim == 0), None)
    if scalar is not None:
        raise ShapeError(f"zero-dimensional tensor (at position {scalar}) cannot be concatenated. Hint: use stack.")
    full = [t for t in tensors if tuple(t.shape) != (0,)] or tensors[:1]
    dtype = promote_operands([(t.dtype, 2) for t in tensors])
    axis = check_axis(dim, full[0].ndim, "cat")
    parts = [cast(t._node, dtype) for t in full]
    while len(parts) > 1:  # in groups, so that no kernel needs more buffers than a device has
        parts = [
            make(v.Cat(axis), *parts[k : k + 4]) if len(parts[k : k + 4]) > 1 else parts[k]
            for k in range(0, len(parts), 4)
        ]
    return wrap(parts[0])


@checked
def stack(tensors: Sequence[T], dim: int = 0) -> T:
    """Tensors of one shape along a new axis at `dim`. Raises ShapeError for no tensors, or where shapes differ.

    >>> sg.stack([sg.tensor([1, 2]), sg.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    tensors = _several("stack", tensors)
    ndim = tensors[0].ndim
    if not -ndim - 1 <= dim <= ndim:
        raise IndexRangeError(
            f"[stack] Dimension out of range (expected to be in range of [{-ndim - 1}, {ndim}], but got {dim})"
        )
    for t in tensors[1:]:
        if t.shape != tensors[0].shape:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and {list(t.shape)} at another"
            )
    return cat([t.unsqueeze(dim) for t in tensors], dim if dim >= 0 else dim + tensors[0].ndim + 1)


@checked
def meshgrid(*tensors: ShapeTensor | Sequence[ShapeTensor], indexing: str = "ij") -> tuple[Any, ...]:
    """Grids of coordinates from vectors: each expanded to the shape that the sizes of all give. indexing 'ij' (the
    first vector along axis 0) or 'xy' (along axis 1). Raises ShapeError for another `indexing`.

    >>> x, y = sg.meshgrid(sg.arange(2), sg.arange(3))
    >>> x
    tensor([[0, 0, 0],
            [1, 1, 1]])
    >>> y
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    axes: list[Any] = _several(
        "meshgrid", tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    )
    if any(t.ndim > 1 for t in axes):
        raise ShapeError(f"meshgrid: expected vectors, got tensors of {', '.join(str(tuple(t.shape)) for t in axes)}.")
    if indexing not in ("ij", "xy"):
        raise ShapeError(f'[meshgrid] indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(axes) > 1
    if swap:
        axes[0], axes[1] = axes[1], axes[0]
    shape = [t.numel() for t in axes]
    grids = [t.reshape([-1 if b == a else 1 for b in range(len(axes))]).expand(*shape) for a, t in enumerate(axes)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)
