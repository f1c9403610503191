"""One kernel for many sizes: texts that differ in numbers alone become one, which reads those numbers from a uniform buffer.

In: the kernels of a plan for one of several sizes (`Plan.family`), each with its numbers in its text. Out: kernels to
compile, and for each the numbers to bind. A kernel is compiled with those open that vary, by their mark, and with its floats; one
that an earlier plan of the same step had with other numbers, with those open as well. Which it is never changes what is
computed: an open number is bound with the value that the text had. So nothing here has to be right about sizes, only about
WGSL: a number within a function may be an expression, except in a type.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import CompileError
from ..plan import Kernel
from ..varying import MARK

MOST_TEXTS = 2048  # texts without their numbers
MOST_ALIKE = 16  # kernels kept of one text
MOST_NUMBERS = 2048  # that one kernel reads: 8 KiB, of the 64 that any device binds
NAME = "sg_sizes"
ENTRY = "\nfn main("
CLOSED = {"0.0", "1.0"}

_NUMBER = re.compile(
    r"array<(?:[^<>]|<[^<>]*>)*>|(?:/\*\*/)?(?<![\w.])(?:(?P<f>\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)|(?P<u>\d+)u|(?P<i>\d+))(?![\w.])"
)
Numbers = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Opened:
    """A kernel that was compiled with some of its numbers open. family: of plans for which it was made."""

    kernel: Kernel
    numbers: Numbers
    places: tuple[int, ...]
    family: int

    def serves(self, numbers: Numbers) -> bool:
        """Whether the numbers that are not open are the same."""
        others = set(self.places)
        return all(a == b or k in others for k, (a, b) in enumerate(zip(self.numbers, numbers, strict=True)))

    def values(self, numbers: Numbers) -> np.ndarray:
        """What the buffer holds for a kernel with these numbers: 32 bits each, in whole vec4s."""
        words = np.zeros(-(-len(self.places) // 4) * 4, np.int32)
        for k, place in enumerate(self.places):
            words[k] = _word(numbers[place])
        return words


class Families:
    """The kernels of a device with open numbers. try_out: compiles one, and raises CompileError where it cannot be."""

    def __init__(self, try_out: Callable[[Kernel], object]) -> None:
        self._try_out = try_out
        self._known: OrderedDict[tuple[str, tuple[str, ...]], list[Opened]] = OrderedDict()

    def choose(
        self, kernels: Sequence[Kernel], family: int, is_compiled: Callable[[Kernel], bool]
    ) -> list[tuple[Kernel, np.ndarray | None]]:
        """For each kernel of a plan what to compile, and the numbers to bind."""
        before = {id(o) for alike in self._known.values() for o in alike if o.family == family}
        return [self._chosen(kernel, family, before, is_compiled) for kernel in kernels]

    def _chosen(
        self, kernel: Kernel, family: int, before: set[int], is_compiled: Callable[[Kernel], bool]
    ) -> tuple[Kernel, np.ndarray | None]:
        head, body = kernel.source.split(ENTRY, 1)
        text, numbers, marked = _without_numbers(body)
        alike = self._alike((f"{head.split(chr(10), 1)[-1]}{ENTRY}{text}", kernel.access))
        for opened in alike:
            if opened.serves(numbers):
                return self._bound(opened, numbers)
        if is_compiled(kernel):
            return kernel, None
        # a mean has the reciprocal of a size, and the factor of an unbiased variance may be all that a kernel has of one
        places = {*marked, *(k for k, n in enumerate(numbers) if _is_float(n) and n not in CLOSED)}
        earlier = [o for o in alike if id(o) in before]
        if earlier:
            nearest = min(earlier, key=lambda o: _distance(o.numbers, numbers))
            places |= {k for k, (a, b) in enumerate(zip(nearest.numbers, numbers, strict=True)) if a != b}
            places |= set(nearest.places)
        opened = self._opened(kernel, head, body, numbers, tuple(sorted(places)), family)
        alike.insert(0, opened)
        del alike[MOST_ALIKE:]
        return self._bound(opened, numbers)

    def _alike(self, key: tuple[str, tuple[str, ...]]) -> list[Opened]:
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
        if not places or len(places) > MOST_NUMBERS:
            return Opened(kernel, numbers, (), family)
        binding = len(kernel.access)
        declared = f"@group(0) @binding({binding}) var<uniform> {NAME}: array<vec4<i32>, {-(-len(places) // 4)}>;\n"
        first, rest = head.split("\n", 1)
        source = f"{first}\n{declared}{rest}{ENTRY}{_with_open(body, places)}"
        made = replace(kernel, source=source, access=(*kernel.access, "uniform"))
        if kernel.archetype == "call":  # written by hand: its numbers may stand where WGSL wants constants
            try:
                self._try_out(made)
            except CompileError:
                return Opened(kernel, numbers, (), family)
        return Opened(made, numbers, places, family)


def _without_numbers(body: str) -> tuple[str, Numbers, list[int]]:
    """A text with a sign for each number, the numbers, and the places of those that are marked."""
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


def _with_open(body: str, places: Sequence[int]) -> str:
    """A text that reads the numbers at some places from the buffer."""
    slots = {place: k for k, place in enumerate(places)}
    count = -1

    def read(match: re.Match[str]) -> str:
        nonlocal count
        kind = match.lastgroup
        if kind is None:
            return match[0]
        count += 1
        if count not in slots:
            return match[0]
        k = slots[count]
        word = f"{NAME}[{k // 4}].{'xyzw'[k % 4]}"
        return {"i": word, "u": f"u32({word})", "f": f"bitcast<f32>({word})"}[kind]

    return _NUMBER.sub(read, body)


def _is_float(number: str) -> bool:
    return "." in number or "e" in number


def _word(number: str) -> int:
    """The 32 bits of a number."""
    return int(np.float32(number).view(np.int32) if _is_float(number) else np.uint32(int(number)).view(np.int32))


def _distance(a: Numbers, b: Numbers) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))
