"""Symbolic sizes: ints that remember how they were computed, for sizes that may differ in the next call.

While a step with a varying batch size is captured and compiled, that size is a `Varying`: an int with the value of this call. Products,
sums and quotients of it are `Varying`, too, so shapes and all numbers that the compiler derives from them show what varies. Decisions about
a size use properties that hold for all its values (`divides`), or the value of the first call (`hint`). So kernels for two sizes differ in
numbers only. Numbers that depend on a size are marked in a kernel's source (`marking`), so that kernels can read them from memory
(runtime/families.py).

Outside of `following` the operations give plain ints. `int(n)` and NumPy also give plain ints. That is safe: every size has its own plan,
and at most one more kernel is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import numpy as np

follows = 0  # the number of the family of captures in which sizes vary, of which one is being made; 0: none is
MARK = "/**/"  # before a number in a kernel's text: one that varies
_marks = False


class Atom(NamedTuple):
    """What a varying number is made of: a size, or a number worked out of some that is no multiple of them."""

    name: str
    value: int
    hint: int


class Varying(int):
    """factor * the product of its atoms. hint: its value, were all sizes those of the first call."""

    factor: int
    atoms: tuple[Atom, ...]

    @property
    def hint(self) -> int:
        return self.factor * math.prod(a.hint for a in self.atoms)

    @property
    def form(self) -> str:
        """A key that is equal for numbers computed in the same way."""
        return "*".join((str(self.factor), *(a.name for a in self.atoms)))

    def __mul__(self, other: Any) -> Any:
        if not follows or not isinstance(other, int):
            return int.__mul__(self, other)
        factor, atoms = _parts(other)
        return _made(self.factor * factor, (*self.atoms, *atoms))

    __rmul__ = __mul__

    def __neg__(self) -> int:
        return self * -1

    def __abs__(self) -> int:
        return self if int(self) >= 0 else self * -1

    def __str__(self) -> str:
        text = int.__repr__(self)
        if not _marks:
            return text
        return f"-{MARK}{text[1:]}" if text.startswith("-") else MARK + text

    def __format__(self, spec: str) -> str:
        return int.__format__(int(self), spec) if spec else str(self)

    def __add__(self, other: Any) -> Any:
        if not follows or not isinstance(other, int):
            return int.__add__(self, other)
        factor, atoms = _parts(other)
        if not factor:
            return self
        if atoms == self.atoms:
            return _made(self.factor + factor, atoms)
        common = math.gcd(self.factor, factor)
        name = f"({self.factor // common}*{_names(self.atoms)}+{factor // common}*{_names(atoms)})"
        return _opaque(common, name, (int(self) + int(other)) // common, (self.hint + hint(other)) // common)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if not follows or not isinstance(other, int):
            return int.__sub__(self, other)
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        if not follows or not isinstance(other, int):
            return int.__rsub__(self, other)
        return self * -1 + other

    def __floordiv__(self, other: Any) -> Any:
        return _divided(self, other, int.__floordiv__)

    def __rfloordiv__(self, other: Any) -> Any:
        return _worked_out("//", other, self) if _both(other) else int.__rfloordiv__(self, other)

    def __mod__(self, other: Any) -> Any:
        if _both(other) and other and divides(other, self):
            return 0
        return _worked_out("%", self, other) if _both(other) and other else int.__mod__(self, other)

    def __reduce__(self) -> Any:
        return int, (int(self),)


def _both(other: Any) -> bool:
    return bool(follows) and isinstance(other, int)


def _divided(a: Varying, b: Any, plainly: Callable[[int, Any], Any]) -> Any:
    if not _both(b) or not b:
        return plainly(a, b)
    factor, atoms = _parts(b)
    rest = list(a.atoms)
    for atom in atoms:
        if atom not in rest:
            break
        rest.remove(atom)
    else:
        if a.factor % factor == 0:
            return _made(a.factor // factor, tuple(rest))
    return _worked_out("//", a, b)


def _worked_out(sign: str, a: int, b: int) -> Any:
    """a // b, or a % b, where no more is known of it than its value."""
    work = int.__floordiv__ if sign == "//" else int.__mod__
    return _opaque(1, f"({_form(a)}{sign}{_form(b)})", work(int(a), int(b)), work(hint(a), max(hint(b), 1)))


def _parts(n: int) -> tuple[int, tuple[Atom, ...]]:
    return (n.factor, n.atoms) if isinstance(n, Varying) else (int(n), ())


def _names(atoms: Iterable[Atom]) -> str:
    return "*".join(a.name for a in atoms)


def _form(n: int) -> str:
    return n.form if isinstance(n, Varying) else str(n)


def _opaque(factor: int, name: str, value: int, first: int) -> int:
    return _made(factor, (Atom(name, value, first),))


def _made(factor: int, atoms: tuple[Atom, ...]) -> int:
    if not factor or not atoms:
        return factor
    made = Varying(factor * math.prod(a.value for a in atoms))
    made.factor, made.atoms = factor, tuple(sorted(atoms))
    return made


def varying(name: str, value: int, first: int) -> int:
    """A size that varies: its name, its value now, and that of the first call."""
    return _opaque(1, name, value, first)


# -- properties of numbers that may vary; for plain ints they are the plain formulas


def hint(n: int) -> int:
    """The number for decisions about cost: the size in the first call. It is above 0 if the size is, even if a part of it
    was computed from a plain number, as in x.chunk(2)[1]."""
    if not (follows and isinstance(n, Varying)):
        return n
    return n.hint if n.hint > 0 or int(n) <= 0 else int(n)


def factor(n: int) -> int:
    """What divides it, whatever the sizes are."""
    return n.factor if follows and isinstance(n, Varying) else n


def divides(by: int, n: int) -> bool:
    """Whether n is a multiple of `by`, whatever the sizes are."""
    if not follows or (type(n) is int and type(by) is int):
        return n % by == 0
    (whole, atoms), (part, needed) = _parts(n), _parts(by)
    return not whole or (whole % part == 0 and all(atoms.count(a) >= needed.count(a) for a in needed))


def common_divisor(a: int, b: int) -> int:
    """The largest number that divides both, whatever the sizes are."""
    return math.gcd(factor(a), factor(b))


def varies(n: float) -> bool:
    """Whether it may be another number in the next call."""
    return bool(follows) and isinstance(n, Varying)


def form(n: int) -> Any:
    """Equal for numbers that are equal whatever the sizes are."""
    return n.form if follows and isinstance(n, Varying) else n


def plain(shape: Iterable[int]) -> tuple[int, ...]:
    """Sizes as they are."""
    return tuple(map(int, shape))


def forms(value: Any) -> list[str]:
    """The varying numbers within parameters, for these are equal to plain ones."""
    if isinstance(value, Varying):
        return [value.form]
    if is_dataclass(value):
        value = tuple(vars(value).values())
    return [f for v in value for f in forms(v)] if isinstance(value, tuple) else []


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's. Raises ValueError."""
    found = np.broadcast_shapes(*shapes)
    return restored(found, shapes) if follows else found


def restored(shape: tuple[int, ...], sources: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """What shapes broadcast to, with the varying sizes among them."""
    found = list(shape)
    for source in sources:
        for k in range(1, len(source) + 1):
            if isinstance(source[-k], Varying) and source[-k] == found[-k]:
                found[-k] = source[-k]
    return tuple(found)


def bounds_of(k: slice, n: int) -> tuple[int, int, int]:
    """k.indices(n), with the varying numbers among them."""
    start, stop, step = k.indices(n)
    return (_bound(k.start, 0, n, start), _bound(k.stop, n, n, stop), step) if follows else (start, stop, step)


def _bound(given: Any, without: int, n: int, value: int) -> int:
    """`value`, which is where a slice of n elements begins or ends, as it was worked out."""
    found = without
    if given is not None:
        found = n + given if given < 0 else given
    found = min(found, n)
    return found if isinstance(found, int) and found == value else value


# -- when


@contextmanager
def following(family: int) -> Iterator[None]:
    """Varying numbers are told from others; 0: they are not. family: a number for captures that differ in them alone."""
    global follows
    before, follows = follows, family
    try:
        yield
    finally:
        follows = before


@contextmanager
def marking() -> Iterator[None]:
    """Varying numbers have a mark before them where they are made text."""
    global _marks
    before, _marks = _marks, True
    try:
        yield
    finally:
        _marks = before
