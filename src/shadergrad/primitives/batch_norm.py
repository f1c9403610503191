"""The gradient rule of batch normalisation. The value is composed of other operations.

The backward pass makes two sums over the batch: of g, and of g times the normalised input. They are also the gradients of bias and weight.
Reference: Ioffe and Szegedy, 2015.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType
from ..graph import build
from ..graph.leaves import Detach
from ..graph.node import Node, make, mode
from ..graph.primitive import Primitive, Shape, named


@dataclass(frozen=True, eq=False)
class BatchNorm(Primitive):
    """The normalised input times weight plus bias; inputs: that value, the input, its mean and variance with their axes kept,
    then the weight and the bias, if they exist.

    Mean and variance are constants; with create_graph they are computed again, so that they have a history. The compiler looks
    through it.
    """

    eps: float
    has_weight: bool
    has_bias: bool

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def numpy(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return args[0]

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        _, x, mean, var, *affine = node.inputs
        axes = (0, *range(2, x.ndim))
        if mode.grad:
            mean, var = moments(x, axes)
        small = build.elementwise("Rsqrt", var + self.eps)
        normal = (x - build.broadcast(mean, x.shape)) * build.broadcast(small, x.shape)
        total, along = build.sum_over(g, axes), build.sum_over(g * normal, axes)
        scale = small * build.reshape(affine[0], mean.shape) if self.has_weight else small
        count = float(x.size // x.shape[1])
        centred = g - build.broadcast(total / count, x.shape) - normal * build.broadcast(along / count, x.shape)
        gradients: list[Node | None] = [None, build.broadcast(scale, x.shape) * centred, None, None]
        if self.has_weight:
            gradients.append(build.reshape(along, affine[0].shape))
        if self.has_bias:
            gradients.append(build.reshape(total, affine[-1].shape))
        return tuple(gradients)


BatchNorm.kind = "alias"  # set here, so that it has no record in the registry: no plan contains one


def moments(x: Node, axes: Sequence[int]) -> tuple[Node, Node]:
    """Mean and variance over `axes`, which are kept, in one pass: the sums of x - s and of its squares, where s is one of the
    elements, so that little precision is lost if the mean is far from zero (Chan, Golub and LeVeque, 1983).
    """
    starts = tuple(n // 2 if a in axes else 0 for a, n in enumerate(x.shape))
    sizes = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    shift = make(named("Slice", starts, sizes, (1,) * x.ndim), make(Detach(), x))
    moved = x - build.broadcast(shift, x.shape)
    share = 1.0 / math.prod(x.shape[a] for a in axes)
    mean = build.sum_over(moved, tuple(axes)) * share
    var = build.sum_over(moved * moved, tuple(axes)) * share - mean * mean
    return mean + shift, build.where(build.less(var, 0.0), 0.0, var)
