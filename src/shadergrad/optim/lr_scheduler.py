"""Learning rates that change over time, with PyTorch's names, arguments and values. In: an optimizer; out: its rates.

A scheduler sets `lr` of the optimizer's groups at every step(), on the host, between calls of a compiled step. That
writes one number to the device and compiles nothing. Call it after the optimizer's step. A scheduler has two forms of
its values: `get_lr` steps from the present rate, so that schedulers combine, and `_get_closed_form_lr`, where there is
one, computes it from the first. Reference: torch.optim.lr_scheduler.
"""

from __future__ import annotations

import inspect
import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..drive.tracing import current
from ..errors import CompileError, ShadergradError
from .optimizer import Optimizer

Rates = list[float]
S = TypeVar("S", bound=type)


class SchedulerError(ShadergradError, ValueError, TypeError):
    """Arguments that make no schedule. PyTorch raises ValueError or TypeError."""


class ResumeError(SchedulerError, KeyError):
    """A schedule that shall go on from the middle, and an optimizer that does not know where it began."""

    __str__ = Exception.__str__


def _shown(arguments: str, *rates: float, of: str = "lr=8.0") -> Callable[[S], S]:
    """Give a scheduler's docstring an example: the rates it sets, made with these arguments, of an optimizer made with `of`."""

    def documented(cls: S) -> S:
        shown = "\n".join(f"[{rate}]" for rate in rates)
        cls.__doc__ = f"""{inspect.cleandoc(cls.__doc__ or "")}

>>> optimizer = sg.optim.SGD([sg.zeros(1)], {of})
>>> scheduler = sg.optim.lr_scheduler.{cls.__name__}(optimizer, {arguments})
>>> for _ in range({len(rates)}):
...     print(scheduler.get_last_lr())
...     optimizer.step()
...     scheduler.step()
{shown}
"""
        return cls

    return documented


class LRScheduler:
    """Base of the schedulers: a subclass writes `get_lr`, the rates of the groups at `self.last_epoch`.

    It may read `self.base_lrs`, the rates of the beginning, and the groups' present ones. Call step() after the
    optimizer's, outside of compiled steps (CompileError); before it, PyTorch's UserWarning.
    last_epoch: -1 to begin, else the number of the step to go on from; ResumeError where a group has no 'initial_lr'
    then.
    SchedulerError for what is no optimizer.

    >>> class Halving(sg.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = sg.optim.SGD([sg.zeros(1)], lr=8.0)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [4.0]
    """

    _is_initial = False
    _step_count = 0
    last_epoch: int
    _last_lr: Rates

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = _checked(optimizer)
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ResumeError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming scheduler with "
                    f"last_epoch={last_epoch}. Hint: load the optimizer's state first; for a fresh run leave last_epoch at -1."
                )
        self.base_lrs: Rates = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> Rates:
        """The rates of the groups at `last_epoch`. To ask for the present ones, use get_last_lr()."""
        raise NotImplementedError

    def get_last_lr(self) -> Rates:
        """The rates that were set last, one a group."""
        return self._last_lr

    def step(self, epoch: Any = None) -> None:
        """Set the rates of the next epoch (or of `epoch`, which PyTorch discourages)."""
        _refuse_capture()
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the opposite "
                "order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will result in skipping the "
                "first value of the learning rate schedule.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._set(self.get_lr() if closed is None else closed())

    def _set(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._present()

    def _present(self) -> Rates:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _times(self, factor: float) -> Rates:
        """The present rates times a factor."""
        return [rate * factor for rate in self._present()]

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on, apart from the optimizer, whose state is to be saved too."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where a state_dict was taken."""
        self.__dict__.update(state_dict)


def _checked(optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise SchedulerError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def _number(name: str, value: Any) -> float:
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise SchedulerError(f"argument '{name}' must be float, not {type(value).__name__}")
    return value


def _period(name: str, value: Any, least: int = 1) -> int:
    """A number of epochs."""
    if not hasattr(value, "__index__"):
        raise SchedulerError(f"argument '{name}' must be int, not {type(value).__name__}")
    if value < least:
        words = "positive" if least else "non-negative"
        raise SchedulerError(f"Expected {words} integer {name}, but got {name}={value}")
    return value


def _refuse_capture() -> None:
    if current.trace is not None:
        raise CompileError(
            "a scheduler's step() inside a compiled step would happen once, not at every call. "
            "Hint: call it after the compiled step; changing the rate compiles nothing."
        )


def _a_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group, of one for all or of a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise SchedulerError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return list(value)


# ---------------------------------------------------------------------------------- one formula each


_LRScheduler = LRScheduler  # its older name, of which programs derive


class _ByFunction(LRScheduler):
    """Schedules by a function of the epoch, one for all groups or a list of one a group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(_checked(optimizer).param_groups)
        given = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(given) != count:
            raise SchedulerError(f"Expected {count} lr_lambdas, but got {len(given)}")
        for function in given:
            if not callable(function):
                raise SchedulerError(f"lr_lambda should be a function, but got {type(function).__name__}")
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Functions are not saved; of callable objects, their attributes."""
        saved = [None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


@_shown("lambda epoch: 1 / (1 + epoch)", 8.0, 4.0)
class LambdaLR(_ByFunction):
    """The initial rate times lr_lambda(epoch); lr_lambda: a function, or a list of one a group.

    Functions are not saved by state_dict, but the attributes of callable objects are.
    SchedulerError for what cannot be called, or another number of functions than groups.
    """

    def get_lr(self) -> Rates:
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self.base_lrs, strict=True)]


@_shown("lambda epoch: 0.5", 8.0, 4.0, 2.0)
class MultiplicativeLR(_ByFunction):
    """The present rate times lr_lambda(epoch), from epoch 1 on; lr_lambda, saving and errors: as for LambdaLR."""

    def get_lr(self) -> Rates:
        if self._is_initial:
            return self._present()
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self._present(), strict=True)]


@_shown("step_size=2, gamma=0.5", 8.0, 8.0, 4.0)
class StepLR(LRScheduler):
    """Times gamma every step_size epochs: the initial rate * gamma ** (epoch // step_size).

    SchedulerError for a step_size below 1, and for what is no number.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = _period("step_size", step_size)
        self.gamma = _number("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        is_due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if is_due else self._present()

    def _get_closed_form_lr(self) -> Rates:
        return [rate * self.gamma ** (self.last_epoch // self.step_size) for rate in self.base_lrs]


@_shown("milestones=[1, 3], gamma=0.5", 8.0, 4.0, 4.0, 2.0)
class MultiStepLR(LRScheduler):
    """Times gamma at every milestone, epochs; at one that is given n times, times gamma ** n.

    SchedulerError for milestones that are no list, and a gamma that is no number.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if not isinstance(milestones, Iterable):
            raise SchedulerError(f"milestones must be a list of integers, but got {milestones=}")
        self.milestones = Counter(milestones)
        self.gamma = _number("gamma", gamma)
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


@_shown("factor=0.5, total_iters=2", 4.0, 4.0, 8.0)
class ConstantLR(LRScheduler):
    """The initial rate times factor before epoch total_iters, then the initial rate.

    SchedulerError for a factor outside [0, 1]; for 0, at epoch total_iters, since the rate cannot come back from it.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0.0 <= _number("factor", factor) <= 1.0:
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


@_shown("start_factor=0.5, total_iters=2", 4.0, 6.0, 8.0)
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
        if not 0.0 < _number("start_factor", start_factor) <= 1.0:
            raise SchedulerError(
                f"Starting multiplicative factor expected to be greater than 0 and less or equal to 1, but got {start_factor=}"
            )
        if not 0.0 <= _number("end_factor", end_factor) <= 1.0:
            raise SchedulerError(f"Ending multiplicative factor expected to be between 0 and 1, but got {end_factor=}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = _period("total_iters", total_iters, 0)
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
        total = _period("total_iters", self.total_iters)
        factor = self.start_factor + rise * min(total, self.last_epoch) / total
        return [rate * factor for rate in self.base_lrs]


@_shown("gamma=0.5", 8.0, 4.0, 2.0)
class ExponentialLR(LRScheduler):
    """Times gamma every epoch: the initial rate * gamma ** epoch. SchedulerError for a gamma that is no number."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = _number("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        return self._present() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


@_shown("total_iters=2", 8.0, 4.0, 0.0)
class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power, then 0. SchedulerError for a negative total_iters."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = _period("total_iters", total_iters, 0)
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._times((now / before) ** self.power)

    def _get_closed_form_lr(self) -> Rates:
        total = _period("total_iters", self.total_iters)
        left = 1.0 - min(total, self.last_epoch) / total
        return [rate * left**self.power for rate in self.base_lrs]


@_shown("T_max=2", 8.0, 4.0, 0.0)
class CosineAnnealingLR(LRScheduler):
    """From the initial rate to eta_min in T_max epochs, along half a cosine; then up again (Loshchilov, Hutter, 2017).

        lr = eta_min + (initial - eta_min) * (1 + cos(pi * epoch / T_max)) / 2

    SchedulerError for a T_max below 1, and for what is no number.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = _period("T_max", T_max)
        self.eta_min = _number("eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        if self._is_initial:
            return self._present()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the bottom, no ratio leads up
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * rise for rate, base in zip(self._present(), self.base_lrs, strict=True)
            ]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (rate - self.eta_min) + self.eta_min for rate in self._present()]

    def _get_closed_form_lr(self) -> Rates:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (rate - self.eta_min) * height for rate in self.base_lrs]


@_shown("T_0=2", 8.0, 4.0, 8.0, 4.0)
class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to eta_min in T_0 epochs, again and again, each T_mult times as long.

        lr = eta_min + (initial - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2      T_cur of T_i epochs since the restart

    Loshchilov and Hutter, 2017. SchedulerError for a T_0 or T_mult below 1, or no whole number; eta_min that is no
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
        _refuse_capture()
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


class _Cycling(LRScheduler):
    """A schedule that may cycle momentum, or the first of betas, with the rates."""

    def _find_momentum(self) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise SchedulerError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults

    def _set_momentum(self, group: Any, value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class OneCycleLR(_Cycling):
    """Up from max_lr / div_factor to max_lr, and down to 1 / final_div_factor of where it began (Smith, Topin, 2018).

    total_steps, or epochs and steps_per_epoch: how many steps, of which the share pct_start goes up. Step it after
    every batch.
    anneal_strategy: 'cos' or 'linear'. three_phase: down to where it began first, as long as it went up, then to the
    end.
    cycle_momentum: momentum, or the first of betas, goes the other way, from max_momentum to base_momentum and back; it
    then lives on the device, as the rate does, so the groups' programs are compiled once more when the scheduler is
    made, and never again. max_lr and the two momenta: a number, or a list of one a group.
    SchedulerError for arguments out of range, an optimizer without momentum where it is cycled, and more than
    total_steps.

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
        self.optimizer = _checked(optimizer)
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
        peaks = _a_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        highest: list[float] = []
        lowest: list[float] = []
        if cycle_momentum:
            self._find_momentum()
            highest = _a_group("max_momentum", optimizer, max_momentum)
            lowest = _a_group("base_momentum", optimizer, base_momentum)
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
        part = (self.last_epoch - began) / (ends - began) if ends != began else 1.0  # a phase of no length is over
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


@_shown("base_lr=1.0, max_lr=2.0, step_size_up=2", 1.0, 1.5, 2.0, 1.5, 1.0, of="lr=1.0, momentum=0.9")
class CyclicLR(_Cycling):
    """Up from base_lr to max_lr and down again, over and over (Smith, 2017). Step it after every batch.

    step_size_up, step_size_down: steps up and down, the second as many as the first if left out. mode: 'triangular', every
    cycle alike; 'triangular2', each half as high as the one before; 'exp_range', times gamma ** step. scale_fn: a function in
    place of a mode, of the cycle's number, or where scale_mode is 'iterations' of the step's.
    cycle_momentum: as for OneCycleLR, from max_momentum to base_momentum and back. base_lr, max_lr and the two momenta: a
    number, or a list of one a group. SchedulerError for an unknown mode, and an optimizer without momentum where it is cycled.
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
        self.optimizer = _checked(optimizer)
        lowest = _a_group("base_lr", optimizer, base_lr)
        self.max_lrs = _a_group("max_lr", optimizer, max_lr)
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
            self.base_momentums = _a_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = _a_group("max_momentum", optimizer, max_momentum)
        for k, group in enumerate(optimizer.param_groups):
            if cycle_momentum:
                group.cycle_momentum()
            if last_epoch == -1:
                group["lr"] = lowest[k]
                if cycle_momentum:
                    self._set_momentum(group, self.max_momentums[k])
                    group.update(max_momentum=self.max_momentums[k], base_momentum=self.base_momentums[k])
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def state_dict(self) -> dict[str, Any]:
        """As all schedulers'; a function is not saved, of a callable object its attributes."""
        own = self._scale_fn_custom
        kept = None if own is None or isinstance(own, types.FunctionType) else own.__dict__.copy()
        return {**super().state_dict(), "_scale_fn_custom": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict.get("_scale_fn_custom") is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])

    def scale_fn(self, x: float) -> float:
        """How high a cycle is, by its number or the step's."""
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
    """Until when, and between which entries of a group."""
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


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a metric has not become better for more than `patience` epochs. step(metric) reads the metric.

    mode: 'min' or 'max', what better means; threshold: by how much, relative to the best ('rel') or absolutely ('abs').
    cooldown: epochs after a reduction that do not count. min_lr: the lowest rate, one for all groups or a list. eps: a
    smaller reduction is left out.
    SchedulerError for a factor of 1 or more, another mode, a list of another length, and a metric that is no number.

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
        if not _number("factor", factor) < 1.0:
            raise SchedulerError(f"Factor should be < 1.0, but got {factor=}")
        self.optimizer = _checked(optimizer)
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

    def _reset(self) -> None:
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs do not count yet, since the rate was reduced less than `cooldown` epochs ago."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # PyTorch's: the metric first
        """Look at the metric of an epoch: a number, or a tensor of one element."""
        _refuse_capture()
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
            rate = max(group["lr"] * self.factor, lowest)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """As all schedulers'; without `best` before the first epoch, since files hold no infinity."""
        return {k: v for k, v in super().state_dict().items() if k != "best" or math.isfinite(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._reset()
        super().load_state_dict(state_dict)


# ---------------------------------------------------------------------------------- schedules of schedules


class _OfSchedulers(LRScheduler):
    """A scheduler that steps others, of one optimizer."""

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
        """With those of its schedulers."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_OfSchedulers):
    """One scheduler after the other, of one optimizer: the next begins, at its epoch 0, at each milestone.

    SchedulerError unless there is one scheduler more than milestones, for another optimizer's, and for
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
            group["lr"] = group["initial_lr"]
        _undo(self)  # each took its first step when it was made; only the one that begins shall have
        begins = schedulers[bisect_right(milestones, 0)]
        begins._initial_step()
        self._last_lr = begins.get_last_lr()

    def step(self) -> None:  # type: ignore[override]  # as in PyTorch, which epoch it is decides who steps
        """Set the rates of the next epoch."""
        _refuse_capture()
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

    SchedulerError for no scheduler, another optimizer's, and ReduceLROnPlateau.

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


__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "warmup_cosine",
]
