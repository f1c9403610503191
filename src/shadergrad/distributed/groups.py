"""Process groups: the connected processes, and the ones that take part in an operation."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from . import library
from .engines import Alone, Engine
from .errors import NoGroupError
from .launch import number
from .rendezvous import find
from .watch import Watch

TIMEOUT = timedelta(minutes=30)


class ProcessGroup:
    """Processes that take part in an operation, each once: `ranks`, their numbers among all processes.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.group.WORLD.ranks
    (0,)
    >>> sg.distributed.destroy_process_group()
    """

    def __init__(self, engine: Engine, ranks: Sequence[int]) -> None:
        self.engine = engine
        self.ranks = tuple(ranks)

    def rank(self) -> int:
        """The number of this process within the group."""
        return self.engine.rank

    def size(self) -> int:
        """The number of processes in the group."""
        return self.engine.size

    def number_of(self, rank: int, what: str) -> int:
        """The number within the group of the process with this global number. Raises NoGroupError if it is not in the group."""
        if rank not in self.ranks:
            raise NoGroupError(f"[distributed.{what}] rank {rank} is not in the group, which has {list(self.ranks)}.")
        return self.ranks.index(rank)


class GroupMember:
    """What new_group gives in a process that is not in the group.

    >>> sg.distributed.GroupMember.NON_GROUP_MEMBER
    -100
    """

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Any = -100


class _Groups:
    """The groups of this process."""

    def __init__(self) -> None:
        self.world: ProcessGroup | None = None
        self.others: list[ProcessGroup] = []
        self.watch: Watch | None = None
        self.made = 0  # how often this process has connected with the others
        self.held: list[tuple[Any, Watch]] = []  # stores that end with this process


_groups = _Groups()


class _Group(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _groups.world


class group(metaclass=_Group):
    """`group.WORLD` is the group of all processes, None before init_process_group.

    >>> sg.distributed.group.WORLD is None
    True
    """


def is_available() -> bool:
    """Whether PyTorch, whose engine connects processes, is installed. A single process needs nothing.

    >>> sg.distributed.is_available() in (True, False)
    True
    """
    return library.is_installed()


def is_initialized() -> bool:
    """Whether init_process_group was called, and destroy_process_group was not since.

    >>> sg.distributed.is_initialized()
    False
    """
    return _groups.world is not None


def get_rank(group: Any = None) -> int:
    """The number of this process in the group, -1 where it is not in it; 0 without a group (PyTorch raises).

    >>> sg.distributed.get_rank()
    0
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return 0 if group is None and _groups.world is None else chosen(group, "get_rank").rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in the group, -1 where this one is not in it; 1 without a group (PyTorch raises).

    >>> sg.distributed.get_world_size()
    1
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return 1 if group is None and _groups.world is None else chosen(group, "get_world_size").size()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine: the environment variable LOCAL_RANK, else `fallback_rank`, else 0
    (PyTorch raises).

    >>> sg.distributed.get_node_local_rank()
    0
    """
    return number("LOCAL_RANK", fallback_rank or 0)


def get_backend(group: Any = None) -> str:
    """The engine of a group: "gloo" or "mpi". Raises NoGroupError without one.

    >>> try:
    ...     sg.distributed.get_backend()
    ... except sg.distributed.DistError as error:
    ...     print(str(error)[:25])
    [distributed.get_backend]
    """
    return chosen(group, "get_backend").engine.name


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The numbers of a group's processes among all. Raises NoGroupError without a group.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.get_process_group_ranks()
    [0]
    >>> sg.distributed.destroy_process_group()
    """
    return list(chosen(group, "get_process_group_ranks").ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number among all processes of number `group_rank` in a group. Raises NoGroupError where there is none.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.get_global_rank(None, 0)
    0
    >>> sg.distributed.destroy_process_group()
    """
    found = chosen(group, "get_global_rank")
    if not 0 <= group_rank < found.size():
        raise NoGroupError(
            f"[distributed.get_global_rank] the group has {found.size()} processes, and no {group_rank}."
        )
    return found.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in a group of a process, by its number among all. Raises NoGroupError where it is not in the group.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.get_group_rank(None, 0)
    0
    >>> sg.distributed.destroy_process_group()
    """
    return chosen(group, "get_group_rank").number_of(global_rank, "get_group_rank")


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Connect this process with the others: all of them call it, and go on when all have.

    backend: "gloo" (PyTorch's, the default) or "mpi" (mpi4py, started by mpirun). "nccl" is taken for gloo, with a warning: WebGPU
    devices exchange values through host memory. init_method: "env://" (the default: what torchrun sets), "tcp://HOST:PORT" or
    "file:///PATH", the last two with rank and world_size. store: instead of it, what TCPStore, FileStore or PrefixStore gave.
    timeout: a timedelta or seconds for finding each other and for each operation; by default half an hour; MPI has no time limits. device_id: of the
    card of this process, is not needed. Of a single process (rank 0 of 1) nothing is asked.

    Raises NoGroupError where something is missing, or there is a group already; DistNetworkError where the others are not found;
    MissingPackageError without PyTorch or mpi4py.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.get_world_size()
    1
    >>> sg.distributed.destroy_process_group()
    """
    if _groups.world is not None:
        raise NoGroupError(
            "[init_process_group] trying to initialize the default process group twice! Hint: destroy_process_group() first."
        )
    if pg_options is not None:
        raise NoGroupError(
            "[init_process_group] pg_options are options of NCCL's, which is not there. Hint: leave them out."
        )
    seconds = seconds_of(TIMEOUT if timeout is None else timeout)
    if not seconds > 0.0:
        raise NoGroupError(
            f"[init_process_group] timeout is {timeout!r}; it must be positive: a timedelta, or seconds."
        )
    if backend_of(backend) == "mpi":
        engine = _mpi(init_method, store, rank, world_size, timeout)
    else:
        engine = _gloo(init_method, store, rank, world_size, seconds)
    _groups.world = ProcessGroup(engine, range(engine.size))
    GroupMember.WORLD = _groups.world


def seconds_of(timeout: timedelta | float) -> float:
    """A time in seconds. Raises NoGroupError for another object."""
    try:
        return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    except (TypeError, ValueError):
        raise NoGroupError(f"[distributed] timeout is {timeout!r}. Hint: a timedelta, or seconds.") from None


def backend_of(backend: str | None) -> str:
    """The engine that a name means: "cpu:gloo,cuda:nccl" names one for each kind of device."""
    names = {part.rpartition(":")[2] for part in (backend or "gloo").lower().split(",")}
    if "nccl" in names:
        warnings.warn(
            "there is no NCCL here: gloo carries the values of WebGPU devices, through host memory. Hint: "
            'init_process_group("gloo").',
            stacklevel=3,
        )
        names = names - {"nccl"} or {"gloo"}
    if len(names) != 1 or not names <= {"gloo", "mpi"}:
        raise NoGroupError(f"[init_process_group] there is no backend {backend!r}. Known: gloo, mpi.")
    return names.pop()


def _gloo(method: str | None, store: Any, rank: int, size: int, timeout: float) -> Engine:
    place = find(method, store, rank, size, timeout)
    if place.size == 1:
        return Alone()
    from .gloo import Gloo  # for those who need it: it imports PyTorch

    classes = library.c10d().classes
    store, signs = (classes.PrefixStore(f"group{_groups.made}", s) for s in (place.store, place.signs))
    _refuse_twice(store, place.rank)
    beats = not isinstance(_innermost(place.store), classes.FileStore)  # which would grow by each heartbeat
    watch = Watch(classes.PrefixStore("watch", signs), place.rank, place.size, place.holds_store, beats)
    if place.holds_store == place.rank:
        _groups.held.append((place.store, watch))
    watch.start()
    _groups.watch = watch
    atexit.register(_end)
    try:
        engine = Gloo(classes.PrefixStore("world", store), place.rank, place.size, timeout, watch)
        engine.barrier().wait()
    except BaseException:
        watch.stop()
        _groups.watch = None
        _groups.held = [(store, held_by) for store, held_by in _groups.held if held_by is not watch]
        raise
    _groups.made += 1
    return engine


def _innermost(store: Any) -> Any:
    """The store behind prefixes."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _refuse_twice(store: Any, rank: int) -> None:
    """Raises NoGroupError if another process has this rank already."""
    if store.add(f"started/{rank}", 1) > 1:
        raise NoGroupError(
            f"[init_process_group] another process has started as rank {rank} already. Hint: each needs a rank of its own, and "
            "another start another port or file."
        )


def _mpi(method: str | None, store: Any, rank: int, size: int, timeout: Any) -> Engine:
    """MPI's processes. mpirun decides rank and size. Raises NoGroupError for arguments that contradict it."""
    from .mpi import Mpi  # for those who need it: it imports mpi4py

    if method not in (None, "env://") or store is not None:
        raise NoGroupError(
            '[init_process_group] the backend "mpi" takes no init_method and no store: mpirun connects the processes. Hint: leave them out.'
        )
    if timeout is not None:
        warnings.warn('the backend "mpi" has no time limits: timeout has no effect.', stacklevel=3)
    engine = Mpi.world()
    if rank not in (-1, engine.rank) or size not in (-1, engine.size):
        raise NoGroupError(
            f"[init_process_group] rank={rank} and world_size={size}, but mpirun has made this process rank {engine.rank} of {engine.size}. "
            "Hint: leave them out."
        )
    return engine


def _leave() -> None:
    """Leave the group, also at the end of the process: no thread of the engine may outlive Python, and the others must not count this process
    as killed."""
    if _groups.watch is not None:
        _groups.watch.say_done()
        _groups.watch.stop()
        _groups.watch = None
    for each in (*_groups.others, *filter(None, [_groups.world])):
        each.engine.close()
    _groups.others.clear()
    _groups.world = GroupMember.WORLD = None


def _end() -> None:
    """Leave, and take no store away from those who go on."""
    _leave()
    for _, watch in _groups.held:
        watch.see_off()
    _groups.held.clear()


def destroy_process_group(group: Any = None) -> None:
    """Leave all groups; without a group nothing happens (PyTorch raises). group: leave only this group, a result of new_group.

    >>> sg.distributed.destroy_process_group()
    """
    if group is not None and group is not _groups.world:
        if group in _groups.others:
            _groups.others.remove(group)
            group.engine.close()
        return
    _leave()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes. All processes call it, in the same order, also those that are not in it, which get
    GroupMember.NON_GROUP_MEMBER. ranks: by default all. timeout: by default that of init_process_group.

    Raises NoGroupError without a group, for ranks that there are not, and for another backend.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.new_group([0]).size()
    1
    >>> sg.distributed.destroy_process_group()
    """
    world = chosen(None, "new_group")
    chosen_ranks = sorted(range(world.size()) if ranks is None else ranks)
    if pg_options is not None or use_local_synchronization:
        raise NoGroupError("[new_group] pg_options and use_local_synchronization are not there. Hint: leave them out.")
    if len(set(chosen_ranks)) < len(chosen_ranks) or not set(chosen_ranks) <= set(world.ranks):
        raise NoGroupError(f"[new_group] ranks are {chosen_ranks}; there are 0 to {world.size() - 1}, each once.")
    if backend is not None and backend_of(backend) != world.engine.name:
        raise NoGroupError(f"[new_group] the backend of all groups is {world.engine.name!r}, not {backend!r}.")
    engine = world.engine.subgroup(chosen_ranks, None if timeout is None else seconds_of(timeout))
    if engine is None:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(engine, chosen_ranks)
    _groups.others.append(made)
    return made


def chosen(group: Any, what: str) -> ProcessGroup:
    """The group of a call. Raises NoGroupError without a group, and in a process outside the group."""
    if group is None:
        group = _groups.world
    if group is None:
        raise NoGroupError(
            f"[distributed.{what}] there is no process group: Default process group has not been initialized, please make sure to call "
            "init_process_group. Hint: is_initialized() says so."
        )
    if not isinstance(group, ProcessGroup):
        raise NoGroupError(f"[distributed.{what}] this process is not in the group, or {group!r} is none.")
    return group
