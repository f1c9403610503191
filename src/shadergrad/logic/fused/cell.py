"""Shared parts of a logic automaton's kernels: the sizes of a cell's networks, and its wires as buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ...extend import Operation

Wires = tuple[tuple[int, ...], ...]  # of a perception layer: the a wires, the b wires
Pair = tuple[np.ndarray, np.ndarray]  # of an update layer: the a wires, the b wires

PATCH, CENTRE = 9, 4
MOST_WORKGROUPS = 256  # of the backward kernel: their sums should stay in the GPU's cache


class LayersCall(Operation):
    """The base of the calls here: layers of gates over samples, the cells of an automaton or the rows of a batch.

    widths: inputs of the first layer, then each layer's outputs. readers: for each layer, the largest number of gates that read
    one value. The first gates of the coefficients, and the slots, belong to a perception.
    """

    widths: tuple[int, ...]
    readers: tuple[int, ...]
    perception_gates: int = 0
    perception_slots: int = 0

    @property
    def perceived(self) -> tuple[int, int]:
        """Channels of a patch, and perception networks of a cell."""
        return 0, 0

    @property
    def cells(self) -> int:
        """The number of samples."""
        raise NotImplementedError

    @property
    def inputs_size(self) -> int:
        """Gradients of all inputs at the head of the gradient kernel's result, padded to vec4s."""
        raise NotImplementedError

    @property
    def update_gates(self) -> int:
        return sum(self.widths[1:])

    @property
    def gates(self) -> int:
        return self.perception_gates + self.update_gates

    @property
    def slots(self) -> int:
        """Sums of one workgroup: a gate of every perception network, a gate of the layers."""
        return self.perception_slots + self.update_gates

    @property
    def lanes(self) -> int:
        """The number of samples per workgroup: more samples share loads and barriers, fewer keep all cores busy."""
        return 4 if self.cells >= 384 else 2 if self.cells >= 192 else 1

    @property
    def workgroups(self) -> int:
        """Of the gradient kernel."""
        return min(-(-self.cells // self.lanes), MOST_WORKGROUPS)


@dataclass(frozen=True)
class CellCall(LayersCall):
    """The base of an automaton's calls; it holds the grid and the networks of a cell.

    perception: the wires of each layer. widths, readers: of the update network. masked: whether an input selects the cells that
    change at each step.
    """

    batch: int
    height: int
    width: int
    channels: int
    kernels: int
    perception: tuple[Wires, ...]
    widths: tuple[int, ...]
    readers: tuple[int, ...]
    periodic: bool
    masked: bool

    @property
    def optional(self) -> tuple[str, ...]:
        """The arguments that only some automata have."""
        return ("mask",) if self.masked else ()

    @property
    def perceived(self) -> tuple[int, int]:
        return self.channels, self.pairs

    @property
    def cells(self) -> int:
        return self.batch * self.height * self.width

    @property
    def state_size(self) -> int:
        return self.cells * self.channels

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.batch, self.height, self.width, self.channels)

    @property
    def pairs(self) -> int:
        """Perception networks of a cell: channels x kernels, the kernel fastest."""
        return self.channels * self.kernels

    @property
    def seen(self) -> tuple[int, ...]:
        """Gates of each perception layer."""
        return tuple(len(a) for a, _ in self.perception)

    @property
    def perception_gates(self) -> int:  # type: ignore[override]
        return sum(self.seen) * self.kernels

    @property
    def perception_slots(self) -> int:  # type: ignore[override]
        return sum(self.seen) * self.pairs

    @property
    def inputs_size(self) -> int:
        """Of all patches."""
        return -(-self.cells * PATCH * self.channels // 4) * 4

    def cell_of(self, other: type[CellCall], *more: Any) -> Any:
        """Another call of the same cell."""
        return other(*(getattr(self, f.name) for f in fields(CellCall)), *more)


def pack_wires(layers: Sequence[Pair]) -> np.ndarray:
    """a + 65536 b of every gate, layer after layer, int32."""
    return np.concatenate([a.astype(np.uint32) | b.astype(np.uint32) << 16 for a, b in layers]).view(np.int32)


def unpack_wires(wires: np.ndarray, widths: Sequence[int]) -> list[Pair]:
    """The wires of each layer."""
    split = np.split(wires.view(np.uint32), np.cumsum(widths[1:-1]))
    return [((w & 0xFFFF).astype(np.intp), (w >> 16).astype(np.intp)) for w in split]


def most_readers(layers: Sequence[Pair]) -> tuple[int, ...]:
    """For each layer, the largest number of readers of one input."""
    return tuple(int(np.bincount(np.concatenate(pair)).max()) for pair in layers)


def readers_of(n_in: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """For every input its readers, one below the other, (most, n_in): g for input a of gate g, n_out + g for input b;
    2 n_out marks the end."""
    read = np.concatenate([a, b])
    order = np.argsort(read, kind="stable")
    place = np.arange(len(read)) - np.searchsorted(read[order], read[order])  # among the readers of one input
    table = np.full((int(np.bincount(read).max()), n_in), len(read), np.uint32)
    table[place, read[order]] = order
    return table


def inverse_wires(layers: Sequence[Pair], widths: Sequence[int]) -> np.ndarray:
    """The inverse index of all layers: `readers_of`, two to a word, int32 (words, n_in) flattened."""
    parts: list[np.ndarray] = []
    for pair, n_in in zip(layers, widths[:-1], strict=True):
        table = readers_of(n_in, *pair)
        if len(table) % 2:
            table = np.concatenate([table, np.full((1, n_in), 2 * len(pair[0]), np.uint32)])
        parts.append(table[0::2] | table[1::2] << 16)
    return np.concatenate([p.reshape(-1) for p in parts]).view(np.int32)
