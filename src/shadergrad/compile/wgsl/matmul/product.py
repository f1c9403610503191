"""The state while one matrix multiplication is written: its sizes, its choice, and the names of its index variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ....graph.index import Index, opaque
from ....symbolic_sizes import divides
from ...choices import DotChoice
from ...groups import Group
from ...kernel import indent
from ...layouts import OperandIndex
from ...products import Product
from ...render import Renderer

SLOTS = "xyzw"  # components of a vec4


class ProductWriter:
    """The shared state of all parts of the text.

    columns: of all results; more than n if all samples share one left operand, because their columns are joined. parts, chunk: of
    the contraction. sums_are_scalars: during accumulation; else they are vec4s of four neighbours. numbers: the names of the operands whose
    tiles are arrays of scalars instead of vec4s, in all multiplications of the kernel.
    """

    def __init__(self, group: Group, choice: DotChoice, renderer: Renderer) -> None:
        assert group.dot is not None
        self.group, self.choice, self.r, self.dot = group, choice, renderer, group.dot
        self.tile, self.window = choice.tile, choice.window
        self.batch, self.m, self.k = self.dot.inputs[0].shape
        self.n = self.dot.shape[2]
        self.product = Product.of(self.dot)
        self.chunk, self.parts, self.columns = self.product.chunk, self.product.parts, self.product.n
        self.index = OperandIndex(self.product.batches, self.columns, self.n)
        self.sums_are_scalars = False
        self.numbers: frozenset[str] = frozenset()
        self.is_float = self.dot.dtype.category == 2
        self.element = str(self.dot.dtype.wgsl)

    @property
    def workgroups(self) -> int:
        return self.product.workgroups(self.tile)

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    # -- texts

    def close_loop(self, head: str) -> None:
        """Writes the statements since the scope was opened as the body of a loop."""
        for line in (f"{head} {{", *indent(self.r.close()), "}"):
            self.r.line(line)

    def stretch(self) -> tuple[str, str]:
        """The range of the contraction that the sums cover."""
        return ("first", "last") if self.parts > 1 else ("0", f"{self.k}")

    def sum(self, i: int, j: int) -> str:
        """The name of one of a thread's sums."""
        return f"sum_{i}_{j}" if self.sums_are_scalars else f"c_{i}_{j // 4}.{SLOTS[j % 4]}"

    def multiply_add(self, c: str, a: str, b: str) -> str:
        """c + a b, for a number a and vec4s b and c."""
        return f"fma(vec4<{self.element}>({a}), {b}, {c})" if self.is_float else f"{c} + {a} * {b}"

    # -- places

    @contextmanager
    def single(self) -> Iterator[None]:
        """Elements one by one; those outside of a view are not loaded."""
        lanes, self.r.lanes, self.r.branching = self.r.lanes, 1, True
        yield
        self.r.lanes, self.r.branching = lanes, False

    def at_window(self) -> str:
        """The number of the window with which the present step begins."""
        return f"k0 / {self.window}"

    def known(self, text: str, size: int, prefix: str) -> Index:
        """A name for an index expression within an axis, in the present scope."""
        return opaque(self.r.define(text, self._depth(text), prefix=prefix), 0, max(size - 1, 0))

    def clamped(self, text: str, size: int, exact: bool, prefix: str) -> tuple[Index, str | None]:
        """(index, condition): past the end of the axis the index stays inside and the condition is false."""
        if exact:
            return self.known(text, size, prefix), None
        raw = self.r.define(text, self._depth(text), prefix=prefix)
        condition = self.r.define(f"{raw} < {size}", self._depth(raw), prefix="ok")
        return self.known(f"min({raw}, {size - 1})", size, prefix), condition

    def inside(self, text: str, size: int) -> str:
        """A valid column, for reads before the bounds check."""
        return text if divides(self.tile.bn, self.columns) else f"min({text}, {size - 1})"

    def _depth(self, text: str) -> int:
        """The scope in which an expression can be computed: outside the loop, unless it depends on the step."""
        return max((self.r.depth.get(word, 0) for word in re.findall(r"[A-Za-z_]\w*", text)), default=0)
