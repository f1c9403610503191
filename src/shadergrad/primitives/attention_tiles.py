"""The parameters of the attention kernels: the problem, the block sizes of a workgroup, the share of a thread."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..graph.primitive import Shape

LANES = 4
OCTET = 8  # halves of one load
WORDS = 1 << 32

Layout = tuple[int, ...]  # of (n, heads, l, d) in a buffer: the first element, the strides of n, heads and l


def padded(size: int) -> int:
    """The size, rounded up to whole vec4s."""
    return -(-size // LANES) * LANES


def place_of_result(shape: Shape, by_row: bool) -> Layout:
    """The layout of the result (n, heads, l, d) in the flat array."""
    _, heads, rows, d = shape
    return (0, rows * heads * d, d, heads * d) if by_row else (0, heads * rows * d, rows * d, d)


def size_of_result(shape: Shape, logs: bool) -> int:
    """The size of the flat array, with or without the log-sum-exp of rows."""
    size = math.prod(shape)
    return padded(size + size // shape[3]) if logs else size


def keep_threshold(dropped: float) -> int:
    """A weight is kept if its random word is at least this."""
    return min(WORDS - 1, round(dropped * WORDS))


@dataclass(frozen=True)
class Problem:
    """q (n, heads, rows, d), k and v (n, heads, columns, d); mask: the strides of the mask, by n, heads, rows and columns;
    allows: whether it is of bools; by_row: whether the layout of the result is (n, rows, heads, d).
    """

    n: int
    heads: int
    rows: int
    columns: int
    d: int
    scale: float
    causal: bool
    mask: tuple[int, ...] | None
    allows: bool
    dropped: float
    by_row: bool

    @property
    def shape(self) -> Shape:
        return (self.n, self.heads, self.rows, self.d)

    @property
    def shapes(self) -> tuple[Shape, Shape, Shape]:
        other = (self.n, self.heads, self.columns, self.d)
        return self.shape, other, other

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs besides q, k and v."""
        return (*(("mask",) if self.mask is not None else ()), *(("key",) if self.dropped else ()))

    @property
    def wide(self) -> int:
        """The head size in workgroup memory, padded with zeros."""
        return 16 if self.d <= 16 else -(-self.d // 32) * 32


@dataclass(frozen=True)
class Blocks:
    """Rows (queries) and columns (keys) of a block of weights, threads of a workgroup, steps of a contraction over d."""

    rows: int
    columns: int
    threads: int
    depth: int

    @property
    def pool(self) -> int:
        """Workgroup memory, in vec4s."""
        return self.of_rows + max(self.rows, self.threads) // LANES

    @property
    def of_rows(self) -> int:
        """The offset of per-row numbers: behind the block of weights."""
        return self.weights + self.exchange

    @property
    def second(self) -> int:
        """The offset of a step of the second operand: behind the first."""
        return self.depth * self.stride(self.rows)

    @property
    def weights(self) -> int:
        """The offset of the block of weights: behind the operands."""
        return self.second + self.depth * self.stride(self.columns)

    @property
    def exchange(self) -> int:
        """The size of the block of weights in vec4s, in either order."""
        return max(self.columns * self.stride(self.rows), self.rows * self.stride(self.columns))

    @staticmethod
    def stride(size: int) -> int:
        """vec4s from one step of a tile to the next, with one of padding against bank conflicts."""
        return size // LANES + 1

    def steps(self, wide: int, most: int) -> int:
        """Rows of a plain tile, of `wide` elements each, that fit into the memory of the two operands."""
        steps = most
        while steps * wide // LANES > self.weights:
            steps //= 2
        return steps


@dataclass(frozen=True)
class Tile:
    """The division of a block of sums among the threads: tall x broad per thread, `across` threads side by side."""

    rows: int
    columns: int
    tall: int
    broad: int

    @property
    def across(self) -> int:
        return self.columns // self.broad

    @property
    def down(self) -> int:
        return self.rows // self.tall

    @property
    def threads(self) -> int:
        return self.across * self.down

    @property
    def name(self) -> str:
        return f"{self.across}x{self.down}"


@dataclass(frozen=True)
class AttentionChoice:
    """The parameters of an attention kernel. scores: the division of a block of weights; of_queries: of sums over keys, a row per query;
    of_keys: of sums over queries, a row per key, which only gradients have. scalar_pool: whether workgroup memory is an array of
    scalars instead of vec4s, if a thread may not write one component of a vector.
    """

    blocks: Blocks
    scores: Tile
    of_queries: Tile
    of_keys: Tile | None
    scalar_pool: bool

    def __str__(self) -> str:
        b = self.blocks
        text = f"blocks of {b.rows} queries x {b.columns} keys, {b.threads} threads, steps of {b.depth}"
        return text + (", scalars in workgroup memory" if self.scalar_pool else "")


@dataclass(frozen=True)
class Shares:
    """A head's blocks of keys, assigned to `count` workgroups in turn: each has its own partial gradient of q."""

    blocks: Blocks
    count: int

    def first_row(self, share: int | str) -> str:
        """The first query that attends to keys of a share, with a causal mask."""
        return f"{share} * {self.blocks.columns} / {self.blocks.rows} * {self.blocks.rows}"


@dataclass(frozen=True)
class Load:
    """A tile that is loaded from the rows first, first + 1, ... of an operand into workgroup memory.

    count: its rows; limit: the first row that does not exist. depth: the offset along d of a transposed tile, which is stored with d
    outermost; None for a plain one. to: its offset in workgroup memory. slot: the register of its first vec4.
    """

    source: str
    first: str
    count: int
    limit: int
    step: int
    depth: str | None
    to: str
    slot: int

    def at(self, first: str, depth: str | None = None) -> Load:
        """The same tile of other rows, or of another part of d."""
        return replace(self, first=first, depth=self.depth if depth is None else depth)
