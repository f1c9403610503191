"""The cell of a logic automaton in NumPy. The cpu device runs it, and the tests compare the shaders with it.

Gates are along the first axis, cells along the last. Threads compute blocks of cells, whose layers stay in the caches; NumPy
releases the lock while it computes. Neither the blocks nor the order of their sums depend on the number of threads, so neither
do the results.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import cache
from typing import Any

import numpy as np

from ...system.browser import thread_pool
from .cell import CENTRE, PATCH, CellCall, unpack_wires

BLOCK = 1024  # cells, roughly; with fewer, threads wait for each other's Python more than they save


def gate_values(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c0 + c1 a + (c2 + c3 a) b, c: (4, ...)."""
    value = c[3] * a
    value += c[2]
    value *= b
    value += c[1] * a
    value += c[0]
    return value


def gate_gradients(
    g: np.ndarray, c: np.ndarray, a: np.ndarray, b: np.ndarray, over: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of a, of b, and of the coefficients (4, ...), summed over the axes `over`."""
    ga = g * a
    sums = np.stack([g.sum(over), ga.sum(over), (g * b).sum(over), (ga * b).sum(over)])
    return g * (c[1] + c[3] * b), g * (c[2] + c[3] * a), sums


def gathered(da: np.ndarray, db: np.ndarray, a: np.ndarray, b: np.ndarray, n_in: int) -> np.ndarray:
    """The gradient of the n_in inputs (first axis): the sum over the gates that read each."""
    both = np.concatenate([da, db])
    result = np.zeros((n_in, *da.shape[1:]), da.dtype)
    for inputs, positions in readers_of(a, b, n_in):
        result[... if inputs is None else inputs] += both[positions]
    return result


def readers_of(a: np.ndarray, b: np.ndarray, n_in: int) -> list[tuple[np.ndarray | None, np.ndarray]]:
    """(inputs, positions) pairs, for the first gate that reads each input, the second, ...: a position is g for input a
    of gate g, gates + g for input b; inputs None means all inputs."""
    read = np.concatenate([a, b])
    order = np.argsort(read, kind="stable")
    counts = np.bincount(read, minlength=n_in)
    starts = np.cumsum(counts) - counts
    readers: list[tuple[np.ndarray | None, np.ndarray]] = []
    for k in range(int(counts.max())):
        inputs = np.flatnonzero(counts > k)
        readers.append((None if len(inputs) == n_in else inputs, order[starts[inputs] + k]))
    return readers


class NumpyLayer:
    """Gates of one layer: coefficients c0 to c3, each (gates, 1), or (gates, kernels, 1); wires a and b."""

    def __init__(self, coefficients: np.ndarray, a: np.ndarray, b: np.ndarray, n_in: int) -> None:
        self.c = [np.ascontiguousarray(c)[..., None] for c in np.moveaxis(coefficients, -1, 0)]
        self.a, self.b, self.n_in, self.gates = a, b, n_in, len(a)
        self.readers = readers_of(a, b, n_in)

    def read(self, x: np.ndarray, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """The gates' inputs a and b, in memory that the next layer uses too."""
        a, b = (memory("ab"[k], (self.gates, *x.shape[1:])) for k in (0, 1))
        np.take(x, self.a, axis=0, out=a, mode="clip")
        np.take(x, self.b, axis=0, out=b, mode="clip")
        return a, b

    def values(self, x: np.ndarray, memory: Memory, out: np.ndarray) -> np.ndarray:
        """c0 + c1 a + (c2 + c3 a) b, into out."""
        a, b = self.read(x, memory)
        c0, c1, c2, c3 = self.c
        np.multiply(a, c3, out=out)
        out += c2
        out *= b
        linear = np.multiply(a, c1, out=memory("linear", out.shape))
        out += linear
        out += c0
        return out

    def gradients(self, x: np.ndarray, g: np.ndarray, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """The gradients of a, then of b: (2 gates, ...); and the sums of g, ga, gb, gab over the cells: (4, gates, ...)."""
        a, b = self.read(x, memory)
        _, c1, c2, c3 = self.c
        both = memory("both", (2 * self.gates, *g.shape[1:]))
        da, db = both[: self.gates], both[self.gates :]
        for result, value, linear in ((da, b, c1), (db, a, c2)):
            np.multiply(value, c3, out=result)
            result += linear
            result *= g
        ga = np.multiply(g, a, out=memory("linear", g.shape))
        return both, np.stack([_dots(g, None), _dots(g, a), _dots(g, b), _dots(ga, b)])

    def gathered(self, both: np.ndarray, memory: Memory) -> np.ndarray:
        """The gradient of the inputs: the sums over the gates that read each."""
        total = memory("gathered", (self.n_in, *both.shape[1:]))
        if not self.readers or self.readers[0][0] is not None:
            total[:] = 0
        for k, (inputs, positions) in enumerate(self.readers):
            if inputs is not None:
                total[inputs] += both[positions]
            elif k == 0:
                np.take(both, positions, axis=0, out=total, mode="clip")
            else:
                total += np.take(both, positions, axis=0, out=memory("more", total.shape), mode="clip")
        return total


def _dots(g: np.ndarray, x: np.ndarray | None) -> np.ndarray:
    """The sums of g x over the last axis; of g for None."""
    if x is None:
        return g @ np.ones(g.shape[-1], g.dtype)
    return np.matmul(g[..., None, :], x[..., :, None])[..., 0, 0]


class Memory:
    """Reusable arrays by name: one per name, as large as its largest use."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype
        self._arrays: dict[str, np.ndarray] = {}

    def __call__(self, name: str, shape: Sequence[int]) -> np.ndarray:
        size = math.prod(shape)
        array = self._arrays.get(name)
        if array is None or array.size < size:
            array = self._arrays[name] = np.empty(size, self._dtype)
        return array[:size].reshape(shape)


@cache
def _threads(process: int) -> Executor:
    """The threads of a process; after a fork there are others."""
    return thread_pool(_cores(), "shadergrad-cell")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class NumpyCell:
    """The network of all cells."""

    def __init__(self, call: CellCall, coefficients: np.ndarray, wires: np.ndarray) -> None:
        self.call = call
        at = 0
        self.perception: list[NumpyLayer] = []
        for (a, b), n_in, n in zip(call.perception, (PATCH, *call.seen), call.seen, strict=False):
            c = coefficients[at : at + call.kernels * n].reshape(call.kernels, n, 4).swapaxes(0, 1)
            self.perception.append(NumpyLayer(c, np.array(a, np.intp), np.array(b, np.intp), n_in))
            at += call.kernels * n
        self.update: list[NumpyLayer] = []
        for (a, b), n_in, n in zip(unpack_wires(wires, call.widths), call.widths, call.widths[1:], strict=False):
            self.update.append(NumpyLayer(coefficients[at : at + n], a, b, n_in))
            at += n
        self._memory = [Memory(coefficients.dtype) for _ in range(min(_cores(), len(self.blocks())))]

    # -- blocks

    def blocks(self) -> list[slice]:
        """Ranges of cells, of nearly one size."""
        cells = self.call.cells
        count = max(1, round(cells / BLOCK))
        edges = [k * cells // count for k in range(count + 1)]
        return [slice(*pair) for pair in itertools.pairwise(edges)]

    def _each_block(self, compute: Callable[[slice, Memory], Any]) -> list[Any]:
        """The results of compute for each block, in order."""
        blocks, workers = self.blocks(), len(self._memory)

        def work(worker: int) -> list[Any]:
            return [compute(block, self._memory[worker]) for block in blocks[worker::workers]]

        if workers == 1:
            return work(0)
        parts: list[Iterator[Any]] = [iter(part) for part in _threads(os.getpid()).map(work, range(workers))]
        return [next(parts[k % workers]) for k in range(len(blocks))]

    # -- patches

    def patches(self, state: np.ndarray) -> np.ndarray:
        """(9, channels, cells)."""
        call = self.call
        padded = np.pad(state, ((0, 0), (1, 1), (1, 1), (0, 0)), "wrap" if call.periodic else "constant")
        views = [padded[:, y : y + call.height, x : x + call.width] for y in range(3) for x in range(3)]
        return np.stack([v.reshape(-1, call.channels).T for v in views])

    def unpatches(self, g: np.ndarray) -> np.ndarray:
        """The adjoint of `patches`: a state."""
        call = self.call
        h, w = call.height, call.width
        total = np.zeros((call.batch, h + 2, w + 2, call.channels), g.dtype)
        for n in range(PATCH):
            y, x = divmod(n, 3)
            total[:, y : y + h, x : x + w] += g[n].T.reshape(call.state_shape)
        if call.periodic:
            total[:, 1] += total[:, h + 1]
            total[:, h] += total[:, 0]
            total[:, :, 1] += total[:, :, w + 1]
            total[:, :, w] += total[:, :, 0]
        return total[:, 1 : h + 1, 1 : w + 1]

    # -- forward

    def forward(self, state: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """The next state."""
        call = self.call
        patches = self.patches(state)
        new = np.empty((call.cells, call.channels), state.dtype)

        def compute(block: slice, memory: Memory) -> None:
            new[block] = self._layers(patches[:, :, block], memory, keep=False)[-1].T

        self._each_block(compute)
        new = new.reshape(call.state_shape)
        return new if mask is None else np.where(mask, new, state)

    def _layers(self, patches: np.ndarray, memory: Memory, keep: bool) -> list[np.ndarray]:
        """The inputs of all layers, then the values of the last; those before the last two are overwritten if not kept."""
        call = self.call
        cells = patches.shape[-1]
        x = memory("patches", (PATCH, 1, call.channels * cells))
        x.reshape(patches.shape)[:] = patches
        values = [x]

        def place(shape: tuple[int, ...]) -> np.ndarray:
            return memory(f"layer {len(values) if keep else len(values) % 2}", shape)

        for layer in self.perception:
            shape = (layer.gates, call.kernels, call.channels * cells)
            values.append(layer.values(values[-1], memory, place(shape)))
        found = values[-1].reshape(-1, call.kernels, call.channels, cells).transpose(2, 0, 1, 3)
        features = memory("features", (call.widths[0], cells))
        features[: call.channels] = patches[CENTRE]
        features[call.channels :].reshape(found.shape)[:] = found
        values.append(features)
        for layer in self.update:
            values.append(layer.values(values[-1], memory, place((layer.gates, cells))))
        return values

    # -- backward

    def backward(
        self, state: np.ndarray, mask: np.ndarray | None, gradient: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The gradients of the state and, layer by layer, of the coefficients (4, gates of the layer in their order)."""
        call = self.call
        stays = 0.0 if mask is None else np.where(mask, 0, gradient)
        g = gradient if mask is None else np.where(mask, gradient, 0)
        g = g.reshape(-1, call.channels).T
        patches = self.patches(state)
        of_patches = np.empty_like(patches)

        def compute(block: slice, memory: Memory) -> list[np.ndarray]:
            of_patches[:, :, block], sums = self._backward(patches[:, :, block], g[:, block], memory)
            return sums

        total, *others = self._each_block(compute)
        for sums in others:
            total = [t + s for t, s in zip(total, sums, strict=True)]
        return self.unpatches(of_patches) + stays, total

    def _backward(self, patches: np.ndarray, g: np.ndarray, memory: Memory) -> tuple[np.ndarray, list[np.ndarray]]:
        """The gradients of patches (9, channels, cells), and the sums of all layers."""
        call = self.call
        values = self._layers(patches, memory, keep=True)
        values.pop()
        g = np.ascontiguousarray(g)
        sums: list[np.ndarray] = []
        for layer in reversed(self.update):
            both, found = layer.gradients(values.pop(), g, memory)
            sums.append(found)
            g = layer.gathered(both, memory)
        values.pop()  # the last perception layer's values are in the features
        cells = patches.shape[-1]
        centre = g[: call.channels].copy()
        g = g[call.channels :].reshape(call.channels, -1, call.kernels, cells).transpose(1, 2, 0, 3)
        g = g.reshape(-1, call.kernels, call.channels * cells)
        for layer in reversed(self.perception):
            both, found = layer.gradients(values.pop(), g, memory)
            sums.append(found.swapaxes(1, 2).reshape(4, -1))  # kernel by kernel
            if not values:
                both = both.sum(1)  # all kernels read the same patches
            g = layer.gathered(both, memory)
        g = g.reshape(patches.shape)
        g[CENTRE] += centre
        return g, sums[::-1]
