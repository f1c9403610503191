"""A schedule that depends on a metric."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, SchedulerError, checked, number, put, refuse_capture


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by factor when a metric has not improved for more than `patience` epochs. step(metric) reads the metric.

    mode: 'min' or 'max', the direction of improvement; threshold: its least size, relative to the best ('rel') or absolute ('abs').
    cooldown: epochs after a reduction that are not counted. min_lr: the lowest rate, one for all groups or a list. eps:
    smaller reductions are omitted.
    SchedulerError for a factor of 1 or more, another mode, a list of another length, and a metric that is not a number.

    >>> optimizer = sg.optim.SGD([sg.zeros(1)], lr=8.0)
    >>> scheduler = sg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (1.0, 0.5, 0.5, 0.5):
    ...     scheduler.step(loss)
    ...     print(scheduler.get_last_lr())
    [8.0]
    [8.0]
    [8.0]
    [4.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if not number("factor", factor) < 1.0:
            raise SchedulerError(f"Factor should be < 1.0, but got {factor=}")
        self.optimizer = checked(optimizer)
        if mode not in ("min", "max"):
            raise SchedulerError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise SchedulerError(f"threshold mode {threshold_mode} is unknown!")
        count = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple) and len(min_lr) != count:
            raise SchedulerError(f"expected {count} min_lrs, got {len(min_lr)}")
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * count
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._present()
        self._reset()

    @property
    def mode_worse(self) -> float:
        """A metric that is worse than all others."""
        return math.inf if self.mode == "min" else -math.inf

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are still ignored, because the rate was reduced less than `cooldown` epochs ago."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # PyTorch's: the metric first
        """Report the metric of an epoch: a number, or a tensor with one element."""
        refuse_capture()
        try:
            value = float(metrics)
        except (TypeError, ValueError):
            raise SchedulerError(
                f"step() wants the metric, a number or a tensor of one element, but got {metrics!r}"
            ) from None
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._present()

    def _is_better(self, value: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        margin = sign * self.threshold
        goal = self.best * (1.0 + margin) if self.threshold_mode == "rel" else self.best + margin
        return sign * value > sign * goal

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise SchedulerError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group being "
                    "added to the optimizer. Please modify the `min_lrs` field to match the length of the `optimizer` "
                    "param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            rate = max(before * self.factor, lowest)
            if before - rate > self.eps:
                put(group, "lr", rate)

    def state_dict(self) -> dict[str, Any]:
        """The state, as of other schedulers. Before the first epoch it has no `best`, because files cannot hold an infinity."""
        return {k: v for k, v in super().state_dict().items() if k not in ("best", "mode_worse") or math.isfinite(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._reset()
        super().load_state_dict(state_dict)
