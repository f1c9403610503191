"""SparseAdam, which raises an error, because gradients are dense."""

from __future__ import annotations

from typing import Any

from .checks import OptimizerError
from .optimizer import Optimizer


class SparseAdam(Optimizer):
    """Adam for sparse gradients. Raises OptimizerError when it is made, because every gradient is dense.

    >>> sg.optim.SparseAdam([sg.zeros(2)])
    Traceback (most recent call last):
    shadergrad.optim.checks.OptimizerError: SparseAdam needs sparse gradients...
    """

    def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
        raise OptimizerError(
            "SparseAdam needs sparse gradients, and gradients are dense here. Hint: use Adam, which updates every row of an "
            "embedding in each step."
        )
