"""Cyclic schedules of the learning rate, which can cycle momentum in the opposite direction."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, Rates, SchedulerError, a_group, checked, put, shown


class _Cycling(LRScheduler):
    """A schedule that can cycle momentum, or the first element of betas, with the rates."""

    def _find_momentum(self) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise SchedulerError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults

    def _set_momentum(self, group: Any, value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            put(group, "momentum", value)


class OneCycleLR(_Cycling):
    """Raises the rate from max_lr / div_factor to max_lr, then lowers it to 1 / final_div_factor of its start (Smith, Topin, 2018).

    total_steps, or epochs times steps_per_epoch: the number of steps. The rate rises in the share pct_start of them. Call
    `step` after every batch.
    anneal_strategy: 'cos' or 'linear'. three_phase: the rate first falls back to its start, in as many steps as it rose,
    then to the end.
    cycle_momentum: momentum, or the first element of betas, moves in the opposite direction, from max_momentum to
    base_momentum and back. It then lies on the device, as the rate does, so the groups' programs are compiled once more
    when the scheduler is made, but not in later steps. max_lr and the two momenta: a number, or a list of one per group.
    Raises SchedulerError for arguments out of range, for more than total_steps, and, with cycle_momentum, for an optimizer
    without momentum.

    >>> optimizer = sg.optim.SGD([sg.zeros(1)], momentum=0.9)
    >>> shape = {"pct_start": 0.5, "div_factor": 4.0, "final_div_factor": 2.0, "anneal_strategy": "linear"}
    >>> scheduler = sg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8.0, total_steps=4, **shape)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [2.0]
    [8.0]
    [4.5]
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise SchedulerError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise SchedulerError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        top, last = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        self._schedule_phases = [_phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            back = float(2 * pct_start * self.total_steps) - 2
            self._schedule_phases.append(_phase(back, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
            self._schedule_phases.append(_phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            self._schedule_phases.append(_phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        peaks = a_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        highest: list[float] = []
        lowest: list[float] = []
        if cycle_momentum:
            self._find_momentum()
            highest = a_group("max_momentum", optimizer, max_momentum)
            lowest = a_group("base_momentum", optimizer, base_momentum)
        for k, group in enumerate(optimizer.param_groups):
            if cycle_momentum:
                group.cycle_momentum()
            if last_epoch != -1:
                continue
            first = peaks[k] / div_factor
            group.update(initial_lr=first, max_lr=peaks[k], min_lr=first / final_div_factor)
            if cycle_momentum:
                group.update(max_momentum=highest[k], base_momentum=lowest[k])
                self._set_momentum(group, highest[k])
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates at `last_epoch`; sets momentum on the way, where it is cycled."""
        if self.last_epoch > self.total_steps:
            raise SchedulerError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        later = [k for k, phase in enumerate(self._schedule_phases) if self.last_epoch <= phase["end_step"]]
        k = later[0] if later else len(self._schedule_phases) - 1
        phase = self._schedule_phases[k]
        began, ends = self._schedule_phases[k - 1]["end_step"] if k else 0.0, phase["end_step"]
        part = (self.last_epoch - began) / (ends - began) if ends != began else 1.0  # a phase of length 0 is complete
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends_of = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends_of, part))
        return rates

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


@shown("base_lr=1.0, max_lr=2.0, step_size_up=2", 1.0, 1.5, 2.0, 1.5, 1.0, of="lr=1.0, momentum=0.9")
class CyclicLR(_Cycling):
    """Cycles the rate between base_lr and max_lr (Smith, 2017). Call `step` after every batch.

    step_size_up, step_size_down: the numbers of steps in which the rate rises and falls; the second defaults to the first.
    mode: 'triangular', all cycles have the same height; 'triangular2', each has half the height of the previous one;
    'exp_range', the height is multiplied by gamma ** step. scale_fn: a function that gives the height instead of a mode, from
    the number of the cycle, or with scale_mode='iterations' from that of the step.
    cycle_momentum: as in OneCycleLR, from max_momentum to base_momentum and back. base_lr, max_lr and the two momenta: a
    number, or a list of one per group. Raises SchedulerError for an unknown mode, and, with cycle_momentum, for an optimizer
    without momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked(optimizer)
        lowest = a_group("base_lr", optimizer, base_lr)
        self.max_lrs = a_group("max_lr", optimizer, max_lr)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise SchedulerError("mode is invalid and scale_fn is None")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = "iterations" if scale_fn is None and mode == "exp_range" else scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum()
            self.base_momentums = a_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = a_group("max_momentum", optimizer, max_momentum)
        for k, group in enumerate(optimizer.param_groups):
            if cycle_momentum:
                group.cycle_momentum()
            if last_epoch == -1:
                put(group, "lr", lowest[k])
                if cycle_momentum:
                    self._set_momentum(group, self.max_momentums[k])
                    group.update(max_momentum=self.max_momentums[k], base_momentum=self.base_momentums[k])
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def state_dict(self) -> dict[str, Any]:
        """The state, as of other schedulers. Of scale_fn, it contains the attributes of a callable object, but no function."""
        own = self._scale_fn_custom
        kept = None if own is None or isinstance(own, types.FunctionType) else own.__dict__.copy()
        return {**super().state_dict(), "_scale_fn_custom": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict.get("_scale_fn_custom") is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])

    def scale_fn(self, x: float) -> float:
        """The relative height of a cycle, from the number of the cycle or of the step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return {"triangular": 1.0, "triangular2": 0.5 ** (x - 1), "exp_range": self.gamma**x}[self.mode]

    def get_lr(self) -> Rates:
        """The rates at `last_epoch`; sets momentum on the way, where it is cycled."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        part = 1.0 + self.last_epoch / self.total_size - cycle
        height = part / self.step_ratio if part <= self.step_ratio else (part - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ends:
                self._set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]


def _phase(end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    """The end of a phase, and the entries of a group between which it interpolates."""
    return {
        "end_step": end_step,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        given = {"total_steps": total_steps}
    elif epochs is not None and steps_per_epoch is not None:
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    else:
        raise SchedulerError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in given.items():
        if value <= 0 or not isinstance(value, int):
            raise SchedulerError(f"Expected positive integer {name}, but got {value}")
    return math.prod(given.values())
