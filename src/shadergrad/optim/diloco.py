"""Training over slow networks: processes train alone for some steps, then average what changed (DiLoCo, Douillard et al., 2023).

In: an optimizer, the inner one. Out: parameters that all processes share again after every H steps. The mean of all changes is the
gradient of an outer optimizer, SGD with Nesterov's momentum, whose state lies in host memory. Parameters may be exchanged in parts at different steps,
while the inner steps go on (Streaming DiLoCo, Douillard et al., 2025).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..distributed.agreement import refuse_unlike, share
from ..distributed.engines import Engine, Pending, ReduceOp
from ..distributed.groups import chosen
from ..drive.tracing import current
from ..errors import CompileError
from ..tensor import Tensor
from .checks import OptimizerError
from .optimizer import Optimizer

DTYPES = ("float32", "float16", "int8")
LEVELS = 127  # of int8


class _Part:
    """Parameters that are exchanged together, flat in host memory. shared: what all processes had after the last exchange; momentum: the outer
    optimizer's; error: what rounding has lost and the next exchange sends."""

    def __init__(self, params: list[Tensor], at: int) -> None:
        self.params, self.at = params, at
        self.shared = flat_of(params)
        self.momentum = np.zeros_like(self.shared)
        self.error = np.zeros_like(self.shared)
        self.begun: tuple[int, np.ndarray, Any] | None = None
        self.exchanged_at = 0  # the step of the last exchange


def flat_of(params: list[Tensor]) -> np.ndarray:
    """The values of parameters, one behind the other."""
    return np.concatenate([p.detach().numpy().astype(np.float32).reshape(-1) for p in params])


class DiLoCo:
    """An optimizer around another: `inner` steps alone, and every `every` steps the processes exchange what changed.

    lr, momentum: of the outer optimizer, SGD with Nesterov's momentum. parts: in how many parts parameters are exchanged, at different steps, which
    spreads the traffic. delay: how many inner steps go on while a part travels. dtype: of the differences that travel: float32, float16, or
    int8 with a scale for each part; what rounding loses is sent the next time. process_group: by default all processes, which begin with the
    parameters of the first one. Other attributes are the inner optimizer's.

    In a compiled step call `inner.step()`, and behind it `advance()`, outside of the step.

    Raises NoGroupError without a process group, OptimizerError for numbers that make no sense, DistError where processes have
    other parameters.

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
        if every < 1 or not 0 <= delay < every or parts < 1:
            raise OptimizerError(
                f"[DiLoCo] every={every}, delay={delay}, parts={parts}: every and parts are 1 or more, 0 <= delay < every."
            )
        if dtype not in DTYPES:
            raise OptimizerError(f"[DiLoCo] dtype={dtype!r}: choose one of {', '.join(DTYPES)}.")
        if lr <= 0.0 or not 0.0 <= momentum < 1.0:
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
        named = [(f"params[{k}]", p) for k, p in enumerate(params)]
        refuse_unlike("DiLoCo", named, group, (every, lr, momentum, parts, delay, dtype))
        share(params, group)
        engine = group.engine.subgroup(range(group.size()), None)
        assert engine is not None
        self._engine: Engine = engine
        self._parts = [_Part(each, (k * every) // parts) for k, each in enumerate(_divided(params, parts))]

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def step(self, closure: Any = None) -> Any:
        """A step of the inner optimizer, and what is due of the outer one."""
        if current.trace is not None:
            raise CompileError(
                "[DiLoCo.step] exchanges values at some steps, which a compiled step cannot choose. Hint: call optimizer.inner.step() in the "
                "compiled step, and optimizer.advance() behind it, outside."
            )
        loss = self.inner.step(closure)
        self.advance()
        return loss

    def advance(self) -> None:
        """Count an inner step, and exchange what is due."""
        self.steps += 1
        for part in self._parts:
            if part.begun is not None and self.steps - part.begun[0] >= self.delay:
                self._finish(part)
            if self.steps > part.at and (self.steps - part.at) % self.every == 0:
                self._begin(part)
                if not self.delay:
                    self._finish(part)

    def finish(self) -> None:
        """Wait for what travels, and exchange the parts that have changed since: at the end all processes have the same parameters."""
        for part in self._parts:
            if part.begun is not None:
                self._finish(part)
            if part.exchanged_at != self.steps:
                self._begin(part)
                self._finish(part)

    def _begin(self, part: _Part) -> None:
        now = flat_of(part.params)
        change = part.shared - now + part.error
        part.begun = self.steps, now, self._send(part, change)
        part.exchanged_at = self.steps

    def _send(self, part: _Part, change: np.ndarray) -> tuple[Pending, np.ndarray, np.ndarray | None]:
        if self.dtype == "int8":
            most = np.abs(change).max(initial=0.0)
            scale = np.float32(most / LEVELS if most else 1.0)
            sent = np.rint(change / scale).astype(np.int8)
            part.error = change - sent * scale
            row = np.concatenate([np.array([scale], np.float32).view(np.int8), sent])
            out = np.empty((self._engine.size, row.size), np.int8)
            return self._engine.all_gather(row.view(np.uint8), out.reshape(-1).view(np.uint8)), row, out
        sent = change.astype(self.dtype)
        part.error = change - sent.astype(np.float32)
        return self._engine.all_reduce(sent, ReduceOp.SUM), sent, None

    def _finish(self, part: _Part) -> None:
        assert part.begun is not None
        _, then, (pending, sent, rows) = part.begun
        part.begun = None
        pending.wait()
        if rows is None:
            mean = sent.astype(np.float32) / self._engine.size
        else:
            scales = np.ascontiguousarray(rows[:, :4]).view(np.float32)
            mean = (rows[:, 4:] * scales).mean(axis=0, dtype=np.float32)
        part.momentum = self.momentum * part.momentum + mean
        part.shared = part.shared - np.float32(self.lr) * (mean + np.float32(self.momentum) * part.momentum)
        moved = flat_of(part.params) - then if self.delay else 0.0  # by the inner steps since
        self._write(part, part.shared + moved)
        self.exchanges += 1

    def _write(self, part: _Part, values: np.ndarray) -> None:
        at = 0
        for p in part.params:
            p.write_(values[at : at + p.numel()].reshape(tuple(p.shape)))
            at += p.numel()

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's, and the outer one's. What travels has arrived first."""
        for part in self._parts:
            if part.begun is not None:
                self._finish(part)
        outer = [
            {
                "shared": p.shared.copy(),
                "momentum": p.momentum.copy(),
                "error": p.error.copy(),
                "exchanged_at": p.exchanged_at,
            }
            for p in self._parts
        ]
        return {"inner": self.inner.state_dict(), "outer": outer, "steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict gave. Raises OptimizerError for another number of parts or other sizes."""
        sizes = [p.shared.size for p in self._parts]
        if [np.size(o["shared"]) for o in state_dict["outer"]] != sizes:
            raise OptimizerError(f"[DiLoCo] the state is of other parts or parameters than {sizes} numbers.")
        self.inner.load_state_dict(state_dict["inner"])
        self.steps = state_dict["steps"]
        for part, outer in zip(self._parts, state_dict["outer"], strict=True):
            part.begun = None
            part.exchanged_at = int(outer["exchanged_at"])
            part.shared, part.momentum, part.error = (
                np.array(outer[n], np.float32) for n in ("shared", "momentum", "error")
            )


def _divided(params: list[Tensor], count: int) -> list[list[Tensor]]:
    """In order, as evenly as whole parameters allow; none empty."""
    total, found, so_far = sum(p.numel() for p in params), [[] for _ in range(count)], 0
    for p in params:
        found[min(count - 1, so_far * count // max(1, total))].append(p)
        so_far += p.numel()
    return [each for each in found if each]


__all__ = ["DiLoCo"]
