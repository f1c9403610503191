"""Schedules with a simple formula: steps, constants, lines, powers."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, Rates, SchedulerError, number, period, shown


@shown("step_size=2, gamma=0.5", 8.0, 8.0, 4.0)
class StepLR(LRScheduler):
    """Multiplies the rate by gamma every step_size epochs: the initial rate * gamma ** (epoch // step_size).

    SchedulerError for a step_size below 1, and for anything but a number.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = period("step_size", step_size)
        self.gamma = number("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        is_due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if is_due else self._present()

    def _get_closed_form_lr(self) -> Rates:
        return [rate * self.gamma ** (self.last_epoch // self.step_size) for rate in self.base_lrs]


@shown("milestones=[1, 3], gamma=0.5", 8.0, 4.0, 4.0, 2.0)
class MultiStepLR(LRScheduler):
    """Multiplies the rate by gamma at each milestone, an epoch; by gamma ** n at one that is given n times.

    SchedulerError if milestones is no list, or gamma no number.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if not isinstance(milestones, Iterable):
            raise SchedulerError(f"milestones must be a list of integers, but got {milestones=}")
        self.milestones = Counter(milestones)
        self.gamma = number("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        times = self.milestones[self.last_epoch]
        return self._times(self.gamma**times) if times else self._present()

    def _get_closed_form_lr(self) -> Rates:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [rate * self.gamma**passed for rate in self.base_lrs]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.milestones = Counter({int(k): v for k, v in self.milestones.items()})


@shown("factor=0.5, total_iters=2", 4.0, 4.0, 8.0)
class ConstantLR(LRScheduler):
    """The initial rate times factor before epoch total_iters, then the initial rate.

    SchedulerError for a factor outside [0, 1]. A factor of 0 raises it at epoch total_iters, because the rate cannot be restored.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0.0 <= number("factor", factor) <= 1.0:
            raise SchedulerError(f"Constant multiplicative factor expected to be between 0 and 1, but got {factor=}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self.last_epoch == 0:
            return self._times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._present()
        if self.factor == 0:
            raise SchedulerError(f"the rates cannot come back from 0: ConstantLR was made with factor={self.factor}")
        return self._times(1.0 / self.factor)

    def _get_closed_form_lr(self) -> Rates:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [rate * factor for rate in self.base_lrs]


@shown("start_factor=0.5, total_iters=2", 4.0, 6.0, 8.0)
class LinearLR(LRScheduler):
    """A warm-up: the initial rate times a factor that goes from start_factor to end_factor in total_iters epochs.

        lr = initial * (start_factor + (end_factor - start_factor) * min(epoch / total_iters, 1))

    SchedulerError for a start_factor outside (0, 1], an end_factor outside [0, 1], a negative total_iters.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < number("start_factor", start_factor) <= 1.0:
            raise SchedulerError(
                f"Starting multiplicative factor expected to be greater than 0 and less or equal to 1, but got {start_factor=}"
            )
        if not 0.0 <= number("end_factor", end_factor) <= 1.0:
            raise SchedulerError(f"Ending multiplicative factor expected to be between 0 and 1, but got {end_factor=}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = period("total_iters", total_iters, 0)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        rise = self.end_factor - self.start_factor
        return self._times(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> Rates:
        rise = self.end_factor - self.start_factor
        total = period("total_iters", self.total_iters)
        factor = self.start_factor + rise * min(total, self.last_epoch) / total
        return [rate * factor for rate in self.base_lrs]


@shown("gamma=0.5", 8.0, 4.0, 2.0)
class ExponentialLR(LRScheduler):
    """Multiplies the rate by gamma every epoch: the initial rate * gamma ** epoch. SchedulerError for a gamma that is no number."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = number("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        return self._present() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


@shown("total_iters=2", 8.0, 4.0, 0.0)
class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power, then 0. SchedulerError for a negative total_iters."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = period("total_iters", total_iters, 0)
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._times((now / before) ** self.power)

    def _get_closed_form_lr(self) -> Rates:
        total = period("total_iters", self.total_iters)
        left = 1.0 - min(total, self.last_epoch) / total
        return [rate * left**self.power for rate in self.base_lrs]
