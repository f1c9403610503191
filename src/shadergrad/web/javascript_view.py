"""The strides and offsets of views in a module's arrays: reshapes, slices and windows read the same array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class View:
    """The location of a plan row's elements: array t[memory], element i at offset + the sum of i * strides."""

    memory: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def is_contiguous(self) -> bool:
        return not self.offset and all(
            n == 1 or s == c for n, s, c in zip(self.shape, self.strides, contiguous(self.shape), strict=True)
        )

    def at(self, index: Sequence[str]) -> str:
        parts = [i if s == 1 else f"{i} * {s}" for i, s in zip(index, self.strides, strict=True) if s and i != "0"]
        return " + ".join([*parts, *([str(self.offset)] if self.offset or not parts else [])])

    def part(self, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> View:
        """Elements from `starts` on, `steps` apart, along every axis."""
        offset = self.offset + sum(a * s for a, s in zip(starts, self.strides, strict=True))
        return View(self.memory, tuple(shape), tuple(s * k for s, k in zip(self.strides, steps, strict=True)), offset)

    def windows(
        self, axes: Sequence[int], shape: Sequence[int], steps: Sequence[int], dilations: Sequence[int]
    ) -> View:
        """Windows along axes; the positions within a window are axes at the end. shape: that of the result."""
        strides = list(self.strides)
        for axis, step, dilation in zip(axes, steps, dilations, strict=True):
            strides.append(self.strides[axis] * dilation)
            strides[axis] *= step
        return View(self.memory, tuple(shape), tuple(strides), self.offset)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in row-major order."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def collapsed(views: Sequence[View]) -> list[View]:
    """The same elements with as few axes as possible: adjacent axes are merged if every view is contiguous across them."""
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in views]
    for axis, n in enumerate(views[0].shape):
        if n == 1:
            continue
        own = [view.strides[axis] for view in views]
        if shape and all(of[-1] == stride * n for of, stride in zip(strides, own, strict=True)):
            shape[-1] *= n
            for of, stride in zip(strides, own, strict=True):
                of[-1] = stride
        else:
            shape.append(n)
            for of, stride in zip(strides, own, strict=True):
                of.append(stride)
    return [View(v.memory, tuple(shape), tuple(of), v.offset) for v, of in zip(views, strides, strict=True)]
