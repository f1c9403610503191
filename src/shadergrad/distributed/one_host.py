"""Exchanges between processes of one host through shared memory: each device reads the values of all processes and adds them itself.

In: the storage of this process's value. Out: the storages of the values of all processes. The host neither copies nor adds values if the device can
access host memory (`Device.adopt`).

For each exchange a process creates an anonymous file (memfd), which the others open in /proc and map. It holds a page of marks and two buffers
for the value, used in alternate turns. The kernel frees it when all processes have ended or closed it. In turn t a process's device copies the value to
buffer t mod 2; when the copy is complete, the process sets its mark to t. It reads the others' buffers once their marks have reached t.

Two buffers suffice. Turn t + 2 overwrites the values of turn t. It begins when the others have marked t + 1, and a process begins turn t + 1 after it has
started to read turn t (drive/travelling.py), so that its device copies behind that reading. (tests/processes/test_one_host.py)
"""

from __future__ import annotations

import mmap
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DeviceError
from ..graph.node import Node
from ..plan import round_up
from ..runtime.device import Device, Storage, get_device
from .engines import Engine, ReduceOp
from .errors import DistBackendError

MOST = 4  # processes: the traffic of a device grows with their number, unlike that of a ring
PAGE = mmap.PAGESIZE
TOKEN, TURN = 0, 1  # indices of marks
BROKEN = -1  # the mark of a process that has ended the exchange
LOOK = 0.01  # seconds between checks for ended processes and the timeout
PAUSE = 1e-4  # seconds between polls
NOBODY = -1
NAME = "shadergrad"  # of the files: people see it, and `_found` checks it


class Mapped:
    """The file of one process, mapped. nbytes: the size of a buffer, a multiple of a page."""

    def __init__(self, fd: int, nbytes: int) -> None:
        whole = np.frombuffer(mmap.mmap(fd, PAGE + 2 * nbytes), np.uint8)
        self.marks = whole[:PAGE].view(np.int64)
        self.places = [whole[start : start + nbytes] for start in (PAGE, PAGE + nbytes)]


class Others:
    """Watches for the end of other processes. engine: explains why an exchange failed."""

    def __init__(self, engine: Engine, pids: Sequence[int]) -> None:
        self._engine = engine
        self._ends = select.poll()
        self._opened: list[int] = []
        for pid in pids:
            self._opened.append(os.pidfd_open(pid))
            self._ends.register(self._opened[-1], select.POLLIN)

    def __del__(self) -> None:
        for fd in self._opened:
            with suppress(OSError):
                os.close(fd)

    def have_ended(self) -> bool:
        """Whether one of them has ended, or counts as ended: it may be suspended."""
        return bool(self._ends.poll(0)) or self._engine.has_news()

    def fail(self, why: str) -> None:
        """Raise DistBackendError, with what the engine knows about the failure of another process."""
        error = RuntimeError(why)
        raise DistBackendError(self._engine.explain(error)) from error


@dataclass
class Turn:
    """One turn of an exchange. given: this process's value. is_copied: whether it has been copied to the buffer."""

    number: int
    given: Storage | None
    is_copied: Callable[[], bool]
    begun: float = field(default_factory=time.monotonic)
    looked: float = 0.0


class OneHost:
    """The exchange with one number. mapped: the files of all processes, by rank."""

    def __init__(self, engine: Engine, others: Others, mapped: list[Mapped], like: Node) -> None:
        self._rank, self._timeout = engine.rank, engine.timeout
        self._others, self._mapped = others, mapped
        self._device: Device = get_device(like.device)
        self._shape, self._dtype = like.shape, like.dtype
        self._storages: dict[tuple[int, int], Storage] = {}  # over places, by rank and place
        self._latest: Turn | None = None
        self._unmarked: list[Turn] = []

    def begin(self, given: Storage) -> Turn:
        """See primitives/exchange.py."""
        self._have_marked(0)  # raises if the exchange has ended
        number = 1 if self._latest is None else self._latest.number + 1
        self._wait_until_read()
        with self._breaking():
            is_copied = self._device.begin_copy(given, self.storage(self._rank, number))
        self._latest = Turn(number, given, is_copied)
        self._unmarked.append(self._latest)
        return self._latest

    def is_done(self, turn: Turn) -> bool:
        """See primitives/exchange.py."""
        self._mark()
        return self._have_marked(turn.number) or self._look_after(turn)

    def finish(self, turn: Turn) -> list[Storage]:
        """See primitives/exchange.py."""
        _publish()
        own, turn.given = turn.given, None
        assert own is not None
        return [own if rank == self._rank else self.storage(rank, turn.number) for rank in range(len(self._mapped))]

    def _mark(self) -> None:
        """Set this process's mark to the last turn whose copy is complete."""
        while self._unmarked:
            with self._breaking():
                if not self._unmarked[0].is_copied():
                    return
            _publish()
            self._mapped[self._rank].marks[TURN] = self._unmarked[
                0
            ].number  # before the deletion: after an interrupt in between, the turn is marked again
            del self._unmarked[0]

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """A device error ends the exchange in all processes, because they would take the next turn for this one."""
        try:
            yield
        except DeviceError:
            self.end()
            raise

    def end(self) -> None:
        """See primitives/exchange.py."""
        self._unmarked.clear()
        self._mapped[self._rank].marks[TURN] = BROKEN

    def _have_marked(self, number: int) -> bool:
        turns = [int(mapped.marks[TURN]) for mapped in self._mapped]
        if BROKEN in turns:
            rank = turns.index(BROKEN)
            self._others.fail(
                f"rank {rank} of the group had an error in an exchange, after which values would be taken for others"
            )
        return min(turns) >= number

    def _look_after(self, turn: Turn) -> bool:
        """Every LOOK seconds: raise an error if another process has ended or the timeout has passed. Returns whether all marks have been set."""
        now = time.monotonic()
        if now - turn.looked < LOOK:
            return False
        turn.looked = now
        if self._others.have_ended():
            if self._have_marked(turn.number):
                return True  # it ended after its part was complete
            self._others.fail("a process of this host has ended, of which a value is missing")
        if self._timeout is not None and now - turn.begun > self._timeout:
            self._others.fail(f"timed out after {self._timeout:g} s without the value of another process")
        return False

    def _wait_until_read(self) -> None:
        """Wait until no other process reads the buffer of the turn before the last. It waits only if the last turn is not finished."""
        before = self._latest
        while before is not None and not self.is_done(before):
            time.sleep(PAUSE)

    def storage(self, rank: int, number: int) -> Storage:
        """The storage over the buffer of a process in a turn."""
        key = rank, number % 2
        known = self._storages.get(key)
        if known is None or not self._device.holds(known):
            known = self._device.adopt(self._mapped[rank].places[key[1]], self._shape, self._dtype)
            self._storages[key] = known
        return known


_lock = threading.Lock()


def _publish() -> None:
    """A memory barrier, for processors that reorder accesses: accesses before the release of a lock precede those after its next
    acquisition."""
    for _ in range(2):
        with _lock:
            pass


def joined(
    engine: Engine, like: Node, given: Storage, known: dict[tuple[int, ...], Others] | None = None
) -> OneHost | None:
    """The exchange for values like a node's; None in all processes if they are not on one host, or a device cannot access the memory.

    All processes call it at the same point of the program. known: watchers of other processes by their pids, which several exchanges share.
    """
    nbytes = round_up(max(given.nbytes, 1), PAGE)
    able = get_device(like.device).shares_memory and engine.size <= MOST and hasattr(os, "memfd_create")
    fd, token = _made(nbytes) if able else (NOBODY, 0)
    own = np.array([fd, os.getpid(), token, nbytes], np.int64)
    everyone = np.empty((engine.size, 4), np.int64)
    try:
        engine.all_gather(own, everyone).wait()
        found = _found(everyone, engine, nbytes, {} if known is None else known)
        made = None if found is None else _adopted(OneHost(engine, *found, like), engine.size)
        agreed = np.array([made is not None], np.int32)
        engine.all_reduce(agreed, ReduceOp.MIN).wait()
    finally:
        if fd != NOBODY:
            os.close(fd)
    return made if agreed[0] else None


def _adopted(exchange: OneHost, size: int) -> OneHost | None:
    """The exchange, if this process's device can use all buffers; a driver may refuse memory of another process although it accepts its own."""
    try:
        for rank in range(size):
            for number in range(2):
                exchange.storage(rank, number)
    except DeviceError:
        return None
    return exchange


def _made(nbytes: int) -> tuple[int, int]:
    """Create the file of this process. Returns its descriptor and a random token; NOBODY if there is no memory for it."""
    token = int.from_bytes(os.urandom(7), "little")
    try:
        fd = os.memfd_create(NAME)
    except OSError:
        return NOBODY, 0
    try:
        os.posix_fallocate(fd, 0, PAGE + 2 * nbytes)  # now: a lack of memory at a later write would kill the process
        os.pwrite(fd, np.array([token, 0], np.int64).tobytes(), 0)
    except OSError:
        os.close(fd)
        return NOBODY, 0
    return fd, token


def _found(
    everyone: np.ndarray, engine: Engine, nbytes: int, known: dict[tuple[int, ...], Others]
) -> tuple[Others, list[Mapped]] | None:
    """Open the files of all processes; None if one cannot be found, for example on another host."""
    mapped = []
    try:
        for fd, pid, token, theirs in everyone.tolist():
            if fd == NOBODY or theirs != nbytes:
                return None
            link = f"/proc/{pid}/fd/{fd}"
            if not os.readlink(link).startswith(
                f"/memfd:{NAME}"
            ):  # on another host the numbers may name another program's file
                return None
            own = os.open(link, os.O_RDWR | os.O_CLOEXEC)
            try:
                if os.fstat(own).st_size != PAGE + 2 * nbytes:
                    return None
                mapped.append(Mapped(own, nbytes))
            finally:
                os.close(own)
            if mapped[-1].marks[TOKEN] != token:
                return None
        pids = tuple(pid for rank, (_, pid, *_) in enumerate(everyone.tolist()) if rank != engine.rank)
        if pids not in known:
            known[pids] = Others(engine, pids)
        return known[pids], mapped
    except (OSError, ValueError, AttributeError):
        return None


class Routes:
    """The exchanges of a channel through shared memory, by number."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[Any, OneHost] = {}
        self._others: dict[tuple[int, ...], Others] = {}
        self._is_apart = engine.size < 2  # the same in all processes

    def of(self, like: Node, given: Storage, send_all: Callable[[], None]) -> OneHost | None:
        """The route of an exchange; None if gloo exchanges the values. All processes call it in the same order. send_all: called before they agree
        on a new one."""
        if self._is_apart:
            return None
        key = like.primitive.number, like.shape, like.dtype, like.device  # type: ignore[attr-defined]
        if key not in self._known:
            send_all()
            made = joined(self._engine, like, given, self._others)
            if made is None:
                self._is_apart = True
                return None
            self._known[key] = made
        return self._known[key]

    def forget(self) -> None:
        """Free the memory and the files when the channel is no longer used. Cached plans keep the channel, and so this object, alive."""
        self._known.clear()
        self._others.clear()
