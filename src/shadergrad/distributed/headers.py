"""Checks that all processes of a group make the same call. In: the header of a call. Out: a Pending, whose wait raises DistError if headers differ.

Engines move bytes without knowing their meaning: if one process passed int32 and the others float32, or MAX and SUM, they would compute wrong values
without an error. So the operations of collectives.py, which programs call directly, exchange headers first. The exchanges of graphs have none,
because they were compared when the model was made (agreement.py).
"""

from __future__ import annotations

import hashlib

import numpy as np

from ..tensor import Tensor
from .engines import Engine, Pending
from .errors import DistError
from .groups import ProcessGroup

WORDS, DIGEST = 176, 16  # bytes


def words_of(what: str, *given: object) -> str:
    """The header of a call: the operation, and the arguments that must be equal in all processes. A tensor is described by its dtype and shape."""
    return " ".join(
        [
            *filter(None, [what]),
            *(f"{t.dtype.name} {tuple(t.shape)}" if isinstance(t, Tensor) else str(t) for t in given if t is not None),
        ]
    )


def started(words: str, group: ProcessGroup) -> Pending:
    """Start to compare a call with those of the other processes."""
    return _Compared(words, group) if group.size() > 1 else Pending()


def _packed(words: str) -> np.ndarray:
    whole = words.encode()
    return np.frombuffer(whole[:WORDS].ljust(WORDS, b"\0") + hashlib.sha256(whole).digest()[:DIGEST], np.uint8).copy()


def _said(row: np.ndarray) -> str:
    return row[:WORDS].tobytes().rstrip(b"\0").decode(errors="replace")


class _Compared(Pending):
    def __init__(self, words: str, group: ProcessGroup) -> None:
        own = _packed(words)
        self._what, self._group = words.partition(" ")[0], group
        self._rows = np.empty((group.size(), own.size), np.uint8)
        self._gathered = group.engine.all_gather(own, self._rows.reshape(-1))
        self.may_be_watched = self._gathered.may_be_watched

    def wait(self, timeout: float | None = None) -> None:
        self._gathered.wait(timeout)
        for rank, row in zip(self._group.ranks, self._rows, strict=True):
            if (row != self._rows[0]).any():
                raise DistError(
                    f"[distributed.{self._what}] the processes do not make the same call: rank {self._group.ranks[0]} has {_said(self._rows[0])!r}, "
                    f"rank {rank} has {_said(row)!r}. Hint: the same operation, shapes, dtypes and op in all processes, in the same order."
                )

    def is_completed(self) -> bool:
        return self._gathered.is_completed()


class Behind(Pending):
    """An operation that runs while its header is compared."""

    def __init__(self, compared: Pending, operation: Pending) -> None:
        self._compared, self._operation = compared, operation
        self.may_be_watched = operation.may_be_watched

    def wait(self, timeout: float | None = None) -> None:
        self._compared.wait(timeout)
        self._operation.wait(timeout)

    def is_completed(self) -> bool:
        return self._compared.is_completed() and self._operation.is_completed()


class Sent(Pending):
    """A message sent after its header."""

    def __init__(self, words: str, engine: Engine, array: np.ndarray, peer: int, tag: int) -> None:
        self._parts = [engine.send(_packed(words), peer, tag), engine.send(array, peer, tag)]

    def wait(self, timeout: float | None = None) -> None:
        for part in self._parts:
            part.wait(timeout)

    def is_completed(self) -> bool:
        return all(part.is_completed() for part in self._parts)


class Received(Pending):
    """A message received after its header. Raises DistError if it has another dtype or shape.

    is_async: whether more may be received before this is waited for. Messages of one tag are matched in the order of their calls, so that the
    memory for it is offered at once; gloo ends the process for a message that is larger. Else it is offered after the words were compared.
    """

    def __init__(self, words: str, group: ProcessGroup, array: np.ndarray, peer: int, tag: int, is_async: bool) -> None:
        self._words, self._from = words, group.ranks[peer]
        self._row = np.empty(WORDS + DIGEST, np.uint8)
        self._first = group.engine.recv(self._row, peer, tag)
        self._begin = lambda: group.engine.recv(array, peer, tag)
        self._message = self._begin() if is_async else None

    def wait(self, timeout: float | None = None) -> None:
        self._first.wait(timeout)
        self._check()
        if self._message is None:
            self._message = self._begin()
        self._message.wait(timeout)

    def _check(self) -> None:
        if (self._row != _packed(self._words)).any():
            raise DistError(
                f"[distributed.recv] rank {self._from} has sent {_said(self._row)!r}, and this process takes {self._words!r}. Hint: a tensor of the "
                "same dtype and shape on both sides."
            )

    def is_completed(self) -> bool:
        return self._message is not None and self._first.is_completed() and self._message.is_completed()
