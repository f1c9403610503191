"""Methods that give a tensor another shape or another order of its axes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Self

from ..drive import tracing
from ..drive.tracing import current
from ..dtypes import DType, parse_dtype
from ..errors import ArgumentTypeError, AutogradError, CompileError, ShapeError
from ..graph import build
from ..graph.node import mode
from .axes import check_axes, check_axis, sizes_of
from .dtype_views import check_layout, reading
from .numeric import NumericTensor
from .strides import row_major, strides_of_view


class ShapeTensor(NumericTensor):
    """Methods that change the shape or the order of axes."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        """The same elements in row-major order in another shape, given as sizes or a sequence; one size may be -1, which is
        inferred.

        A view if the memory layout permits it, else a copy, as in PyTorch. Raises ShapeError if the product of the sizes is not
        the number of elements.

        >>> sg.arange(6).reshape(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
        """
        found = self._viewed(shape, "reshape")
        layout = self._strides()[0]
        if layout == row_major(self._node.shape) or strides_of_view(self._node.shape, layout, found._node.shape):
            return found
        return found._copied()

    def view(self, *shape: Any, **options: Any) -> Self:
        """The same elements in another shape, as `reshape`, but always a view, whatever the strides. With a dtype, the
        same memory read as that dtype, without history: on a GPU for dtypes of equally many bits, on cpu for all.

        Larger or smaller elements make the last axis shorter or longer. Raises ShapeError if the product of the sizes is not
        the number of elements, or if the last axis is not contiguous; DTypeError if the device cannot read the dtype.

        >>> x = sg.arange(4)
        >>> x.view(2, 2)[0].zero_()
        tensor([0, 0])
        >>> x
        tensor([0, 0, 2, 3])
        >>> sg.tensor([1.0]).view(sg.int32)
        tensor([1065353216])
        """
        if "dtype" in options or (len(shape) == 1 and isinstance(shape[0], DType)):
            if len(shape) + len(options) > 1:
                raise ArgumentTypeError("view() takes sizes or a dtype, not both.")
            return self._read_as(parse_dtype(options.get("dtype", shape[0] if shape else None)))
        if options:
            raise ArgumentTypeError(f"view() got an unexpected keyword argument {next(iter(options))!r}.")
        return self._viewed(shape, "view")

    def _read_as(self, dtype: DType) -> Self:
        if dtype is self.dtype:
            return self.detach()
        show = reading(self.dtype, dtype, self._node.device)
        layout, offset = self._strides()
        check_layout(self.dtype, dtype, layout, self._node.shape, offset)
        return self._view(show)

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
        """The same elements in the shape of `other`. Raises ShapeError if that has another number of elements.

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
        """The axes from start_dim to end_dim as one; a tensor of shape () becomes one of shape (1,).

        Raises IndexRangeError for an axis that does not exist, ShapeError if start_dim comes after end_dim.

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
        """One axis split into several, of `sizes`, one of which may be -1. Raises ShapeError if their product is not its
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
        """All elements along one axis, in row-major order.

        >>> sg.tensor([[1, 2], [3, 4]]).ravel()
        tensor([1, 2, 3, 4])
        """
        return self.contiguous().view(-1)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Without axes of size 1: all of them, or those among `dim` (an axis or several).

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
        """Become a view of this tensor."""
        if mode.grad and self.is_leaf and self.requires_grad:
            raise AutogradError(
                f"a leaf Variable that requires grad is being used in an in-place operation ({what}). Hint: do it under sg.no_grad()."
            )
        if current.trace is not None and self._serial <= current.trace.began:
            raise CompileError(
                f"[{what}] a compiled step cannot give a tensor from outside other axes. Hint: do it before."
            )
        tracing.changes += 1
        self._rebound += 1
        shared = view._shared
        first = None if shared is None else shared.storage.tensor()
        base = self._join(view, view._node)
        if first is not None and first is not self:  # it still shows all of the storage
            base.storage.tensor = weakref.ref(first)
        return self

    def squeeze_(self, dim: int | Sequence[int] | None = None) -> Self:
        """`squeeze`, in place; returns the tensor. Raises AutogradError for a leaf that
        requires grad.

        >>> x = sg.zeros(1, 3)
        >>> x.squeeze_().shape
        shadergrad.Size([3])
        """
        return self._turned_into(self.squeeze(dim), "squeeze_")

    def unsqueeze_(self, dim: int) -> Self:
        """`unsqueeze`, in place; returns the tensor. Raises AutogradError for a leaf that
        requires grad.

        >>> x = sg.zeros(3)
        >>> x.unsqueeze_(0).shape
        shadergrad.Size([1, 3])
        """
        return self._turned_into(self.unsqueeze(dim), "unsqueeze_")

    def transpose_(self, dim0: int, dim1: int) -> Self:
        """`transpose`, in place; returns the tensor. Raises AutogradError for a leaf
        that requires grad.

        >>> x = sg.zeros(2, 3)
        >>> x.transpose_(0, 1).shape
        shadergrad.Size([3, 2])
        """
        return self._turned_into(self.transpose(dim0, dim1), "transpose_")

    def t_(self) -> Self:
        """`t`, in place; returns the tensor. Raises AutogradError for a leaf that requires
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
        """With two axes swapped. Raises IndexRangeError for an axis that does not exist.

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
        """The transpose of a matrix; a vector or a 0-d tensor is returned as it is. Raises ShapeError for more
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
        """The conjugate transpose of a matrix; for real dtypes, its transpose. Raises ShapeError for other than 0 or 2 axes.

        >>> sg.zeros(2, 3).H.shape
        shadergrad.Size([3, 2])
        """
        if self.ndim not in (0, 2):
            raise ShapeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
        return self.transpose(0, 1) if self.ndim else self

    @property
    def mH(self) -> Self:
        """The conjugate transpose of the last two axes; for real dtypes, `mT`.

        >>> sg.zeros(5, 2, 3).mH.shape
        shadergrad.Size([5, 3, 2])
        """
        return self.mT

    def adjoint(self) -> Self:
        """The conjugate transpose of the last two axes, a view: `mH`. Raises ShapeError for a vector.

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
        """With the axes `source` moved to the positions `destination`, the others in order. Raises IndexRangeError for an axis
        that does not exist.

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
        if not self.ndim:  # whose axes 0 and -1 are allowed, and are none
            return self.permute([])
        order = [a for a in range(self.ndim) if a not in sources]
        for target, axis in sorted(zip(targets, sources, strict=True)):
            order.insert(target, axis)
        return self.permute(order)
