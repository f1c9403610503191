"""An optimizer whose state is sharded across processes: ZeRO, stage 1 (Rajbhandari et al., 2020).

In: parameters, the same in all processes, with the mean of all gradients. Out: updated parameters, the same in all. Each process holds
the state of its share of the parameters, updates these, and sends them to the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from ..distributed.channels import Channel
from ..distributed.groups import ProcessGroup, chosen
from ..distributed.objects import all_objects
from ..drive.tracing import current
from ..graph.node import grad_mode
from ..primitives.exchange import exchanged
from ..tensor import Tensor, cat, compute_all
from .checks import OptimizerError
from .lbfgs import LBFGS
from .optimizer import Optimizer

FIRST_NUMBER = 1 << 25  # the first number of these exchanges; gradients have lower ones
_count = itertools.count()


def shares_of(sizes: list[list[int]], count: int) -> list[list[int]]:
    """The process that owns each parameter of each group. The parameters of a group are assigned from the largest on, each to the process
    with the fewest elements. A further group does not change the owners in earlier ones, so their state does not move."""
    loads = [0] * count
    owners = []
    for group in sizes:
        owner = [0] * len(group)
        for k in sorted(range(len(group)), key=lambda k: (-group[k], k)):
            owner[k] = loads.index(min(loads))
            loads[owner[k]] += group[k]
        owners.append(owner)
    return owners


class ZeroRedundancyOptimizer(Optimizer):
    """`optimizer_class(params, **defaults)` with its state sharded across processes. Compiled steps and schedulers may use it.

    The result is an instance of a subclass of optimizer_class. Each process has all parameters and gradients; use it with
    DistributedDataParallel. process_group: by default all processes. parameters_as_bucket_view: no effect. overlap_with_ddp is refused.
    `consolidate_state_dict(to)`, which all processes must call, gathers the state. Then state_dict() in process `to` returns all of it, as
    optimizer_class does. Any number of processes can load it.

    Raises NoGroupError without a process group, OptimizerError for anything but a class of optimizers, and for LBFGS.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.Linear(2, 1)
    >>> optimizer = sg.optim.ZeroRedundancyOptimizer(model.parameters(), optimizer_class=sg.optim.AdamW, lr=0.01)
    >>> model(sg.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> sg.distributed.destroy_process_group()
    """

    _zero_group: ProcessGroup

    def __new__(
        cls,
        params: Iterable[Any],
        optimizer_class: type[Optimizer] = Optimizer,
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> Any:
        if cls is not ZeroRedundancyOptimizer:
            return object.__new__(cls)
        if (
            not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer))
            or optimizer_class is Optimizer
        ):
            raise OptimizerError(
                "[ZeroRedundancyOptimizer] optimizer_class must be a class of optimizers, such as optim.AdamW."
            )
        if issubclass(optimizer_class, LBFGS):
            raise OptimizerError(
                "[ZeroRedundancyOptimizer] LBFGS computes a step of all parameters together, which shares of them would change. Hint: an optimizer "
                "of single parameters, such as optim.AdamW."
            )
        if overlap_with_ddp:
            raise OptimizerError("[ZeroRedundancyOptimizer] overlap_with_ddp is not supported. Hint: leave it out.")
        group = chosen(process_group, "ZeroRedundancyOptimizer")
        names = {"__module__": optimizer_class.__module__, "_zero_group": group}
        made = type(f"ZeroRedundancy{optimizer_class.__name__}", (_Zero, optimizer_class), names)
        return made(params, **defaults)


class _Zero(Optimizer):
    """The methods that are added to a class of optimizers."""

    _zero_group: ProcessGroup

    def __init__(self, params: Iterable[Any], **defaults: Any) -> None:
        super().__init__(params, **defaults)
        engine = self._zero_group.engine
        own = engine.subgroup(range(engine.size), None)
        assert own is not None
        self._engine = own
        self._channels = [Channel(own, "root", root=rank) for rank in range(own.size)]
        self._base = FIRST_NUMBER + next(_count) * (1 << 12)
        self._gathered: dict[str, Any] | None = None

    def _owned(self) -> list[list[Tensor]]:
        """The parameters of each process."""
        groups = [list(group["params"]) for group in self.param_groups]
        found: list[list[Tensor]] = [[] for _ in self._channels]
        owners = shares_of([[p.numel() for p in params] for params in groups], len(found))
        for params, owned in zip(groups, owners, strict=True):
            for p, owner in zip(params, owned, strict=True):
                found[owner].append(p)
        return found

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this process's own parameters, and receive the others."""
        loss = None
        if closure is not None:
            with grad_mode(True):
                loss = closure()
        owned = self._owned()
        others = [(p, p.grad) for rank, params in enumerate(owned) if rank != self._engine.rank for p in params]
        for p, _ in others:
            p.grad = None
        try:
            super().step()
        finally:
            for p, gradient in others:
                p.grad = gradient
        self._gathered = None
        with grad_mode(False):
            self._take_over(owned)
        if current.trace is None:
            for device in dict.fromkeys(p._node.device for params in owned for p in params):
                compute_all(device)
        return loss

    def _take_over(self, owned: list[list[Tensor]]) -> None:
        number = self._base
        for channel, params in zip(self._channels, owned, strict=True):
            kinds: dict[Any, list[Tensor]] = {}
            for p in params:
                kinds.setdefault((p._node.device, p.dtype), []).append(p)
            for together in kinds.values():
                flat = cat([p.reshape(-1) for p in together])
                value = Tensor._of(exchanged(flat._node, channel, number))
                number += 1
                at = 0
                for p in together:
                    p._assign(value[at : at + p.numel()].reshape(tuple(p.shape))._node)
                    at += p.numel()

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state of all processes in process `to`, whose state_dict() then returns it. All processes must call it."""
        whole = super().state_dict()
        parts = all_objects(whole["state"], self._zero_group)
        if self._zero_group.rank() == to:
            state = {number: have for part in parts for number, have in part.items()}
            self._gathered = {"state": dict(sorted(state.items())), "param_groups": whole["param_groups"]}

    def state_dict(self) -> dict[str, Any]:
        """The whole state. Raises OptimizerError if it was not gathered in this process since the last step."""
        if self._engine.size == 1:
            return super().state_dict()
        if self._gathered is None:
            raise OptimizerError(
                f"[ZeroRedundancyOptimizer] the state of {self._engine.size} processes has not been consolidated in this one. Hint: call "
                "consolidate_state_dict(to=RANK) in all processes, then state_dict() in that one."
            )
        return self._gathered

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a whole state; this process keeps its own share."""
        super().load_state_dict(state_dict)
        self._gathered = None
        owned = {id(p) for p in self._owned()[self._engine.rank]}
        for p in [p for p in self.state if id(p) not in owned]:
            self.state.pop(p)


__all__ = ["ZeroRedundancyOptimizer"]
