"""The tensor: the user's handle on a node. PyTorch's names, argument order, defaults, broadcasting and dtype rules.

A tensor computes nothing until its value is needed: numpy(), item(), tolist(), print, sync(), or an optimizer step.
Differences from PyTorch are in docs/from-pytorch.md.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..arguments import checked, type_name
from ..drive.tracing import current
from ..dtypes import DType, bool_, default_dtype, float32, int32, int64, parse_dtype
from ..errors import ArgumentTypeError, AutogradError, CompileError, ShapeError
from ..graph import build
from ..symbolic_sizes import Varying
from .axes import sizes_of
from .coercion import Number, node_of
from .creation import empty, full, ones, tensor, zeros
from .description import Size
from .handle import Handle
from .names import NamedTensor, check_methods
from .placement import check_fits

COPIED = "shadergrad"  # the key under which a deep copy stores the memory that it has copied


def constructed(name: str, data: tuple[Any, ...], dtype: Any) -> tuple[Any, Any]:
    """The values and the dtype from a tensor constructor's arguments: values, sizes, or nothing, which means size 0."""
    if len(data) == 2 and isinstance(data[1], DType | np.dtype | type | str):
        return constructed(name, data[:1], data[1])
    kind = default_dtype() if dtype is None else parse_dtype(dtype)
    value: Any = data[0] if len(data) == 1 else 0
    if len(data) != 1 or (isinstance(value, int | np.integer | Size | Varying) and not isinstance(value, bool)):
        return np.zeros(sizes_of(data, name) if data else 0, kind.numpy), kind
    if isinstance(value, float | complex | bool | np.floating | np.bool_) and dtype is None:
        raise ArgumentTypeError(f"{name}(): data must be a sequence, not {type_name(value)}. Hint: sg.tensor({value}).")
    return value, dtype if isinstance(value, Handle) else kind


class Tensor(NamedTensor):
    """An array on a device, with automatic differentiation.

    data: nested lists, a NumPy array, or a Tensor (copied), which keeps its dtype. Without a dtype the elements of others are
    float32, as in PyTorch, whatever they were; `tensor` keeps the dtype. Whole numbers are sizes: Tensor(5) and Tensor(2, 3) are zeros of those shapes.
    Raises ArgumentTypeError for a number that is no size. Other errors: as `tensor`.

    >>> sg.Tensor([[1, 2], [3, 4]])
    tensor([[1., 2.],
            [3., 4.]])
    >>> sg.Tensor(2)
    tensor([0., 0.])
    """

    __slots__ = ("__dict__",)  # for attributes that programs set, as PyTorch's tensors take them

    def __init__(self, *data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> None:
        self._adopt(node_of(*constructed("Tensor", data, dtype), device))
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        """A new leaf with the same value, as copy.deepcopy of a module needs. Tensors that share memory and are copied together
        have copies that share memory.
        """
        if not self.is_leaf:
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        result = memo[id(self)] = object.__new__(type(self))
        shown = self._copied_memory(memo)
        if shown is None:
            result._adopt(self.detach().clone()._node)
        else:
            result._alias_of(shown)
        result.requires_grad_(self.requires_grad)
        gradient = self.grad  # which is reported to a compiled step
        result._grad = None if gradient is None else gradient.__deepcopy__(memo)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def _copied_memory(self, memo: dict[Any, Any]) -> Tensor | None:
        """The view, in the copied memory, for a deep copy of this tensor; None if it shares its memory with none."""
        if current.trace is not None:
            current.trace.on_copy(self)
        if self._shared is None or (current.trace is None and self._share_no_more()):
            return None
        copied = memo.setdefault(COPIED, {})  # by storages, which the tensors that are copied keep alive
        storage, path = self._shared.storage, (*self._shared.path, *self._path)
        if id(storage) not in copied:
            if path and current.trace is not None:
                # a capture does not read memory that no tensor of the function shows
                copied[id(storage)] = None
                return None
            copied[id(storage)] = (Tensor._all_of(storage) if path else self).detach().clone()
        whole = copied[id(storage)]
        if whole is None:
            raise CompileError(
                "a compiled step makes a deep copy of a view, and of another tensor that shares its memory. "
                "Hint: give copy.deepcopy what they are views of first, or copy outside the step."
            )
        return whole._seen_along(path, True)

    def copy_(self, source: Tensor | Number) -> Tensor:
        """Take the values of `source`, broadcast to the shape and cast to the dtype of self. In place; returns self.

        They may come from another device. Raises ShapeError for a shape that does not broadcast, AutogradError for a
        leaf that requires grad, outside no_grad.

        >>> sg.zeros(2, 2).copy_(sg.tensor([1, 2]))
        tensor([[1., 2.],
                [1., 2.]])
        """
        given: Tensor = source if isinstance(source, Tensor) else tensor(source, device=self.device)
        value = given.to(self.device, self.dtype)
        if value.shape != self.shape:
            value = value.expand(self.shape)
        return self._update_in_place(value, "copy_")

    def fill_(self, value: Number | Tensor) -> Tensor:
        """Set every element to a number, or to a 0-d tensor. In place; returns self.

        >>> sg.zeros(2).fill_(3)
        tensor([3., 3.])
        """
        if isinstance(value, Tensor):
            if value.ndim:
                raise ShapeError(
                    f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
                )
            return self.copy_(value)
        check_fits(value, self.dtype)
        return self._update_in_place(build.like(self._node, value), "fill_")

    def zero_(self) -> Tensor:
        """Set every element to 0. In place; returns self.

        >>> sg.ones(2).zero_()
        tensor([0., 0.])
        """
        return self.fill_(0)

    def new_tensor(self, data: Any, **options: Any) -> Tensor:
        """A tensor of `data` with the dtype and device of self, unless options say others.

        >>> sg.ones(1).new_tensor([1, 2])
        tensor([1., 2.])
        """
        return tensor(data, **_like(self, options))

    def new_full(self, size: Any, fill_value: Number, **options: Any) -> Tensor:
        """A tensor of shape `size` filled with one number, with the dtype and device of self unless options give others.

        >>> sg.ones(1).new_full((2, 2), 7)
        tensor([[7., 7.],
                [7., 7.]])
        """
        return full(size, fill_value, **_like(self, options))  # type: ignore[arg-type]

    def new_zeros(self, *size: Any, **options: Any) -> Tensor:
        """Zeros of shape `size`, with the dtype and device of self unless options give others.

        >>> sg.tensor([5]).new_zeros(2, 2)
        tensor([[0, 0],
                [0, 0]])
        """
        return zeros(*size, **_like(self, options))

    def new_ones(self, *size: Any, **options: Any) -> Tensor:
        """Ones of shape `size`, with the dtype and device of self unless options give others.

        >>> sg.tensor([5]).new_ones(3)
        tensor([1, 1, 1])
        """
        return ones(*size, **_like(self, options))

    def new_empty(self, *size: Any, **options: Any) -> Tensor:
        """Zeros, as new_zeros: there is no uninitialised memory here.

        >>> sg.tensor([5]).new_empty(3).shape
        shadergrad.Size([3])
        """
        return empty(*size, **_like(self, options))

    # -- conversions named as Python's types; last, for within the class they hide those

    def float(self) -> Tensor:
        """As float32.

        >>> sg.tensor([1, 2]).float()
        tensor([1., 2.])
        """
        return self.to(dtype=float32)

    def double(self) -> Tensor:
        """As float64, which only the cpu device has: DTypeError elsewhere.

        >>> sg.tensor([1, 2]).double()
        tensor([1., 2.], dtype=shadergrad.float64)
        """
        return self.to(dtype="float64")

    def int(self) -> Tensor:
        """As int32, rounded toward 0.

        >>> sg.tensor([1.7, -1.7]).int()
        tensor([ 1, -1])
        """
        return self.to(dtype=int32)

    def long(self) -> Tensor:
        """As int64, rounded toward 0.

        >>> sg.tensor([1.7, -1.7]).long()
        tensor([ 1, -1], dtype=shadergrad.int64)
        """
        return self.to(dtype=int64)

    def bool(self) -> Tensor:
        """As bool: whether elements are not 0.

        >>> sg.tensor([0.0, 0.5]).bool()
        tensor([False,  True])
        """
        return self.to(dtype=bool_)


Handle._class = Tensor
check_methods(Tensor)


@checked
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` itself if it is a tensor of that dtype and device, else a new one, as `tensor`.

    >>> x = sg.ones(2)
    >>> sg.as_tensor(x) is x, sg.as_tensor([1, 2])
    (True, tensor([1, 2]))
    """
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype) if device is not None or dtype is not None else data
    return tensor(data, dtype=dtype, device=device)


def _like(x: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """Options with the dtype and device of x if they name none."""
    dtype, device = options.get("dtype"), options.get("device")
    return {
        **options,
        "dtype": x.dtype if dtype is None else parse_dtype(dtype),
        "device": x.device if device is None else device,
    }
