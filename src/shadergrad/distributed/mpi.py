"""Process groups by MPI, for clusters that have one: mpi4py, started by mpirun. In: nothing. Out: an Engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..system.optional_packages import require
from .engines import Engine, Pending, ReduceOp

OPERATIONS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}


class Requested(Pending):
    """A request of MPI. MPI has no time limits: when a process fails, mpirun ends the others."""

    def __init__(self, request: Any, arrays: Any, after: Any = None) -> None:
        self._request, self._arrays, self._after = request, arrays, after

    def wait(self, timeout: float | None = None) -> None:
        self._request.Wait()
        self._finish()

    def is_completed(self) -> bool:
        done = bool(self._request.Test())
        if done:
            self._finish()
        return done

    def _finish(self) -> None:
        if self._after is not None:
            self._after()
            self._after = None


class Mpi(Engine):
    """See the module."""

    name = "mpi"

    def __init__(self, mpi: Any, communicator: Any) -> None:
        self._mpi, self._comm = mpi, communicator
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()

    @classmethod
    def world(cls) -> Mpi:
        """All processes that mpirun started. Raises MissingPackageError without mpi4py."""
        mpi = require("mpi4py.MPI", "mpi", "[init_process_group] the backend mpi")
        return cls(mpi, mpi.COMM_WORLD.Dup())

    def _op(self, op: ReduceOp) -> Any:
        return getattr(self._mpi, OPERATIONS[op])

    def all_reduce(self, array: np.ndarray, op: ReduceOp) -> Pending:
        wide, after = self._summed(array)
        return Requested(self._comm.Iallreduce(self._mpi.IN_PLACE, wide, self._op(op)), wide, after)

    def _summed(self, array: np.ndarray) -> tuple[np.ndarray, Any]:
        """An array that MPI can add, and what must follow the sum: float16 is added in float32, because MPI has no float16."""
        if array.dtype != np.float16:
            return array, None
        wide = array.astype(np.float32)

        def after() -> None:
            array[...] = wide

        return wide, after

    def reduce(self, array: np.ndarray, root: int, op: ReduceOp) -> Pending:
        return self.all_reduce(array, op)

    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: ReduceOp) -> Pending:
        wide = np.ascontiguousarray(array, np.float32) if array.dtype == np.float16 else np.ascontiguousarray(array)
        into = np.empty(out.shape, wide.dtype)

        def after() -> None:
            out[...] = into

        return Requested(self._comm.Ireduce_scatter_block(wide, into, self._op(op)), (wide, into), after)

    def broadcast(self, array: np.ndarray, root: int) -> Pending:
        return Requested(self._comm.Ibcast(array, root), array)

    def all_gather(self, array: np.ndarray, out: np.ndarray) -> Pending:
        return Requested(self._comm.Iallgather(array, out), (array, out))

    def gather(self, array: np.ndarray, out: np.ndarray | None, root: int) -> Pending:
        return Requested(self._comm.Igather(array, out, root), (array, out))

    def scatter(self, array: np.ndarray | None, out: np.ndarray, root: int) -> Pending:
        return Requested(self._comm.Iscatter(array, out, root), (array, out))

    def all_to_all(self, array: np.ndarray, out: np.ndarray) -> Pending:
        return Requested(self._comm.Ialltoall(array, out), (array, out))

    def send(self, array: np.ndarray, peer: int, tag: int) -> Pending:
        return Requested(self._comm.Isend(array, peer, tag), array)

    def recv(self, array: np.ndarray, peer: int, tag: int) -> Pending:
        return Requested(self._comm.Irecv(array, peer, tag), array)

    def barrier(self) -> Pending:
        return Requested(self._comm.Ibarrier(), None)

    def subgroup(self, ranks: Sequence[int], timeout: float | None) -> Engine | None:
        if timeout is not None:
            warnings.warn('the backend "mpi" has no time limits: timeout has no effect.', stacklevel=4)
        made = self._comm.Split(0 if self.rank in ranks else self._mpi.UNDEFINED, self.rank)
        return None if made == self._mpi.COMM_NULL else Mpi(self._mpi, made)

    def close(self) -> None:
        if not self._mpi.Is_finalized():
            self._comm.Free()
