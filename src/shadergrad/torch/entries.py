"""One operator of a sequence that came before: by what it is known again, and what it gave.

In: the arguments of an operator as PyTorch gives them, and its results. Out: an Entry, which says of later arguments whether they are
alike, and makes results like those before. A place is a value of the sequence: from 0 on what its operators computed, a row of nodes each,
and -1, -2, … what the sequence took from outside.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..dtypes import DType
from ..graph.composition import Recipe, Row
from ..graph.node import Node
from .private import lay, new_tensor
from .storage import Cell, constant, is_ours

PLAIN = (int, bool, str, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout)
MOST_RECIPES = 8  # of an entry: for what else is alive where the sequence ends
_LIST, _NUMBERS = object(), object()  # what stands before the items of a list
_ending = threading.RLock()


class Unlike(Exception):
    """An argument that no later one can be told alike of."""


class Seen(NamedTuple):
    """A tensor of the device as an argument. own_shape and own_dtype: of the value in its cell, where that came from outside."""

    place: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    own_shape: tuple[int, ...]
    own_dtype: DType


class Number(NamedTuple):
    """A number that changes from time to time: taken from outside as a tensor without axes."""

    place: int


class Given(NamedTuple):
    """A tensor that an operator made."""

    place: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


class Plain(NamedTuple):
    """A result that is no tensor."""

    value: Any


def in_order(args: Any, kwargs: Any) -> list[Any]:
    """All arguments, those by name behind their names."""
    return [*args, *[x for item in kwargs.items() for x in item]] if kwargs else [*args]


def leaves_of(values: Any, leaves: list[Any]) -> list[Any]:
    """Arguments without the lists that hold tensors or numbers; equal numbers of a list once. Numbers that PyTorch wrapped into tensors of
    the host are numbers. Raises Unlike for other tensors of the host.
    """
    for a in values:
        if isinstance(a, torch.Tensor):
            leaves.append(a if is_ours(a) else _number(a))
        elif type(a) is list or type(a) is tuple:
            first = a[0] if a else None
            if type(first) is float:
                same = all(type(x) is float and x == first for x in a)
                leaves += (_NUMBERS, len(a))
                leaves += (first,) if same else a
            elif isinstance(first, torch.Tensor) or any(isinstance(x, torch.Tensor) for x in a):
                leaves += (_LIST, len(a))
                leaves_of(a, leaves)
            else:
                leaves.append(a)
        else:
            leaves.append(a)
    return leaves


def _number(a: torch.Tensor) -> Any:
    if a.dim() or a.device.type != "cpu" or a.dtype not in (torch.float64, torch.int64, torch.bool):
        raise Unlike
    return a.item()


def with_numbers(values: Any, put: dict[int, Any], at: list[int]) -> list[Any]:
    """The arguments with others in place of some leaves. put: by the number of the leaf. at: the number of the first, which moves on."""
    made: list[Any] = []
    for a in values:
        if type(a) is list or type(a) is tuple:
            first = a[0] if a else None
            if type(first) is float:
                at[0] += 2
                if all(type(x) is float and x == first for x in a):
                    made.append([put.get(at[0], first)] * len(a))
                    at[0] += 1
                else:
                    made.append([put.get(at[0] + k, x) for k, x in enumerate(a)])
                    at[0] += len(a)
                continue
            if isinstance(first, torch.Tensor) or any(isinstance(x, torch.Tensor) for x in a):
                at[0] += 2
                made.append(with_numbers(a, put, at))
                continue
        made.append(put.get(at[0], a))
        at[0] += 1
    return made


def key_of(op: Any, leaves: Sequence[Any]) -> int:
    """What tells operators apart before anybody looks at which values they take. Raises Unlike for an argument of another kind."""
    key: list[Any] = [op]
    for a in leaves:
        if isinstance(a, torch.Tensor):
            key += (tuple(a.shape), a.stride(), a.storage_offset(), a.dtype)
            if a.is_neg() or a.is_conj():
                raise Unlike
        elif type(a) is float:
            key.append(float)
        elif type(a) in PLAIN or a is _LIST or a is _NUMBERS:
            key += (type(a), a)
        elif isinstance(a, (list, tuple)) and all(type(x) in PLAIN for x in a):
            key += (type(a), tuple(a))
        else:
            raise Unlike
    return hash(tuple(key))


def differs(a: Any, e: Any) -> bool:
    """Whether an argument that is no tensor is another one than before; 0.0 is not -0.0."""
    return type(a) is not type(e) or (repr(a) != repr(e) if type(a) is float else a != e)


def _is_as_seen(a: Any, e: Seen, run: Run) -> bool:
    """Whether a tensor has the layout and the value of an entry. What comes from outside for the first time is noted as an input.

    Raises AttributeError where it is no tensor of the device.
    """
    cell = a.untyped_storage().cell
    if cell.run is run:
        if cell.place != e.place:
            return False
    elif e.place >= 0:
        return False
    else:
        node, inputs, k = cell.value._node, run.inputs, -1 - e.place
        if k == len(inputs) and node.shape == e.own_shape and node.dtype is e.own_dtype and node.device == run.device:
            inputs.append(node)
        elif k >= len(inputs) or inputs[k] is not node:
            return False
    return (
        a.shape == e.shape
        and a.stride() == e.stride
        and a.dtype is e.dtype
        and a.storage_offset() == e.offset
        and not a.is_neg()
    )


class Entry:
    """An operator, behind others. leaves: its arguments; is_flat: as they come, without lists. rows: the nodes that it added. given: its
    results: Given, Plain, or the number of a leaf that it gives back; kind: what holds several. written: of leaves, by number, the places
    that it wrote.

    behind: operators that came next. depth: how many came before. count: rows up to here. inputs: values taken from outside up to here.
    key, chain: hashes of the operator, and of all up to here.
    """

    __slots__ = (
        "before", "behind", "chain", "count", "depth", "given", "inputs", "is_flat", "key", "kind", "leaves", "recipes", "rows", "written",
    )  # fmt: skip

    def __init__(self, before: Entry | None, key: int, chain: int) -> None:
        self.before, self.key, self.chain = before, key, chain
        self.behind: dict[Any, list[Entry]] = {}
        self.recipes: dict[tuple[int, ...], Recipe] = {}
        self.leaves: tuple[Any, ...] = ()
        self.rows: tuple[Row, ...] = ()
        self.given: tuple[Any, ...] = ()
        self.written: tuple[tuple[int, int], ...] = ()
        self.kind: type[Any] | None = None
        self.is_flat = False
        self.depth = before.depth + 1 if before else 0
        self.count = before.count if before else 0
        self.inputs = before.inputs if before else 0

    def fits(self, args: Any, kwargs: Any, run: Run) -> Sequence[Any] | None:
        """The leaves of arguments that are like those before, and take the same values of the sequence; the run notes what it takes from
        outside. None for others.
        """
        inputs = run.inputs
        begin = len(inputs)
        try:
            leaves = args if self.is_flat and not kwargs else leaves_of(in_order(args, kwargs), [])
            if len(leaves) == len(self.leaves):
                for a, e in zip(leaves, self.leaves):  # noqa: B905 (of one length)
                    if type(e) is Seen:
                        if not _is_as_seen(a, e, run):
                            break
                    elif type(e) is Number:
                        if type(a) is not float:
                            break
                        inputs.append(constant(a)._node)
                    elif a is not e and differs(a, e):
                        break
                else:
                    return leaves
        except (AttributeError, Unlike):  # no tensor of the device, or one without a cell
            pass
        del inputs[begin:]
        return None

    def give(self, leaves: Sequence[Any], run: Run) -> Any:
        """Results like those before, whose values the run will make."""
        run.at = self
        for k, place in self.written:
            cell = leaves[k].untyped_storage().cell
            cell.promise(run, place)
            run.cells.append(weakref.ref(cell))
        made: list[Any] = []
        for g in self.given:
            if type(g) is Given:
                x = new_tensor(g.shape, g.dtype)
                storage = x.untyped_storage()
                cell = storage.cell = Cell(None)
                cell.promise(run, g.place)
                run.cells.append(weakref.ref(cell))
                made.append(lay(x, storage, 0, g.shape, g.stride))
            else:
                made.append(g.value if type(g) is Plain else leaves[g])
        return made[0] if self.kind is None and made else self.kind(made) if self.kind is not None else None

    def path(self) -> list[Row]:
        """The rows of the sequence up to here."""
        parts = []
        entry: Entry | None = self
        while entry is not None:
            parts.append(entry.rows)
            entry = entry.before
        return [row for rows in reversed(parts) for row in rows]

    def recipe(self, places: tuple[int, ...]) -> Recipe:
        """What makes the values of some places of what the sequence took from outside."""
        found = self.recipes.get(places)
        if found is None:
            if len(self.recipes) >= MOST_RECIPES:
                self.recipes.clear()
            n = self.inputs
            rows = [(p, tuple([_shifted(k, n) for k in at]), shape, dtype, g) for p, at, shape, dtype, g in self.path()]
            found = self.recipes[places] = Recipe(rows, [_shifted(p, n) for p in places], n)
        return found


def _shifted(place: int, inputs: int) -> int:
    return place + inputs if place >= 0 else -1 - place


class Run:
    """A sequence that comes again. at: the entry of the last operator. inputs: the nodes that it took from outside. cells: those whose
    values it promised. is_over: they were given. dtype: the default one, on which operators without tensors hang.
    """

    __slots__ = ("at", "cells", "device", "dtype", "inputs", "is_over")

    def __init__(self, root: Entry, device: str, dtype: torch.dtype) -> None:
        self.at = root
        self.device = device
        self.dtype = dtype
        self.inputs: list[Node] = []
        self.cells: list[weakref.ref[Cell]] = []
        self.is_over = False

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
        """Give every cell that is alive its value. The values by place."""
        with _ending:
            self.is_over = True
            cells = [c for r in self.cells if (c := r()) is not None and c.run is self]
            self.cells = []
            entry = self.at
            places = tuple({c.place: None for c in cells if c.place >= 0})
            found: dict[int, Node] = {}
            if places:
                made = entry.recipe(places).results(self.inputs[: entry.inputs], self.device)
                found = dict(zip(places, made, strict=True))
            for cell in cells:
                cell.keep(found[cell.place] if cell.place >= 0 else self.inputs[-1 - cell.place])
            return found
