"""The kernels of attention on a GPU, one call each. They read strided views in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType, float32
from ..graph.node import Node
from ..graph.primitive import Shape
from . import attention_shader as shader
from . import attention_units as units
from .attention import Attention, AttentionGradient
from .attention_call import AttentionCall, row_sums, writable
from .attention_tiles import (
    AttentionChoice,
    Layout,
    Problem,
    Shares,
    place_of_result,
    size_of_result,
)
from .attention_units_writer import UnitsChoice
from .call import Call, CallKernel


@dataclass(frozen=True, eq=False)
class LaidAttention(Call):
    """`Attention` of q, k and v with `layouts` in their buffers."""

    kind = "call"
    differentiable = False
    problem: Problem
    layouts: tuple[Layout, ...]
    logs: bool

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("q", "k", "v", *self.problem.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (size_of_result(self.problem.shape, self.logs),), inputs[0].dtype

    def numpy(self, q, k, v, *others):
        parts = (
            writable(x, of, shape) for x, of, shape in zip((q, k, v), self.layouts, self.problem.shapes, strict=True)
        )
        return Attention(*_parameters(self.problem), self.logs).numpy(*parts, *others)

    def kernel(self, options: AttentionChoice, *inputs: Node) -> CallKernel:
        return shader.forward(self.problem, self.layouts, self.logs, options)


@dataclass(frozen=True, eq=False)
class LaidGradient(Call):
    """`AttentionGradient` of g, q, k and v with `layouts` in their buffers, into an array of `shape` at `places`."""

    kind = "call"
    differentiable = False
    problem: Problem
    layouts: tuple[Layout, ...]
    places: tuple[Layout, ...]
    shape: Shape

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("g", "flat", "q", "k", "v", *self.problem.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return self.shape, inputs[0].dtype

    def numpy(self, g, flat, q, k, v, *others):
        g, q, k, v = _laid(self.problem, self.layouts, g, q, k, v)
        call = AttentionGradient(*_parameters(self.problem), self.places, self.shape)
        return call.numpy(g, flat, q, k, v, *others)

    def kernel(self, options: AttentionChoice, *inputs: Node) -> CallKernel:
        return shader.backward(self.problem, self.layouts, self.places, options)


@dataclass(frozen=True, eq=False)
class LaidSums(Call):
    """`row_sums` of g, with `layout` in its buffer, and `Attention`'s flat array."""

    kind = "call"
    differentiable = False
    arguments = ("g", "flat")
    problem: Problem
    layout: Layout

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (2, *self.problem.shape[:3]), inputs[0].dtype

    def numpy(self, g, flat):
        p = self.problem
        return row_sums(writable(g, self.layout, p.shape), flat, place_of_result(p.shape, p.by_row))

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        return shader.sums(self.problem, self.layout)


@dataclass(frozen=True, eq=False)
class LaidShares(Call):
    """g, q, k and v with `layouts` in their buffers, and the sums of `LaidSums`, to one flat array: the gradients of
    k and v, then the partial gradients of q, before the scale. With a causal mask, a share holds nothing for the
    queries before its first keys, and `JoinShares` does not read them.
    """

    kind = "call"
    differentiable = False
    problem: Problem
    layouts: tuple[Layout, ...]
    shares: Shares

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("g", "sums", "q", "k", "v", *self.problem.names)

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        q, k, v = map(math.prod, self.problem.shapes)
        return (k + v + self.shares.count * q,), inputs[0].dtype

    def numpy(self, g, sums, q, k, v, *others):
        p, shares = self.problem, self.shares
        g, q, k, v = _laid(p, self.layouts, g, q, k, v)
        to_scores, weights = AttentionCall(*_parameters(p)).slopes(g, sums, q, k, v, others)
        owner = np.arange(p.columns) // shares.blocks.columns % shares.count
        of_q = [np.where(owner == share, to_scores, 0) @ k / q.dtype.type(p.scale) for share in range(shares.count)]
        dk, dv = np.swapaxes(to_scores, -2, -1) @ q, np.swapaxes(weights, -2, -1) @ g
        return np.concatenate([x.reshape(-1) for x in (dk, dv, *of_q)]).astype(q.dtype)

    def kernel(self, options: AttentionChoice, *inputs: Node) -> CallKernel:
        return shader.shares(self.problem, self.layouts, self.shares, options)


@dataclass(frozen=True, eq=False)
class JoinShares(Call):
    """The array of `LaidShares` to the three gradients in an array of `shape`, laid out at `places`."""

    kind = "call"
    differentiable = False
    arguments = ("shares",)
    problem: Problem
    shares: Shares
    places: tuple[Layout, ...]
    shape: Shape

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return self.shape, inputs[0].dtype

    def numpy(self, shares):
        p = self.problem
        q, k, v = map(math.prod, p.shapes)
        dk, dv, of_q = np.split(shares, [k, k + v])
        dq = of_q.reshape(self.shares.count, q).sum(0) * shares.dtype.type(p.scale)
        result = np.zeros(self.shape, shares.dtype)
        for value, place, shape in zip((dq, dk, dv), self.places, p.shapes, strict=True):
            writable(result, place, shape)[:] = value.reshape(shape)
        return result

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        return shader.join(self.problem, self.shares, self.places)


@dataclass(frozen=True, eq=False)
class UnitsAttention(LaidAttention):
    """`LaidAttention` of q, k and v of float16, on matrix units, without a mask or dropout. The result is float32."""

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return super().infer(*inputs)[0], float32

    def numpy(self, q, k, v, *others):
        return super().numpy(*(x.astype(np.float32) for x in (q, k, v)))

    def kernel(self, options: UnitsChoice, *inputs: Node) -> CallKernel:  # type: ignore[override]
        return units.forward(self.problem, self.layouts, self.logs, options)


@dataclass(frozen=True, eq=False)
class UnitsGradient(LaidGradient):
    """`LaidGradient` of g, q, k and v of float16, on matrix units. rows: for each query the sum of gradient times result. Gradients are float32."""

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("g", "flat", "q", "k", "v", "rows")

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return self.shape, float32

    def numpy(self, g, flat, q, k, v, *others):
        return super().numpy(*(x.astype(np.float32) for x in (g, flat, q, k, v)))

    def kernel(self, options: UnitsChoice, *inputs: Node) -> CallKernel:  # type: ignore[override]
        return units.gradient(self.problem, self.layouts, self.places, options)


def _laid(p: Problem, layouts: Sequence[Layout], *arrays: np.ndarray) -> list[np.ndarray]:
    """g, q, k and v, read with their layouts."""
    return [writable(x, of, s) for x, of, s in zip(arrays, layouts, (p.shape, *p.shapes), strict=True)]


def _parameters(p: Problem) -> tuple[float, bool, bool, float, bool]:
    return p.scale, p.causal, p.mask is not None, p.dropped, p.by_row
