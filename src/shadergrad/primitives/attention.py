"""Blockwise attention: softmax(q k^T scale + mask) v without storing the matrix of weights, forward and backward.

Dao, "FlashAttention-2" (2023). q (n, heads, l, d), k and v (n, heads, s, d), d a multiple of four. The forward pass keeps the
log-sum-exp of each row, from which the backward pass recomputes the weights. Its three gradients are sums in a fixed order,
without atomics. compile/attention.py chooses between the kernels (attention_kernels.py) and the composed form
(attention_composed.py); this module has the two calls of a graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from ..dtypes import DType
from ..graph import build
from ..graph.node import Node, make, mode
from ..graph.primitive import Shape
from .attention_call import AttentionCall, writable
from .attention_composed import Composed
from .attention_layouts import places_of_gradients, view_of
from .attention_tiles import (
    Layout,
    place_of_result,
    size_of_result,
)
from .views import Slice


@dataclass(frozen=True, eq=False)
class Attention(AttentionCall):
    """q, k, v, [mask], [key] to one flat array: the result and, with `logs`, which a gradient needs, the log-sum-exp of each row
    (n, heads, l), then up to three elements of padding to a vec4.
    """

    kind = "call"
    logs: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.names

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        self.check(inputs)
        return (size_of_result(inputs[0].shape, self.logs),), inputs[0].dtype

    def numpy(self, q, k, v, *others):
        s = self.scores(q, k, others)
        with np.errstate(invalid="ignore"):
            top = s.max(-1, keepdims=True)
            top = np.where(np.isneginf(top), 0, top)
            powers = np.exp(s - top)
            total = powers.sum(-1, keepdims=True)
            logs = np.where(total == 0, -np.inf, top + np.log(np.where(total == 0, 1, total)))
        weights = powers / np.where(total == 0, 1, total) * self.keep_factor(s.shape, others)
        result = np.zeros(size_of_result(q.shape, self.logs), q.dtype)
        writable(result, place_of_result(q.shape, self.by_row), q.shape)[:] = weights @ v
        if self.logs:
            result[q.size : q.size + logs.size] = logs.reshape(-1)
        return result

    def vjp(self, g, node):
        inputs = node.inputs
        q, k = inputs[:2]
        upper = self.result_of(g, q.shape)
        others = (None,) * (len(inputs) - 3)
        if mode.grad:  # a gradient that is to be differentiated itself
            whole = Composed(build.recorded, self, inputs)
            return (*whole.gradients(upper, *whole.powers(whole.tops())), *others)
        places, shape = places_of_gradients(inputs[:3])
        made = AttentionGradient(*(getattr(self, f.name) for f in fields(AttentionCall)), places, shape)
        found = make(made, upper, node, *inputs)
        return (*(view_of(found, place, x) for place, x in zip(places, (q, k, inputs[2]), strict=True)), *others)

    def result_of(self, flat: Node, shape: Shape) -> Node:
        """The result, (n, heads, l, d), within the flat array."""
        n, heads, rows, d = shape
        if self.logs:
            flat = make(Slice((0,), (math.prod(shape),), (1,)), flat)
        if not self.by_row:
            return build.reshape(flat, shape)
        return build.permute(build.reshape(flat, (n, rows, heads, d)), (0, 2, 1, 3))


@dataclass(frozen=True, eq=False)
class AttentionGradient(AttentionCall):
    """g (n, heads, l, d), the gradient of the result, `Attention`'s flat array, q, k, v, [mask], [key] to the gradients of q,
    k and v in one array of `shape`, laid out at `places`.
    """

    kind = "call"
    differentiable = False
    places: tuple[Layout, ...]
    shape: Shape

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("g", "flat", *self.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        self.check(inputs[2:])
        return self.shape, inputs[0].dtype

    def numpy(self, g, flat, q, k, v, *others):
        result = np.zeros(self.shape, q.dtype)
        for value, place in zip(self.gradients(g, flat, q, k, v, others), self.places, strict=True):
            writable(result, place, value.shape)[:] = value
        return result
