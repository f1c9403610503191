"""Batched matrix multiplication."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType
from ..errors import DTypeError, ShapeError
from ..graph import build
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape
from .views import Permute, Reshape


@dataclass(frozen=True, eq=False)
class Dot(Primitive):
    """a (batch, m, k) times b (batch, k, n) gives (batch, m, n).

    window: k runs over channels and, within each, over this number of window positions; a hint to the kernel, which then
    processes whole windows.
    chunk: split-K. If not 0, each part of this many elements of k, the last one shorter, has its own result: (batch * parts, m,
    n). Only the compiler sets it, and then adds the parts.
    """

    kind = "dot"
    window: int = 1
    chunk: int = 0

    def parts(self, k: int) -> int:
        """The number of parts of k."""
        return -(-k // self.chunk) if self.chunk else 1

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        a, b = inputs
        if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
            raise ShapeError(f"[dot] cannot contract: a is {a.shape}, b is {b.shape}.")
        if a.dtype is not b.dtype or a.dtype.category == 0:
            raise DTypeError(f"[dot] operands have dtypes {a.dtype.name} and {b.dtype.name}.")
        return (a.shape[0] * self.parts(a.shape[2]), a.shape[1], b.shape[2]), a.dtype

    def numpy(self, a, b):
        if not self.chunk:
            return np.matmul(a, b)
        stretches = [slice(k, k + self.chunk) for k in range(0, a.shape[2], self.chunk)]
        found = np.stack([np.matmul(a[:, :, s], b[:, s]) for s in stretches], axis=1)
        return found.reshape(-1, *found.shape[2:])

    def vjp(self, g, node):
        a, b = node.inputs
        da = build.dot(g, build.transpose(build.conjugate(b))) if a.requires_grad else None
        db = _of_second(build.conjugate(a), b, g) if b.requires_grad else None
        return da, db


def _of_second(a: Node, b: Node, g: Node) -> Node:
    """The gradient of b: a^T g; computed as (g^T a)^T if b is a transposed matrix, such as a layer's weights, so that the
    gradient has the memory layout of the matrix before the transpose.
    """
    behind = b
    while isinstance(behind.primitive, Reshape):
        behind = behind.inputs[0]
    if b.shape[0] != 1 or not isinstance(behind.primitive, Permute):
        return build.dot(build.transpose(a), g)
    turned = build.reshape(build.dot(build.transpose(g), a), (b.shape[2], b.shape[1]))
    return build.reshape(build.permute(turned, (1, 0)), b.shape)
