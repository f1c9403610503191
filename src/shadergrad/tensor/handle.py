"""The tensor: the user's handle on a node. PyTorch's names, argument order, defaults, broadcasting and dtype rules.

A tensor computes nothing until its value is needed: numpy(), item(), tolist(), print, sync(), or an optimizer step.
Differences from PyTorch are in docs/differences.md.
"""

from __future__ import annotations

from typing import Any

from ..dtypes import bool_, float32, int32, int64, parse_dtype
from ..errors import AutogradError
from ..graph import build
from ..runtime.device import get_device
from .base import Number, TensorBase, node_of, wrap
from .creation import empty, full, ones, tensor, zeros
from .names import NamedTensor


class Tensor(NamedTensor):
    """An array on a device, with automatic differentiation.

    data: a number, nested lists, a NumPy array, or a Tensor (copied). Python floats give float32, ints int32; NumPy
    arrays keep their dtype, but int64 becomes int32 (see docs/differences.md).
    """

    __slots__ = ()

    def __init__(self, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> None:
        self._adopt(node_of(data, dtype, device))
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A leaf of its own with the same value, as copy.deepcopy of a module needs."""
        if not self.is_leaf:
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        result = memo[id(self)] = object.__new__(type(self))
        result._adopt(self.detach().clone()._node)
        result.requires_grad_(self.requires_grad)
        result._grad = None if self._grad is None else self._grad.__deepcopy__(memo)
        return result

    def copy_(self, source: Tensor) -> Tensor:
        if not isinstance(source, Tensor):
            source = Tensor(source, device=self.device)
        return self._update_in_place(source.to(self.device, self.dtype).expand(self.shape), "copy_")

    def fill_(self, value: Number) -> Tensor:
        return self._update_in_place(wrap(build.like(self._node, value)), "fill_")

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def new_tensor(self, data: Any, **options: Any) -> Tensor:

        return tensor(data, **_like(self, options))

    def new_full(self, size: Any, fill_value: Number, **options: Any) -> Tensor:

        return full(size, fill_value, **_like(self, options))

    def new_zeros(self, *size: Any, **options: Any) -> Tensor:

        return zeros(*size, **_like(self, options))

    def new_ones(self, *size: Any, **options: Any) -> Tensor:

        return ones(*size, **_like(self, options))

    def new_empty(self, *size: Any, **options: Any) -> Tensor:

        return empty(*size, **_like(self, options))

    # -- conversions named as Python's types; last, for within the class they hide those

    def float(self) -> Tensor:
        return self.to(dtype=float32)

    def double(self) -> Tensor:
        return self.to(dtype="float64")

    def int(self) -> Tensor:
        return self.to(dtype=int32)

    def long(self) -> Tensor:
        """int64 on the cpu device, int32 elsewhere."""
        return self.to(dtype=int64 if get_device(self._node.device).target.language == "numpy" else int32)

    def bool(self) -> Tensor:
        return self.to(dtype=bool_)


TensorBase._class = Tensor


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` itself if it is a tensor of that dtype and device, else a new one."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype) if device is not None or dtype is not None else data
    return Tensor(data, dtype=dtype, device=device)


def _like(x: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """Options with the dtype and device of x where they name none."""
    dtype, device = options.get("dtype"), options.get("device")
    return {
        **options,
        "dtype": x.dtype if dtype is None else parse_dtype(dtype),
        "device": x.device if device is None else device,
    }
