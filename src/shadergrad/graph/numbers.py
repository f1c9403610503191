"""Numbers of a graph that change from run to run: a learning rate, the start of a slice, the first number of an arange.

They are parameters of primitives (`Primitive.numbers`) and not part of a capture's key, so captures that differ only in them
have one structure. `Slots` lists the numbers that kernels read from memory; the others are constants in the source.
In: captures of one structure. Out: the slot of each number, and the arrays of the slots.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from ..dtypes import DType
from . import build
from . import node as nodes
from .leaves import Numbers
from .node import Node
from .primitive import Number, Primitive, named


class Kind(NamedTuple):
    """A number's dtype, its primitive and the name of its parameter."""

    dtype: DType
    primitive: type[Primitive]
    place: int


class Slots:
    """The slots of a structure's numbers.

    of: for each number its slot, or None if it is part of the source. Numbers of one kind that have always been equal share a
    slot, so that kernels that differ in nothing else stay one kernel.
    dtypes: of each slot.
    places: (row, position) of each slot: an array for each dtype, a row for each array.
    """

    def __init__(self, of: Sequence[int | None], dtypes: Sequence[DType]) -> None:
        self.of = tuple(of)
        self.dtypes = tuple(dtypes)
        self.rows = list(dict.fromkeys(dtypes))
        counts = dict.fromkeys(self.rows, 0)
        self.places: list[tuple[int, int]] = []
        for dtype in dtypes:
            self.places.append((self.rows.index(dtype), counts[dtype]))
            counts[dtype] += 1
        self.sizes = [counts[dtype] for dtype in self.rows]

    @classmethod
    def grouped(cls, groups: Sequence[Hashable | None], kinds: Sequence[Kind]) -> Slots:
        """A slot for the numbers of a group with one kind, in order of appearance; None: no slot."""
        slots: dict[tuple[Hashable, Kind], int] = {}
        of = [
            None if group is None else slots.setdefault((group, kind), len(slots))
            for group, kind in zip(groups, kinds, strict=True)
        ]
        return cls(of, [kind.dtype for _, kind in slots])

    def inputs(self, first: int, device: str) -> list[Node]:
        """A placeholder for each array, from input number `first` on."""
        made = [Numbers(first + k, (n,), dtype) for k, (n, dtype) in enumerate(zip(self.sizes, self.rows, strict=True))]
        return [Node(p, (), p.shape, p.dtype, device) for p in made]

    def nodes(self, inputs: Sequence[Node]) -> list[Node]:
        """Each slot as a node of shape ()."""
        return [
            build.reshape(nodes.make(named("Slice", (position,), (1,), (1,)), inputs[row]), ())
            for row, position in self.places
        ]

    def arrays(self, values: Sequence[Number]) -> list[np.ndarray]:
        """The arrays of the inputs for a capture with these numbers."""
        with np.errstate(over="ignore"):  # a float64 beyond float32 is infinite, as in a kernel's text
            result = [np.zeros(n, dtype.numpy) for n, dtype in zip(self.sizes, self.rows, strict=True)]
            for slot, value in zip(self.of, values, strict=True):
                if slot is not None:
                    row, position = self.places[slot]
                    result[row][position] = value
        return result


NO_SLOTS = Slots((), ())


def identity(value: Number) -> str:
    """A key that is equal for identical numbers only: 0.0 and -0.0 differ, NaN equals NaN."""
    return repr(value)
