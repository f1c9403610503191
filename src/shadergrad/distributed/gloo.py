"""Process groups by gloo, PyTorch's engine on hosts. In: a store, a rank and a number of processes. Out: an Engine.

c10d's ProcessGroupGloo is called without PyTorch's Python layer above it, so that it works where the name torch stands for this
library. Its tensors share memory with the arrays.
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from .. import config
from .engines import Engine, Pending, ReduceOp
from .errors import DistBackendError, NoGroupError
from .library import c10d

LANES = {8: 8, 16: 4, 32: 2}  # connections between two processes, in groups of at most so many; larger groups have one
LEAST = 1 << 19  # the fewest bytes for which another connection pays
# processes: up to this number, gathering halves and adding them here moves no more bytes than a sum in float32
GATHERED = 4

Explain = Callable[[BaseException], str]  # what is known of why an operation failed


class Informed(Protocol):
    """An object that knows whether the other processes are alive: watch.py."""

    def explain(self, error: BaseException) -> str: ...

    def has_news(self) -> bool: ...


class Started(Pending):
    """An operation of gloo, with the tensors to which it writes."""

    may_be_watched = True

    def __init__(self, work: Any, tensors: Any, explain: Explain) -> None:
        self._work, self._tensors, self._explain = work, tensors, explain

    def wait(self, timeout: float | None = None) -> None:
        try:
            if timeout is None:
                self._work.wait()
            else:
                self._work.wait(timedelta(seconds=timeout))
        except RuntimeError as error:
            raise DistBackendError(self._explain(error)) from error

    def is_completed(self) -> bool:
        return bool(self._work.is_completed())


class Several(Pending):
    """Several operations as one Pending."""

    may_be_watched = True

    def __init__(self, parts: Sequence[Pending]) -> None:
        self._parts = parts

    def wait(self, timeout: float | None = None) -> None:
        for part in self._parts:
            part.wait(timeout)

    def is_completed(self) -> bool:
        return all(part.is_completed() for part in self._parts)


class Added(Pending):
    """The gathered halves of all processes, whose sum replaces those of this process. Sums are in float32, in the order of ranks."""

    may_be_watched = True

    def __init__(self, gathered: Pending, rows: Any, into: Any, add: Callable[..., Any]) -> None:
        self.gathered, self._rows, self._into, self._add = gathered, rows, into, add

    def wait(self, timeout: float | None = None) -> None:
        self.gathered.wait(timeout)
        self.add_up()

    def add_up(self) -> None:
        """Compute the sum of the gathered halves."""
        first, *others = self._rows
        if len(others) == 1:
            self._add(first, others[0], out=self._into)
            return
        total = first.float()
        for row in others:
            total += row
        self._into.copy_(total)

    def is_completed(self) -> bool:
        return self.gathered.is_completed()


class SeveralAdded(Several):
    """As Several, of Added. Threads share the sums, which take PyTorch longer than the transfer takes gloo."""

    def __init__(self, parts: Sequence[Added]) -> None:
        super().__init__(parts)
        self._added = parts

    def wait(self, timeout: float | None = None) -> None:
        for part in self._added:
            part.gathered.wait(timeout)
        for _ in _adders().map(Added.add_up, self._added):
            pass


class Narrowed(Pending):
    """A sum in float32, rounded to halves when it is complete."""

    may_be_watched = True

    def __init__(self, summed: Pending, wide: Any, into: Any) -> None:
        self._summed, self._wide, self._into = summed, wide, into

    def wait(self, timeout: float | None = None) -> None:
        self._summed.wait(timeout)
        self._into.copy_(self._wide)

    def is_completed(self) -> bool:
        return self._summed.is_completed()


def lanes_of(size: int) -> int:
    """The number of connections between two of so many processes, equal in all processes."""
    return next((lanes for most, lanes in LANES.items() if size <= most), 1)


class Gloo(Engine):
    """See the module. A connection of gloo moves about a gigabyte per second on any network, because one thread copies and adds. So there are
    several, and large arrays are divided among them. watch: knows whether the other processes are alive."""

    name = "gloo"

    def __init__(self, store: Any, rank: int, size: int, timeout: float, watch: Informed) -> None:
        self.rank, self.size = rank, size
        self._store, self._seconds, self._watch, self._explain = store, timeout, watch, watch.explain
        self.timeout = timeout
        self._numbers = itertools.count()
        library = c10d()
        self._c, self._tensor = library.classes, library.from_numpy
        self._bfloat16, self._add = library.bfloat16, library.add
        try:
            self._group: Any = self._c.ProcessGroupGloo(store, rank, size, self._settings())
        except RuntimeError as error:
            raise DistBackendError(self._explain(error)) from error
        _connected.add(self)

    def explain(self, error: BaseException) -> str:
        return self._explain(error)

    def has_news(self) -> bool:
        return self._watch.has_news()

    def _settings(self) -> Any:
        """Options with a device and a thread for each connection. GLOO_SOCKET_IFNAME: network interfaces, by commas, as PyTorch has it."""
        kind = self._c.ProcessGroupGloo
        options = kind._Options()
        names = [name for name in (config.launched_with("GLOO_SOCKET_IFNAME") or "").split(",") if name]
        lanes = lanes_of(self.size)
        options._devices = [
            kind.create_device(interface=names[k % len(names)]) if names else kind.create_default_device()
            for k in range(max(lanes, len(names)))
        ]
        options._threads = max(2, len(options._devices))
        options._timeout = timedelta(seconds=self._seconds)
        return options

    def _start(self, make: Callable[[], Any], *tensors: Any) -> Pending:
        if self._group is None:
            raise NoGroupError("[distributed] this process group was destroyed.")
        try:
            return Started(make(), tensors, self._explain)
        except RuntimeError as error:  # the connection is known to be broken
            raise DistBackendError(self._explain(error)) from error

    def _options(self, name: str, root: int | None = None, op: ReduceOp | None = None) -> Any:
        options = getattr(self._c, f"{name}Options")()
        if root is not None:
            options.rootRank = root
        if op is not None:
            options.reduceOp = getattr(self._c.ReduceOp, op.name)
        return options

    def all_reduce(self, array: np.ndarray, op: ReduceOp) -> Pending:
        tensor = self._tensor(array)
        is_sum_of_halves = array.dtype == np.float16 and op is ReduceOp.SUM
        return self._added(tensor.view(-1)) if is_sum_of_halves else self._reduced(tensor, op)

    def all_reduce_bfloat16(self, halves: np.ndarray) -> Pending:
        return self._added(self._tensor(halves).view(self._bfloat16).view(-1))

    def _reduced(self, tensor: Any, op: ReduceOp) -> Pending:
        options = self._options("Allreduce", op=op)
        return self._combined(
            [self._start(lambda p=p: self._group.allreduce([p], options), tensor) for p in self._parts(tensor.view(-1))]
        )

    def _added(self, halves: Any) -> Pending:
        """The sum of halves. Gloo's own sum of halves reaches only some hundred megabytes per second."""
        if self.size > GATHERED:
            wide = halves.float()
            return Narrowed(self._reduced(wide, ReduceOp.SUM), wide, halves)
        options = self._options("Allgather")
        started: list[Added] = []
        for part in self._parts(halves):
            rows = part.new_empty((self.size, part.numel()))
            begun = self._start(lambda p=part, r=rows: self._group._allgather_base(r.view(-1), p, options), part, rows)
            started.append(Added(begun, rows, part, self._add))
        return started[0] if len(started) == 1 else SeveralAdded(started)

    def _parts(self, flat: Any) -> Any:
        """The parts of an array, one for each connection."""
        return flat.split(max(LEAST // flat.element_size(), -(-flat.numel() // lanes_of(self.size))))

    @staticmethod
    def _combined(started: list[Pending]) -> Pending:
        return started[0] if len(started) == 1 else Several(started)

    def reduce(self, array: np.ndarray, root: int, op: ReduceOp) -> Pending:
        tensor = self._tensor(array)
        return self._start(lambda: self._group.reduce([tensor], self._options("Reduce", root, op)), tensor)

    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: ReduceOp) -> Pending:
        given, into = self._tensor(array.reshape(-1)), self._tensor(out.reshape(-1))
        options = self._options("ReduceScatter", op=op)
        return self._start(lambda: self._group._reduce_scatter_base(into, given, options), given, into)

    def broadcast(self, array: np.ndarray, root: int) -> Pending:
        tensor = self._tensor(array)
        return self._start(lambda: self._group.broadcast([tensor], self._options("Broadcast", root)), tensor)

    def all_gather(self, array: np.ndarray, out: np.ndarray) -> Pending:
        given, into = self._tensor(array.reshape(-1)), self._tensor(out.reshape(-1))
        return self._start(lambda: self._group._allgather_base(into, given, self._options("Allgather")), given, into)

    def gather(self, array: np.ndarray, out: np.ndarray | None, root: int) -> Pending:
        given = self._tensor(array)
        rows = [] if out is None else [[self._tensor(row) for row in out.reshape(self.size, *array.shape)]]
        return self._start(lambda: self._group.gather(rows, [given], self._options("Gather", root)), given, rows)

    def scatter(self, array: np.ndarray | None, out: np.ndarray, root: int) -> Pending:
        into = self._tensor(out)
        rows = [] if array is None else [[self._tensor(row) for row in array.reshape(self.size, *out.shape)]]
        return self._start(lambda: self._group.scatter([into], rows, self._options("Scatter", root)), into, rows)

    def all_to_all(self, array: np.ndarray, out: np.ndarray) -> Pending:
        given, into = self._tensor(array.reshape(-1)), self._tensor(out.reshape(-1))
        options = self._options("AllToAll")
        return self._start(lambda: self._group.alltoall_base(into, given, [], [], options), given, into)

    def send(self, array: np.ndarray, peer: int, tag: int) -> Pending:
        tensor = self._tensor(array)
        return self._start(lambda: self._group.send([tensor], peer, tag), tensor)

    def recv(self, array: np.ndarray, peer: int, tag: int) -> Pending:
        tensor = self._tensor(array)
        return self._start(lambda: self._group.recv([tensor], peer, tag), tensor)

    def barrier(self) -> Pending:
        return self._start(lambda: self._group.barrier(self._options("Barrier")))

    def subgroup(self, ranks: Sequence[int], timeout: float | None) -> Engine | None:
        store = self._c.PrefixStore(f"group{next(self._numbers)}", self._store)
        if self.rank not in ranks:
            return None
        seconds = self._seconds if timeout is None else timeout
        return Gloo(store, list(ranks).index(self.rank), len(ranks), seconds, self._watch)

    def close(self) -> None:
        self._group = None  # before Python ends, when its threads must have ended


@cache
def _adders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(LANES[8], os.cpu_count() or 1), "shadergrad-add")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_adders.cache_clear)  # the threads were left behind

_connected: WeakSet[Gloo] = WeakSet()


@atexit.register
def _close_all() -> None:
    """End all threads of gloo before Python ends: a thread that frees an array later aborts the process."""
    for engine in [*_connected]:
        engine.close()
