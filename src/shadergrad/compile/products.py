"""The sizes of a matrix multiplication, without its graph. In: a Dot node. Out: plain data for choices and estimates."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph.node import Node
from ..primitives.dot import Dot
from ..symbolic_sizes import varies
from .choices import Shape, Tile
from .layouts import is_shared


@dataclass(frozen=True)
class Product:
    """`batches` matrix multiplications of m x n results over k, cut into `parts` of `chunk`. window: as in Dot."""

    batches: int
    m: int
    n: int
    k: int
    chunk: int
    parts: int
    window: int

    @classmethod
    def of(cls, dot: Node) -> Product:
        primitive = dot.primitive
        assert isinstance(primitive, Dot)
        batch, m, k = dot.inputs[0].shape
        parts = primitive.parts(k)
        shared = parts == 1 and is_shared(dot.inputs[0])  # all samples have one left operand: they are further columns
        batches, n = (1, dot.shape[2] * batch) if shared else (batch, dot.shape[2])
        return cls(batches, m, n, k, primitive.chunk or k, parts, primitive.window)

    def workgroups(self, tile: Tile) -> int:
        return self.batches * self.parts * -(-self.m // tile.bm) * -(-self.n // tile.bn)

    @property
    def shape(self) -> Shape:
        return Shape(self.batches, self.m, self.n, self.k)

    @property
    def multiplications(self) -> int:
        return self.batches * self.m * self.n * self.k

    def varies(self) -> bool:
        return any(varies(n) for n in self.shape)
