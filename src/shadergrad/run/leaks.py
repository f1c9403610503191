"""Finds tensors of a capture that are still referenced after it, in objects where no run could replace them."""

from __future__ import annotations

from typing import Any

from ..cpython import collect_cycles, holders_of
from ..drive.tracing import Trace
from ..errors import CompileError


def refuse_leaks(watch: Trace, ours: list[Any]) -> None:
    """Raise CompileError if anything but a place still references a tensor of a finished capture.

    ours: the tensors that the step itself references.
    """
    watch.forget()
    ours = [*ours, *(t._grad for t in ours if t._grad is not None)]
    ids = {id(t) for t in ours} | {id(t._shared.storage) for t in ours if t._shared is not None}
    if not _leaked(watch, ids):
        return
    collect_cycles()
    leaked = _leaked(watch, ids)
    if not leaked:
        return
    where = holders_of(leaked[0], leaked)
    what = f"a tensor of shape {tuple(leaked[0]._node.shape)} that the function made"
    raise CompileError(
        f"{what} is kept after it by {' and '.join(sorted(where)) or 'something'} that a compiled step cannot follow: it would "
        "stay that of the first call. Hint: return the tensor, or store it in an attribute, a list or a dict."
    )


def _leaked(watch: Trace, ours: set[int]) -> list[Any]:
    return [t for t in watch.made.values() if id(t) not in ours and t._node.storage is None]
