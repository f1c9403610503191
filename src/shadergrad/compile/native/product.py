"""Batched products of small matrices as functions in LLVM IR: `units` are matrices of the batch, and their elementwise epilogue is part of it.

A call of BLAS per matrix, with its own threads, costs too much for small matrices. Here a tile of rows and vectors of results stays in registers
along the contraction, which is accumulated by fma from its first element to its last. So the bits of an element do not depend on the start of its
tile, and the last tile of an axis may overlap the one before. If many rows are multiplied by a right operand, or if its rows are not contiguous, it
is first copied into panels, each of a tile's columns, once per matrix. Without BLAS, these kernels compute large products, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...dtypes import float32
from ...graph.index import Index, flatten, variable
from ...graph.node import Node
from ...primitives.dot import Dot
from ..groups import Group
from ..recorder import Recorder
from .domain import lanes_of
from .function_text import function_text
from .registers import LANES, Tile
from .values import Value, literal
from .writer import Variable, Writer

FEWEST_BATCHES = 4
LARGEST = 1 << 21  # multiplications of a matrix, beyond which BLAS is as fast
MOST_PACKED = 1 << 15  # elements of a right operand
WORTH_COPY = 16  # the number of rows from which on the copy into panels pays


def serves_product(node: Node, tile: Tile) -> bool:
    """Whether a product has a kernel for a processor."""
    primitive = node.primitive
    if not isinstance(primitive, Dot) or primitive.chunk or node.dtype is not float32:
        return False
    if not tile.library:
        return True
    batch, m, k = node.inputs[0].shape
    return serves_sizes(batch, m, node.shape[2], k)


def serves_sizes(batch: int, m: int, n: int, k: int) -> bool:
    """Whether this library's kernels, and not BLAS, compute a batch of so many products m x n over k."""
    return batch >= FEWEST_BATCHES and n >= LANES and 0 < m * n * k <= LARGEST and k * n <= MOST_PACKED


# The same products for operands in row-major order and all sizes, without tiles. The buffers are left, right, result and (m, n, k).
ANY_SIZE = """define void @kernel(ptr noalias %buffers, i64 %begin, i64 %end) nounwind "prefer-vector-width"="512" {
entry:
  %left = load ptr, ptr %buffers
  %right.at = getelementptr ptr, ptr %buffers, i64 1
  %right = load ptr, ptr %right.at
  %result.at = getelementptr ptr, ptr %buffers, i64 2
  %result = load ptr, ptr %result.at
  %sizes.at = getelementptr ptr, ptr %buffers, i64 3
  %sizes = load ptr, ptr %sizes.at
  %m = load i64, ptr %sizes
  %n.at = getelementptr i64, ptr %sizes, i64 1
  %n = load i64, ptr %n.at
  %k.at = getelementptr i64, ptr %sizes, i64 2
  %k = load i64, ptr %k.at
  %last = sub i64 %n, 16
  br label %each
each:
  %b = phi i64 [ %begin, %entry ], [ %b.next, %each.end ]
  %row.first = mul i64 %b, %m
  %place.first = mul i64 %b, %k
  br label %rows
rows:
  %i = phi i64 [ 0, %each ], [ %i.next, %rows.end ]
  %row = add i64 %row.first, %i
  %row.left = mul i64 %row, %k
  %row.result = mul i64 %row, %n
  br label %columns
columns:
  %j.at = phi i64 [ 0, %rows ], [ %j.next, %columns.end ]
  %j.past = icmp sgt i64 %j.at, %last
  %j = select i1 %j.past, i64 %last, i64 %j.at
  br label %along
along:
  %p = phi i64 [ 0, %columns ], [ %p.next, %along ]
  %sum = phi <16 x float> [ zeroinitializer, %columns ], [ %sum.next, %along ]
  %a.at = add i64 %row.left, %p
  %a.address = getelementptr float, ptr %left, i64 %a.at
  %a = load float, ptr %a.address, align 4
  %a.first = insertelement <16 x float> poison, float %a, i32 0
  %a.wide = shufflevector <16 x float> %a.first, <16 x float> poison, <16 x i32> zeroinitializer
  %place = add i64 %place.first, %p
  %place.right = mul i64 %place, %n
  %r.at = add i64 %place.right, %j
  %r.address = getelementptr float, ptr %right, i64 %r.at
  %r = load <16 x float>, ptr %r.address, align 4
  %sum.next = call <16 x float> @llvm.fma.v16f32(<16 x float> %a.wide, <16 x float> %r, <16 x float> %sum)
  %p.next = add i64 %p, 1
  %p.more = icmp slt i64 %p.next, %k
  br i1 %p.more, label %along, label %columns.end
columns.end:
  %c.at = add i64 %row.result, %j
  %c.address = getelementptr float, ptr %result, i64 %c.at
  store <16 x float> %sum.next, ptr %c.address, align 4
  %j.next = add i64 %j.at, 16
  %j.more = icmp slt i64 %j.next, %n
  br i1 %j.more, label %columns, label %rows.end
rows.end:
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %m
  br i1 %i.more, label %rows, label %each.end
each.end:
  %b.next = add i64 %b, 1
  %b.more = icmp slt i64 %b.next, %end
  br i1 %b.more, label %each, label %done
done:
  ret void
}
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
"""


@dataclass(frozen=True)
class Tiles:
    """The tiles of a product of batch matrices m x n over k: `tall` rows by `wide` vectors of `lanes` elements.

    packed: whether the right operand is copied into panels of a tile's columns. All rows are multiplied by one panel before the next, so that a
    large operand is read from memory once.
    """

    batch: int
    m: int
    n: int
    k: int
    tall: int
    wide: int
    packed: bool
    lanes: int = LANES

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return self.lanes * self.wide

    @property
    def copied(self) -> int:
        """The number of elements in the copy."""
        return self.k * -(-self.n // self.columns) * self.columns


def tiles_of(group: Group, is_buffer: Callable[[Node], bool], tile: Tile) -> Tiles:
    """The tiles of the product of a group. tile: the sums that registers hold."""
    assert group.dot is not None
    left, right = group.dot.inputs
    batch, m, k = left.shape
    n = right.shape[2]
    recorder = Recorder(is_buffer)
    recorder.pull(right, (variable("b", batch), variable("k", k), variable("r", n)))
    splits = [flat.split("r") for _, flat in recorder.reads]
    apart = any(s is None or s[1] not in (0, 1) for s in splits)
    packed = apart or recorder.cost > 0 or m >= WORTH_COPY
    lanes = lanes_of(n, tile.lanes)
    return Tiles(batch, m, n, k, min(tile.tall, m), min(tile.wide, n // lanes), packed, lanes)


ROWS, COLUMNS = ("rows", "i"), ("columns", "j")  # loops over tiles


class ProductText:
    """The function of one group."""

    def __init__(self, group: Group, tiles: Tiles, is_buffer: Callable[[Node], bool]) -> None:
        assert group.dot is not None
        own = {id(n) for n in group.nodes}
        self.group, self.tiles, self.dot = group, tiles, group.dot
        self.w = Writer(lambda n: id(n) not in own and is_buffer(n), {}, tiles.lanes)
        self.s = self.w.s
        t = tiles
        self.batch = variable("b", t.batch)
        self.row, self.column = variable("i", t.m), variable("r", t.n)
        self.place = variable("k", t.k)

    def write(self) -> tuple[str, tuple[Node, ...]]:
        """The text of the function, and the nodes of its buffers, in order."""
        t, s, w = self.tiles, self.s, self.w
        w.variables = {
            "b": Variable("%b", 1),
            "i": Variable("%i", 2),
            "r": Variable("%j", 2, wide=True),
            "k": Variable("%k", 3),
        }
        allocations = [f"%packed = alloca float, i64 {t.copied}, align 64"] if t.packed else []
        packing = self._panels() if t.packed else []
        sums = [[f"%sum{i}.{j}" for j in range(t.wide)] for i in range(t.tall)]
        whole = s.type_of("float", True)
        allocations += [f"{name} = alloca {whole}, align 64" for row in sums for name in row]
        zeroes = [f"store {whole} zeroinitializer, ptr {name}, align 64" for row in sums for name in row]
        self._multiply(sums)
        (outer, o), (inner, i) = (COLUMNS, ROWS) if t.packed else (ROWS, COLUMNS)
        sizes = {"i": (t.tall, t.m), "j": (t.columns, t.n)}
        last = {name: size - step for name, (step, size) in sizes.items()}
        before, multiplied = s.lines[2], s.lines[3]
        w.forget_loop()
        self._results(sums)
        behind = s.lines[2]
        body = [
            "br label %each",
            "each:",
            "%b = phi i64 [ %begin, %entry ], [ %b.next, %each.end ]",
            *s.lines[1],
            *packing,
            f"br label %{outer}",
            f"{outer}:",
            f"%{o}.at = phi i64 [ 0, %{'pack.end' if t.packed else 'each'} ], [ %{o}.next, %{outer}.end ]",
            *_least(f"%{o}", last[o]),
            f"br label %{inner}",
            f"{inner}:",
            f"%{i}.at = phi i64 [ 0, %{outer} ], [ %{i}.next, %{inner}.end ]",
            *_least(f"%{i}", last[i]),
            *zeroes,
            *before,
            "br label %along",
            "along:",
            f"%k = phi i64 [ 0, %{inner} ], [ %k.next, %along ]",
            *multiplied,
            *_again("%k.next", "%k", 1, t.k, "along", f"{inner}.end"),
            *behind,
            *_again(f"%{i}.next", f"%{i}.at", *sizes[i], inner, f"{outer}.end"),
            *_again(f"%{o}.next", f"%{o}.at", *sizes[o], outer, "each.end"),
            "%b.next = add i64 %b, 1",
            "%b.more = icmp slt i64 %b.next, %end",
            "br i1 %b.more, label %each, label %done",
            "done:",
            "ret void",
        ]
        lines = [*allocations, *s.lines[0], *body]
        return function_text(lines, sorted(s.declared)), tuple(w.buffers.values())

    def _panels(self) -> list[str]:
        """Copy the right operand of a matrix into panels of a tile's columns."""
        t, s, w = self.tiles, self.s, self.w
        w.variables |= {"k": Variable("%q", 3), "r": Variable("%p", 2, wide=True)}
        first = s.op("mul", Value("%p.at", "i64", 2), literal(t.k, "i64"))
        at = s.op("add", first, s.op("mul", Value("%q", "i64", 3), literal(t.columns, "i64")))
        for j in range(t.wide):
            value = w.pull(self.dot.inputs[1], (self.batch, self.place, self.column + t.lanes * j))
            place = s.op("add", at, literal(t.lanes * j, "i64")) if j else at
            address = s.statement(f"getelementptr float, ptr %packed, i64 {place}", "ptr", 3, False)
            s.lines[3].append(f"store {s.type_of('float', True)} {s.text(value, True)}, ptr {address}, align 4")
        text = [
            "br label %pack",
            "pack:",
            "%p.at = phi i64 [ 0, %each ], [ %p.next, %pack.next ]",
            *_least("%p", t.n - t.columns),
            *s.lines[2],
            "br label %pack.row",
            "pack.row:",
            "%q = phi i64 [ 0, %pack ], [ %q.next, %pack.row ]",
            *s.lines[3],
            *_again("%q.next", "%q", 1, t.k, "pack.row", "pack.next"),
            *_again("%p.next", "%p.at", t.columns, t.n, "pack", "pack.end"),
        ]
        w.forget_loop()
        w.variables |= {"k": Variable("%k", 3), "r": Variable("%j", 2, wide=True)}
        return text

    def _multiply(self, sums: list[list[str]]) -> None:
        """The multiply-adds of one position of the contraction."""
        t, s, w = self.tiles, self.s, self.w
        whole = s.type_of("float", True)
        right = [self._right(j) for j in range(t.wide)]
        for i, row in enumerate(sums):
            left = w.pull(self.dot.inputs[0], (self.batch, self.row + i, self.place))
            for value, name in zip(right, row, strict=True):
                before = Value(s.fresh(), "float", 3, wide=True)
                s.lines[3].append(f"{before} = load {whole}, ptr {name}, align 64")
                s.lines[3].append(f"store {whole} {s.fma(left, value, before)}, ptr {name}, align 64")

    def _right(self, j: int) -> Value:
        t, s = self.tiles, self.s
        if not t.packed:
            return self.w.pull(self.dot.inputs[1], (self.batch, self.place, self.column + t.lanes * j))
        first = s.op("mul", Value("%j.at", "i64", 2), literal(t.k, "i64"))
        at = s.op("add", s.op("mul", Value("%k", "i64", 3), literal(t.columns, "i64")), first)
        at = s.op("add", at, literal(t.lanes * j, "i64"))
        address = s.statement(f"getelementptr float, ptr %packed, i64 {at}", "ptr", 3, False)
        return s.statement(f"load {s.type_of('float', True)}, ptr {address}, align 4", "float", 3, True)

    def _results(self, sums: list[list[str]]) -> None:
        """The epilogue of a tile, and its stores."""
        s, w = self.s, self.w
        whole = s.type_of("float", True)
        for i, row in enumerate(sums):
            for j, name in enumerate(row):
                value = Value(s.fresh(), "float", 2, wide=True)
                s.lines[2].append(f"{value} = load {whole}, ptr {name}, align 64")
                w.local[id(self.dot)] = lambda index, value=value: value
                index = (self.batch, self.row + i, self.column + self.tiles.lanes * j)
                flat: Index = flatten(index, self.dot.shape)
                for root in self.group.roots:
                    w.store(root, flat, w.pull_flat(root, flat), 2)  # type: ignore[arg-type]
                w.forget_dot(self.dot)


def _least(name: str, last: int) -> list[str]:
    return [
        f"{name}.past = icmp sgt i64 {name}.at, {last}",
        f"{name} = select i1 {name}.past, i64 {last}, i64 {name}.at",
    ]


def _again(name: str, at: str, step: int, end: int, begin: str, behind: str) -> list[str]:
    return [
        f"{name} = add i64 {at}, {step}",
        f"{name}.more = icmp slt i64 {name}, {end}",
        f"br i1 {name}.more, label %{begin}, label %{behind}",
        f"{behind}:",
    ]
