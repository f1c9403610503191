"""Recognises repeated sequences of operators, and replays them instead of recording them again.

A training loop calls the same operators in each step. From the third time on, the calls follow a tree of entries (entries.py): each
operator's arguments are compared with those of the earlier step, and its results are tensors whose values are promised. The sequence
ends when a value is read, the device computes, or another operator is called. Then the promised values that are still referenced become
results of one composition (graph/composition.py), whose program is found by its short key, without building a graph.

The first time, an operator's key is noted; the second time, its nodes are recorded. Operators that depend on more than their arguments
(random numbers, values that were read, host tensors) are never recorded: they run as usual, and their results count as values from
outside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch

from .. import symbolic_sizes
from ..drive import execute
from ..drive.tracing import current
from ..graph import node as nodes
from ..graph.composition import Row
from ..graph.node import Node, mode
from ..graph.primitive import WITHOUT_TENSORS
from ..runtime import timing
from ..tensor import flush as compute
from ..tensor import pending
from ..tensor.generator import watching_draws
from ..tensor.precision import here
from .entries import (
    PLAIN,
    Entry,
    Given,
    Items,
    Number,
    Plain,
    Seen,
    differs,
    in_order,
    key_of,
    leaves_of,
    specs_of,
    with_numbers,
)
from .replays import MISS, replay_of
from .runs import Run
from .storage import Cell, Place, Unlike, cell_of, constant, offset_of, wrap

Kernel = Callable[..., Any]
MOST_OPERATORS = 5_000  # per sequence
MOST_ALIKE = 8  # successors of an entry that differ only in the values that they take
MOST_NOTED = 200_000
MOST_ENTRIES = 20_000


class _Recording:
    """A sequence that is being recorded. at: its last entry. beside: the earlier entry at this point that has other numbers. inputs: the
    number of values that it took from outside. places: the places of its values, by the ids of nodes; the nodes are kept, so that ids stay
    unique.
    """

    def __init__(self, at: Entry) -> None:
        self.at = at
        self.beside: Entry | None = None
        self.inputs = at.inputs
        self.places: dict[int, int] = {}
        self._kept: list[Node] = []

    def note(self, node: Node, place: int) -> None:
        self.places[id(node)] = place
        self._kept.append(node)

    def is_read(self, made: list[Node]) -> bool:
        """Whether some of these nodes depend on values that the sequence computed."""
        return any(self.places.get(id(i), -1) >= 0 for node in made for i in node.inputs)


class _Tree:
    """The recorded sequences. noted: hashes of operators together with all preceding ones. apart: keys of operators that are never
    recorded. count: the number of entries.
    """

    def __init__(self) -> None:
        self.roots: dict[Any, Entry] = {}
        self.noted: set[int] = set()
        self.apart: set[int] = set()
        self.count = 0

    def root(self, *what: Any) -> Entry:
        """The first entry for a device and a default dtype."""
        return self.roots.get(what) or self.roots.setdefault(what, Entry(None, 0, 0))

    def make_room(self) -> None:
        if self.count > MOST_ENTRIES or len(self.noted) > MOST_NOTED:
            self.forget()

    def forget(self) -> None:
        self.roots.clear()
        self.noted.clear()
        self.apart.clear()
        self.count = 0


class _State(threading.local):
    """The state of a thread. run: the sequence that it replays; recording: the sequence that it records. Without either, it notes operators
    until the next sequence begins; chain: the hash of the last noted one. inside: an operator runs, and the operators that it calls are part
    of it.
    """

    inside: bool = False
    run: Run | None = None
    recording: _Recording | None = None
    chain: int = 0
    length: int = 0


tree = _Tree()
state = _State()


def begin() -> None:
    """End the sequence that this thread replays or records; the next operator begins another."""
    run, state.run, state.recording = state.run, None, None
    if run is not None and not run.is_over:
        run.end()
        pending.bound()
    tree.make_room()
    dtype = torch.get_default_dtype()
    state.run = Run(tree.root(Place.device, dtype), Place.device, dtype)
    state.chain = state.length = 0


def flush() -> None:
    """Start computing all values that are still referenced."""
    run = state.run
    if run is not None and run.cells and not run.is_over:
        run.compute()
    begin()
    compute()


def followed(op: Any, kernel: Kernel) -> Kernel:
    """A kernel with recording and replay, for the dispatcher to call."""

    name = id(op)  # hashed at once; an operator's own hash is Python
    default_dtype = torch.get_default_dtype

    def call(*args: Any, **kwargs: Any) -> Any:
        if state.inside or mode.heard or current.trace is not None or timing.listeners or symbolic_sizes.follows:
            return kernel(*args, **kwargs)
        run = state.run
        if run is not None and not run.is_over and run.dtype is default_dtype() and not here.kinds:
            for entry in run.at.behind.get(name, ()):
                found = entry.replay(run, args, kwargs)
                if found is not MISS:
                    return found
        return _other(op, kernel, args, kwargs)

    return call


def _other(op: Any, kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """Handles an operator that no entry matches."""
    try:
        leaves = leaves_of(in_order(args, kwargs), [])
        key = key_of(op, leaves)
    except (Unlike, TypeError):
        return _apart(kernel, args, kwargs)
    if key in tree.apart or here.kinds:
        return _apart(kernel, args, kwargs)
    run, recording = state.run, state.recording
    is_new = run is None and recording is None and not state.chain
    if is_new or (run is not None and (run.is_over or run.dtype is not torch.get_default_dtype())):
        begin()
        return followed(op, kernel)(*args, **kwargs)
    state.length += 1
    before = run.at if run is not None else recording.at if recording is not None else None
    if state.length > MOST_OPERATORS or (before is not None and before.depth >= MOST_OPERATORS):
        begin()
        return followed(op, kernel)(*args, **kwargs)
    chain = hash((state.chain if before is None else before.chain, key))
    if before is None or chain not in tree.noted:
        tree.noted.add(chain)
        state.chain, state.run, state.recording = chain, None, None
        if run is not None:
            run.end()
        return _apart(kernel, args, kwargs)
    if run is not None:
        state.run, state.recording = None, _recording_from(run)
    return _recorded(op, kernel, args, kwargs, leaves, key, chain)


def _recording_from(run: Run) -> _Recording:
    """Ends a replay, and continues as a recording at the same point of the sequence."""
    recording = _Recording(run.at)
    for place, node in run.end().items():
        recording.note(node, place)
    for k, node in enumerate(run.inputs):
        recording.note(node, -1 - k)
    return recording


def _apart(kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """Runs an operator that is not recorded. If it reads values on the host, or recorded values, a new sequence begins."""
    recording, downloads = state.recording, execute.downloads
    state.inside = True
    try:
        if recording is None:
            result = kernel(*args, **kwargs)
            is_read = False
        else:
            with nodes.nodes_of() as made:
                result = kernel(*args, **kwargs)
            is_read = recording.is_read(made)
    finally:
        state.inside = False
    if is_read or execute.downloads != downloads:
        begin()
    return result


def _recorded(op: Any, kernel: Kernel, args: Any, kwargs: Any, leaves: list[Any], key: int, chain: int) -> Any:
    """Run an operator and add its nodes to the tree, or add its key to the operators that are never recorded."""
    recording = state.recording
    assert recording is not None
    alike = recording.at.behind.setdefault(id(op), [])
    beside = recording.beside.behind.get(id(op), ()) if recording.beside is not None else ()
    twin = next((e for e in (*alike, *beside) if e.key == key), None)
    changed = _changed_numbers(twin, leaves) if twin is not None else ()
    if len(alike) >= MOST_ALIKE:
        tree.apart.add(key)
        return _apart(kernel, args, kwargs)
    if changed and not _takes_tensors_as_numbers(op, leaves):
        tree.apart.add(key)
        return _apart(kernel, args, kwargs)
    call = _Call(recording, leaves, changed)
    if call.put:
        given = with_numbers(in_order(args, kwargs), call.put, [0])
        named = given[len(args) :]
        given, named = given[: len(args)], dict(zip(named[::2], named[1::2], strict=True))
    else:
        given, named = args, kwargs
    state.inside, downloads = True, execute.downloads
    try:
        with nodes.nodes_of() as made, watching_draws() as drawn:
            result = kernel(*given, **named)
    except Exception:
        state.inside = False
        if call.put:  # the kernel reads the number, so a tensor cannot replace it
            call.undo()
            tree.apart.add(key)
            return _apart(kernel, args, kwargs)
        begin()
        raise
    finally:
        state.inside = False
    entry = Entry(recording.at, key, chain)
    is_whole = not drawn and execute.downloads == downloads and call.tell(entry, result, made)
    if is_whole:
        specs = specs_of(in_order(args, kwargs), iter(entry.leaves))
        entry.replay = replay_of(entry, specs[: len(args)], dict(zip(kwargs, specs[len(args) + 1 :: 2], strict=True)))
        if changed and twin in alike:
            alike.remove(twin)
        alike.append(entry)
        recording.at, recording.beside = entry, twin
        tree.count += 1
        return result
    tree.apart.add(key)
    if execute.downloads != downloads or recording.is_read(made):
        begin()
    return result


def _takes_tensors_as_numbers(op: Any, leaves: list[Any]) -> bool:
    """Whether a 0-d float32 tensor can replace a number: in elementwise operators on float32 tensors."""
    is_elementwise = torch.Tag.pointwise in getattr(op, "tags", ()) or str(op).startswith(
        ("aten._foreach_", "aten._fused_")
    )
    return is_elementwise and all(a.dtype is torch.float32 for a in leaves if isinstance(a, torch.Tensor))


def _changed_numbers(twin: Entry, leaves: list[Any]) -> tuple[int, ...]:
    """The positions of numbers among the leaves that differ from those of an entry, or differed before."""
    if len(leaves) != len(twin.leaves):
        return ()
    return tuple(
        [
            k
            for k, (a, e) in enumerate(zip(leaves, twin.leaves, strict=True))
            if type(a) is float and (type(e) is Number or differs(a, e))
        ]
    )


class _Call:
    """An operator that is being recorded. put: the tensors that replace changing numbers, by the position of the leaf."""

    def __init__(self, recording: _Recording, leaves: list[Any], changed: tuple[int, ...]) -> None:
        self.recording = recording
        self.leaves = leaves
        self.put: dict[int, Any] = {}
        self.specs: list[Any] = []
        self.fresh: dict[int, int] = {}  # the places of nodes that come from outside, by id
        self.nodes: list[Node] = []  # the nodes of `fresh`
        self.cells: dict[int, tuple[int, Cell, Node]] = {}  # by id, with the tensor's position and the previous value
        self.tensors = [a for a in leaves if isinstance(a, torch.Tensor)]
        at = 0
        for k, a in enumerate(leaves):
            if isinstance(a, torch.Tensor):
                self.specs.append(self._seen(at, a))
                at += 1
            elif k in changed:
                number = constant(a)
                self.put[k] = wrap(number)
                self.specs.append(Number(self._place(number._node)))
            else:
                self.specs.append(a)

    def _place(self, node: Node) -> int:
        place = self.recording.places.get(id(node))
        if place is None:
            place = self.fresh.get(id(node))
        if place is None:
            place = self.fresh[id(node)] = -1 - self.recording.inputs - len(self.nodes)
            self.nodes.append(node)
        return place

    def _seen(self, k: int, a: torch.Tensor) -> Seen:
        cell = cell_of(a)
        node = cell.node
        self.cells.setdefault(id(cell), (k, cell, node))
        return Seen(self._place(node), tuple(a.shape), a.stride(), offset_of(a), a.dtype, node.shape, node.dtype)

    def undo(self) -> None:
        """Restore the arguments' old values after an operator that failed may have overwritten some."""
        for _, cell, node in self.cells.values():
            if cell.node is not node:
                cell.keep(node)

    def tell(self, entry: Entry, result: Any, made: list[Node]) -> bool:
        """Record the operator's actions in an entry. False if they cannot be recorded."""
        for a, e in zip(self.leaves, self.specs, strict=True):
            if type(e) is Seen and (e.shape, e.stride, e.offset) != (tuple(a.shape), a.stride(), a.storage_offset()):
                return False  # the operator changed the size of its argument
        results = result if isinstance(result, (tuple, list)) else () if result is None else (result,)
        ends: list[Node] = []
        told: list[Any] = []
        for r in results:
            told.append(self._told(r, ends))
            if told[-1] is None:
                return False
        written = [(k, cell.node) for k, cell, node in self.cells.values() if cell.node is not node]
        if len(written) > 1 and not self._are_alone([k for k, _ in written]):
            return False
        rows = self._rows([*ends, *[node for _, node in written]], made)
        if rows is None:
            return False
        entry.rows = tuple([row for _, row in rows])
        for node in self.nodes:
            self.recording.note(node, self.fresh[id(node)])
        for node, _ in rows:
            self.recording.note(node, entry.count)
            entry.count += 1
        entry.inputs = self.recording.inputs = self.recording.inputs + len(self.nodes)
        places = self.recording.places
        left = iter([places[id(node)] for node in ends])
        entry.given = tuple([_placed(t, left) for t in told])
        entry.written = tuple([(k, places[id(node)]) for k, node in written])
        entry.kind = list if type(result) is list else tuple if isinstance(result, tuple) else None  # named tuples too
        entry.leaves = tuple(self.specs)
        entry.offsets = [e.offset for e in self.specs if type(e) is Seen]
        return True

    def _are_alone(self, written: list[int]) -> bool:
        """Whether each written argument has a value that no other argument has. Then no other argument can share its memory, now or later,
        and be read or written after it.
        """
        taken = [e.place for e in self.specs if type(e) is Seen]
        return all(taken.count(taken[k]) == 1 for k in written)

    def _rows(self, ends: list[Node], made: list[Node]) -> list[tuple[Node, Row]] | None:
        """The nodes that the operator added, in order; None if they depend on anything but its arguments."""
        ours = {id(node) for node in made}
        count, added = self.recording.at.count, dict(self.fresh)
        rows: list[tuple[Node, Row]] = []

        def place(node: Node) -> int | None:
            found = added.get(id(node))
            return self.recording.places.get(id(node)) if found is None else found

        for node in nodes.topological(ends, lambda n: () if place(n) is not None else n.inputs):
            if place(node) is not None:
                continue
            is_plain = type(node.primitive).__module__.startswith(WITHOUT_TENSORS)
            if id(node) not in ours or not is_plain or node.device != Place.device or node.storage is not None:
                return None
            inputs = tuple([cast(int, place(i)) for i in node.inputs])
            rows.append((node, (node.primitive, inputs, node.shape, node.dtype, False)))
            added[id(node)] = count + len(rows) - 1
        return rows

    def _told(self, r: Any, ends: list[Node]) -> Any:
        """An entry's description of a result; None if there is none."""
        if type(r) in PLAIN:
            return Plain(r)
        if type(r) is list or type(r) is tuple:
            items = tuple([self._told(x, ends) for x in r])
            return None if any(i is None for i in items) else Items(items)
        if not isinstance(r, torch.Tensor):
            return None
        for k, a in enumerate(self.tensors):
            if a is r:
                return k
        cell = getattr(r.untyped_storage(), "cell", None)
        if cell is None or id(cell) in self.cells or r.storage_offset() or r.is_neg() or r.is_conj():
            return None
        self.cells[id(cell)] = (-1, cell, cell.node)  # no other result may use the same memory
        ends.append(cell.node)
        return Given(0, tuple(r.shape), r.stride(), r.dtype)


def _placed(told: Any, places: Iterator[int]) -> Any:
    """An entry's description of a result, with the places of the operator's values."""
    if type(told) is Items:
        return Items(tuple([_placed(t, places) for t in told.items]))
    return told._replace(place=next(places)) if type(told) is Given else told
