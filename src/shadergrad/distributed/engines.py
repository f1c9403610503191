"""The interface of engines, which move arrays between processes. In: host arrays, in C order and writable. Out: a Pending for each operation.

`Engine` is the contract; gloo.py and mpi.py keep it, and `Alone` for a single process. Every process of a group makes the same calls
in the same order.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .errors import DistError


class ReduceOp(enum.Enum):
    """The reductions of the values of all processes.

    >>> [op.name for op in sg.distributed.ReduceOp]
    ['SUM', 'AVG', 'PRODUCT', 'MIN', 'MAX', 'BAND', 'BOR', 'BXOR']
    """

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


ReduceOp.RedOpType = ReduceOp  # pyright: ignore[reportAttributeAccessIssue]  PyTorch's name for the class of the members


class Pending:
    """An operation under way. may_be_watched: whether other threads may ask if it is completed."""

    may_be_watched = False

    def wait(self, timeout: float | None = None) -> None:
        """Return when it is done. Raises DistBackendError if it failed, or after `timeout` seconds."""

    def is_completed(self) -> bool:
        """Whether it is done, or failed."""
        return True


class Engine(ABC):
    """Operations on arrays, in place. Roots and peers are numbers within the group."""

    rank: int
    size: int
    name: str
    timeout: float | None = None  # seconds for an operation

    def explain(self, error: BaseException) -> str:
        """The known reason for the failure of an operation, as text."""
        return f"[distributed] rank {self.rank} stops: {error}"

    def has_news(self) -> bool:
        """Whether another process is known to have ended."""
        return False

    @abstractmethod
    def all_reduce(self, array: np.ndarray, op: ReduceOp) -> Pending:
        """op is not AVG, and the array's dtype is one of REDUCED."""

    def all_reduce_bfloat16(self, halves: np.ndarray) -> Pending:
        """The sum of bfloat16 numbers, whose bits are uint16."""
        raise DistError(f"[distributed] {self.name} cannot add bfloat16 numbers. Hint: float16.")

    @abstractmethod
    def reduce(self, array: np.ndarray, root: int, op: ReduceOp) -> Pending:
        """As all_reduce; the result is at the root, and other processes' arrays may hold anything."""

    @abstractmethod
    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: ReduceOp) -> Pending:
        """array: (size, ...); out: the reduced row of this process."""

    @abstractmethod
    def broadcast(self, array: np.ndarray, root: int) -> Pending: ...

    @abstractmethod
    def all_gather(self, array: np.ndarray, out: np.ndarray) -> Pending:
        """out: (size, ...)."""

    @abstractmethod
    def gather(self, array: np.ndarray, out: np.ndarray | None, root: int) -> Pending:
        """out: (size, ...) at the root, else None."""

    @abstractmethod
    def scatter(self, array: np.ndarray | None, out: np.ndarray, root: int) -> Pending:
        """array: (size, ...) at the root, else None."""

    @abstractmethod
    def all_to_all(self, array: np.ndarray, out: np.ndarray) -> Pending:
        """array, out: (size, ...); row k goes to process k."""

    @abstractmethod
    def send(self, array: np.ndarray, peer: int, tag: int) -> Pending: ...

    @abstractmethod
    def recv(self, array: np.ndarray, peer: int, tag: int) -> Pending: ...

    @abstractmethod
    def barrier(self) -> Pending: ...

    @abstractmethod
    def subgroup(self, ranks: Sequence[int], timeout: float | None) -> Engine | None:
        """An engine of some of the processes, None in one that is not among them. All processes call it."""

    def close(self) -> None:
        """Close the connections."""
        return


REDUCED = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64")  # dtypes that gloo reduces


class Alone(Engine):
    """The engine of a single process."""

    rank, size, name = 0, 1, "gloo"

    def all_reduce(self, array: np.ndarray, op: ReduceOp) -> Pending:
        return Pending()

    def all_reduce_bfloat16(self, halves: np.ndarray) -> Pending:
        return Pending()

    def reduce(self, array: np.ndarray, root: int, op: ReduceOp) -> Pending:
        return Pending()

    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: ReduceOp) -> Pending:
        out.reshape(-1)[:] = array.reshape(-1)
        return Pending()

    def broadcast(self, array: np.ndarray, root: int) -> Pending:
        return Pending()

    def all_gather(self, array: np.ndarray, out: np.ndarray) -> Pending:
        out.reshape(-1)[:] = array.reshape(-1)
        return Pending()

    def gather(self, array: np.ndarray, out: np.ndarray | None, root: int) -> Pending:
        assert out is not None
        out.reshape(-1)[:] = array.reshape(-1)
        return Pending()

    def scatter(self, array: np.ndarray | None, out: np.ndarray, root: int) -> Pending:
        assert array is not None
        out.reshape(-1)[:] = array.reshape(-1)
        return Pending()

    def all_to_all(self, array: np.ndarray, out: np.ndarray) -> Pending:
        out.reshape(-1)[:] = array.reshape(-1)
        return Pending()

    def send(self, array: np.ndarray, peer: int, tag: int) -> Pending:
        raise AssertionError("there is nobody to send to")

    recv = send

    def barrier(self) -> Pending:
        return Pending()

    def subgroup(self, ranks: Sequence[int], timeout: float | None) -> Engine | None:
        return Alone() if ranks else None
