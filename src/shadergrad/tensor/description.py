"""The attributes of a tensor that do not depend on its values: shape, dtype, device. None of them computes anything."""

from __future__ import annotations

import math
from typing import overload

from ..dtypes import DType
from ..errors import (
    ArgumentTypeError,
    IndexRangeError,
)
from .axes import check_axis
from .handle import Handle
from .placement import device, named_device


class Size(tuple[int, ...]):
    """A shape: a tuple of sizes. numel() gives the number of elements.

    >>> sg.zeros(2, 3).shape
    shadergrad.Size([2, 3])
    >>> sg.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape.

        >>> sg.Size([2, 3]).numel()
        6
        """
        return math.prod(self)

    def __repr__(self) -> str:
        return f"shadergrad.Size({list(self)})"


class DescribedTensor(Handle):
    """A tensor's shape, dtype and device."""

    __slots__ = ()

    @property
    def shape(self) -> Size:
        """The sizes of the axes; () for a number.

        >>> sg.zeros(2, 3).shape
        shadergrad.Size([2, 3])
        """
        return Size(self._node.shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements, such as sg.float32.

        >>> sg.tensor([1, 2]).dtype
        shadergrad.int32
        """
        return self._node.dtype

    @property
    def device(self) -> device:
        """The name of the tensor's device, such as 'cpu' or 'webgpu'.

        >>> sg.zeros(2).device
        'cpu'
        """
        return named_device(self._node.device)

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> sg.zeros(2, 3).ndim
        2
        """
        return len(self._node.shape)

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of axis `dim`. Raises IndexRangeError for an axis that does not exist.

        >>> sg.zeros(2, 3).size()
        shadergrad.Size([2, 3])
        >>> sg.zeros(2, 3).size(-1)
        3
        """
        if dim is None:
            return self.shape
        if not self.ndim:
            raise IndexRangeError(f"[size] dim {dim} was asked for, but the tensor has no dimensions")
        return self._node.shape[check_axis(dim, self.ndim, "size")]

    def dim(self) -> int:
        """The number of axes, as ndim.

        >>> sg.zeros(2, 3).dim()
        2
        """
        return self.ndim

    def ndimension(self) -> int:
        """The number of axes, as ndim.

        >>> sg.zeros(2, 3).ndimension()
        2
        """
        return self.ndim

    def numel(self) -> int:
        """The number of elements.

        >>> sg.zeros(2, 3).numel()
        6
        """
        return self._node.size

    def nelement(self) -> int:
        """The number of elements, as numel.

        >>> sg.zeros(2, 3).nelement()
        6
        """
        return self._node.size

    def is_floating_point(self) -> bool:
        """Whether the dtype is floating-point.

        >>> sg.tensor([1.0]).is_floating_point(), sg.tensor([1]).is_floating_point()
        (True, False)
        """
        return self.dtype.is_floating_point

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers.

        >>> sg.tensor([1]).is_signed(), sg.tensor([True]).is_signed()
        (True, False)
        """
        return self.dtype.is_signed

    def element_size(self) -> int:
        """Bytes of an element on the host. On a GPU, float16 and bfloat16 take 2 bytes, all other dtypes 4.

        >>> sg.zeros(2).element_size()
        4
        """
        return self.dtype.itemsize

    def __len__(self) -> int:
        if not self._node.shape:
            raise ArgumentTypeError("len() of a 0-d tensor")
        return self._node.shape[0]
