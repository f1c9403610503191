"""The connection of PyTorch's tensors and shadergrad's: a torch storage holds a Cell, whose value is a shadergrad tensor.

A torch.Tensor is (storage, sizes, strides, offset), as everywhere in PyTorch: views are made by PyTorch's own Meta kernels, which
share the storage and keep the device. A cell's value is row-major; `read` gives the part that a torch.Tensor selects, `write`
replaces it. Nothing has an address.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import shadergrad as sg

from ..errors import DeviceError, DTypeError
from ..graph import build
from ..tensor import Tensor
from ..tensor.handle import wrap as new
from . import dtypes
from .dtypes import STORED, TORCH, stored
from .private import lay, new_tensor, strided_view
from .strides import Part, overlaps, part_of, reach

_reference = weakref.ref


class Unlike(Exception):
    """An argument that cannot be compared with later ones."""


class Place:
    """The shadergrad device behind torch.device("webgpu"). There is one, because PyTorch's private device in Python has one index."""

    device = "webgpu"


class Cell:
    """The content of a storage: a shadergrad tensor, in any shape, without history. Writes replace it.

    run: the sequence of operators that promised the value (sequences.py), and the place of the value in it; None if the
    value is here. Reading a promised value ends the sequence.
    """

    __slots__ = ("__weakref__", "_node", "_value", "address", "place", "run")

    def __init__(self, value: Tensor | None, run: Any = None, place: int = 0) -> None:
        self._value = value
        self._node: Any = None  # of a value without a tensor so far
        self.run = run
        self.place = place
        self.address = 0  # addresses.py gives one where a program asks

    @property
    def value(self) -> Tensor:
        if self.run is not None:
            self.run.end()
        if self._value is None:
            self._value = Tensor._of(self._node)
        return self._value

    @value.setter
    def value(self, value: Tensor) -> None:
        self._value = value
        self._node = self.run = None

    @property
    def node(self) -> Any:
        """The value's node."""
        if self.run is not None:
            self.run.end()
        return self._node if self._value is None else self._value._node

    def promise(self, run: Any, place: int) -> Cell:
        """Record that a sequence will make the value. Returns the cell."""
        if self.run is not run:
            self.run = run
            self._value = self._node = None
            run.cells.append(_reference(self))
        self.place = place
        return self

    def keep(self, node: Any) -> None:
        """Store the promised value."""
        self._node = node
        self.run = None
        if node.storage is None:
            self._value = Tensor._of(node)  # a tensor, which registers the pending node

    def holds(self, count: int, dtype: Any) -> bool:
        """Whether the value has that many elements of a dtype; does not end a sequence."""
        if self.run is None:
            node = self.node
            shape, kept = node.shape, node.dtype
        else:
            shape, kept = self.run.kind(self.place)
        return math.prod(shape) == count and kept is dtype


_new_cell: Any = object.__new__


def promised(run: Any, place: int) -> Cell:
    """A new cell, whose value a sequence will make."""
    cell = _new_cell(Cell)  # and its fields here, because a call of __init__ takes longer
    cell._value = cell._node = None
    cell.run = run
    cell.place = place
    cell.address = 0
    run.cells.append(_reference(cell))
    return cell


def promise_all(cells: Sequence[Cell], run: Any, places: Sequence[int]) -> None:
    """Record that a sequence will make the values of cells."""
    for cell, place in zip(cells, places, strict=True):
        if cell.run is not run:
            cell.run = run
            cell._value = cell._node = None
            run.cells.append(_reference(cell))
        cell.place = place


def laid(run: Any, place: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A new tensor, whose value a sequence will make."""
    x = new_tensor(shape, dtype)
    storage: Any = x.untyped_storage()
    storage.cell = promised(run, place)
    return lay(x, storage, 0, shape, stride)


def outside(cell: Cell, run: Any) -> Any:
    """The node of a value that no operator of a sequence made. Raises Unlike if one made it."""
    if cell.run is not run:
        return cell.node
    if cell.place >= 0:
        raise Unlike
    return run.inputs[-1 - cell.place]


_SAFE = 3e38  # below the largest float32


def number(value: float) -> Any:
    """The node of a number as a 0-d float32 tensor."""
    return build.constant(value, sg.float32, Place.device) if -_SAFE < value < _SAFE else constant(value)._node


def constant(value: float) -> Tensor:
    """A number as a 0-d float32 tensor."""
    return sg.full((), value, dtype=sg.float32, device=Place.device)


def is_ours(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == "webgpu"


def refuse_other(device: Any) -> None:
    """Raises DeviceError for webgpu:1 and those after it."""
    if device is not None and device.type == "webgpu" and device.index not in (None, 0):
        raise DeviceError(f"[torch] there is one device, webgpu:0, not {device}.")


def refuse_generator(generator: Any) -> None:
    """Raises RuntimeError for a torch.Generator, which would not be used."""
    if generator is not None:
        raise RuntimeError(
            f"[torch] the device webgpu draws from its own stream, not from a generator of {generator.device}. "
            "Hint: torch.manual_seed, or torch.webgpu.manual_seed."
        )


def offset_of(x: torch.Tensor) -> int:
    """The offset of a torch.Tensor in its storage, in elements."""
    return int(x.storage_offset())


def wrap(value: Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A contiguous torch.Tensor with the values of a shadergrad tensor. dtype: PyTorch's, if it is stored as another."""
    node = value._node  # its fields cost a tenth of the tensor's properties
    shape = node.shape
    result = new_tensor(shape, dtype or TORCH[node.dtype])
    if dtype is not None and node.dtype is not STORED[dtype]:
        value = value.to(STORED[dtype])
    storage: Any = result.untyped_storage()
    storage.cell = Cell(value)
    return lay(result, storage, 0, shape, result.stride())


def wrap_as(value: Tensor, dtype: torch.dtype, stride: tuple[int, ...]) -> torch.Tensor:
    """A torch.Tensor with another memory order of axes: dense strides, of channels_last for instance."""
    order = sorted(range(len(stride)), key=lambda i: (-stride[i], i))
    if order == list(range(len(stride))):
        return wrap(value, dtype)
    return strided_view(wrap(value.permute(*order), dtype), value.shape, stride, 0)


def strides_of_copy(x: torch.Tensor, memory_format: Any = None) -> tuple[int, ...] | None:
    """The strides of a copy, as PyTorch chooses them; None if the elements are row-major."""
    if memory_format is torch.contiguous_format or (
        memory_format in (None, torch.preserve_format) and x.is_contiguous()
    ):
        return None
    return torch.empty_like(x, device="meta", memory_format=memory_format or torch.preserve_format).stride()


def view(x: torch.Tensor, shape: Any, stride: Any, offset: int | None = None) -> torch.Tensor:
    """A torch.Tensor of other sizes over the same storage."""
    return strided_view(x, shape, stride, offset_of(x) if offset is None else offset)


def cell_of(x: torch.Tensor) -> Cell:
    """The cell of a torch.Tensor's storage; zeros for a storage that PyTorch made itself."""
    storage: Any = x.untyped_storage()
    try:
        return storage.cell
    except AttributeError:
        host = getattr(storage, "host", None)
        if host is not None:  # bytes that files.py moved here before their dtype was known
            storage.cell = Cell(from_host(torch.empty(0, dtype=x.dtype).set_(host)))
            storage.cell.address = getattr(storage, "address", 0)
            del storage.host
            return storage.cell
        n = max(storage.nbytes() // x.element_size(), reach(x.shape, x.stride(), offset_of(x)))
        storage.cell = Cell(sg.zeros(n, dtype=stored(x.dtype), device=Place.device))
        return storage.cell


def _line(cell: Cell, dtype: torch.dtype) -> Tensor:
    """All values of a storage in row-major order, with PyTorch's dtype: complex numbers may be viewed as pairs, pairs as complex numbers, and on
    the cpu device halves as 16-bit integers.

    Raises DTypeError for another view of bits: the device may store another number of them.
    """
    line, kept = cell.value.reshape(-1), STORED[dtype]
    if line.dtype is kept:
        return line
    if line.dtype.is_complex and not kept.is_complex:
        line = sg.view_as_real(line).reshape(-1)
    elif kept.is_complex and not line.dtype.is_complex:
        line = sg.view_as_complex(line.reshape(-1, 2))
    elif line.dtype.itemsize == kept.itemsize == 2:
        line = line.view(kept)
    if line.dtype is not kept:
        raise DTypeError(
            f"[torch] a storage of {line.dtype.name} has no view as {dtype} on the device webgpu. Hint: x.to({dtype}) converts the values."
        )
    return line


def read(x: torch.Tensor) -> Any:
    """The value of a torch.Tensor as a shadergrad tensor; a number for a 0-d tensor of the host.

    Raises RuntimeError for any other host tensor, as PyTorch.
    """
    storage: Any = x.untyped_storage()
    try:
        cell = storage.cell
    except AttributeError:
        if x.device.type != "webgpu":
            if x.dim() == 0:
                return x.item()
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, webgpu:0 and {x.device}!"
            ) from None
        cell = cell_of(x)
    value, kept = cell.value, STORED[x.dtype]
    node = value._node
    if node.shape == x.shape and node.dtype is kept and x.is_contiguous():  # most often
        result = value
    else:
        shape = tuple(x.shape)
        if node.dtype is kept and x.is_contiguous() and x.numel() == value.numel():
            result = new(build.reshape(node, shape))  # values in cells are never written to, so no view is needed
        else:
            result = part_of(_line(cell, x.dtype), shape, x.stride(), offset_of(x))
    if x.is_conj():
        result = result.conj()
    return -result if x.is_neg() else result


def read_or_move(x: torch.Tensor) -> Any:
    """The same, but host tensors are copied to the device."""
    return read(x) if x.device.type == "webgpu" or x.dim() == 0 else from_host(x)


def write(x: torch.Tensor, value: Any) -> torch.Tensor:
    """Assign the values of a shadergrad tensor, or a number, to a torch.Tensor, and so to all that share its storage.

    Raises RuntimeError for sizes that do not fit, and for a tensor with several positions for one element, as PyTorch.
    """
    cell, shape, dtype = cell_of(x), tuple(x.shape), STORED[x.dtype]
    if not isinstance(value, Tensor):
        value = sg.full((), value, dtype=dtype, device=Place.device)
    node, count = value._node, x.numel()
    is_whole = count and x.is_contiguous() and not (x.is_conj() or x.is_neg()) and cell.holds(count, dtype)
    if is_whole and node.shape == shape and node.dtype is dtype:  # most often
        cell.value = value
        return x
    if value.dtype is not dtype:
        value = value.to(dtype)
    if value.shape != shape:
        if len(value.shape) > len(shape):
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(value.shape)}")
        value = value.expand(shape)
    if x.numel() == 0:
        return x
    if overlaps(shape, x.stride()):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if x.is_conj() or x.is_neg():
        value = -value if x.is_neg() else value
        value = value.conj() if x.is_conj() else value
    if x.is_contiguous() and cell.holds(x.numel(), dtype):
        cell.value = value
        return x
    line = _line(cell, x.dtype).clone()
    part = Part(line.numel(), shape, x.stride(), offset_of(x))
    shown = part.of(line) if part.is_nested else None
    if shown is None or part.is_copied:
        line = line.index_put((part.places(Place.device).reshape(-1),), value.reshape(-1))
    else:
        shown.copy_(value)
    cell.value = line
    return x


def from_host(x: torch.Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The values of a host torch.Tensor on the device. dtype: PyTorch's, by default its own."""
    x = x.detach().resolve_conj().resolve_neg().contiguous()
    if dtype is not None and dtype is not x.dtype:
        x = x.to(dtype)
    kept = stored(x.dtype)
    if x.dtype is torch.bfloat16 or dtypes.is_substituted(x.dtype):  # NumPy has no bfloat16
        x = x.float()
    return sg.tensor(x.numpy(), dtype=kept, device=Place.device)


def to_host(x: torch.Tensor) -> torch.Tensor:
    """A host torch.Tensor with the values of one of the device."""
    value = read(x.detach())
    found = torch.from_numpy(np.array(value.numpy())).to(x.dtype).reshape(x.shape)
    stride = strides_of_copy(x)
    return found if stride is None else torch.empty_strided(x.shape, stride, dtype=x.dtype).copy_(found)
