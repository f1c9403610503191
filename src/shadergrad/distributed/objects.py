"""Collective operations on Python objects. They are pickled, so the processes must trust each other."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from .collectives import raw, root_of
from .errors import NoGroupError
from .groups import GroupMember, ProcessGroup, chosen


def all_objects(value: Any, group: ProcessGroup) -> list[Any]:
    """The objects of all processes."""
    data = np.frombuffer(pickle.dumps(value), np.uint8)
    lengths = np.empty(group.size(), np.int64)
    group.engine.all_gather(raw(np.array([data.size], np.int64)), raw(lengths)).wait()
    most = int(lengths.max())
    padded, out = np.zeros(most, np.uint8), np.empty((group.size(), most), np.uint8)
    padded[: data.size] = data
    group.engine.all_gather(padded, raw(out)).wait()
    return [pickle.loads(row[:length].tobytes()) for row, length in zip(out, lengths.tolist(), strict=True)]


def from_root(value: Any, root: int, group: ProcessGroup) -> Any:
    """The object of one process."""
    data = np.frombuffer(pickle.dumps(value), np.uint8).copy() if group.rank() == root else np.empty(0, np.uint8)
    length = np.array([data.size], np.int64)
    group.engine.broadcast(raw(length), root).wait()
    if group.rank() != root:
        data = np.empty(int(length[0]), np.uint8)
    group.engine.broadcast(data, root).wait()
    return value if group.rank() == root else pickle.loads(data.tobytes())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the object of process k into place k of object_list, in every process. Objects are pickled.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None]
    >>> sg.distributed.all_gather_object(found, {"loss": 0.5})
    >>> found
    [{'loss': 0.5}]
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = chosen(group, "all_gather_object")
    if len(object_list) != found.size():
        raise NoGroupError(
            f"[all_gather_object] object_list has {len(object_list)} places for {found.size()} processes."
        )
    object_list[:] = all_objects(obj, found)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """all_gather_object, into the list of process dst alone.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None]
    >>> sg.distributed.gather_object("a", found, dst=0)
    >>> found
    ['a']
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = chosen(group, "gather_object")
    root = root_of(found, dst, group_dst, "gather_object")
    objects = all_objects(obj, found)
    if found.rank() == root:
        if object_gather_list is None or len(object_gather_list) != found.size():
            raise NoGroupError("[gather_object] the process dst gives a list with a place for each process.")
        object_gather_list[:] = objects


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Put the objects of process src into the list of every process. device: where PyTorch keeps the bytes meanwhile; here the host.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.broadcast_object_list([1, "a"], src=0)
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = chosen(group, "broadcast_object_list")
    root = root_of(found, src, group_src, "broadcast_object_list")
    object_list[:] = from_root(list(object_list), root, found)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Put object k of process src's list into the first place of the list of process k.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> out = [None]
    >>> sg.distributed.scatter_object_list(out, ["a"], src=0)
    >>> out
    ['a']
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = chosen(group, "scatter_object_list")
    root = root_of(found, src, group_src, "scatter_object_list")
    objects = from_root(scatter_object_input_list, root, found)
    if objects is None or len(objects) != found.size():
        raise NoGroupError(
            f"[scatter_object_list] the process src gives an object for each of {found.size()} processes."
        )
    scatter_object_output_list[0] = objects[found.rank()]
