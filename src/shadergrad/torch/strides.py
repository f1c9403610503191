"""The elements that strides select from a row-major storage. In: the storage's values, shape, strides, offset. Out: the selected part.

If slices, a permutation and an expansion can express it, they are used, so that the compiler's index algebra reads the part in
place; else a gather.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

import shadergrad as sg
from shadergrad.nn import functional as F

from ..tensor import Tensor
from ..tensor.composed import composed


def reach(shape: Sequence[int], stride: Sequence[int], offset: int) -> int:
    """The number of elements that a storage needs for these strides."""
    if 0 in shape:
        return 0
    return offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))


def overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether two positions of an expanded shape are one element, so that it cannot be written."""
    return any(n > 1 and s == 0 for n, s in zip(shape, stride, strict=True))


class Part:
    """The part of a row of `n` elements that a shape, strides and an offset select."""

    def __init__(self, n: int, shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> None:
        self.shape, self.stride, self.offset = shape, stride, offset
        axes = [i for i, (k, s) in enumerate(zip(shape, stride, strict=True)) if k != 1 and s != 0]
        self.axes = sorted(axes, key=lambda i: (-stride[i], -shape[i]))
        self.steps = [stride[i] for i in self.axes]
        nested = zip(self.steps, self.steps[1:], self.axes[1:], strict=False)
        self.is_nested = all(a % b == 0 and shape[j] * b <= a for a, b, j in nested) and 0 not in shape
        self.is_copied = False  # by `of`: padded or gathered, so that it cannot be written through

    def of(self, line: Tensor) -> Tensor:
        """The part, in its shape."""
        if not self.is_nested:
            self.is_copied = True
            return line[self.places(line.device)]
        part = self._cut(line) if self.axes else line[self.offset : self.offset + 1]
        order = sorted(range(len(self.axes)), key=self.axes.__getitem__)
        if order != list(range(len(order))):
            part = part.permute(*order)
        unexpanded = tuple(k if (k != 1 and s != 0) else 1 for k, s in zip(self.shape, self.stride, strict=True))
        part = part.reshape(unexpanded)
        return part.expand(self.shape) if unexpanded != self.shape else part

    def _cut(self, line: Tensor) -> Tensor:
        """The axes from the largest stride to the smallest: the row is reshaped for each stride, and sliced."""
        starts, rest = [], self.offset
        for step in self.steps:
            starts.append(rest // step)
            rest %= step
        sizes = [a // b for a, b in zip(self.steps, self.steps[1:], strict=False)]
        inner = zip(starts[1:], self.axes[1:], sizes, strict=True)
        if not all(
            start + self.shape[i] <= size for start, i, size in inner
        ):  # it begins within a row: cut the line there
            line, starts, rest = line[self.offset :], [0] * len(starts), 0
        outer, last, n = self.steps[0], self.steps[-1], line.shape[0]
        whole = -(-n // outer) * outer
        if whole != n:
            needed = (starts[0] + self.shape[self.axes[0]]) * outer
            if needed <= n:
                line = line[:needed]
            else:
                line = F.pad(line, (0, needed - n))
                self.is_copied = True
            whole = needed
        line = line.reshape([whole // outer, *sizes, last] if last != 1 else [whole // outer, *sizes])
        key: list[slice | int] = [slice(at, at + self.shape[i]) for at, i in zip(starts, self.axes, strict=True)]
        return line[(*key, rest) if last != 1 else tuple(key)]

    def places(self, device: str) -> Tensor:
        """The position of each element in the row."""
        at = np.full((), self.offset, dtype=np.int32)
        for k, s in zip(self.shape, self.stride, strict=True):
            at = at[..., None] + np.arange(k, dtype=np.int32) * s
        return sg.tensor(at, device=device)


@partial(composed, gives_views=True)
def part_of(line: Tensor, shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Tensor:
    """The elements that strides select, as a tensor of `shape`."""
    if math.prod(shape) == 0:
        return line[:0].reshape(shape)
    return Part(line.numel(), shape, stride, offset).of(line)
