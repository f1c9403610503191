"""Exchange by DLPack, by PyTorch's name of the place."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from ..tensor_attributes import from_dlpack


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of a copy of a cpu tensor's values, for libraries that take one; new ones ask the tensor itself.

    >>> type(sg.utils.dlpack.to_dlpack(sg.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()  # type: ignore[attr-defined]


__all__ = ["from_dlpack", "to_dlpack"]
