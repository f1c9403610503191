"""Channels exchange values between processes within a program, for the exchanges of graphs (primitives/exchange.py), over an engine.

In: host arrays, or values that devices of one host add themselves (one_host.py). Out: their sum, their mean or the root's value. The terms of a mean
come divided by the number of processes: in a kernel the division costs nothing, on the host a pass over memory. Values may be sent in 16 bits: as
float16, or as bfloat16, the upper half of a float32. With error feedback the rounding error of a value is added to the next value of the same number.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Literal

import numpy as np

from ..graph.node import Node
from ..primitives.exchange import Route
from ..runtime.device import Storage
from .engines import Engine, ReduceOp
from .groups import ProcessGroup, chosen
from .one_host import Routes

Kind = Literal["sum", "mean", "root"]
Compression = Literal["", "float16", "bfloat16"]


class Channel:
    """See the module. keeps_error: whether rounding errors are fed back. root: the process whose value all get, for the kind "root". on_devices:
    whether devices may add values themselves; then each number is in flight at most once."""

    def __init__(
        self,
        engine: Engine,
        kind: Kind,
        compression: Compression = "",
        keeps_error: bool = False,
        root: int = 0,
        on_devices: bool = False,
    ) -> None:
        self.engine, self.kind, self.compression = engine, kind, compression
        self.root = root
        self.divisor = 0  # the terms of a mean are divided by it here; 0: they come divided
        self._errors: dict[Hashable, np.ndarray] | None = {} if keeps_error else None
        self._routes = Routes(engine) if on_devices else None

    def route(self, node: Node, given: Storage, send_all: Callable[[], None]) -> Route | None:
        """The route on which devices add the values of an exchange themselves, else None. These values are not divided or rounded here."""
        if self._routes is None or self.divisor or (self.compression and not self.casts):
            return None
        return self._routes.of(node, given, send_all)

    def forget(self) -> None:
        """Free the memory of exchanges on this host when the channel is no longer used."""
        if self._routes is not None:
            self._routes.forget()

    def start(self, array: np.ndarray, number: Hashable) -> Any:
        """Begin an exchange; returns the argument of finish. number: the key of the value's error. A writeable array may be overwritten."""
        if not (array.flags.c_contiguous and array.flags.writeable):
            array = np.array(array, order="C")
        if self.kind == "root":
            return self.engine.broadcast(array.reshape(-1).view(np.uint8), self.root), array, array.dtype
        if self.divisor:
            array /= self.divisor
        sent = array
        if self.compression and array.dtype == np.float32:
            sent = self._compressed(array, number)
            if self.compression == "bfloat16":
                return self.engine.all_reduce_bfloat16(sent), sent, array.dtype
        return self.engine.all_reduce(sent, ReduceOp.SUM), sent, array.dtype

    def _compressed(self, array: np.ndarray, number: Hashable) -> np.ndarray:
        if self._errors is not None and number in self._errors:
            array += self._errors[number]
        sent = array.astype(np.float16) if self.compression == "float16" else to_bfloat16(array)
        if self._errors is not None:
            self._errors[number] = array - (
                sent.astype(np.float32) if sent.dtype == np.float16 else from_bfloat16(sent)
            )
        return sent

    def is_done(self, started: Any) -> bool:
        """Whether finish would not wait."""
        return started[0].is_completed()

    def finish(self, started: Any) -> np.ndarray:
        """The value of all processes. Raises DistBackendError if another process has ended."""
        pending, array, dtype = started
        pending.wait()
        return from_bfloat16(array) if array.dtype == np.uint16 != dtype else array.astype(dtype, copy=False)

    @property
    def casts(self) -> bool:
        """Whether values may come as float16: no rounding error is kept."""
        return self.compression == "float16" and self._errors is None

    def backward(self) -> Channel:
        """The channel of the gradient: for a sum the same channel."""
        assert self.kind == "sum"
        return self


class Levels(Channel):
    """Sums of rows of ROW numbers: a scale, and integers from -MOST to MOST, sent as int8. The sum has 0 in place of each scale."""

    ROW = 1024  # divides the sizes of the parts in which values are sent
    MOST = 127

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, "sum")

    def start(self, array: np.ndarray, number: Hashable) -> Any:
        rows = array.reshape(-1, self.ROW)
        own = np.empty((len(rows), self.ROW + 3), np.uint8)
        own[:, :4] = np.ascontiguousarray(rows[:, :1]).view(np.uint8)
        with np.errstate(invalid="ignore"):  # rows with a scale of NaN
            own[:, 4:] = rows[:, 1:].astype(np.int8).view(np.uint8)
        everyone = np.empty((self.engine.size, *own.shape), np.uint8)
        return self.engine.all_gather(own, everyone), (own, everyone), array.dtype

    def finish(self, started: Any) -> np.ndarray:
        pending, (_, everyone), _ = started
        pending.wait()
        total = np.zeros((everyone.shape[1], self.ROW), np.float32)
        with np.errstate(invalid="ignore"):
            for rows in everyone:
                total[:, 1:] += np.ascontiguousarray(rows[:, :4]).view(np.float32) * rows[:, 4:].view(np.int8)
        return total.reshape(-1)


_sums: weakref.WeakKeyDictionary[ProcessGroup, Channel] = weakref.WeakKeyDictionary()


def sum_channel(group: Any) -> Channel:
    """The channel of sums over a group. Its engine is separate from the program's operations. All processes must request it first at the same
    point of the program."""
    found = chosen(group, "SyncBatchNorm")
    if found not in _sums:
        own = found.engine.subgroup(range(found.engine.size), None)
        assert own is not None
        _sums[found] = Channel(own, "sum")
    return _sums[found]


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The upper halves of float32 as uint16, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)


def from_bfloat16(halves: np.ndarray) -> np.ndarray:
    """float32 from upper halves."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
