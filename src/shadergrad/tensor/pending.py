"""Tensors whose values have not been computed, and when that is done."""

from __future__ import annotations

import weakref
from typing import Any

from ..arguments import checked
from ..graph import node as nodes
from ..graph.node import Node
from ..run import execute
from ..run.tracing import current
from ..runtime.device import canonical_name

LIMIT = 20_000  # nodes recorded before everything alive is computed

_live: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by serial number
_serial = 0
_flushed_at = 0


def next_serial() -> int:
    """A number for a tensor: later ones are higher."""
    global _serial
    _serial += 1
    return _serial


def note(tensor: Any) -> None:
    """A tensor whose node is pending."""
    _live[tensor._serial] = tensor


def bound() -> None:
    """Compute what is pending, if much is."""
    if nodes.nodes_made - _flushed_at > LIMIT and current.trace is None:
        flush()


def flush(device_name: str | None = None, *, views: bool = False) -> None:
    """Start computing every live tensor that is pending; views, which cost nothing, only if asked. Does not wait."""
    global _flushed_at
    if current.trace is not None:
        return
    by_device: dict[str, list[Node]] = {}
    for serial, tensor in sorted(_live.items()):
        node = tensor._node
        if node.storage is not None:
            del _live[serial]
        elif (views or nodes.resolve(node).primitive.kind not in ("view", "source")) and device_name in (
            None,
            node.device,
        ):
            by_device.setdefault(node.device, []).append(node)
    _flushed_at = nodes.nodes_made
    for together in by_device.values():
        try:
            execute.realize(together)
        except Exception:
            _realize_each(together)
            raise


def _realize_each(together: list[Node]) -> None:
    """Compute what can be computed of nodes that failed together, and forget the rest: a failure is reported once,
    not again by every later, unrelated flush."""
    for node in together:
        try:
            execute.realize([node])
        except Exception:
            forget(node)


def forget(node: Node) -> None:
    for serial, tensor in list(_live.items()):
        if tensor._node is node:
            del _live[serial]


@checked
def sync(device_name: str | None = None) -> None:
    """Compute everything pending and wait until the device, or every device, is done.

    Raises what the computation raises.

    >>> y = sg.ones(2) + 1
    >>> sg.sync()
    """
    flush(None if device_name is None else canonical_name(device_name))
    execute.synchronize(device_name)
