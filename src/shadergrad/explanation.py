"""Descriptions of kernels for users: where each comes from, why it is a separate kernel, and tables of kernels.

In: the compiler's notes. Out: plain data, texts, and HTML for notebooks. This module does not change what is computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal, NamedTuple

from . import html_repr

Phase = Literal["forward", "update", "backward"]
PHASES: tuple[Phase, ...] = ("forward", "update", "backward")  # what several phases use counts as of the last of them
WIDEST = 30  # characters of a name in a table
MOST_NAMES = 2  # in the name of a module that is used in several places


class Origin(NamedTuple):
    """Where an operation was recorded.

    module: the innermost that was at work, by its name in named_modules of the outermost one, which is called by its class; of
    an update the optimizer's class. Where there are several, names begin with a variable's or a class's. "" outside of all.
    line: the user's, "train.py:12"; "" where there are several.
    phase: "forward", "backward" for what computes gradients of what that module did, or "update".

    >>> from shadergrad.explanation import Origin
    >>> str(Origin("layers.0.linear1", "train.py:12", "backward"))
    'backward of layers.0.linear1'
    """

    module: str = ""
    line: str = ""
    phase: Phase = "forward"

    @property
    def name(self) -> str:
        """The module, or else the line."""
        return self.module or self.line

    def __str__(self) -> str:
        return f"backward of {self.name}" if self.name and self.phase == "backward" else self.name


NOWHERE = Origin()


def merged(origins: Iterable[Origin]) -> Origin:
    """What several have in common: the module around all of theirs, with * for numbers that differ; both names, where nothing is.

    >>> from shadergrad.explanation import Origin, merged
    >>> [merged([Origin(a), Origin(b)]).module for a, b in [("h.0.norm", "h.1.norm"), ("h.0.norm", "h.0.mlp"), ("h.0", "AdamW")]]
    ['h.*.norm', 'h.0', 'h.0, AdamW']
    """
    known = list(dict.fromkeys(o for o in origins if o.name))
    if len(known) < 2:
        return known[0] if known else NOWHERE
    lines = {o.line for o in known}
    names = list(dict.fromkeys(o.name for o in known))
    module = _around(names) if all(o.module for o in known) else ""
    if not module and not (len(names) == 1 and names[0] in lines):
        tops = names if len(names) <= MOST_NAMES else list(dict.fromkeys(name.split(".")[0] for name in names))
        module = ", ".join(tops[:MOST_NAMES]) + (", ..." if len(tops) > MOST_NAMES else "")
    return Origin(module, lines.pop() if len(lines) == 1 else "", max(known, key=lambda o: PHASES.index(o.phase)).phase)


def _around(names: list[str]) -> str:
    """The common beginning of dotted names."""
    found = []
    for parts in zip(*(name.split(".") for name in names), strict=False):
        if len(set(parts)) == 1:
            found.append(parts[0])
        elif all(part.isdigit() or part == "*" for part in parts):
            found.append("*")
        else:
            break
    return ".".join(found)


def in_column(origin: Origin) -> str:
    """An origin in a table, where an arrow marks the backward pass; of a long name the end, which tells more."""
    arrow = "← " if origin.phase == "backward" and origin.name else ""
    room = WIDEST - len(arrow)
    return arrow + (origin.name if len(origin.name) <= room else "…" + origin.name[1 - room :])


class Why(Enum):
    """Why a kernel reads a value of another kernel instead of computing it. {n}: a number, see Separation."""

    SHARED = "stored once: {n} kernels read it"
    PRODUCT = "a product reads each element {n} times"
    TILES = "a product gives tiles, no whole rows"
    PRODUCTS = "two products are two kernels"
    CALL = "a kernel written by hand"
    REPEATED = "each would be computed {n} times"
    PART = "only a part of it is read"
    OTHER_POSITIONS = "read at other positions than written"
    AXIS = "reduction over another axis"
    ROWS = "reduction over rows of another length"
    SCATTERED = "elements of a row lie far apart"
    LONG = "few rows, of {n} elements each"
    BUFFERS = "too many buffers ({n} are the limit)"
    DEEP = "{n} operations deep already"
    COMPARED = "its bits are compared, so one kernel computes them"
    BETWEEN = "another kernel must run in between"


class Refusal(NamedTuple):
    """Why two kernels are two. n: the number in the reason's text."""

    why: Why
    n: int = 0


class Separation(NamedTuple):
    """Why a kernel is not one with an earlier one that it reads from. before: the number of that dispatch."""

    before: int
    why: Why
    n: int

    def __str__(self) -> str:
        return self.why.value.format(n=f"{self.n:,}").replace(" 1 times", " once")


class Note(NamedTuple):
    """The description of a dispatch.

    places: the nodes of the captured graph that describe it (its matrix multiplication, its reductions, or its results), by number.
    separations: one for each dispatch that it reads from. origin: of these nodes, once the capture is known.
    """

    places: tuple[int, ...] = ()
    separations: tuple[Separation, ...] = ()
    origin: Origin = NOWHERE

    def to_data(self) -> list[Any]:
        """As JSON has it, without the origin: another capture has another one."""
        return [self.places, [(a.before, a.why.name, a.n) for a in self.separations]]

    @classmethod
    def from_data(cls, data: Any) -> Note:
        """What `to_data` gave. Raises ValueError, KeyError or TypeError for anything else."""
        places, separations = data
        return cls(tuple(map(int, places)), tuple(Separation(int(b), Why[why], int(n)) for b, why, n in separations))


class Explanation(str):
    """A table that prints as text, and that notebooks show as HTML."""

    __slots__ = ("_html",)
    _html: str

    def __new__(cls, head: tuple[str, ...], rows: list[tuple[str, ...]], left: int, below: str) -> Explanation:
        found = super().__new__(cls, "\n".join([*_table([head, *rows], left), below]))
        found._html = html_repr.table(head, rows, left, below)
        return found

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._html


def short(n: float) -> str:
    """A count for a column of a table: '512', '45.4k', '1.07G'."""
    for unit in ("", "k", "M", "G", "T"):
        if n < 999.5 or unit == "T":
            break
        n /= 1000
    return f"{n:.3g}{unit}" if n < 999.5 else f"{n:.0f}{unit}"


def _table(rows: list[tuple[str, ...]], left: int) -> list[str]:
    """Lines of aligned columns, the first `left` of them to the left, with a rule below the first line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if c < left else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
