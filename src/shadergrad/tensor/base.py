"""TensorBase, which adds to the handle everything that needs no operation: reading the value, assigning another value in place,
moving to another device or dtype, cloning.

Tensor methods are spread over a chain of classes, one class per file. Each class extends the one before it, so a method can use only
its own class and those before it:

    handle -> description -> sharing -> history -> reading -> writing -> base ->
    gradients -> records -> comparison -> arithmetic -> elementwise -> numeric -> shape -> repetition -> addresses ->
    memory -> reduce -> norms -> subscript -> slices -> index -> scatter -> order -> products ->
    divide -> scans -> counts -> random -> names -> public

Results of operations always have the class Tensor, which public.py defines.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..drive import execute
from ..drive.tracing import current
from ..dtypes import DType, bool_, parse_dtype
from ..errors import (
    ArgumentTypeError,
    CompileError,
    DTypeError,
)
from ..graph import build
from ..graph.build import cast
from ..graph.leaves import Alias
from ..graph.node import make
from ..runtime.device import get_device
from .handle import wrap
from .placement import check_storable, device_for, has_stand_in, resolve_device
from .strides import lies_row_by_row
from .transfer import computed_on, constant_on, moved
from .writing import WritableTensor


class TensorBase(WritableTensor):
    """The base of all tensors: a value, its history, and conversions."""

    __slots__ = ()

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, copy: bool = False, non_blocking: bool = False
    ) -> Self:
        """On another device and/or with another dtype: to('webgpu'), to(sg.float64), to('cpu', sg.int32), to(other).

        Returns the tensor itself if nothing changes and `copy` is not set. Differentiable, also to another device.
        non_blocking changes nothing. Raises DeviceError for an unknown device, DTypeError for an
        unknown dtype or one that the device lacks, CompileError for another device within a compiled step.

        >>> sg.tensor([1.7, -1.7]).to(sg.int32)
        tensor([ 1, -1])
        """
        for arg in args:
            if isinstance(arg, TensorBase):
                device, dtype = arg.device, arg.dtype
            elif arg is None or isinstance(arg, bool):
                continue
            elif names_device(arg):
                if device is not None:
                    raise ArgumentTypeError(f"to() got two devices: {str(device)!r} and {str(arg)!r}.")
                device = arg
            else:
                if dtype is not None:
                    raise ArgumentTypeError(f"to() got two dtypes: {dtype!r} and {arg!r}.")
                dtype = arg
        result = self
        wanted = self.dtype if dtype is None else parse_dtype(dtype)
        here = self._node.device
        target = device_for(wanted, here, self.dtype) if device is None else resolve_device(device)
        check_storable(wanted, target)
        if self.dtype.is_complex and wanted.category < 3:
            raise DTypeError(
                f"[to] {self.dtype.name} to {wanted.name} would drop the imaginary part. Hint: .real or .abs()."
            )
        if wanted is not self.dtype and get_device(self._node.device).target.language == "numpy":
            result = wrap(cast(result._node, wanted))
        if target != self._node.device:
            get_device(target)
            elsewhere = computed_on if current.trace is None else constant_on
            node = elsewhere(target, result._node)
            if node is None and current.trace is not None:
                raise CompileError(
                    f"[to] a compiled step works on one device, this one moves a {tuple(self.shape)} tensor from {self.device} to "
                    f"{target}. Hint: move arguments, and what the step reads, before it, results after it; make new tensors "
                    "and draw random numbers where they are wanted, device=..."
                )
            result = wrap(moved(result._node, result._read("to()"), target) if node is None else node)
        if wanted is not result.dtype:
            result = wrap(cast(result._node, wanted))
        return result.clone() if copy and result is self else result

    def cpu(self) -> Self:
        """The tensor on the cpu device; itself if it is there.

        >>> sg.ones(2).cpu()
        tensor([1., 1.])
        """
        return self.to("cpu")

    def type_as(self, other: TensorBase) -> Self:
        """The tensor with the dtype of `other`.

        >>> sg.tensor([1, 2]).type_as(sg.ones(1))
        tensor([1., 2.])
        """
        return self.to(dtype=other.dtype)

    def clone(self) -> Self:
        """A differentiable copy.

        >>> x = sg.tensor([1.0, 2.0])
        >>> y = x.clone()
        >>> y.add_(1)
        tensor([2., 3.])
        >>> x
        tensor([1., 2.])
        """
        word, neutral = ("Or", False) if self.dtype is bool_ else ("Mul", 1)
        return wrap(build.elementwise(word, self._node, neutral))

    def contiguous(self) -> Self:
        """The tensor itself if its elements are row-major and contiguous in its memory, else a copy.

        >>> sg.tensor([[1, 2], [3, 4]]).t().contiguous()
        tensor([[1, 3],
                [2, 4]])
        """
        return self if self._is_row_major() else self._copied()

    def _is_row_major(self) -> bool:
        """Whether the elements are row-major in shared memory."""
        return lies_row_by_row(self._node.shape, self._strides()[0])

    def _copied(self) -> Self:
        """The value in separate memory, as clone(), but without recording a computation."""
        return wrap(make(Alias(), self._node))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """The state for pickle: the value, its device, whether it is a leaf that requires grad, and custom attributes.

        Sharing is not kept.
        """
        leaf = self.requires_grad and self.is_leaf
        given = (type(self), self._read("pickling"), self.dtype, str(self._node.device), leaf)
        attributes = getattr(self, "__dict__", None)
        return (_rebuilt, given, attributes) if attributes else (_rebuilt, given)


def _rebuilt(cls: type[Any], array: np.ndarray, dtype: DType, device: str, requires_grad: bool) -> Any:
    """A tensor from its pickle."""
    result = object.__new__(cls)
    result._adopt(execute.upload(np.asarray(array, dtype.numpy), dtype, resolve_device(device)))
    if requires_grad:
        result.requires_grad_()
    return result


def names_device(value: object) -> bool:
    """Whether an argument of to() is a device: a string that is not a dtype, or the number of a GPU if 'cuda' stands for a device."""
    if isinstance(value, int):
        return not isinstance(value, bool) and has_stand_in("cuda")
    return isinstance(value, str) and not is_dtype_name(value)


def is_dtype_name(text: str) -> bool:
    try:
        parse_dtype(text)
    except DTypeError:
        return False
    return True
