"""Schedules defined by a function of the epoch."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, Rates, SchedulerError, checked, shown


class _ByFunction(LRScheduler):
    """Base of schedules by a function of the epoch: one function for all groups, or a list with one per group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(checked(optimizer).param_groups)
        given = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(given) != count:
            raise SchedulerError(f"Expected {count} lr_lambdas, but got {len(given)}")
        for function in given:
            if not callable(function):
                raise SchedulerError(f"lr_lambda should be a function, but got {type(function).__name__}")
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state. It has no functions, but the attributes of callable objects."""
        saved = [None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


@shown("lambda epoch: 1 / (1 + epoch)", 8.0, 4.0)
class LambdaLR(_ByFunction):
    """The initial rate times lr_lambda(epoch); lr_lambda: a function, or a list with one per group.

    state_dict does not save functions, but saves the attributes of callable objects.
    SchedulerError for an object that cannot be called, and for a list of another length than the groups.
    """

    def get_lr(self) -> Rates:
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self.base_lrs, strict=True)]


@shown("lambda epoch: 0.5", 8.0, 4.0, 2.0)
class MultiplicativeLR(_ByFunction):
    """The present rate times lr_lambda(epoch), from epoch 1 on; lr_lambda, saving and errors: as for LambdaLR."""

    def get_lr(self) -> Rates:
        if self._is_initial:
            return self._present()
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self._present(), strict=True)]
