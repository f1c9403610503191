"""Reading a tensor's values on the host: as arrays, numbers, truth values and text. Each of these waits for the device.

In: a tensor, pending or computed. Out: host data. A read computes the pending tensor together with other results of the same backward
pass and with in-place changes (`_nodes_of_one_plan`). During a capture the trace refuses reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import html_repr
from ..drive import execute
from ..drive.tracing import current
from ..dtypes import bool_, complex64, float32, int32
from ..errors import (
    ArgumentTypeError,
    AutogradError,
    ShapeError,
)
from ..graph.node import Node
from . import pending
from .handle import wrap
from .history import HistoryTensor

PRINTED: dict[str, Any] = {"precision": 4, "threshold": 200}  # how tensors print: arguments of np.array2string


class ReadableTensor(HistoryTensor):
    """A tensor whose values can be read on the host."""

    __slots__ = ()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as a new NumPy array (PyTorch: shared memory); waits for the device. bfloat16, which NumPy lacks and
        PyTorch refuses, becomes float32.

        Raises AutogradError for a tensor that requires grad, unless force: detach() it first. CompileError within a
        compiled step.

        >>> sg.tensor([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        if self.requires_grad and not force:
            raise AutogradError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self._read("numpy()")

    def _read(self, what: str) -> np.ndarray:
        if current.trace is not None:
            current.trace.on_read(what)
        try:
            node = self._node
            if node.storage is None:
                pending.compute(node, self._nodes_of_one_plan())
            return execute.download(node)
        except Exception:
            pending.leave_out(self)
            pending.show_parts()  # writes through views whose error was reported once are not computed again
            raise

    def _nodes_of_one_plan(self) -> list[Node]:
        """The tensors that are computed in the same plan as this value: results of the same backward pass, and all
        in-place changes, whose history would otherwise grow with each change that is never read.
        """
        alive = [] if self._siblings is None else [t._node for r in self._siblings if (t := r()) is not None]
        device = self._node.device
        return [n for n in (*alive, *pending.take_changed(device)) if n.device == device and n.storage is None]

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python number; waits for the device.

        Raises ShapeError for another number of elements, CompileError within a compiled step.

        >>> sg.tensor([2.5]).item()
        2.5
        """
        if self._node.size != 1:
            raise ShapeError(
                f"[item] a Tensor with {self._node.size} elements (shape {tuple(self.shape)}) cannot be converted to Scalar"
            )
        return self._read("item()").reshape(()).item()

    async def item_async(self) -> Any:
        """Like `item`, for Python in a page: other tasks run while the device computes. It also works in browsers without JavaScript Promise
        Integration. Elsewhere it waits as `item` does.

        >>> import asyncio
        >>> asyncio.run(sg.tensor([2.5]).item_async())
        2.5
        """
        if self._node.size != 1:
            return self.item()  # which raises the error
        return (await self._read_async("item_async()")).reshape(()).item()

    async def numpy_async(self) -> np.ndarray:
        """Like `numpy(force=True)`, for Python in a page; see `item_async`.

        >>> import asyncio
        >>> asyncio.run(sg.tensor([1.0, 2.0]).numpy_async())
        array([1., 2.], dtype=float32)
        """
        return await self._read_async("numpy_async()")

    async def _read_async(self, what: str) -> np.ndarray:
        if current.trace is not None:
            current.trace.on_read(what)
        try:
            if self._node.storage is None:
                pending.compute(self._node, self._nodes_of_one_plan())
            return await execute.download_async(self._node)
        except Exception:
            pending.leave_out(self)
            pending.show_parts()
            raise

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; waits for the device. A number for a 0-d tensor.

        >>> sg.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return self._read("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __format__(self, spec: str) -> str:
        """Formats a 0-d tensor as its number; other tensors support only the empty format, as in PyTorch."""
        return format(self.item(), spec) if not self.ndim else object.__format__(self, spec)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.item(), digits) if not self.ndim else wrap(self._node).round(decimals=digits or 0)

    def __bool__(self) -> bool:
        if self._node.size != 1:
            raise ShapeError(
                "Boolean value of Tensor with more than one value is ambiguous. Hint: use .any() or .all()."
            )
        return bool(self._read("bool()").reshape(()).item())

    def __index__(self) -> int:
        if self.dtype.category >= 2 or self._node.size != 1:
            raise ArgumentTypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __repr__(self) -> str:
        if current.trace is not None:
            return f"tensor(<captured {self._node!r}>)"
        values = self._read("repr()")
        if values.dtype == np.float16:
            values = values.astype(np.float32)  # NumPy prints only the digits that distinguish halves, PyTorch four
        parts = [np.array2string(values, separator=", ", prefix="tensor(", **PRINTED)]
        if self.device != "cpu":
            parts.append(f"device='{self.device}'")
        if self.dtype not in (float32, int32, bool_, complex64):
            parts.append(f"dtype={self.dtype!r}")
        if self.requires_grad:
            function = None if self.is_leaf else getattr(self, "grad_fn", None)
            parts.append("requires_grad=True" if function is None else f"grad_fn=<{function.name()}>")
        return f"tensor({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """In notebooks: the printed form, with shape, dtype and device."""
        kind = f"{self.dtype.name} {tuple(self.shape)} on {self.device}"
        return html_repr.text(repr(self), kind + (", requires grad" if self.requires_grad else ""))
