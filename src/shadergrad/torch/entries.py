"""One operator of a recorded sequence: what a later call of it must have in common with the recorded one.

In: the arguments of an operator as PyTorch passes them, and its results. Out: an Entry, for which replays.py writes the function that
compares later arguments with the recorded ones, and creates results like the recorded ones. A place is the number of a value of the sequence: 0, 1, … for the values that its
operators computed, each of which is a row of nodes, and -1, -2, … for the values that the sequence took from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..dtypes import DType
from ..graph.composition import Recipe, Row
from .private import guard_of
from .storage import Unlike

PLAIN = (int, bool, str, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout)
MOST_MAKINGS = 8  # recipes per entry, for different sets of referenced values at the sequence's end
_LIST, _NUMBERS = object(), object()  # markers before the items of a list


class Seen(NamedTuple):
    """A device tensor as an argument. own_shape and own_dtype: those of the value in its cell, if that came from outside."""

    place: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    own_shape: tuple[int, ...]
    own_dtype: DType


class Number(NamedTuple):
    """A number that changes between steps: an input of the sequence, as a 0-d tensor."""

    place: int


class Many(NamedTuple):
    """A list or tuple of tensors, numbers and other values."""

    items: tuple[Any, ...]


class Same(NamedTuple):
    """A list of equal numbers."""

    length: int
    item: Any


class Given(NamedTuple):
    """A tensor that an operator made."""

    place: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


class Plain(NamedTuple):
    """A result that is not a tensor."""

    value: Any


class Items(NamedTuple):
    """A list among the results."""

    items: tuple[Any, ...]


class Making(NamedTuple):
    """The recipe that makes values of a sequence. inputs: the numbers of the recipe's inputs among the values that the sequence took from
    outside; needed: the same as a set.
    """

    recipe: Recipe
    inputs: tuple[int, ...]
    needed: frozenset[int]


def in_order(args: Any, kwargs: Any) -> list[Any]:
    """All arguments, keyword arguments after positional ones."""
    return [*args, *[x for item in kwargs.items() for x in item]] if kwargs else [*args]


def leaves_of(values: Any, leaves: list[Any]) -> list[Any]:
    """Arguments, with the elements of lists that hold tensors or numbers; a list of equal numbers counts as one number. Host tensors in which
    PyTorch wrapped numbers are numbers. Raises Unlike for other host tensors.
    """
    for a in values:
        if isinstance(a, torch.Tensor):
            leaves.append(host_number(a) if a.is_cpu or a.is_meta or a.is_cuda else a)
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


def host_number(a: torch.Tensor) -> Any:
    """The number that PyTorch wrapped in a host tensor. Raises Unlike for other tensors."""
    if a.dim() or not a.is_cpu or a.dtype not in (torch.float64, torch.int64, torch.bool):
        raise Unlike
    return a.item()


def with_numbers(values: Any, put: dict[int, Any], at: list[int]) -> list[Any]:
    """The arguments with some leaves replaced. put: the new ones, by the position of the leaf. at: the position of the first, which advances."""
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


def _passed_over(leaves: Iterator[Any]) -> None:
    """Skip the marker before the elements of a list."""
    next(leaves)
    next(leaves)


def specs_of(values: Any, leaves: Iterator[Any]) -> tuple[Any, ...]:
    """An entry's description of arguments. leaves: the description of each leaf."""
    made: list[Any] = []
    for a in values:
        if type(a) is list or type(a) is tuple:
            first = a[0] if a else None
            if type(first) is float:
                _passed_over(leaves)
                if all(type(x) is float and x == first for x in a):
                    made.append(Same(len(a), next(leaves)))
                else:
                    made.append(Many(tuple([next(leaves) for _ in a])))
                continue
            if isinstance(first, torch.Tensor) or any(isinstance(x, torch.Tensor) for x in a):
                _passed_over(leaves)
                made.append(Many(specs_of(a, leaves)))
                continue
        made.append(next(leaves))
    return tuple(made)


def key_of(op: Any, leaves: Sequence[Any]) -> int:
    """The key of an operator, which does not depend on the identity of its values. Raises Unlike for an unsupported kind of argument."""
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
    """Whether an argument that is not a tensor differs from before; 0.0 differs from -0.0."""
    if type(a) is not type(e):
        return True
    return (a != e or not a) and repr(a) != repr(e) if type(a) is float else a != e  # repr: zeros and NaN


def _unknown(*tensors: torch.Tensor) -> bool:
    """In place of a guard that is not there."""
    return False


class Entry:
    """An operator, after those that precede it in the sequence. replay: recognises it, and makes its results (replays.py). leaves: descriptions of its
    arguments, where a list is a marker and its items. offsets: those of its tensors; check: compares their layouts. rows: the nodes that it added. given: its results: Given, Plain, Items, or the number of a tensor among the arguments; kind:
    the type that contains several results. written: the places of new values for tensors among the arguments, by number.

    behind: the operators that came next. depth: the number of preceding operators. count: the number of rows up to here. inputs: the number
    of values taken from outside up to here. key, chain: hashes of the operator, and of all operators up to here. If a sequence ended here:
    makings and quick: how its values were made; worth: which of them are views; asked: the views that were read.
    """

    __slots__ = (
        "asked", "before", "behind", "chain", "check", "count", "depth", "given", "inputs", "key", "kind", "leaves", "makings", "offsets",
        "quick", "replay", "rows", "worth", "written",
    )  # fmt: skip

    def __init__(self, before: Entry | None, key: int, chain: int) -> None:
        self.before, self.key, self.chain = before, key, chain
        self.behind: dict[Any, list[Entry]] = {}
        self.makings: dict[tuple[int, ...], Making] = {}
        self.leaves: tuple[Any, ...] = ()
        self.offsets: list[int] = []
        self.check: Callable[..., bool] = _unknown
        self.replay: Callable[..., Any] = _unknown  # which replays.py writes
        self.quick: dict[tuple[int, ...], Any] = {}
        self.worth: dict[tuple[int, ...], tuple[list[int], tuple[int, ...]]] = {}
        self.asked: set[int] = set()
        self.rows: tuple[Row, ...] = ()
        self.given: tuple[Any, ...] = ()
        self.written: tuple[tuple[int, int], ...] = ()
        self.kind: type[Any] | None = None
        self.depth = before.depth + 1 if before else 0
        self.count = before.count if before else 0
        self.inputs = before.inputs if before else 0

    def are_laid_out(self, tensors: list[torch.Tensor]) -> bool:
        """Whether tensors have the entry's sizes, strides and dtypes. `check` compares all at once, but also properties that do not matter here, such
        as requires_grad. If it refuses, they are compared one by one, and the next call with such tensors passes it.
        """
        seen = [e for e in self.leaves if type(e) is Seen]
        if not all(
            a.shape == e.shape and a.stride() == e.stride and a.dtype is e.dtype and not a.is_neg() and not a.is_conj()
            for a, e in zip(tensors, seen, strict=True)
        ):
            return False
        self.check = guard_of(tensors).check if len({*map(id, tensors)}) == len(tensors) else _unknown
        return True

    def computed(self, places: tuple[int, ...]) -> tuple[int, ...]:
        """The places of values that are not views, and of views that were read before."""
        if places not in self.worth:
            shows = self.making(places).recipe.shows if places else ()
            if len(self.worth) >= MOST_MAKINGS:
                self.worth.clear()
            self.worth[places] = (
                [p for p, s in zip(places, shows, strict=True) if s],
                tuple([p for p, s in zip(places, shows, strict=True) if not s]),
            )
        views, others = self.worth[places]
        asked = [p for p in views if p in self.asked] if self.asked else ()
        return (*others, *asked) if asked else others

    def path(self) -> list[Row]:
        """The rows of the sequence up to this entry."""
        parts = []
        entry: Entry | None = self
        while entry is not None:
            parts.append(entry.rows)
            entry = entry.before
        return [row for rows in reversed(parts) for row in rows]

    def making(self, places: tuple[int, ...]) -> Making:
        """The recipe for the values of some places."""
        found = self.makings.get(places)
        if found is None:
            if len(self.makings) >= MOST_MAKINGS:
                self.makings.clear()
            found = self.makings[places] = _making(self.path(), places)
        return found


def _making(path: list[Row], places: tuple[int, ...]) -> Making:
    needed: set[int] = set()
    left = [*places]
    while left:
        place = left.pop()
        if place not in needed:
            needed.add(place)
            left += path[place][1] if place >= 0 else ()
    inputs = sorted([-1 - place for place in needed if place < 0])
    rows = sorted([place for place in needed if place >= 0])
    at = {place: k for k, place in enumerate([*[-1 - k for k in inputs], *rows])}
    kept = [(p, tuple([at[k] for k in of]), shape, dtype, g) for p, of, shape, dtype, g in map(path.__getitem__, rows)]
    return Making(Recipe(kept, [at[place] for place in places], len(inputs)), tuple(inputs), frozenset(inputs))
