"""PyTorch's global settings: deterministic algorithms and the precision of products, which have no effect here, and threads."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from ..arguments import checked
from ..errors import ArgumentError
from ..runtime.threads import pool


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
    """Let the cpu device use so many threads: native kernels (where llvmlite is installed), and matrix products and linear algebra,
    which are those of the BLAS of NumPy and SciPy.

    All else runs on one thread. BLAS needs threadpoolctl; without it a warning says how to set the number before the program starts.
    Raises ArgumentError for a number below 1.

    >>> sg.set_num_threads(1)
    >>> sg.get_num_threads()
    1
    """
    if int_ < 1:
        raise ArgumentError("set_num_threads expects a positive integer")
    pool.limit(int_)
    control = _threadpoolctl()
    if control is None:
        warnings.warn(
            f"set_num_threads({int_}) has no effect on matrix products: threadpoolctl is not installed. Hint: pip install threadpoolctl, or set "
            "OMP_NUM_THREADS and OPENBLAS_NUM_THREADS before the program starts.",
            stacklevel=3,
        )
        return
    control.threadpool_limits(int_, user_api="blas")


@checked
def get_num_threads() -> int:
    """The most threads of the BLAS of NumPy and SciPy, whose matrix products the cpu device runs; 1 where threadpoolctl, which
    knows, is not installed.

    >>> sg.get_num_threads() >= 1
    True
    """
    control = _threadpoolctl()
    found = [] if control is None else control.threadpool_info()
    return max((pool["num_threads"] for pool in found if pool["user_api"] == "blas"), default=1)


def _threadpoolctl() -> Any:
    try:
        return importlib.import_module("threadpoolctl")
    except ModuleNotFoundError:
        return None


@checked
def set_num_interop_threads(int_: int) -> None:
    """Nothing to do: operations run one after the other.

    >>> sg.set_num_interop_threads(4)
    """


@checked
def get_num_interop_threads() -> int:
    """1: operations run one after the other.

    >>> sg.get_num_interop_threads()
    1
    """
    return 1
