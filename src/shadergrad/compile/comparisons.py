"""Finds values whose bits are compared, so that one kernel computes each of them.

Two kernels may round the same expression differently, for example if one uses fused multiply-add. Then `x == max(x)` may have no
true element, because the comparison and the maximum see different x. So if a floating-point value reaches a comparison on two paths, the
fuser stores it, in a kernel into which no reader is fused.

In: a graph, and the nodes that one kernel computes for all readers. Out: the further values that one kernel must compute. The fuser
repeats this until there are none; `verify` refuses a fused graph that has some.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator

from ..errors import CompileError
from ..graph.index import Index, flatten, variable
from ..graph.node import Node
from ..graph.printer import describe
from ..primitives.elementwise import (
    Abs,
    Add,
    Bitcast,
    Cast,
    Equal,
    Floor,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Maximum,
    Minimum,
    Mul,
    Neg,
    NotEqual,
    Relu,
    Round,
    Sign,
    Sub,
    Trunc,
    Where,
)
from ..primitives.views import SliceAt, View
from .puller import Indices
from .recorder import UNKNOWN, Recorder

COMPARISONS = (Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual)
EXACT = (Maximum, Minimum, Neg, Abs, Sign, Relu, Floor, Round, Trunc, Where, Cast, Bitcast)
CORRECTLY_ROUNDED = (Add, Sub, Mul)
MANY = 2
FLOATS = 2  # the category of dtypes that round


class Compared:
    """The nodes whose bits the comparisons of a graph use. is_source: whether a node is an input. sees_again: nodes that a later graph may read,
    and whose extremum an earlier one has returned.
    """

    def __init__(self, order: Iterable[Node], is_source: Callable[[Node], bool], sees_again: Container[int]) -> None:
        self.is_source, self.sees_again = is_source, sees_again
        order = list(order)
        self._comparisons = [n for n in order if isinstance(n.primitive, COMPARISONS) and _rounds(n.inputs[0])]
        self._extrema = [n for n in order if n.primitive.selects and _rounds(n.inputs[0])]
        self._rank = {id(n): k for k, n in enumerate(order)}

    def recomputed(self, once: Container[int]) -> Iterator[Node]:
        """Values that several kernels would compute although their bits are compared. The result may lack values on which these depend."""
        errors: dict[int, int] = {}
        for node in self._extrema:
            x = _behind_views(node.inputs[0])
            if id(x) in self.sees_again and self._may_differ(x, once, errors):
                yield x
        for node in self._comparisons:
            a, b = node.inputs
            found = self._seen_twice(a, b, once, errors)
            if found is not None:
                yield found

    def _seen_twice(self, a: Node, b: Node, once: Container[int], errors: dict[int, int]) -> Node | None:
        """A value on which both operands of a comparison depend, and which is computed twice: in this kernel at two positions, or in this
        kernel and in another one, whose buffer this kernel reads. None if there is no such value.
        """
        (of_a, ends_a), (of_b, ends_b) = (self._near(x, once, errors) for x in (a, b))
        candidates = of_a | of_b
        if not candidates:
            return None
        elsewhere = self._elsewhere(candidates, (*ends_a, *ends_b))
        if elsewhere:  # a slice of a concatenation reads fewer elements than the concatenation
            elsewhere = self._elsewhere(candidates, [*self._reads(a, once), *self._reads(b, once)])
        both = of_a.keys() & of_b.keys()
        in_a, in_b = (self._all_places(x, both, once) for x in (a, b)) if both else ({}, {})
        for key, node in candidates.items():
            if key in elsewhere or (key in both and _differ(in_a[key], in_b[key])):
                return node
        return None

    def _near(self, x: Node, once: Container[int], errors: dict[int, int]) -> tuple[dict[int, Node], list[Node]]:
        """The intermediate values of x in its kernel that another kernel may round differently; and the buffers that the kernel reads."""
        found: dict[int, Node] = {}
        ends: list[Node] = []
        seen: set[int] = set()
        stack = [x]
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if self._is_read(node, once):
                ends.append(node)
                continue
            if self._may_differ(node, once, errors):
                found[id(node)] = node
            stack.extend(node.inputs)
        return found, ends

    def _is_read(self, node: Node, once: Container[int]) -> bool:
        return id(node) in once or self.is_source(node) or node.primitive.kind in ("reduce", "dot", "call")

    def _may_differ(self, node: Node, once: Container[int], errors: dict[int, int]) -> bool:
        """Whether two kernels may compute different bits for a value. Exact values, and sums and products of exact values, which are rounded
        once and correctly, are always equal (https://www.w3.org/TR/WGSL/#floating-point-accuracy).
        """
        return node.primitive.kind == "elementwise" and _rounds(node) and self._error(node, once, errors) > 1

    def _error(self, node: Node, once: Container[int], errors: dict[int, int]) -> int:
        """The number of roundings of a value since its buffers: 0, 1, or MANY. Iterative, because chains may be long."""
        stack = [node]
        while stack:
            n = stack[-1]
            if id(n) in errors:
                stack.pop()
            elif self._is_read(n, once):
                errors[id(n)] = 0
            elif missing := [i for i in n.inputs if id(i) not in errors]:
                stack += missing
            else:
                errors[id(n)] = _error_of(n, max((errors[id(i)] for i in n.inputs), default=0))
        return errors[id(node)]

    def _elsewhere(self, candidates: dict[int, Node], ends: Iterable[Node]) -> set[int]:
        """The candidates on which these buffers depend. The search stops at nodes that are older than all candidates."""
        first = min(self._rank[key] for key in candidates)
        seen: set[int] = set()
        stack = [below for end in ends for below in end.inputs]
        while stack:
            node = stack.pop()
            if id(node) not in seen and self._rank[id(node)] >= first:
                seen.add(id(node))
                stack.extend(node.inputs)
        return seen & candidates.keys()

    def _all_places(self, x: Node, nodes: Collection[int], once: Container[int]) -> dict[int, set[Index]]:
        """For each of `nodes`, by id, the positions at which its elements are computed for an element of x, found in one walk, because long
        expressions have many.
        """
        return self._recorded(x, lambda n: self._is_read(n, once), nodes).visited

    def _reads(self, x: Node, once: Container[int]) -> Iterable[Node]:
        """The buffers from which an element of x is computed."""
        return self._recorded(x, lambda n: self._is_read(n, once)).reads.values()

    @staticmethod
    def _recorded(x: Node, is_buffer: Callable[[Node], bool], nodes: Collection[int] = ()) -> Visits:
        recorder = Visits(is_buffer, nodes)
        recorder.pull(x, tuple(variable(f"x{a}", n) for a, n in enumerate(x.shape)))
        return recorder


class Visits(Recorder):
    """A Recorder that also lists the row-major positions of some nodes, by id, that it passes."""

    def __init__(self, is_buffer: Callable[[Node], bool], nodes: Collection[int]) -> None:
        super().__init__(is_buffer)
        self.visited: dict[int, set[Index]] = {key: set() for key in nodes}

    def pull(self, node: Node, index: Indices) -> str:
        if id(node) in self.visited:
            self.visited[id(node)].add(flatten(index, node.shape))
        return super().pull(node, index)


def _differ(some: set[Index], others: set[Index]) -> bool:
    """Whether these positions may differ. Those that come from data may always differ, because two walks cannot compare them."""
    return some != others or any(name.startswith(UNKNOWN) for place in some for name in place.variables())


def verify(compared: Compared, once: Container[int]) -> None:
    """Raises CompileError if several kernels would compute a value whose bits are compared."""
    for node in compared.recomputed(once):
        raise CompileError(
            f"two kernels compute {describe(node)}, and a comparison sees both values, which may be rounded differently. This is a fault of "
            "the compiler, not of your program. Hint: call sg.sync() before the comparison, outside of sg.compile, and report it."
        )


def _error_of(node: Node, error: int) -> int:
    """The number of roundings of a value whose inputs have `error` roundings."""
    exact = not _rounds(node) or node.primitive.kind != "elementwise" or isinstance(node.primitive, EXACT)
    if exact:
        return error
    return 1 if error == 0 and isinstance(node.primitive, CORRECTLY_ROUNDED) else MANY


def _rounds(node: Node) -> bool:
    return node.dtype.category == FLOATS


def _behind_views(node: Node) -> Node:
    while isinstance(node.primitive, View | SliceAt):
        node = node.inputs[0]
    return node
