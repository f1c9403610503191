"""Primitives without a computation: stored values, constants, and aliases of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..dtypes import DType, int32
from ..plan import Label
from .primitive import Form, Number, Primitive, Shape


@dataclass(frozen=True, eq=False)
class Stored(Primitive):
    """A value that lives in device memory."""

    kind: ClassVar[str] = "source"


@dataclass(frozen=True, eq=False)
class Detached(Stored):
    """A result of a compiled step. Its history is within the step, so a request for its gradient raises an error."""


STORED, DETACHED = Stored(), Detached()  # made once, because there are many of them


@dataclass(frozen=True, eq=False)
class Placeholder(Primitive):
    """An input of a captured graph, by position."""

    kind: ClassVar[str] = "source"
    position: int
    shape: Shape
    dtype: DType

    def infer(self, *inputs: Any) -> tuple[Shape, DType]:
        return self.shape, self.dtype

    @property
    def label(self) -> Label:
        """The default name in a plan."""
        return Label("argument", f"in{self.position}")


@dataclass(frozen=True, eq=False)
class Numbers(Placeholder):
    """An input with numbers of one dtype, which are read one by one; shape (count,)."""

    kind: ClassVar[str] = "source"

    @property
    def label(self) -> Label:
        return Label("constant", f"numbers[{self.dtype.name}]")


@dataclass(frozen=True, eq=False)
class Constant(Primitive):
    """One number, shape ()."""

    kind: ClassVar[str] = "source"
    value: bool | int | float
    dtype: DType

    def infer(self, *inputs: Any) -> tuple[Shape, DType]:
        return (), self.dtype

    def without_numbers(self) -> Form | None:
        return None if self.dtype.category in (0, 3) else Form(Constant, self.dtype)

    def numbers(self, dtype: DType) -> tuple[tuple[Number, DType], ...]:
        return ((self.value, self.dtype),)

    def opened(self, inputs: Sequence[Any], numbers: Sequence[Any]) -> Any:
        (value,) = numbers
        return value

    def numpy(self, *arrays: np.ndarray) -> np.ndarray:
        return self.dtype.holding(self.value)


@dataclass(frozen=True, eq=False)
class Iota(Primitive):
    """0, 1, ..., size - 1 as int32; shape (size,)."""

    kind: ClassVar[str] = "source"
    size: int

    def infer(self, *inputs: Any) -> tuple[Shape, DType]:
        return (self.size,), int32

    def numpy(self, *arrays: np.ndarray) -> np.ndarray:
        return np.arange(self.size, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Alias(Primitive):
    """Another name for the value of its input; the compiler looks through it."""

    kind: ClassVar[str] = "alias"
    moves: ClassVar[bool] = True

    def infer(self, *inputs: Any) -> tuple[Shape, DType]:
        return inputs[0].shape, inputs[0].dtype

    def numpy(self, *arrays: np.ndarray) -> np.ndarray:
        return arrays[0]

    def vjp(self, g: Any, node: Any) -> tuple[Any, ...]:
        return (g,)


@dataclass(frozen=True, eq=False)
class Variable(Alias):
    """A leaf of the tape: a tensor that accumulates its gradient."""


@dataclass(frozen=True, eq=False)
class Detach(Alias):
    """Stops gradients: the same value, without history."""

    differentiable: ClassVar[bool] = False


Alias.structural = True
