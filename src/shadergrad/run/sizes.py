"""Decides which sizes of a compiled step's arguments vary: those that were marked, and those that differed in an earlier call.

In: the signature and the tensors of a call that will be captured. Out: their shapes, with `Varying` for sizes that vary
(symbolic_sizes.py). Sizes 0 and 1 never vary, because they have their own meaning: no elements, and broadcasting.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..arguments import checked
from ..errors import IndexRangeError
from ..symbolic_sizes import varying
from ..tensor import Tensor
from ..tensor.axes import check_axis

MOST_PATTERNS = 64  # kinds of arguments whose sizes a step remembers

Axis = tuple[int, int]  # number of an argument, axis of it
_numbers = itertools.count(1)
_marks: dict[int, tuple[weakref.ref[Tensor], set[int]]] = {}


@checked
def mark_dynamic(x: Tensor, dim: int | Sequence[int]) -> None:
    """Declare that the size of x along `dim`, an axis or several, varies between calls of a compiled step.

    Then the first capture with x already serves other sizes without compiling kernels; otherwise the capture of the second size
    does. Sizes 0 and 1 are captured separately. Raises IndexRangeError for an axis that x does not have.

    >>> x = sg.ones(32, 4)
    >>> sg.mark_dynamic(x, 0)
    >>> sg.compile(lambda x: x.mean())(x)
    tensor(1.)
    """
    if not x.ndim:
        raise IndexRangeError("[mark_dynamic] a tensor of shape () has no axis whose size could vary.")
    axes = {check_axis(d, x.ndim, "mark_dynamic") for d in (dim if isinstance(dim, Sequence) else (dim,))}
    key = id(x)
    known = _marks.get(key)
    _marks[key] = (weakref.ref(x, lambda _: _marks.pop(key, None)), axes | (known[1] if known else set()))


def marked(x: Tensor) -> set[int]:
    """The axes of x that were marked."""
    found = _marks.get(id(x))
    return found[1] if found is not None and found[0]() is x else set()


class Sizes:
    """The varying sizes of one call. names: for each, its name and its value in the first call. family: a number that is common to
    captures which differ only in these sizes.
    """

    def __init__(self, family: int, names: dict[Axis, tuple[str, int]]) -> None:
        self.family = family
        self._names = names

    def shape_of(self, number: int, t: Tensor) -> tuple[int, ...]:
        """The shape of an argument."""
        shape = t._node.shape
        if not self._names:
            return shape
        named = (self._names.get((number, a)) for a in range(len(shape)))
        return tuple(n if of is None else varying(of[0], n, of[1]) for n, of in zip(shape, named, strict=True))


FIXED = Sizes(0, {})


class _Seen:
    """The sizes of the arguments of one kind of call: the first size of each axis, the axes that vary, and the axes that always had
    equal sizes.
    """

    def __init__(self, shapes: list[tuple[int, ...]]) -> None:
        self.family = next(_numbers)
        self.first = {(k, a): n for k, shape in enumerate(shapes) for a, n in enumerate(shape)}
        self.groups: dict[Axis, Axis] = {}  # the first of the axes that always had the same size
        self.latest: dict[Axis, int] = {}
        self.varying: set[Axis] = set()
        self.meet(shapes)

    def meet(self, shapes: list[tuple[int, ...]]) -> None:
        sizes = {(k, a): n for k, shape in enumerate(shapes) for a, n in enumerate(shape)}
        leaders: dict[tuple[Any, int], Axis] = {}
        for axis, n in sizes.items():
            if self.first[axis] < 2:
                self.first[axis] = n
            if self.latest.get(axis, n) != n:
                self.varying.add(axis)
            self.groups[axis] = leaders.setdefault((self.groups.get(axis), n), axis)
        self.latest = sizes


class SizesSeen:
    """The sizes that one step has seen in its arguments. dynamic: True, the leading axes vary from the first call on;
    None, axes vary that were seen with a second size; False, none.
    """

    def __init__(self, dynamic: bool | None) -> None:
        self.dynamic = dynamic
        self._seen: OrderedDict[Any, _Seen] = OrderedDict()

    def is_marked_dynamic(self, pattern: Any) -> bool:
        """Whether the user marked axes in calls of this pattern as dynamic."""
        return self.dynamic is True and pattern in self._seen

    def of(self, pattern: Any, tensors: list[Tensor]) -> Sizes:
        """The sizes of a call. pattern: its signature without sizes."""
        if self.dynamic is False:
            return FIXED
        shapes = [t._node.shape for t in tensors]
        seen = self._seen.get(pattern)
        if seen is None:
            seen = self._seen[pattern] = _Seen(shapes)
            if len(self._seen) > MOST_PATTERNS:
                self._seen.popitem(last=False)
        else:
            seen.meet(shapes)
        self._seen.move_to_end(pattern)
        for k, t in enumerate(tensors):
            seen.varying |= {(k, a) for a in marked(t)}
            if self.dynamic and t.ndim:
                seen.varying.add((k, 0))
        names = {
            axis: ("s{}_{}".format(*seen.groups[axis]), seen.first[axis])
            for axis in seen.varying
            if seen.latest[axis] > 1
        }
        return Sizes(seen.family if names else 0, names)
