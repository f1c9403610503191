"""Exchange with other libraries: `from_dlpack`, `asarray`, and the methods that make a tensor a DLPack producer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import checked
from ..errors import DeviceError
from ..tensor import Tensor, as_tensor, from_numpy
from .installation import install_methods


@checked
def from_dlpack(ext_tensor: Any) -> Tensor:
    """A cpu tensor with a copy of the values of anything that speaks DLPack in host memory.

    >>> sg.from_dlpack(np.ones(2, np.float32))
    tensor([1., 1.])
    """
    if not hasattr(ext_tensor, "__dlpack__"):  # a capsule, as older programs pass
        ext_tensor = _Capsule(ext_tensor)
    return from_numpy(np.from_dlpack(ext_tensor).copy())


class _Capsule:
    """What a DLPack capsule of host memory is, to those that ask an object for one."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@checked
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of values of any kind, as as_tensor; a tensor of this dtype and device is given back unless copy.

    >>> sg.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    found = as_tensor(obj, dtype=dtype, device=device)
    found = found.clone() if copy and found is obj else found
    return found.detach().requires_grad_() if requires_grad else found


def _dlpack(self: Tensor, **options: Any) -> Any:
    """A DLPack capsule of a copy of the values; of a tensor on the cpu device. Raises DeviceError elsewhere.

    >>> np.from_dlpack(sg.ones(2))
    array([1., 1.], dtype=float32)
    """
    if self.device != "cpu":
        raise DeviceError(f"[__dlpack__] the tensor is on {self.device}. Hint: .cpu() it.")
    return self.detach().numpy().__dlpack__(**options)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """(1, 0): the cpu."""
    return (1, 0)


install_methods({"__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device})
