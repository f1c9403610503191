"""Checks at the start that all processes train the same model. In: named tensors. Out: nothing, or an error in each process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..drive import execute
from ..tensor import Tensor
from ..version import __version__
from .collectives import put, raw
from .errors import DistError
from .groups import ProcessGroup
from .objects import all_objects


def refuse_unlike(what: str, tensors: Iterable[tuple[str, Tensor]], group: ProcessGroup, more: Any = None) -> None:
    """Raises DistError in all processes where names, shapes, dtypes, `more` or the version of the library differ."""
    rows = [f"{name}: {t.dtype.name} {tuple(t.shape)}" for name, t in tensors]
    rows += [f"version {__version__}", *([] if more is None else [f"options {more}"])]
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    if len(set(all_objects(digest, group))) == 1:
        return
    everyone = all_objects(rows, group)
    for rank, theirs in zip(group.ranks, everyone, strict=True):
        first = next((k for k, (a, b) in enumerate(zip(everyone[0], theirs, strict=False)) if a != b), None)
        if first is None and len(theirs) != len(everyone[0]):
            first = min(len(theirs), len(everyone[0]))
        if first is not None:
            ours, found = (r[first] if first < len(r) else "nothing" for r in (everyone[0], theirs))
            raise DistError(
                f"[{what}] the processes do not train the same model: rank {group.ranks[0]} has {ours!r}, rank {rank} has {found!r}. "
                "Hint: the same program, options and version of the library on all machines."
            )


def share(tensors: Iterable[Tensor], group: ProcessGroup) -> None:
    """Give all processes the values of the first one."""
    for t in tensors:
        array = np.ascontiguousarray(execute.download(t._node)).reshape(t.shape)
        group.engine.broadcast(raw(array), 0).wait()
        if group.rank() != 0:
            put(t, array)
