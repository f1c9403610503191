"""The base class of schedulers: reads and sets learning rates, checks arguments, saves state."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ...drive.tracing import current
from ...errors import CompileError, ShadergradError
from ...graph.node import grad_mode
from ...tensor import Tensor
from ..optimizer import Optimizer
from ..state import copied

Rates = list[float]
Scheduler = TypeVar("Scheduler", bound=type)


class SchedulerError(ShadergradError, ValueError, TypeError):
    """Invalid arguments of a schedule. PyTorch raises ValueError or TypeError."""


class ResumeError(SchedulerError, KeyError):
    """A schedule that resumes in the middle, with an optimizer that lacks the initial learning rate."""

    __str__ = Exception.__str__


def shown(arguments: str, *rates: float, of: str = "lr=8.0") -> Callable[[Scheduler], Scheduler]:
    """Add an example to a scheduler's docstring: the rates that it sets, with these arguments, for an optimizer made with `of`."""

    def documented(cls: Scheduler) -> Scheduler:
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

    A rate that is a tensor stays that tensor: the scheduler writes into it. get_lr may read `self.base_lrs`,
    the initial rates, and the groups' present ones. Call step() after the optimizer's, and outside of compiled steps, else CompileError. A call
    before the optimizer's gives PyTorch's UserWarning.
    last_epoch: -1 to begin, else the number of the step from which to resume; then ResumeError if a group has no
    'initial_lr'.
    SchedulerError for anything but an optimizer.

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
        self.optimizer = checked(optimizer)
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise ResumeError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming scheduler with "
                    f"last_epoch={last_epoch}. Hint: load the optimizer's state first; for a fresh run leave last_epoch at -1."
                )
        self.base_lrs: Rates = [copied(group["initial_lr"]) for group in optimizer.param_groups]
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
        """The rates that the scheduler set last, one per group."""
        return self._last_lr

    def step(self, epoch: Any = None) -> None:
        """Set the rates of the next epoch (or of `epoch`, which PyTorch discourages)."""
        refuse_capture()
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", True):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the opposite "
                "order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will result in skipping the "
                "first value of the learning rate schedule. See more details at "
                "https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
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
            put(group, "lr", rate)
        self._last_lr = self._present()

    def _present(self) -> Rates:
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _times(self, factor: float) -> Rates:
        """The present rates times a factor."""
        return [rate * factor for rate in self._present()]

    def state_dict(self) -> dict[str, Any]:
        """The state for resuming, without the optimizer's, which must be saved, too."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a state_dict."""
        self.__dict__.update(state_dict)


def put(group: Any, key: str, value: Any) -> None:
    """Set a hyperparameter; if it is a tensor, write its value."""
    held = group[key]
    if not isinstance(held, Tensor):
        group[key] = value
        return
    with grad_mode(False):
        held.copy_(value.reshape(tuple(held.shape))) if isinstance(value, Tensor) else held.fill_(value)


def checked(optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise SchedulerError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def number(name: str, value: Any) -> float:
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise SchedulerError(f"argument '{name}' must be float, not {type(value).__name__}")
    return value


def period(name: str, value: Any, least: int = 1) -> int:
    """A number of epochs."""
    if not hasattr(value, "__index__"):
        raise SchedulerError(f"argument '{name}' must be int, not {type(value).__name__}")
    if value < least:
        words = "positive" if least else "non-negative"
        raise SchedulerError(f"Expected {words} integer {name}, but got {name}={value}")
    return value


def refuse_capture() -> None:
    if current.trace is not None:
        raise CompileError(
            "a scheduler's step() inside a compiled step would happen once, not at every call. "
            "Hint: call it after the compiled step; changing the rate compiles nothing."
        )


def a_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value per group, from one for all or from a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise SchedulerError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return list(value)
