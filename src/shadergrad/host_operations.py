"""Operations that run on the host: LAPACK and SciPy, of which no shader knows.

A `HostOperation` states its shape rule, its value in NumPy and its gradient in tensors. On the cpu device it is a node as any
other. Of tensors elsewhere, values are copied to the host, computed there and copied back, at once and with one warning (as
PyTorch does on MPS); gradients go the same way. A compiled step, which has no values yet, refuses them.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from .drive import execute
from .drive.tracing import current
from .dtypes import DType
from .errors import CompileError, HostWarning
from .graph.node import Node, make
from .graph.primitive import Primitive, Shape
from .tensor import Tensor

_said: set[str] = set()  # the warning is given once


class HostOperation(Primitive):
    """Base of operations of the host; subclasses set kind = "host", and are frozen dataclasses with eq=False.

    may_fail: whether the values decide if there is a result. Such an operation computes at once, so that its error points at
    the user's line.
    """

    kind: ClassVar[str] = ""
    may_fail: ClassVar[bool] = False

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def gradient(self, g: Any, result: Any, *inputs: Any) -> Any:
        """The gradients of the inputs, from g, that of the result; all are tensors. None where there is none."""
        raise NotImplementedError

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        found = self.gradient(Tensor._of(g), Tensor._of(node), *map(Tensor._of, node.inputs))
        several = found if isinstance(found, tuple) else (found,)
        return tuple(None if f is None else f._node for f in several)

    def __call__(self, *tensors: Tensor) -> Tensor:
        devices = {str(t.device) for t in tensors}
        if devices <= {"cpu"} or len(devices) > 1:  # several devices are refused by make()
            return _computed(self, tensors)
        device = devices.pop()
        _warn(self.name, device)
        return _computed(self, [t.cpu() for t in tensors]).to(device)


def _computed(operation: HostOperation, tensors: Any) -> Tensor:
    node = make(operation, *(t._node for t in tensors))
    if operation.may_fail and current.trace is None:
        execute.realize([node])
    return Tensor._of(node)


def _warn(name: str, device: str) -> None:
    if current.trace is not None:
        raise CompileError(
            f"[{name}] runs on the host, so a compiled step on {device} cannot hold it. Hint: compute it outside the step "
            "and hand the result in, or compile the step on the cpu device."
        )
    if not _said:
        _said.add(name)
        warnings.warn(
            f"[{name}] runs on the host: values are copied from {device} and back. Other such operations do the same, and do "
            "not say so again.",
            HostWarning,
            stacklevel=4,
        )


def packed(arrays: list[np.ndarray], batch: Shape, dtype: Any) -> np.ndarray:
    """Several results as one array (*batch, n): an operation has one value."""
    parts = [np.asarray(a, dtype) for a in arrays]
    sizes = [int(np.prod(a.shape[len(batch) :], dtype=np.int64)) for a in parts]
    return np.concatenate([a.reshape(*batch, n) for a, n in zip(parts, sizes, strict=True)], axis=-1)


def unpacked(value: Tensor, shapes: list[Shape]) -> list[Tensor]:
    """The results in a packed value: parts of its last axis, each of a shape of its own."""
    batch = tuple(value.shape[:-1])
    parts, at = [], 0
    for shape in shapes:
        size = int(np.prod(shape, dtype=np.int64))
        parts.append(value[..., at : at + size].reshape(*batch, *shape))
        at += size
    return parts
