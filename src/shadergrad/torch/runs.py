"""The replay of a recorded sequence of operators: the values that it took from outside, and the values that it promised.

In: an entry of the tree (entries.py), the nodes from outside, the cells whose values are promised. Out: their values, as nodes of one
composition, or computed by the program of the previous step without any node.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

from ..drive import execute
from ..dtypes import DType
from ..graph.composition import Hashed, Row
from ..graph.node import Node, leaf
from ..graph.primitive import Form
from ..graph.short_capture import ShortCapture
from ..runtime.device import get_device
from .entries import MOST_MAKINGS, Entry
from .storage import Cell

_ending = threading.RLock()
NOTHING: Any = None  # in place of an input that is no longer needed


def _places(cells: list[Cell]) -> tuple[int, ...]:
    """The places of computed values, each once."""
    return tuple({c.place: None for c in cells if c.place >= 0})


class Run:
    """A replayed sequence. at: the entry of the last operator. inputs: the nodes that it took from outside; taken: those of them that are no numbers. cells: those whose
    values it promised. is_over: whether they have been given. dtype: the default dtype, on which operators without tensors depend.
    """

    __slots__ = ("at", "cells", "device", "dtype", "inputs", "is_over", "taken")

    def __init__(self, root: Entry, device: str, dtype: torch.dtype) -> None:
        self.at = root
        self.device = device
        self.dtype = dtype
        self.inputs: list[Node] = []
        self.cells: list[weakref.ref[Cell]] = []
        self.is_over = False
        self.taken: set[Node] = set()

    def kind(self, place: int) -> tuple[tuple[int, ...], DType]:
        """Shape and dtype of a value."""
        if place < 0:
            node = self.inputs[-1 - place]
            return node.shape, node.dtype
        entry: Any = self.at
        while place < entry.count - len(entry.rows):
            entry = entry.before
        row: Row = entry.rows[place - entry.count + len(entry.rows)]
        return row[2], row[3]

    def end(self) -> dict[int, Node]:
        """Give every living cell its value. Returns the values by place."""
        with _ending:
            cells = self._alive()
            if self.is_over and cells:  # views, which `compute` left; next time it computes them
                self.at.asked.update([c.place for c in cells])
            self.is_over = True
            found = self._nodes(_places(cells))
            self._keep(cells, found)
            return found

    def _nodes(self, places: tuple[int, ...]) -> dict[int, Node]:
        if not places:
            return {}
        making = self.at.making(places)
        inputs = [self.inputs[k] for k in making.inputs]
        return dict(zip(places, making.recipe.results(inputs, self.device), strict=True))

    def compute(self) -> None:
        """Start computing every value that was read, and give it. Views and numbers, which cost nothing, stay promised."""
        with _ending:
            entry, cells = self.at, self._alive()
            places = entry.computed(_places(cells))
            quick = entry.quick.get(places)
            found = None
            try:
                found = None if quick is None else quick.results(self.inputs, self.device)
            finally:  # also if that raises: then the values are pending
                is_computed = found is not None
                found = self._nodes(places) if found is None else found
                self.is_over = True
                self._keep([c for c in cells if c.place in found or c.place < 0], found)
                self.cells = [weakref.ref(c) for c in cells if c.run is self]
            if not is_computed:
                self._learn(places, [*found.values()])
            self._let_go(_places([c for c in cells if c.run is self]))

    def _let_go(self, places: tuple[int, ...]) -> None:
        """Release the values from outside that some places do not need."""
        needed = self.at.making(places).needed if places else ()
        self.inputs = [node if k in needed else NOTHING for k, node in enumerate(self.inputs)]
        self.taken = set()

    def _learn(self, places: tuple[int, ...], roots: list[Node]) -> None:
        """Compute nodes, and remember how. Errors are left to the reader of a value."""
        if not roots:
            return
        short = ShortCapture(roots)
        try:
            execute.realize(roots)
        except Exception:
            if get_device(self.device).is_lost:
                raise
            return
        quick = Quick.of(short, places, self) if len(short.roots) == len(roots) else None
        if quick is not None:
            if len(self.at.quick) >= MOST_MAKINGS:
                self.at.quick.clear()
            self.at.quick[places] = quick

    def _alive(self) -> list[Cell]:
        """The cells that wait for a value."""
        cells = [c for r in self.cells if (c := r()) is not None and c.run is self]
        self.cells = []
        return cells

    def _keep(self, cells: list[Cell], found: dict[int, Node]) -> None:
        for cell in cells:
            cell.keep(found[cell.place] if cell.place >= 0 else self.inputs[-1 - cell.place])


class Quick:
    """How the values of some places were computed, so that they can be computed again without nodes.

    key: of their short capture. kinds: shape and dtype of each place. sources: the sequence's inputs that the capture read. numbers: which
    of them are numbers, with their form.
    """

    def __init__(self, key: Hashed, kinds: dict[int, Any], sources: list[int], numbers: dict[int, Form | None]) -> None:
        self._key, self._kinds, self._sources, self._numbers = key, kinds, sources, numbers

    @classmethod
    def of(cls, short: ShortCapture, places: tuple[int, ...], run: Run) -> Quick | None:
        """None if an input is neither a value in memory nor a number, or if one value is two inputs."""
        needed = run.at.making(places).inputs
        which = {id(run.inputs[k]): k for k in needed}
        sources = [which.get(id(node)) for node in short.sources]
        numbers = [which.get(id(node)) for node in short.with_numbers]
        if not short.is_short or {*sources, *numbers} != {*needed} or len(sources) + len(numbers) != len(needed):
            return None
        read = [k for k in sources if k is not None]
        forms = {k: _form(run.inputs[k]) for k in numbers if k is not None}
        if None in forms.values():
            return None
        return cls(execute.key_of(short), {place: run.kind(place) for place in places}, read, forms)

    def results(self, inputs: list[Node], device: str) -> dict[int, Node] | None:
        """The values by place; None if they cannot be computed in this way."""
        sources = [inputs[k].storage for k in self._sources]
        if None in sources or len({*map(id, sources)}) != len(sources):
            return None
        if any(_form(inputs[k]) != form for k, form in self._numbers.items()):
            return None
        numbered = tuple([inputs[k].primitive for k in self._numbers])
        found = execute.run_known(self._key, numbered, sources, device)
        if found is None:
            return None
        return {
            place: leaf(storage, shape, dtype, device)
            for storage, (place, (shape, dtype)) in zip(found, self._kinds.items(), strict=True)
        }


def _form(node: Node) -> Form | None:
    """The form of a number that is not in memory; None for any other node."""
    return node.primitive.form if type(node) is Node and node.storage is None and not node.inputs else None
