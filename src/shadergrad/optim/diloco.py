"""Training over slow networks: each process trains alone for some steps, then all average their changes (DiLoCo, Douillard et al., 2023).

In: an inner optimizer. Out: parameters that are equal in all processes after every H steps. The mean of the processes' changes is the
gradient of an outer optimizer, SGD with Nesterov momentum, whose state is on the parameters' device. Parameters may be exchanged in parts at
different steps, during the inner steps (Streaming DiLoCo, Douillard et al., 2025).
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..distributed.agreement import refuse_unlike, share
from ..distributed.channels import Channel, Levels
from ..distributed.groups import chosen
from ..distributed.in_flight import Flight, InFlight
from ..distributed.reducer import cut, flat_of
from ..drive.tracing import current
from ..dtypes import float16, float32
from ..errors import CompileError
from ..graph.node import grad_mode
from ..run.step import CompiledStep
from ..tensor import Tensor, cat, tensor, where, zeros, zeros_like
from .checks import OptimizerError, check_number
from .optimizer import Optimizer

DTYPES = ("float32", "float16", "int8")


class _Begun(NamedTuple):
    """A running exchange of the sum of all processes' changes. step: at which it began. then: the parameters at that step; None if no inner
    steps run during the exchange."""

    step: int
    flight: Flight
    then: Tensor | None


class _Part:
    """Parameters of one device that are exchanged together. at: the first exchange is at step at + every. These are flat float32 tensors on
    that device: shared, the common values after the last exchange; momentum, of the outer optimizer; error, the rounding error, which is
    added to the next exchange, None without rounding."""

    def __init__(self, params: list[Tensor], at: int, keeps_error: bool) -> None:
        self.params, self.at, self.device = params, at, str(params[0].device)
        with grad_mode(False):
            self.shared = _flat(params).clone()
            self.momentum = zeros_like(self.shared)
            self.error = zeros_like(self.shared) if keeps_error else None
        self.begun: _Begun | None = None
        self.exchanged_at = 0  # the step of the last exchange


def _flat(params: list[Tensor]) -> Tensor:
    """The values of parameters in float32, concatenated."""
    return flat_of([p.detach().to(float32) for p in params])


def _sent(
    params: list[Tensor], shared: Tensor, error: Tensor | None, dtype: str, keeps: bool
) -> tuple[Tensor, Tensor | None]:
    """The change that a process sends, rounded to `dtype`, with `error` updated; and, with `keeps`, a copy of its parameters."""
    now = _flat(params)
    change = shared - now if error is None else shared - now + error
    if dtype == "float16":
        sent = change.to(float16)
        rounded = sent.to(float32)
    elif dtype == "int8":
        sent, rounded = _levels(change)
    else:
        sent = rounded = change
    if error is not None:
        error.copy_(change - rounded)
    return sent, now.clone() if keeps else None  # a copy, because `now` is a view of a single parameter


def _levels(change: Tensor) -> tuple[Tensor, Tensor]:
    """The change quantized to rows of a scale and integers from -127 to 127, flat; and the quantized values."""
    count, each = change.numel(), Levels.ROW - 1
    rows = cat([change, zeros(-count % each, device=change.device)]).reshape(-1, each)
    most = rows.abs().amax(1, keepdim=True)
    scale = where(most == 0, 1.0, most / Levels.MOST)
    levels = (rows / scale).round()
    return cat([scale, levels], 1).reshape(-1), (levels * scale).reshape(-1)[:count]


def _update(
    params: list[Tensor],
    shared: Tensor,
    momentum: Tensor,
    total: Tensor,
    then: Tensor | None,
    rates: Tensor,
    size: int,
) -> None:
    """The outer optimizer's step. total: the sum of all processes' changes. rates: learning rate, momentum. size: the number of processes."""
    lr, beta = rates.unbind()
    if total.numel() != shared.numel():
        total = total.reshape(-1, Levels.ROW)[:, 1:].reshape(-1)[: shared.numel()]
    mean = total.to(float32) / size
    momentum.mul_(beta).add_(mean)
    shared.sub_(lr * (mean + beta * momentum))
    values = shared if then is None else shared + (_flat(params) - then)  # adds the inner steps since then
    for p, value in zip(params, cut(values, params), strict=True):
        p.copy_(value)


class DiLoCo:
    """An optimizer around an inner one: each process makes `every` steps of `inner` alone, then all processes exchange their changes.

    lr, momentum: of the outer optimizer, SGD with Nesterov momentum. parts: the number of parts in which parameters are exchanged, at different
    steps, which spreads the traffic. delay: the number of inner steps during the exchange of a part. dtype: of the exchanged differences: float32,
    float16, or int8 with a scale for each 1,023 numbers; the rounding error is added to the next exchange. process_group: by default all
    processes. All begin with the parameters of the first process. Other attributes are those of the inner optimizer.

    With a compiled step or a GradScaler, call `inner.step()` in the step, and `advance()` after it, outside. Schedulers take `inner`.
    Buffers, such as the statistics of a batch norm, are not exchanged.

    Raises NoGroupError without a process group, OptimizerError for arguments out of range, DistError if the processes' parameters
    differ.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.Linear(2, 1)
    >>> optimizer = sg.optim.DiLoCo(sg.optim.AdamW(model.parameters(), lr=0.01), every=2)
    >>> for _ in range(4):
    ...     optimizer.zero_grad()
    ...     model(sg.ones(1, 2)).sum().backward()
    ...     optimizer.step()
    >>> optimizer.exchanges
    2
    >>> sg.distributed.destroy_process_group()
    """

    counts_steps = True  # GradScaler must not skip one

    def __init__(
        self,
        inner: Optimizer,
        every: int = 50,
        lr: float = 0.7,
        momentum: float = 0.9,
        parts: int = 1,
        delay: int = 0,
        dtype: str = "float32",
        process_group: Any = None,
    ) -> None:
        if not isinstance(inner, Optimizer):
            raise OptimizerError(
                f"[DiLoCo] inner is a {type(inner).__name__}; it must be an optimizer. Hint: DiLoCo(optim.AdamW(model.parameters()))."
            )
        whole = all(isinstance(n, Integral) for n in (every, delay, parts))
        if not whole or every < 1 or not 0 <= delay < every or parts < 1:
            raise OptimizerError(
                f"[DiLoCo] every={every!r}, delay={delay!r}, parts={parts!r}: they count steps and parts, in whole numbers; every and parts are 1 "
                "or more, 0 <= delay < every."
            )
        if dtype not in DTYPES:
            raise OptimizerError(f"[DiLoCo] dtype={dtype!r}: choose one of {', '.join(DTYPES)}.")
        check_number("lr", lr)
        check_number("momentum", momentum)
        if not 0.0 < lr < math.inf or not 0.0 <= momentum < 1.0:
            raise OptimizerError(f"[DiLoCo] lr={lr}, momentum={momentum}: lr must be positive, momentum in [0, 1).")
        self.inner, self.every, self.lr, self.momentum, self.delay, self.dtype = (
            inner,
            every,
            lr,
            momentum,
            delay,
            dtype,
        )
        self.exchanges = 0
        self.steps = 0
        group = chosen(process_group, "DiLoCo")
        params = [p for g in inner.param_groups for p in g["params"]]
        for k, p in enumerate(params):
            if not p.dtype.is_floating_point:
                raise OptimizerError(f"[DiLoCo] params[{k}] is {p.dtype.name}: changes are exchanged of floats.")
        named = [(f"params[{k}]", p) for k, p in enumerate(params)]
        refuse_unlike("DiLoCo", named, group, (every, lr, momentum, parts, delay, dtype))
        share(params, group)
        self._size = group.size()
        self._exchanges = {name: self._exchange_in(group) for name in dict.fromkeys(str(p.device) for p in params)}
        self._parts = [
            _Part(own, (k * every) // parts, dtype != "float32")
            for k, each in enumerate(_divided(params, parts))
            for own in _by_device(each)
        ]
        count = len(self._parts)
        self._send, self._move = CompiledStep(_sent, most_unwarned=count), CompiledStep(_update, most_unwarned=count)

    def _exchange_in(self, group: Any) -> InFlight:
        """The exchanges of a device. Each device has connections of its own, because the order of ready values may differ between processes."""
        engine = group.engine.subgroup(range(group.size()), None)
        if self.dtype == "int8":
            return InFlight(Levels(engine), "outer step")
        return InFlight(
            Channel(engine, "sum", "float16" if self.dtype == "float16" else "", on_devices=True), "outer step"
        )

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises OptimizerError: the parts are fixed when DiLoCo is made, and parameters added later would never be exchanged."""
        raise OptimizerError(
            "[DiLoCo.add_param_group] parameters that are added later would not be exchanged. Hint: add the group to the inner optimizer first, then "
            "make DiLoCo."
        )

    def step(self, closure: Any = None) -> Any:
        """A step of the inner optimizer, and the exchanges that are due."""
        if current.trace is not None:
            raise CompileError(
                "[DiLoCo.step] exchanges values at some steps, which a compiled step cannot choose. Hint: call optimizer.inner.step() in the "
                "compiled step, and optimizer.advance() behind it, outside."
            )
        loss = self.inner.step(closure)
        self.advance()
        return loss

    def advance(self) -> None:
        """Count an inner step, and begin and finish the exchanges that are due."""
        self.steps += 1
        for exchange in self._exchanges.values():
            exchange.move()
        for part in self._parts:
            if part.begun is not None and self.steps - part.begun.step >= self.delay:
                self._finish(part)
            if self.steps > part.at and (self.steps - part.at) % self.every == 0:
                self._begin(part)
        if not self.delay:
            self._finish_all()

    def finish(self) -> None:
        """Wait for running exchanges, and exchange the parts that have changed since. Then all processes have the same parameters."""
        self._finish_all()
        for part in self._parts:
            if part.exchanged_at != self.steps:
                self._begin(part)
        self._finish_all()

    def _begin(self, part: _Part) -> None:
        with grad_mode(False):
            sent, then = self._send(part.params, part.shared, part.error, self.dtype, self.delay > 0)
        part.begun = _Begun(self.steps, self._exchanges[part.device].begin(sent, self._parts.index(part)), then)
        part.exchanged_at = self.steps

    def _finish_all(self) -> None:
        for part in self._parts:
            if part.begun is not None:
                self._finish(part)

    def _finish(self, part: _Part) -> None:
        assert part.begun is not None
        _, flight, then = part.begun
        part.begun = None
        total = self._exchanges[part.device].finish(flight)
        rates = tensor([self.lr, self.momentum], dtype=float32, device=part.device)
        with grad_mode(False):
            self._move(part.params, part.shared, part.momentum, total, then, rates, self._size)
        self.exchanges += 1

    def state_dict(self) -> dict[str, Any]:
        """The states of the inner and the outer optimizer. Waits for running exchanges first."""
        self._finish_all()
        outer = [
            {
                "shared": p.shared.numpy(),
                "momentum": p.momentum.numpy(),
                "error": np.zeros(0, np.float32) if p.error is None else p.error.numpy(),
                "exchanged_at": p.exchanged_at,
            }
            for p in self._parts
        ]
        return {"inner": self.inner.state_dict(), "outer": outer, "steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the result of state_dict, also from a file. Raises OptimizerError if the parts, their sizes or the kind of state differ."""
        missing = [key for key in ("inner", "outer", "steps") if key not in state_dict]
        if missing:
            raise OptimizerError(f"[DiLoCo] the state lacks {', '.join(missing)}. Hint: what DiLoCo.state_dict() gave.")
        sizes = [p.shared.numel() for p in self._parts]
        found = [np.asarray(o["shared"]).size for o in state_dict["outer"]]  # tensors, if read from a file
        if found != sizes:
            raise OptimizerError(
                f"[DiLoCo] the state has parts of {found} numbers, this optimizer of {sizes}. Hint: the same model and number of parts."
            )
        self._finish_all()
        self.inner.load_state_dict(state_dict["inner"])
        self.steps = state_dict["steps"]
        for part, outer in zip(self._parts, state_dict["outer"], strict=True):
            part.exchanged_at = int(outer["exchanged_at"])
            part.shared.write_(np.asarray(outer["shared"]))
            part.momentum.write_(np.asarray(outer["momentum"]))
            if part.error is not None:
                error = np.asarray(outer["error"])
                part.error.write_(error if error.size else np.zeros(part.shared.numel(), np.float32))


def _by_device(params: list[Tensor]) -> list[list[Tensor]]:
    found: dict[str, list[Tensor]] = {}
    for p in params:
        found.setdefault(str(p.device), []).append(p)
    return list(found.values())


def _divided(params: list[Tensor], count: int) -> list[list[Tensor]]:
    """The parameters in at most `count` parts, in order and as even as whole parameters allow; none is empty."""
    total, found, so_far = sum(p.numel() for p in params), [[] for _ in range(count)], 0
    for p in params:
        found[min(count - 1, so_far * count // max(1, total))].append(p)
        so_far += p.numel()
    return [each for each in found if each]


__all__ = ["DiLoCo"]
