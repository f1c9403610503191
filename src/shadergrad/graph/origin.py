"""The origin of nodes: the module, the user's line, and the phase (forward, backward or update).

In: the calls of modules, optimizers and gradient rules. Out: a Spot for each node made during them, and names for spots.
Recorded only while a step is captured and inside sg.profile.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import CodeType, FrameType, MappingProxyType
from typing import Any, NamedTuple

from ..cpython import first_outwards, frame_of_caller, instruction_at, line_at
from ..explanation import NOWHERE, Origin, Phase

DECORATED = contextlib.__file__  # calls functions of this package that have a context as a decorator
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
WRAPPER = "_orig_mod"  # the attribute under which a compiled module holds the original
_numbers = count(1)


class Place(NamedTuple):
    """An instruction outside this package. Its line is looked up on demand, because that takes longer in longer functions."""

    file: str
    code: CodeType
    instruction: int  # its first byte

    @property
    def line(self) -> str:
        """ "train.py:12" """
        return f"{self.file}:{line_at(self.code, self.instruction)}"


def users_place() -> Place | None:
    """The calling instruction outside this package; None if there is none."""
    name, frame = _users_frame(frame_of_caller())
    return None if frame is None else Place(name, frame.f_code, instruction_at(frame))


def users_line() -> str:
    """The calling line outside this package: "train.py:12"; "" if there is none."""
    name, frame = _users_frame(frame_of_caller())
    return "" if frame is None else f"{name}:{frame.f_lineno}"


def _users_frame(frame: FrameType | None) -> tuple[str, FrameType | None]:
    frame = first_outwards(frame, _files.__getitem__)
    return ("", None) if frame is None else (_files[frame.f_code.co_filename], frame)


def _called(path: str) -> str:
    """The displayed name of a file; "" for one of this package. The cells of a notebook have arbitrary numbers."""
    if path.startswith(PACKAGE) or path == DECORATED:
        return ""
    return "cell" if "ipykernel_" in os.path.dirname(path) else os.path.basename(path)


class _Names(dict[str, str]):
    """The displayed names of files, by path, computed once."""

    def __missing__(self, path: str) -> str:
        name = self[path] = _called(path)
        return name


_files = _Names()
_entered: dict[int, int] = {}  # the numbers of living modules and optimizers, by id
_owners: dict[int, weakref.ref[Any]] = {}  # and they, by number


def _number_of(owner: Any) -> int:
    """The number of a module or an optimizer, unique and never reused."""
    key = id(owner)
    number = _entered.get(key)
    if number is None:
        number = _entered[key] = next(_numbers)

        def forget(_: Any) -> None:
            del _entered[key], _owners[number]

        _owners[number] = weakref.ref(owner, forget)
    return number


def entered() -> list[Any]:
    """The modules and optimizers that ran during a recording."""
    return [o for owner in list(_owners.values()) if (o := owner()) is not None]


class Spot(NamedTuple):
    """The origin of a node. owner: the number of the running module or optimizer, 0 for none; nodes keep none alive. line: ""
    means the line of the code that asks."""

    owner: int = 0
    line: str = ""
    phase: Phase = "forward"


class Origins:
    """A recording. here: the origin of the next node."""

    def __init__(self) -> None:
        self.here = Spot()

    def enter(self, owner: Any, phase: Phase | None = None) -> Spot:
        """A module or an optimizer begins its work. Returns the value for `here` when it ends."""
        before = self.here
        self.here = Spot(_number_of(owner), before.line, phase or before.phase)
        return before

    @contextmanager
    def restored(self) -> Iterator[None]:
        """A context that restores `here`."""
        before = self.here
        try:
            yield
        finally:
            self.here = before

    def derive(self, spot: Spot | None) -> None:
        """The following nodes belong to the gradient of a node with that origin."""
        self.here = Spot(phase="backward") if spot is None else spot._replace(phase="backward")


def named(
    spots: Sequence[Spot | None], candidates: Iterable[Any], variables: Mapping[int, str] = MappingProxyType({})
) -> list[Origin]:
    """The spots in words. candidates: modules; the outermost one around each owner names it. variables: the program's names of
    modules and optimizers, by id."""
    known: dict[Spot | None, Origin] = dict.fromkeys(spots, NOWHERE)
    owners = {spot.owner: _owners[spot.owner]() for spot in known if spot is not None and spot.owner in _owners}
    names = _names([o for o in owners.values() if o is not None], candidates, variables)
    for spot in known:
        if spot is not None:
            owner = owners.get(spot.owner)
            known[spot] = Origin("" if owner is None else names[id(owner)], spot.line, spot.phase)
    return [known[spot] for spot in spots]


def _names(owners: list[Any], candidates: Iterable[Any], variables: Mapping[int, str]) -> dict[int, str]:
    """Names of modules and optimizers, by id. A module has its name in named_modules of the outermost module around it; that
    one has the name of its class. If there are several with parameters, or several optimizers, names begin with their variables
    or else classes."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    optimizers = [o for o in owners if not hasattr(o, "named_modules")]
    for optimizer in optimizers:
        own = variables.get(id(optimizer), "") if len(optimizers) > 1 else ""
        found[id(optimizer)] = _distinct(own or type(optimizer).__name__, taken)
    modules = {id(o): o for o in (*candidates, *owners) if hasattr(o, "named_modules")}
    inner = {id(below) for m in modules.values() for below in m.modules() if below is not m}
    at_work = {id(o) for o in owners}
    roots = [m for m in modules.values() if id(m) not in inner and any(id(b) in at_work for b in m.modules())]
    several = sum(next(root.parameters(), None) is not None for root in roots) > 1
    for root in roots:
        own = variables.get(id(root), "") if several else ""
        own = _distinct(own or type(root._modules.get(WRAPPER, root)).__name__, taken)
        for path, module in root.named_modules():
            within = ".".join(part for part in path.split(".") if part != WRAPPER)
            found[id(module)] = f"{own}.{within}" if several and within else within or own
    return found


def _distinct(name: str, taken: set[str]) -> str:
    """A unique name, with a number if necessary."""
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name} ({number})"
    taken.add(unique)
    return unique
