"""Integer index expressions with ranges, kept in a normal form.

An Index is constant + sum of coefficient * atom. An atom is a variable, a floored quotient or a remainder of an Index
by a positive constant, or a value read from a buffer. All have a known range, so that `(i*8 + j) / 8` becomes `i`
and a bounds guard that always holds disappears. In: arithmetic on Index. Out: WGSL text by `render`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

from ..errors import CompileError
from ..symbolic_sizes import common_divisor, divides, factor, varies


class Atom:
    """var: a loop variable or thread coordinate, or data read from a buffer. div, mod: of an Index by a constant."""

    __slots__ = ("_hash", "by", "high", "key", "kind", "low", "name", "of")

    def __init__(
        self, kind: Literal["var", "div", "mod"], name: str, of: Index | None, by: int, low: int, high: int
    ) -> None:
        self.kind = kind
        self.name = name
        self.of = of
        self.by = by
        self.low = low
        self.high = high
        self.key = (kind, name, of, by, high)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self._hash == other._hash and self.key == other.key)


class Index:
    """constant + sum(coefficient * atom); immutable, hashable. low and high bound its value, both inclusive."""

    __slots__ = ("_hash", "constant", "high", "low", "terms")

    def __init__(self, constant: int, terms: dict[Atom, int]) -> None:
        self.constant = constant
        self.terms = terms
        low = high = constant
        for atom, c in terms.items():
            low += c * (atom.low if c > 0 else atom.high)
            high += c * (atom.high if c > 0 else atom.low)
        self.low = low
        self.high = high
        self._hash = hash((constant, frozenset(terms.items())))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Index)
            and self._hash == other._hash
            and self.constant == other.constant
            and self.terms == other.terms
        )

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.constant + other, self.terms) if other else self
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            terms[atom] = terms.get(atom, 0) + c
        return _normal(self.constant + other.constant, terms)

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Index(self.constant * factor, {a: c * factor for a, c in self.terms.items()})

    def __floordiv__(self, by: int) -> Index:
        return _divide(self, by)[0]

    def __mod__(self, by: int) -> Index:
        return _divide(self, by)[1]

    def variables(self) -> frozenset[str]:
        """The names of all variables inside."""
        names: set[str] = set()
        for atom in self.terms:
            names |= {atom.name} if atom.of is None else atom.of.variables()
        return frozenset(names)

    def substitute(self, values: dict[str, Index]) -> Index:
        """The expression with variables replaced."""
        result = number(self.constant)
        for atom, c in self.terms.items():
            if atom.of is None:
                replaced = values.get(atom.name)
                result = result + (Index(0, {atom: 1}) if replaced is None else replaced) * c
            else:
                inner = atom.of.substitute(values)
                result = result + (inner // atom.by if atom.kind == "div" else inner % atom.by) * c
        return result

    def split(self, name: str) -> tuple[Index, int] | None:
        """(rest, c) with self = rest + c * name where rest does not depend on `name`; None if there is no such form."""
        c = 0
        rest: dict[Atom, int] = {}
        for atom, k in self.terms.items():
            if atom.of is None and atom.name == name:
                c = k
            elif atom.of is not None and name in atom.of.variables():
                return None
            else:
                rest[atom] = k
        return Index(self.constant, rest), c

    def divisible(self, by: int) -> bool:
        """Whether every value is a multiple of `by`, as far as the form shows."""
        return divides(by, self.constant) and all(
            divides(by, c) or (a.kind == "mod" and a.of is not None and _mod_divisible(a, c, by))
            for a, c in self.terms.items()
        )

    def __repr__(self) -> str:
        return render(self)


def _mod_divisible(atom: Atom, c: int, by: int) -> bool:
    """Whether c * (x mod m) is divisible: x and m must be divisible by `by` divided by its common factors with c."""
    need = by // common_divisor(c, by)
    return divides(need, atom.by) and atom.of is not None and atom.of.divisible(need)


@lru_cache(maxsize=4096)
def number(value: int) -> Index:
    """A constant."""
    return Index(value, {})


ZERO = number(0)


def variable(name: str, size: int) -> Index:
    """A variable from 0 to size - 1."""
    if size <= 1:
        return ZERO
    return Index(0, {Atom("var", name, None, 0, 0, size - 1): 1})


def opaque(name: str, low: int, high: int) -> Index:
    """A value of which only the range is known, under its name in the shader."""
    return Index(0, {Atom("var", name, None, 0, low, high): 1})


def _normal(constant: int, terms: dict[Atom, int]) -> Index:
    """Drops zero terms and joins k*by*(x div by) + k*(x mod by) into k*x."""
    terms = {a: c for a, c in terms.items() if c}
    for atom, c in terms.items():
        if atom.kind != "mod":
            continue
        assert atom.of is not None
        quotient = _divide(atom.of, atom.by)[0]
        if len(quotient.terms) == 1 and quotient.constant == 0:
            ((partner, one),) = quotient.terms.items()
            if one == 1 and terms.get(partner) == c * atom.by:
                rest = {a: k for a, k in terms.items() if a is not atom and a != partner}
                return Index(constant, rest) + atom.of * c
    return Index(constant, terms)


@lru_cache(maxsize=65536)
def _divide(x: Index, by: int) -> tuple[Index, Index]:
    """Floored quotient and remainder by a positive constant."""
    if by == 1:
        return x, ZERO
    whole: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, c in x.terms.items():
        if divides(by, c):
            whole[atom] = c // by
        else:
            rest[atom] = c
    quotient = _normal(x.constant // by, whole)
    remainder = Index(x.constant % by, rest)
    shift = remainder.low // by
    if remainder.high // by == shift:  # one quotient for every value
        return quotient + shift, remainder - shift * by
    if shift < 0:  # make it non-negative: shaders divide towards zero
        quotient, remainder = quotient + shift, remainder + (-shift * by)
    common, small = _coarse_part(remainder, by)
    if common > 1:
        coarse = remainder - small
        q, r = _divide(
            Index(coarse.constant // common, {a: c // common for a, c in coarse.terms.items()}), by // common
        )
        return quotient + q, r * common + small
    if len(remainder.terms) == 1 and remainder.constant == 0:
        ((atom, c),) = remainder.terms.items()
        if c == 1 and atom.of is not None:
            if atom.kind == "div":  # (x div d) div by = x div (d * by)
                return quotient + _atom("div", atom.of, atom.by * by), _atom("mod", remainder, by)
            if divides(by, atom.by):  # (x mod m) div by = (x div by) mod (m / by);  (x mod m) mod by = x mod by
                return quotient + (atom.of // by) % (atom.by // by), atom.of % by
    return quotient + _atom("div", remainder, by), _atom("mod", remainder, by)


def forget_known() -> None:
    """Clear the cache of expressions."""
    for known in (number, _divide, _flatten, _unflatten, _reshape_index):
        known.cache_clear()


def _coarse_part(x: Index, by: int) -> tuple[int, Index]:
    """(g, small): g divides `by` and x - small, and small lies from 0 to g - 1; the largest such g, 1 if there is none.
    Then x / by is (x - small) / g / (by / g): four neighbours in a row of a multiple of four are in one row."""
    terms = sorted(x.terms.items(), key=lambda term: -abs(term[1]))
    for kept in range(len(terms), 0, -1):
        common = factor(by)
        for _, c in terms[:kept]:
            common = common_divisor(common, c)
        small = Index(x.constant % common, dict(terms[kept:]))
        if common > 1 and small.low >= 0 and small.high < common:
            return common, small
    return 1, ZERO


def _atom(kind: Literal["div", "mod"], of: Index, by: int) -> Index:
    low, high = (of.low // by, of.high // by) if kind == "div" else (0, min(by - 1, of.high))
    return Index(0, {Atom(kind, "", of, by, low, high): 1})


def flatten(index: Sequence[Index], shape: Sequence[int]) -> Index:
    """The row-major position of `index` in an array of `shape`."""
    return _flatten(tuple(index), tuple(shape))


@lru_cache(maxsize=65536)  # cached, because equal layers and each compiler pass request the same index
def _flatten(index: tuple[Index, ...], shape: tuple[int, ...]) -> Index:
    result = ZERO
    for i, n in zip(index, shape, strict=True):
        result = result * n + i
    return result


def unflatten(flat: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The index at row-major position `flat`; the leading axis is not reduced modulo its size."""
    return _unflatten(flat, tuple(shape))


@lru_cache(maxsize=65536)
def _unflatten(flat: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    result: list[Index] = []
    for n in reversed(shape[1:]):
        flat, i = _divide(flat, n) if n > 0 else (flat, ZERO)
        result.append(i)
    if shape:
        result.append(ZERO if shape[0] == 1 else flat)
    return tuple(reversed(result))


def reshape_index(index: Sequence[Index], shape: Sequence[int], source: Sequence[int]) -> tuple[Index, ...]:
    """The index into `source` of the element at `index` of its reshape to `shape`.

    Matches axes group by group from the left, so that an expression spans as few axes as possible.
    """
    return _reshape_index(tuple(index), tuple(shape), tuple(source))


@lru_cache(maxsize=65536)
def _reshape_index(index: tuple[Index, ...], shape: tuple[int, ...], source: tuple[int, ...]) -> tuple[Index, ...]:
    if 0 in shape:
        return (ZERO,) * len(source)
    result: list[Index] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        start_i, start_j, size_i, size_j = i, j, 1, 1
        if i < len(shape):
            size_i, i = shape[i], i + 1
        if j < len(source):
            size_j, j = source[j], j + 1
        while size_i != size_j:
            if size_i < size_j:
                size_i, i = size_i * shape[i], i + 1
            else:
                size_j, j = size_j * source[j], j + 1
        if i - start_i == j - start_j == 1:
            result.append(index[start_i])
        else:
            result.extend(unflatten(flatten(index[start_i:i], shape[start_i:i]), source[start_j:j]))
    return tuple(result)


MOST = 2**31 - 1  # the largest i32


def render(x: Index, name: Callable[[str], str] = lambda n: n) -> str:
    """The WGSL text of the expression, an i32. Raises CompileError if it does not fit into one."""
    if x.low >= 0 and x.high > MOST:
        raise CompileError(
            f"a kernel would need the position {int(x.high):,} of a tensor that is never stored; positions have 31 bits. Hint: compute "
            "it in parts, or reduce one axis after the other instead of a reshaped whole."
        )
    parts: list[str] = []
    for atom, c in sorted(x.terms.items(), key=lambda t: (-abs(t[1]), t[0].name)):
        text = name(atom.name) if atom.of is None else f"({_divided(atom.of, atom.kind, atom.by, name)})"
        if abs(c) != 1:
            text = f"{text} * {abs(c)}"
        parts.append(("- " if c < 0 else "+ ") + text)
    if x.constant or not parts:
        parts.append(("- " if x.constant < 0 else "+ ") + str(abs(x.constant)))
    text = " ".join(parts)
    text = text[2:] if text.startswith("+ ") else "-" + text[2:]
    return f"({text})" if len(parts) > 1 else text


def _divided(x: Index, kind: str, by: int, name: Callable[[str], str]) -> str:
    """The text of a quotient or of a remainder. Powers of two become bit operations. No operand is negative, but a compiler
    does not know that and would emit four instructions for a division."""
    text = render(x, name)
    if varies(by) or by & (by - 1):
        return f"{text} {'/' if kind == 'div' else '%'} {by}"
    if len(x.terms) == 1 and not x.constant and 1 not in map(abs, x.terms.values()):
        text = f"({text})"  # WGSL takes no bits of a product
    return f"{text} >> {by.bit_length() - 1}u" if kind == "div" else f"{text} & {by - 1}"
