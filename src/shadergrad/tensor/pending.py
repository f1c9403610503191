"""Pending tensors, whose values have not been computed, and the rules for when they are computed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ..arguments import checked
from ..drive import execute
from ..drive.tracing import current
from ..graph import node as nodes
from ..graph.composition import Composite, shown
from ..graph.node import Node
from ..runtime.device import canonical_name, get_device

LIMIT = 20_000  # recorded nodes after which all living tensors are computed

_live: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by serial number
_failed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # those whose computation raised
_changed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # in place, and not computed since
_written: weakref.WeakValueDictionary[int, Any] = (
    weakref.WeakValueDictionary()
)  # views whose value was assigned through another view
next_serial: Callable[[], int] = itertools.count(1).__next__  # a number for a tensor: later ones are higher
_flushed_at = 0


def note(tensor: Any) -> None:
    """Register a tensor whose node is pending. A capture's tensors are not registered, because nobody else computes them."""
    if current.trace is not None:
        current.trace.on_pending(tensor)
        return
    _live[tensor._serial] = tensor


def changed(tensor: Any) -> None:
    """Register a tensor, or a shared object, whose pending value replaced another."""
    if current.trace is None:
        _changed[tensor._serial] = tensor


def written(view: Any) -> None:
    """Register a view that holds the value written through it. Once the whole is computed, it becomes a part of that again, which a
    capture recognises as memory.
    """
    if current.trace is None:
        _written[view._serial] = view


def succeed(tensor: Any, storage: Any) -> None:
    """A tensor that was the last to share a pending value owns it now. A capture knows it already, or returns it."""
    if current.trace is None:
        note(tensor)
        if storage._serial in _changed:
            changed(tensor)


def take_changed(device_name: str) -> list[Node]:
    """The registered values on a device that replaced others; they are about to be computed."""
    found: list[Node] = []
    for serial, tensor in _alive(_changed):
        node = tensor._node
        if node.storage is not None:
            _changed.pop(serial, None)
        elif node.device == device_name:
            found.append(node)
    return found


def _alive(table: weakref.WeakValueDictionary[int, Any]) -> list[tuple[int, Any]]:
    """The living entries of a table, in the order of serial numbers; threads may add to it meanwhile."""
    return sorted(((t._serial, t) for r in table.valuerefs() if (t := r()) is not None), key=itemgetter(0))


def bound() -> None:
    """Compute pending tensors if there are many."""
    if nodes.nodes_made - _flushed_at > LIMIT and current.trace is None:
        flush()


def flush(device_name: str | None = None, *, views: bool = False) -> None:
    """Start computing every living tensor that is pending; views, which cost nothing, only if requested. Does not wait.

    Raises only DeviceLostError, if the device is lost, because the caller has not asked for a tensor whose computation
    fails. Such a tensor is set aside; reading it, or sync(), raises the error of its computation.
    """
    global _flushed_at
    if current.trace is not None:
        return
    by_device: dict[str, list[Any]] = {}
    for serial, tensor in _alive(_live):
        node = tensor._node
        if node.storage is not None:
            _live.pop(serial, None)
        elif device_name in (None, node.device) and (views or not _shows(node)):
            by_device.setdefault(node.device, []).append(tensor)
    _flushed_at = nodes.nodes_made
    for name, together in by_device.items():
        try:
            execute.realize([tensor._node for tensor in together])
        except Exception:
            if get_device(name).is_lost:
                raise
            _realize_each(together)
    show_parts()


def compute_all(device_name: str) -> None:
    """Compute every living tensor of a device that is pending, views too. Raises the errors of the computation, unlike `flush`."""
    execute.realize([t._node for _, t in _alive(_live) if t._node.device == device_name and t._node.storage is None])
    show_parts()


def _shows(node: Node) -> bool:
    """Whether a node is a view or a number."""
    node = shown(node)
    return node.shows if type(node) is Composite else node.primitive.kind in ("view", "source")


def show_parts() -> None:
    """Let views of computed values refer to parts of these again, instead of the value written through them."""
    for serial, view in _alive(_written):
        if view._is_part_again():
            _written.pop(serial, None)


def compute(node: Node, others: list[Node]) -> None:
    """Start computing a node, and others in the same plan if possible. Raises the error of the node's computation."""
    try:
        execute.realize([*others, node], read=True)
    except Exception:
        if get_device(node.device).is_lost or not others:
            raise
        for tensor in [t for _, t in [*_alive(_live), *_alive(_changed)] if any(t._node is n for n in others)]:
            _realize_each([tensor])
        execute.realize([node], read=True)


def _realize_each(together: list[Any]) -> None:
    """Compute, one by one, tensors whose common computation failed, and set aside those that fail again."""
    for tensor in together:
        try:
            execute.realize([tensor._node])
        except Exception:
            leave_out(tensor)
            _failed[tensor._serial] = tensor


def leave_out(tensor: Any) -> None:
    """Exclude a tensor whose computation raised from later flushes."""
    _live.pop(tensor._serial, None)
    _changed.pop(tensor._serial, None)


def failures(device_name: str | None = None) -> list[Any]:
    """The tensors that were set aside, of one device or all; each is reported once."""
    failed = [t for _, t in _alive(_failed) if device_name in (None, t._node.device)]
    for tensor in failed:
        del _failed[tensor._serial]
    return failed


@checked
def sync(device_name: str | None = None) -> None:
    """Compute everything pending and wait until the device, or every device, is done.

    Raises the first error of the computation, once, so that the next sync() concerns later work only.

    >>> y = sg.ones(2) + 1
    >>> sg.sync()
    """
    name = None if device_name is None else canonical_name(device_name)
    flush(name)
    execute.synchronize(device_name)
    for tensor in failures(name):
        execute.realize([tensor._node])
