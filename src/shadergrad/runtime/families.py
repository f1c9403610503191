"""Shares kernels between sizes: kernels whose sources differ only in numbers become one, which reads the numbers from a uniform buffer.

In: the kernels of a plan, with numbers in their source. Out: kernels to compile, and the numbers to bind for each.

A number that the kernel reads from memory is called open. If a plan is for one of several sizes (`Plan.family`), its marked sizes and its
floats are open, and so are numbers in which an earlier plan of the same step differed. An open number is bound with the value that the
source had, so opening a number never changes a result. This module depends on the syntax of WGSL only: a number in a function may be
replaced by an expression, except in a type.

An uncompiled program that runs with many lengths makes a plan for each. So the numbers of a kernel are also opened once its source has
occurred in `MANY_PLANS` plans with other numbers.

In a large plan for llvmpipe, a driver that compiles slowly, matrix multiplications that differ in numbers become one kernel, such as
those of layers of several widths. The kernel reads these numbers once, at its beginning. Divisors in loops stay constants, because a
division by an unknown number takes ten times as long, and so does its compilation.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import CompileError
from ..plan import Kernel
from ..symbolic_sizes import MARK

MOST_TEXTS = 2048  # sources without their numbers
MOST_PER_SOURCE = 16  # kernels kept per source
MOST_NUMBERS = 2048  # that one kernel reads: 8 KiB of the 64 KiB that any device binds
NAME = "sg_sizes"
ENTRY = "\nfn main("
CLOSED = {"0.0", "1.0"}

MANY_PLANS = 8  # with other numbers in a source. A model's layers of several widths are in one plan, and keep constants
MOST_OUTLINES = 1 << 13
UNCOMPILED = -1  # the family of plans outside of compiled steps
DIGITS = b"0123456789."

MANY, LONG = 8, 2_000  # products of a large plan that have more characters than that

_NUMBER = re.compile(
    r"array<(?:[^<>]|<[^<>]*>)*>|(?:/\*\*/)?(?<![\w.])(?:(?P<f>\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)|(?P<u>\d+)u|(?P<i>\d+))(?![\w.])"
)
_DIVISOR = re.compile(r"[/%] (\d+)")
Numbers = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Opened:
    """A kernel that was compiled with some of its numbers open. family: that of the plans for which it was made."""

    kernel: Kernel
    numbers: Numbers
    places: tuple[int, ...]
    family: int

    def serves(self, numbers: Numbers) -> bool:
        """Whether the numbers that are not open are equal."""
        others = set(self.places)
        return all(a == b or k in others for k, (a, b) in enumerate(zip(self.numbers, numbers, strict=True)))

    def values(self, numbers: Numbers) -> np.ndarray:
        """The contents of the uniform buffer for a kernel with these numbers: 32 bits each, in whole vec4s."""
        words = np.zeros(-(-len(self.places) // 4) * 4, np.int32)
        for k, place in enumerate(self.places):
            words[k] = _word(numbers[place])
        return words


class Families:
    """The kernels of a device with open numbers. try_out: compiles one, and raises CompileError if that fails."""

    def __init__(self, try_out: Callable[[Kernel], object]) -> None:
        self._try_out = try_out
        self._known: OrderedDict[tuple[str, tuple[str, ...]], list[Opened]] = OrderedDict()
        self._plans: dict[
            tuple[bytes, tuple[str, ...]], int
        ] = {}  # by outline: those that had it, each with new numbers

    def choose(
        self, kernels: Sequence[Kernel], family: int, is_compiled: Callable[[Kernel], bool]
    ) -> list[tuple[Kernel, np.ndarray | None]]:
        """For each kernel of a plan, the kernel to compile, and the numbers to bind."""
        before = {id(o) for opened_before in self._known.values() for o in opened_before if o.family == family}
        return [self._chosen(kernel, family, before, is_compiled) for kernel in kernels]

    def follow(
        self, kernels: Sequence[Kernel], is_compiled: Callable[[Kernel], bool]
    ) -> list[tuple[Kernel, np.ndarray | None]]:
        """The same for a plan outside of compiled steps: kernels whose source many earlier plans had with other numbers get open numbers."""
        if len(self._plans) > MOST_OUTLINES:
            self._plans.clear()
        for outline in {_outline(kernel) for kernel in kernels if not is_compiled(kernel)}:
            self._plans[outline] = self._plans.get(outline, 0) + 1
        if not any(map(self.varies, kernels)):
            return [(kernel, None) for kernel in kernels]
        before = {id(o) for opened_before in self._known.values() for o in opened_before if o.family == UNCOMPILED}
        return [
            self._chosen(kernel, UNCOMPILED, before, is_compiled) if self.varies(kernel) else (kernel, None)
            for kernel in kernels
        ]

    def varies(self, kernel: Kernel) -> bool:
        """Whether many plans had its source with other numbers."""
        return self._plans.get(_outline(kernel), 0) > MANY_PLANS

    def join(
        self, kernels: Sequence[Kernel], is_compiled: Callable[[Kernel], bool]
    ) -> list[tuple[Kernel, np.ndarray | None]]:
        """The same for a single plan: matrix multiplications whose sources differ only in numbers become one kernel."""
        long = (k for k in kernels if k.archetype == "dot" and len(k.source) >= LONG)
        distinct = {(k.source, k.access): k for k in long if not is_compiled(k)}
        joined: dict[tuple[str, tuple[str, ...]], tuple[Kernel, np.ndarray | None]] = {}
        if len(distinct) >= MANY:
            opened_before: dict[Any, list[tuple[Kernel, Numbers]]] = {}
            for kernel in distinct.values():
                head, body = kernel.source.split(ENTRY, 1)
                text, numbers, _ = _without_numbers(body)
                key = head.split("\n", 1)[-1], text, kernel.access, _constants_of(body)
                opened_before.setdefault(key, []).append((kernel, numbers))
            for group in opened_before.values():
                if len(group) > 1:
                    joined |= self._joined(group)
        return [joined.get((k.source, k.access), (k, None)) for k in kernels]

    def _joined(
        self, group: Sequence[tuple[Kernel, Numbers]]
    ) -> dict[tuple[str, tuple[str, ...]], tuple[Kernel, np.ndarray | None]]:
        """One kernel for all of a group, by the source and bindings of each, with its numbers."""
        columns = list(zip(*(numbers for _, numbers in group), strict=True))
        open_places = [k for k, values in enumerate(columns) if len({*values}) > 1]
        slots = list(dict.fromkeys((_is_float(columns[k][0]), columns[k]) for k in open_places))
        if len(slots) > MOST_NUMBERS:
            return {}
        first = group[0][0]
        names = {k: slots.index((_is_float(columns[k][0]), columns[k])) for k in open_places}
        made = _reading_once(first, names, len(slots))
        found = {}
        for number, (kernel, _) in enumerate(group):
            words = np.zeros(-(-len(slots) // 4) * 4, np.int32)
            words[: len(slots)] = [_word(values[number]) for _, values in slots]
            found[kernel.source, kernel.access] = made, words
        return found

    def _chosen(
        self, kernel: Kernel, family: int, before: set[int], is_compiled: Callable[[Kernel], bool]
    ) -> tuple[Kernel, np.ndarray | None]:
        head, body = kernel.source.split(ENTRY, 1)
        text, numbers, marked = _without_numbers(body)
        opened_before = self._kernels_of((f"{head.split(chr(10), 1)[-1]}{ENTRY}{text}", kernel.access))
        for opened in opened_before:
            if opened.serves(numbers):
                return self._bound(opened, numbers)
        if is_compiled(kernel):
            return kernel, None
        # a mean has the reciprocal of a size, and the factor of an unbiased variance may be all that a kernel has of one
        places = {*marked, *(k for k, n in enumerate(numbers) if _is_float(n) and n not in CLOSED)}
        earlier = [o for o in opened_before if id(o) in before]
        if earlier:
            nearest = min(earlier, key=lambda o: _distance(o.numbers, numbers))
            places |= {k for k, (a, b) in enumerate(zip(nearest.numbers, numbers, strict=True)) if a != b}
            places |= set(nearest.places)
        opened = self._opened(kernel, head, body, numbers, tuple(sorted(places)), family)
        opened_before.insert(0, opened)
        del opened_before[MOST_PER_SOURCE:]
        return self._bound(opened, numbers)

    def _kernels_of(self, key: tuple[str, tuple[str, ...]]) -> list[Opened]:
        found = self._known.setdefault(key, [])
        self._known.move_to_end(key)
        if len(self._known) > MOST_TEXTS:
            self._known.popitem(last=False)
        return found

    def _bound(self, opened: Opened, numbers: Numbers) -> tuple[Kernel, np.ndarray | None]:
        return opened.kernel, opened.values(numbers) if opened.places else None

    def _opened(
        self, kernel: Kernel, head: str, body: str, numbers: Numbers, places: tuple[int, ...], family: int
    ) -> Opened:
        # matrix units take their strides from the text, and kernels for them exist only for sizes that do not vary
        if not places or len(places) > MOST_NUMBERS or "\nenable " in head:
            return Opened(kernel, numbers, (), family)
        made = _with_uniforms(kernel, head, _with_open(body, places), len(places))
        if kernel.archetype == "call":  # written by hand: WGSL may require a constant in place of its numbers
            try:
                self._try_out(made)
            except CompileError:
                return Opened(kernel, numbers, (), family)
        return Opened(made, numbers, places, family)


def _outline(kernel: Kernel) -> tuple[bytes, tuple[str, ...]]:
    """A quickly computed key that is equal for kernels that differ only in numbers."""
    return hashlib.sha1(kernel.source.encode().translate(None, DIGITS), usedforsecurity=False).digest(), kernel.access


def _without_numbers(body: str) -> tuple[str, Numbers, list[int]]:
    """A source with placeholders for numbers, the numbers, and the positions of those that are marked."""
    numbers: list[str] = []
    marked: list[int] = []

    def note(match: re.Match[str]) -> str:
        if match.lastgroup is None:
            return match[0]
        if match[0].startswith(MARK):
            marked.append(len(numbers))
        numbers.append(match[match.lastgroup])
        return f"#{match.lastgroup}"

    return _NUMBER.sub(note, body), tuple(numbers), marked


def _with_uniforms(kernel: Kernel, head: str, body: str, count: int) -> Kernel:
    """A kernel with another body, which reads that many numbers from an additional buffer."""
    binding = len(kernel.access)
    declared = f"@group(0) @binding({binding}) var<uniform> {NAME}: array<vec4<i32>, {-(-count // 4)}>;\n"
    first, rest = head.split("\n", 1)
    return replace(kernel, source=f"{first}\n{declared}{rest}{ENTRY}{body}", access=(*kernel.access, "uniform"))


def _with_open(body: str, places: Sequence[int]) -> str:
    """A source that reads the numbers at some positions from the buffer."""
    slots = {place: k for k, place in enumerate(places)}
    return _replaced(body, {place: lambda kind, k=k: _read(kind, k) for place, k in slots.items()})


def _reading_once(kernel: Kernel, slots: Mapping[int, int], count: int) -> Kernel:
    """A kernel that reads its numbers at some positions from the buffer, each slot once, at its beginning."""
    head, body = kernel.source.split(ENTRY, 1)
    read: dict[str, str] = {}  # the values that are read, by name

    def name(kind: str, slot: int) -> str:
        read[f"{NAME}_{kind}{slot}"] = _read(kind, slot)
        return f"{NAME}_{kind}{slot}"

    text = _replaced(body, {place: lambda kind, slot=slot: name(kind, slot) for place, slot in slots.items()})
    arguments, statements = text.split("{\n", 1)
    reads = "".join(f"  let {known} = {value};\n" for known, value in read.items())
    return _with_uniforms(kernel, head, f"{arguments}{{\n{reads}{statements}", count)


def _read(kind: str, slot: int) -> str:
    """The expression that reads a number from the buffer, of the kind that `_NUMBER` finds."""
    word = f"{NAME}[{slot // 4}].{'xyzw'[slot % 4]}"
    return {"i": word, "u": f"u32({word})", "f": f"bitcast<f32>({word})"}[kind]


def _replaced(body: str, others: Mapping[int, Callable[[str], str]]) -> str:
    """A source in which the numbers at some positions are replaced, given their kind."""
    count = -1

    def other(match: re.Match[str]) -> str:
        nonlocal count
        kind = match.lastgroup
        if kind is None:
            return match[0]
        count += 1
        return others[count](kind) if count in others else match[0]

    return _NUMBER.sub(other, body)


def _constants_of(body: str) -> tuple[str, ...]:
    """The numbers that stay constants: divisors in loops, and numbers of constants and of cases."""
    found: list[str] = []
    blocks: list[bool] = []  # whether each that is open is a loop's
    for line in map(str.strip, body.split("\n")):
        if line.startswith(("const ", "case ")):
            found += [match[0] for match in _NUMBER.finditer(line)]
        if any(blocks) or line.startswith("for "):
            found += _DIVISOR.findall(line)
        opens, closes = line.count("{"), line.count("}")
        blocks += [line.startswith("for ")] * max(opens - closes, 0)
        del blocks[len(blocks) - max(closes - opens, 0) :]
    return tuple(found)


def _is_float(number: str) -> bool:
    return "." in number or "e" in number


def _word(number: str) -> int:
    """The 32 bits of a number."""
    return int(np.float32(number).view(np.int32) if _is_float(number) else np.uint32(int(number)).view(np.int32))


def _distance(a: Numbers, b: Numbers) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))
