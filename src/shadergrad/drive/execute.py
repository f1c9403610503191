"""The driver: from requested nodes to values on a device.

    nodes → capture → plan (cached by structure) → program → storages → nodes

The only module that uses both the compiler and the runtime.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .. import symbolic_sizes
from ..compile.pipeline import compile_graph
from ..compile.plan_cache import compiled
from ..dtypes import DType
from ..errors import CompileError
from ..graph import node as nodes
from ..graph.autodiff import is_over
from ..graph.capture import Capture, Graph, Numbered
from ..graph.composition import Hashed, shown
from ..graph.node import Node, is_alias, resolve
from ..graph.origin import entered, named
from ..graph.primitive import Primitive
from ..graph.short_capture import ShortCapture
from ..plan import Label, Plan
from ..runtime import cpu as cpu
from ..runtime import timing
from ..runtime import webgpu as webgpu
from ..runtime.device import Device, Program, Storage, get_device, open_devices
from ..system import interrupts
from ..system.browser import new_lock
from ..target import Target
from .stages import Staged, has_exchanges, waits
from .structure import Found, Structure
from .tracing import unwatched

Labels = tuple[tuple[Label, ...], tuple[Label, ...]]  # by inputs, by outputs
MOST_PROGRAMS = 512
PROGRAM_BYTES = 128 << 20  # of host memory for the plans of cached programs
LARGE = 1 << 17  # elements per operation, on average, above which computing takes longer than planning
LONG = 64  # nodes; a longer graph gets a plan at its second evaluation if the device needs none
MOST_MET = 1 << 14
BYTES_A_ROW = 1024  # of a plan's tables and of the program made from them (110 KiB for an MLP's training step)


downloads = 0  # incremented when a value is read
lock = new_lock()  # held while values are computed and steps are captured and run: one thread at a time


def plan_bytes(plan: Plan) -> int:
    """An estimate of the host memory of a plan and its program, without the driver's memory for its kernels."""
    rows = len(plan.buffers) + len(plan.kernels) + len(plan.dispatches)
    return BYTES_A_ROW * rows + sum(len(kernel.source) for kernel in plan.kernels)


def structure_bytes(structure: Structure) -> int:
    """The same for all programs of a structure."""
    return sum(plan_bytes(program.plan) for program in structure.programs())


class _Known(NamedTuple):
    """A short capture that was met before.

    key: that of its structure. program: for its numbers. sources: for each input of the program, its position among the capture's inputs.
    numbered: its nodes with numbers. numbers: for each node with numbers in the structure, its position in `numbered`, or the recipe of its value.
    dtypes: those of the results.
    """

    key: Any
    program: Program
    sources: list[int]
    numbered: tuple[Primitive, ...]
    numbers: list[int | Primitive]
    dtypes: Sequence[DType]


class Programs:
    """Loaded plans by structure; the least recently used is dropped first. It counts plans that were compiled or found on
    disk, for tests.

    nbytes: an estimate of the host memory of all entries.
    """

    def __init__(self, most: int = MOST_PROGRAMS, most_bytes: int = PROGRAM_BYTES) -> None:
        self._cache: OrderedDict[Any, Structure] = OrderedDict()
        self._most = most
        self._most_bytes = most_bytes
        self.nbytes = 0
        self.compiled = 0
        self._short: dict[Any, _Known] = {}  # by the keys of short captures
        self._latest: Any = None  # the key of the last structure that `get` found
        self._met: set[int] = set()  # structures, by the hash of their keys
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return sum(len(structure.programs()) for structure in self._cache.values())

    def get(
        self,
        capture: Capture,
        in_place: dict[int, int] | None = None,
        labels: Labels = ((), ()),
        function: Any = None,
    ) -> Found:
        """The program of a captured graph, and the nodes of capture.keep that it returns after the outputs.

        If a graph differs from an earlier one only in its numbers, it is compiled once more, to a plan that reads the numbers that differ; further
        values compile nothing. labels: roles and names of inputs and outputs, in place of the compiler's. function: the compiled function of this graph;
        the first capture of each function is compiled with its numbers in the text.
        """
        target, places = get_device(capture.device).target, tuple(sorted((in_place or {}).items()))
        key = Hashed((capture.key, target, places, labels, symbolic_sizes.follows))
        with self._lock:
            structure = self._cache.get(key) or Structure(capture)
            found = structure.find(capture, function)
            if found is None:
                slots = structure.slots_for(capture, function)
                loaded = self.load(capture.graph(in_place, slots), labels)
                self.nbytes -= structure_bytes(structure)
                found = structure.add(capture, slots, loaded)
                self.nbytes += structure_bytes(structure)
                self._cache[key] = structure
            structure.meet(function)
            self._cache.move_to_end(key)
            self._latest = key
            self._make_room()
        return found

    def known(self, key: Hashed, numbered: tuple[Primitive, ...], device: str) -> tuple[Program, list[int]] | None:
        """The program of a known short capture, by its key and its numbers, and the source of each of its inputs."""
        with self._lock:
            known = self._short.get(key)
            if known is None:
                return None
            structure = self._cache.get(known.key)
            if structure is not None:
                self._cache.move_to_end(known.key)
            if numbered == known.numbered:
                return known.program, known.sources
            if structure is None:
                return None
            numbers = [n if isinstance(n, Primitive) else numbered[n] for n in known.numbers]
            found = structure.find(Numbered(numbers, known.dtypes, device), None)
            return None if found is None else (found[0], known.sources)

    def learn(self, short: ShortCapture, capture: Capture, program: Program) -> None:
        """Store the program of a short capture. capture: the full capture of the same nodes, which was the last argument of `get`."""
        place = {(id(s.storage), s.shape, s.dtype): k for k, s in enumerate(short.sources)}
        sources = [place.get((id(s.storage), s.shape, s.dtype)) for s in capture.sources]
        if None in sources or len(short.roots) != len(capture.roots):
            return
        own = {id(node): k for k, node in enumerate(short.with_numbers)}
        numbers = [own.get(id(node), node.primitive) for node in capture.with_numbers]
        known = _Known(self._latest, program, cast("list[int]", sources), short.numbered, numbers, capture.dtypes)
        with self._lock:
            self._short[key_of(short)] = known
            if len(self._short) > self._most:
                self._short.pop(next(iter(self._short)))

    def is_new(self, capture: Capture) -> bool:
        """Whether a structure is new, or was dropped since its last run."""
        known = hash(capture.key)
        if known in self._met:
            return False
        if len(self._met) >= MOST_MET:
            self._met.clear()
        self._met.add(known)
        return True

    def load(self, graph: Graph, labels: Labels) -> Found:
        """The program of a graph, uncached, and the nodes of graph.keep that it returns."""
        if has_exchanges(graph.nodes):
            program: Program = Staged(graph, lambda part: self.load(part, ((), ()))[0])
            program.plan = program.plan.labelled(*labels)
            return program, []
        device = get_device(graph.device)
        with device.compiling() as begin:
            plan, kept = compiled(graph, device.target, lambda g, t: compile_graph(g, t, begin))
            self.compiled += 1
            return device.load(plan.labelled(*labels)), kept

    def _make_room(self) -> None:
        while len(self._cache) > max(1, self._most) or (self.nbytes > self._most_bytes and len(self._cache) > 1):
            gone, structure = self._cache.popitem(last=False)
            self.nbytes -= structure_bytes(structure)
            self._short = {short: found for short, found in self._short.items() if found[0] != gone}

    def clear(self) -> None:
        self._cache.clear()
        self._short.clear()
        self._met.clear()
        self.nbytes = 0


def key_of(short: ShortCapture) -> Hashed:
    """The key by which `Programs.known` finds the program of a short capture."""
    return Hashed((short.key, get_device(short.device).target, symbolic_sizes.follows))


programs = Programs()


def realize(wanted: Sequence[Node], *, read: bool = False) -> None:
    """Give every node in `wanted` (of one device) its value. read: the host waits for one of them, so that not all live nodes
    are wanted.

    Intermediate values that the backward pass needs, and that the plan stores anyway, are kept in their nodes. So reading a loss before
    backward() computes nothing twice.
    """
    if all(n.storage is not None for n in wanted):
        return
    with lock:
        pending = list({id(n): n for n in wanted if n.storage is None}.values())
        compute = [n for n in pending if shown(n).storage is None]
        if compute:
            with unwatched():  # imports and caches of devices are no effects of a captured step
                _compute(compute, read)
        for node in pending:
            if is_alias(node):
                node.materialize(resolve(node).storage)
    if interrupts.waiting.is_waiting:
        interrupts.deliver()


def _compute(wanted: list[Node], read: bool) -> None:
    """Compute pending nodes, and intermediate values to keep, in one run."""
    device = get_device(wanted[0].device)
    if device.compute(wanted):
        return
    going_back = [n for n in wanted if n.requires_grad and not n.released]
    for node in going_back:
        node.released = is_over(node)
    keep = read or not all(n.released for n in going_back)
    short = None if keep or timing.listeners else ShortCapture(wanted)
    capture: Capture | None = None if short is None or short.is_short else short
    if capture is None:
        if short is not None and _run_again(short):
            return
        pending = [n for n in wanted if resolve(n).storage is None]  # resolve makes the nodes of compositions
        if len(pending) < len(wanted):
            if pending:
                _compute(pending, read)
            return
        capture = Capture(wanted, keep=keep)
    results, kept = None, range(len(capture.keep))
    is_long = len(capture.order) >= LONG and sum(node.size for node in capture.order) < LARGE * len(capture.order)
    if is_long and not timing.listeners and programs.is_new(capture) and not waits(capture):
        results = device.evaluate(capture)
    if results is None:
        program, kept = programs.get(capture)
        results = run_noted(program, capture, [s.storage for s in capture.sources])
        if short is not None and short is not capture:
            programs.learn(short, capture, program)
    given = [*capture.roots, *(capture.order[capture.keep[k]] for k in kept)]
    for node, storage in zip(given, results, strict=True):
        if node.storage is None:
            node.materialize(storage)


def _run_again(short: ShortCapture) -> bool:
    """Run the program of a known short capture; False if there is none."""
    known = programs.known(key_of(short), short.numbered, short.device)
    if known is None:
        return False
    program, sources = known
    results = program.run([short.sources[k].storage for k in sources])
    for node, storage in zip(short.roots, results, strict=True):
        if node.storage is None:
            node.materialize(storage)
    return True


def run_known(
    key: Hashed, numbered: tuple[Primitive, ...], sources: Sequence[Storage], device: str
) -> list[Storage] | None:
    """Run the program of a known short capture. Returns the results of its roots, or None if it is unknown. key, numbered, sources: as in ShortCapture."""
    with lock:
        known = programs.known(key, numbered, device)
        if known is None:
            return None
        program, places = known
        return program.run([sources[k] for k in places])


def run_noted(program: Program, capture: Capture, inputs: Sequence[Storage]) -> list[Storage]:
    """Run a captured graph, and report the origins of its nodes to profilers."""
    if not timing.listeners:
        return program.run(inputs)
    origins = named([node.origin for node in capture.order], entered())
    with timing.noting(program.plan.located(origins).notes):
        return program.run(inputs)


def upload(array: np.ndarray, dtype: DType, device: str) -> Node:
    """A node with the values of a host array."""
    storage = get_device(device).upload(np.asarray(array, dtype.numpy, order="C"), dtype)
    return nodes.leaf(storage, tuple(array.shape), dtype, device)


def download(node: Node) -> np.ndarray:
    """The value of a node, as a fresh host array."""
    global downloads
    downloads += 1
    realize([node])
    values = get_device(node.device).download(node.storage, node.shape, node.dtype)
    if interrupts.waiting.is_waiting:
        interrupts.deliver()
    return values


async def download_async(node: Node) -> np.ndarray:
    """The same for a browser's Python that cannot wait: other tasks run meanwhile."""
    realize([node])
    return await get_device(node.device).download_async(node.storage, node.shape, node.dtype)


def synchronize(device: str | None = None) -> None:
    """Wait until the device, or every open one, has done all submitted work."""
    for d in open_devices() if device is None else [get_device(device)]:
        d.synchronize()


class Planned(Program):
    """A plan for another runner, which this process does not run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        raise CompileError("this plan was compiled for another runner.")


def planned(capture: Capture, in_place: dict[int, int], labels: Labels, target: Target) -> Planned:
    """A captured graph compiled to another target than its device's."""
    plan, _ = compile_graph(capture.graph(in_place), target)
    return Planned(plan.labelled(*labels))


def load_graph(graph: Graph) -> Program:
    """The program of a graph."""
    return programs.load(graph, ((), ()))[0]


def load_plan(plan: Plan, device: str) -> Program:
    """A program from a plan, say one read from JSON."""
    return get_device(device).load(plan)


__all__ = ["Device", "Storage", "download", "load_plan", "programs", "realize", "synchronize", "upload"]
