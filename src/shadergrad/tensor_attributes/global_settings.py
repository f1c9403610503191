"""PyTorch's global settings that have no effect here: deterministic algorithms, the precision of products, threads."""

from __future__ import annotations

from ..arguments import checked
from ..errors import ArgumentError


@checked
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing to do: all algorithms are deterministic.

    >>> sg.use_deterministic_algorithms(True)
    """


@checked
def are_deterministic_algorithms_enabled() -> bool:
    """True: all algorithms are deterministic.

    >>> sg.are_deterministic_algorithms_enabled()
    True
    """
    return True


@checked
def set_float32_matmul_precision(precision: str) -> None:
    """Nothing to do: products are of float32 ('highest') always. Raises ArgumentError for an unknown precision.

    >>> sg.set_float32_matmul_precision("high")
    """
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(f"set_float32_matmul_precision(): 'highest', 'high' or 'medium', not {precision!r}.")


@checked
def get_float32_matmul_precision() -> str:
    """'highest'.

    >>> sg.get_float32_matmul_precision()
    'highest'
    """
    return "highest"


@checked
def set_num_threads(int_: int) -> None:
    """Nothing to do: the cpu device's threads are NumPy's, which OMP_NUM_THREADS sets before the program starts.

    >>> sg.set_num_threads(4)
    """


@checked
def get_num_threads() -> int:
    """1: the cpu device has no threads of its own.

    >>> sg.get_num_threads()
    1
    """
    return 1


@checked
def set_num_interop_threads(int_: int) -> None:
    """Nothing to do, as set_num_threads.

    >>> sg.set_num_interop_threads(4)
    """


@checked
def get_num_interop_threads() -> int:
    """1: operations run one after the other.

    >>> sg.get_num_interop_threads()
    1
    """
    return 1
