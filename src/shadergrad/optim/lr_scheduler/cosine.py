"""Schedules that follow half a cosine, once or with restarts."""

from __future__ import annotations

import math

from ..optimizer import Optimizer
from .base import LRScheduler, Rates, SchedulerError, number, period, refuse_capture, shown


@shown("T_max=2", 8.0, 4.0, 0.0)
class CosineAnnealingLR(LRScheduler):
    """From the initial rate to eta_min in T_max epochs, along half a cosine; then up again (Loshchilov, Hutter, 2017).

        lr = eta_min + (initial - eta_min) * (1 + cos(pi * epoch / T_max)) / 2

    SchedulerError for a T_max below 1, and for anything but a number.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = period("T_max", T_max)
        self.eta_min = number("eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self._is_initial:
            return self._present()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        # at the minimum, rate - eta_min is 0, so the ratio to the next rate is not defined
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * rise for rate, base in zip(self._present(), self.base_lrs, strict=True)
            ]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (rate - self.eta_min) + self.eta_min for rate in self._present()]

    def _get_closed_form_lr(self) -> Rates:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (rate - self.eta_min) * height for rate in self.base_lrs]


@shown("T_0=2", 8.0, 4.0, 8.0, 4.0)
class CosineAnnealingWarmRestarts(LRScheduler):
    """Repeated half cosines from the initial rate to eta_min: the first in T_0 epochs, each T_mult times as long as the one before.

        lr = eta_min + (initial - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2      T_cur of T_i epochs since the restart

    Loshchilov and Hutter, 2017. SchedulerError for a T_0 or T_mult that is not an int of at least 1; eta_min that is not a
    number.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise SchedulerError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise SchedulerError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise SchedulerError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i: float = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (rate - self.eta_min) * height for rate in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch, or of `epoch`, which may be a fraction: epoch + batch / batches."""
        refuse_capture()
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise SchedulerError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            passed = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**passed - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**passed
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())
