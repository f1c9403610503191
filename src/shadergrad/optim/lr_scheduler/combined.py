"""Schedules composed of other schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, SchedulerError, put, refuse_capture
from .cosine import CosineAnnealingLR
from .formulas import LinearLR
from .plateau import ReduceLROnPlateau


class _OfSchedulers(LRScheduler):
    """A scheduler that steps other schedulers of one optimizer."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Any, purpose: str) -> None:
        kind = type(self).__name__
        if len(schedulers) < 1:
            raise SchedulerError(f"{kind} expects at least one scheduler{purpose}, but got no scheduler.")
        for k, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise SchedulerError(f"{kind} at index {k} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise SchedulerError(
                    f"{kind} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {k} in the given schedulers sequence."
                )
            if (optimizer or schedulers[0].optimizer) is not scheduler.optimizer:
                raise SchedulerError(
                    f"{kind} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {k} has {scheduler.optimizer}, which is different from "
                    f"{type(optimizer or schedulers[0].optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """The state, with the states of its schedulers."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_OfSchedulers):
    """One scheduler after the other, of one optimizer: the next begins, at its epoch 0, at each milestone.

    SchedulerError unless there is one scheduler more than milestones, for a scheduler of another optimizer, and for
    ReduceLROnPlateau.

    >>> optimizer = sg.optim.SGD([sg.zeros(1)], lr=8.0)
    >>> first = sg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> then = sg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = sg.optim.lr_scheduler.SequentialLR(optimizer, [first, then], milestones=[2])
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [4.0]
    [4.0]
    [8.0]
    [4.0]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self._check(schedulers, optimizer, "")
        if len(milestones) != len(schedulers) - 1:
            raise SchedulerError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            put(group, "lr", group["initial_lr"])
        _undo(self)  # each scheduler made its first step when it was created; only that of the first one counts
        begins = schedulers[bisect_right(milestones, 0)]
        begins._initial_step()
        self._last_lr = begins.get_last_lr()

    def step(self) -> None:  # type: ignore[override]  # as in PyTorch, which epoch it is decides who steps
        """Set the rates of the next epoch."""
        refuse_capture()
        self.last_epoch += 1
        k = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[k]
        if k > 0 and self._milestones[k - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(scheduler: LRScheduler) -> None:
    for inner in getattr(scheduler, "_schedulers", ()):
        _undo(inner)
    if not hasattr(scheduler, "_schedulers"):
        scheduler.last_epoch -= 1


class ChainedScheduler(_OfSchedulers):
    """Several schedulers at once, of one optimizer: each changes the rate that the one before it left.

    SchedulerError for no scheduler, for one of another optimizer, and for ReduceLROnPlateau.

    >>> optimizer = sg.optim.SGD([sg.zeros(1)], lr=8.0)
    >>> warm = sg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=1)
    >>> decay = sg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = sg.optim.lr_scheduler.ChainedScheduler([warm, decay])
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [4.0]
    [4.0]
    [2.0]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._check(schedulers, optimizer, " to be chained")
        self._schedulers = schedulers
        self.optimizer = schedulers[0].optimizer
        self._last_lr = self._present()

    def step(self) -> None:  # type: ignore[override]  # as in PyTorch: no epoch fits all that are chained
        """Set the rates of the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._present()


def warmup_cosine(
    optimizer: Optimizer, warmup_steps: int, total_steps: int, *, start_factor: float = 1e-3, eta_min: float = 0.0
) -> SequentialLR:
    """A linear warm-up of `warmup_steps`, then half a cosine down to eta_min at `total_steps`. Not in PyTorch.

    It is the SequentialLR of LinearLR, from start_factor to 1, and CosineAnnealingLR; step it after every batch.
    SchedulerError unless 0 < warmup_steps < total_steps.

    >>> optimizer = sg.optim.SGD([sg.zeros(1)], lr=8.0)
    >>> scheduler = sg.optim.lr_scheduler.warmup_cosine(optimizer, 2, 4, start_factor=0.5)
    >>> for _ in range(5):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [4.0]
    [6.0]
    [8.0]
    [4.0]
    [0.0]
    """
    if not 0 < warmup_steps < total_steps:
        raise SchedulerError(f"Expected 0 < warmup_steps < total_steps, but got {warmup_steps} and {total_steps}")
    rise = LinearLR(optimizer, start_factor, total_iters=warmup_steps)
    fall = CosineAnnealingLR(optimizer, total_steps - warmup_steps, eta_min)
    return SequentialLR(optimizer, [rise, fall], [warmup_steps])
