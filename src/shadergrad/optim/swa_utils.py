"""Averages of a model's weights over training: equally weighted (SWA, Izmailov et al., 2018), or exponential (EMA, Polyak).

As torch.optim.swa_utils. An average may be updated inside a compiled step.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..autograd import no_grad
from ..drive.tracing import current
from ..dtypes import int32
from ..nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from ..tensor import Tensor, where, zeros
from .checks import OptimizerError
from .lr_scheduler.base import LRScheduler, Rates, SchedulerError, a_group
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

NORMALIZATIONS = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def _decay(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise OptimizerError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return decay


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential average of one parameter: decay * average + (1 - decay) * present.

    Raises OptimizerError for a decay outside [0, 1].

    >>> sg.optim.swa_utils.get_ema_avg_fn(0.75)(sg.tensor([4.0]), sg.tensor([8.0]), 1)
    tensor([5.])
    """
    rest = 1.0 - _decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return ema_param * decay + current_param * rest

    return ema_update


def get_swa_avg_fn() -> Average:
    """The mean of one parameter over all updates.

    >>> sg.optim.swa_utils.get_swa_avg_fn()(sg.tensor([4.0]), sg.tensor([8.0]), 1)
    tensor([6.])
    """

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _of_lists(one: Average) -> Averages:
    @no_grad()
    def update(averaged: Sequence[Tensor], present: Sequence[Tensor], num_averaged: Any) -> None:
        for p, q in zip(averaged, present, strict=True):
            p.copy_(one(p, q, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """The exponential average of a list of parameters, in place. Raises OptimizerError for a decay outside [0, 1].

    >>> average = sg.tensor([4.0])
    >>> sg.optim.swa_utils.get_ema_multi_avg_fn(0.75)([average], [sg.tensor([8.0])], 1)
    >>> average
    tensor([5.])
    """
    return _of_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """The mean of a list of parameters over all updates, in place.

    >>> average = sg.tensor([4.0])
    >>> sg.optim.swa_utils.get_swa_multi_avg_fn()([average], [sg.tensor([8.0])], 1)
    >>> average
    tensor([6.])
    """
    return _of_lists(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's. Called as the model; `module` is the copy.

    device: that of the copy. avg_fn(averaged, present, number): the next average of one parameter, by default the equally
    weighted mean; multi_avg_fn: of lists, in place. The first update copies. use_buffers: average buffers too; without it they are
    copied. `n_averaged` (): how many updates there were. Raises OptimizerError if both functions are given.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> averaged = sg.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = model.weight.data.fill_(value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item(), averaged.n_averaged.item()
    (3.0, 3)
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise OptimizerError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        first = next(self.module.parameters(), None)
        where_it_lies = device if device is not None else None if first is None else first.device
        self.register_buffer("n_averaged", zeros((), dtype=int32, device=where_it_lies))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Update the averages with the model's present parameters."""
        mine, its = self.module, model
        pairs = list(zip(mine.parameters(), its.parameters(), strict=True))
        buffers = list(zip(mine.buffers(), its.buffers(), strict=True))
        with no_grad():
            found = [(p.data, q.detach().to(p.device)) for p, q in (*pairs, *(buffers if self.use_buffers else ()))]
            if current.trace is not None:  # only the device knows whether it is the first update
                is_first = self.n_averaged == 0
                before = [p.clone() for p, _ in found]
                self._average(found)
                for (p, q), _ in zip(found, before, strict=True):
                    p.copy_(where(is_first.to(p.device), q, p))
            elif int(self.n_averaged) == 0:
                for p, q in found:
                    p.copy_(q)
            else:
                self._average(found)
            for p, q in () if self.use_buffers else buffers:
                p.copy_(q.detach().to(p.device))
            self.n_averaged.add_(1)

    def _average(self, found: list[tuple[Tensor, Tensor]]) -> None:
        alike: dict[Any, list[tuple[Tensor, Tensor]]] = {}
        for p, q in found:
            alike.setdefault((str(p.device), p.dtype), []).append((p, q))
        update = self.multi_avg_fn or _of_lists(self.avg_fn or get_swa_avg_fn())
        for pairs in alike.values():
            count = self.n_averaged.to(pairs[0][0].device)
            update([p for p, _ in pairs], [q for _, q in pairs], count)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the running statistics of batch normalizations to means over all batches of a loader.

    A batch: a tensor, or a list or tuple that begins with it. device: to which batches are moved. Meanwhile the model is in training
    mode; afterwards its former mode is restored.

    >>> model = nn.BatchNorm1d(1)
    >>> sg.optim.swa_utils.update_bn([sg.tensor([[1.0], [3.0]]), sg.tensor([[5.0], [7.0]])], model)
    >>> model.running_mean
    tensor([4.])
    """
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, NORMALIZATIONS)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    with no_grad():
        for module in momenta:
            module.reset_running_stats()
            module.momentum = None  # the mean over all batches
        try:
            for batch in loader:
                x = batch[0] if isinstance(batch, list | tuple) else batch
                model(x if device is None else x.to(device))
        finally:
            for module, momentum in momenta.items():
                module.momentum = momentum
            model.train(was_training)


class SWALR(LRScheduler):
    """From the present rates to `swa_lr` in anneal_epochs epochs, then constant. swa_lr: a number, or a list with one per group.

    anneal_strategy: 'cos' or 'linear'. SchedulerError for another one, and for a negative anneal_epochs.

    >>> optimizer = sg.optim.SGD([sg.zeros(1)], lr=8.0)
    >>> scheduler = sg.optim.swa_utils.SWALR(optimizer, swa_lr=4.0, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [8.0]
    [6.0]
    [4.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(a_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise SchedulerError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise SchedulerError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """The progress of the rates, from 0 to 1, after the fraction t of the epochs."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> Rates:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (self.anneal_func(max(0, min(1, k / max(1, self.anneal_epochs)))) for k in (step - 1, step))
        rates = []
        for rate, group in zip(self._present(), self.optimizer.param_groups, strict=True):
            last = group["swa_lr"]
            first = last if before == 1 else (rate - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
