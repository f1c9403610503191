"""A model that several processes train together, each on a part of every batch.

In: a module, the same in all processes. Out: a module whose backward pass stores the mean of all processes' gradients in .grad.
distributed/reducer.py exchanges them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..distributed import default_hooks
from ..distributed.agreement import refuse_unlike, share
from ..distributed.engines import ReduceOp
from ..distributed.errors import DistError
from ..distributed.groups import ProcessGroup, chosen, is_initialized
from ..distributed.reducer import MEGABYTE, Reducer
from ..drive import tracing
from ..drive.tracing import current
from ..errors import ArgumentError, CompileError, DeviceError
from ..graph.node import mode
from ..tensor import Tensor
from .module import Module


class DistributedDataParallel(Module):
    """The module, under `.module`, trained by all processes of a group. At the start, all processes get the parameters and buffers of the
    first one. Each backward pass stores the mean gradient over the processes in .grad, so all optimizers make the same step. If the
    loss is a mean over the batch, and all processes have equally many samples, this is the gradient of the whole batch.

    A compiled step may call it: the step is then cut into several plans, and gradients are exchanged during the backward pass.

    device_ids: at most one device; it is ignored, because the module computes on the device of its parameters. broadcast_buffers:
    whether each forward pass in training begins with the buffers of the first process. process_group: by default all processes.
    bucket_cap_mb: the megabytes of gradients that are exchanged together (25). find_unused_parameters: whether some parameters may get
    no gradient in some processes; a parameter that no process used keeps its gradient. init_sync: whether processes check that their
    modules agree, and share their initial values. gradient_as_bucket_view, static_graph, check_reduction: no effect.

    Raises DeviceError without a process group or for several devices. Raises DistError in all processes if names, shapes or dtypes of their
    parameters differ, or the library's versions, and if no parameter requires grad. Raises ArgumentError for anything but a module, and if
    bucket_cap_mb is negative or not a number.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model(sg.ones(3, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[3., 3.]])
    >>> sg.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise ArgumentError(
                f"[DistributedDataParallel] module is a {type(module).__name__}; it must be an nn.Module."
            )
        if not is_initialized():
            raise DeviceError(
                "[DistributedDataParallel] there is no process group. Hint: sg.distributed.init_process_group() first, in a program that "
                "torchrun starts; without several processes use the module itself."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise DeviceError(
                f"[DistributedDataParallel] one device computes in a process, not {len(device_ids)}. Hint: start a process for each."
            )
        self.module = module
        self.process_group: ProcessGroup = chosen(process_group, "DistributedDataParallel")
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        ignored = self._ignored()
        named = [(n, p) for n, p in module.named_parameters() if n not in ignored]
        trained = self._trained()
        if not trained:
            raise DistError(
                "[DistributedDataParallel] is not needed when a module doesn't have any parameters that require a gradient."
            )
        buffers = [(n, b) for n, b in module.named_buffers() if n not in ignored]
        self._most = _bytes_of(25 if bucket_cap_mb is None else bucket_cap_mb)
        if init_sync:
            refuse_unlike("DistributedDataParallel", [*named, *buffers], self.process_group, (self._most, len(trained)))
            share([t for _, t in (*named, *buffers)], self.process_group)
        engine = self.process_group.engine
        own = engine.subgroup(range(engine.size), None)  # separate from the program's operations
        self._buffers_shared = [n for n, _ in buffers]
        self._exchange_by(own)

    def _ignored(self) -> set[str]:
        return set(getattr(self.module, "_ddp_params_and_buffers_to_ignore", ()))

    def _trained(self) -> list[tuple[str, Tensor]]:
        ignored = self._ignored()
        return [(n, p) for n, p in self.module.named_parameters() if n not in ignored and p.requires_grad]

    def _exchange_by(self, engine: Any) -> None:
        """Create the reducer, which exchanges the parameters' gradients."""
        trained = self._trained()
        self._state = _State()
        self._state.reducer = Reducer(
            [p for _, p in trained],
            [n for n, _ in trained],
            self.process_group,
            engine,
            self._most,
            self.find_unused_parameters,
        )

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state: the module and the options. A copy uses the default group, and has no communication hook."""
        return {k: v for k, v in self.__dict__.items() if k not in ("process_group", "_state")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.process_group = chosen(None, "DistributedDataParallel")
        self._exchange_by(self.process_group.engine)

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedDataParallel:
        """A copy that uses the same group."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        made.process_group = self.process_group
        made._exchange_by(self._state.reducer.engine)
        return made

    @property
    def require_backward_grad_sync(self) -> bool:
        """Whether backward passes exchange gradients; False within no_sync()."""
        return self._state.syncs

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's forward pass."""
        state = self._state
        if current.trace is not None:
            current.trace.on_attribute(state, "syncs", state.syncs)
            current.trace.on_attribute(state, "joining", state.joining)
            if state.joining is not None:
                raise CompileError(
                    "[DistributedDataParallel] join() counts processes at each step, which a compiled step cannot. Hint: "
                    "leave the step uncompiled, or give all processes equally many batches."
                )
        if state.syncs and mode.grad:
            if state.joining is not None:
                state.joining.begin_step()
            state.reducer.arm()
            self._exchange_buffers()
        elif not state.syncs:
            state.reducer.disarm()
        return self.module(*inputs, **kwargs)

    def _exchange_buffers(self) -> None:
        if self.broadcast_buffers and self._buffers_shared and self.training:
            found = dict(self.module.named_buffers())
            self._state.reducer.exchange_buffers([found[n] for n in self._buffers_shared if n in found])

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context for accumulating gradients: backward passes of forward passes within it exchange nothing. The first pass after it
        exchanges the sum."""
        before = self._state.syncs
        self._state.set_syncs(False)
        try:
            yield
        finally:
            self._state.set_syncs(before)

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """A context for a training loop in which processes have different numbers of batches. A process without further batches
        sends zeros until all are done.

        divide_by_initial_world_size: whether the mean is over all processes, or over those that still have batches.
        throw_on_early_termination: raise in all processes when the first one is done. At the end, all have the parameters of a process with
        the most batches.
        """
        if not enable or self.process_group.size() == 1:
            yield
            return
        joining = _Join(self, divide_by_initial_world_size, throw_on_early_termination)
        self._state.set_joining(joining)
        try:
            yield
            joining.shadow()
        finally:
            self._state.set_joining(None)

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Exchange buckets by `hook(state, bucket)`, which returns a future of the flat mean. A model can have one hook.

        allreduce_hook, fp16_compress_hook and bf16_compress_hook (`sg.distributed.default_hooks`) also work in compiled steps. Their state is
        None or the process group of the model. For the latter two it may be `sg.distributed.ErrorFeedback()`, which adds the rounding error
        to the next step's gradients. Raises ArgumentError for other states of these hooks, for a hook that cannot be called, and for a second hook.
        """
        if not callable(hook):
            raise ArgumentError(
                f"[register_comm_hook] hook is {hook!r}; it must be a function of a state and a bucket."
            )
        if self._state.has_hook:
            raise ArgumentError(
                "[register_comm_hook] can only be called once for a model. Hint: make another DistributedDataParallel."
            )
        compression = default_hooks.compression_of(hook)
        reducer = self._state.reducer
        if compression is not None and not (
            state is None or state is self.process_group or isinstance(state, default_hooks.ErrorFeedback)
        ):
            raise ArgumentError(
                f"[register_comm_hook] the state of {hook.__name__} is {state!r}, which would be ignored. Hint: None, ErrorFeedback(), or the "
                "process group that the model was made with."
            )
        if isinstance(state, default_hooks.ErrorFeedback) and compression == "":
            raise ArgumentError(
                "[register_comm_hook] allreduce_hook rounds nothing, so that ErrorFeedback would be ignored. Hint: None."
            )
        self._state.has_hook = True
        if compression is None:
            reducer.set_hook(state, hook)
        else:
            keeps = isinstance(state, default_hooks.ErrorFeedback)
            reducer.exchange_by(compression, keeps)
        tracing.changes += 1


def _bytes_of(megabytes: Any) -> int:
    if isinstance(megabytes, str) or not hasattr(megabytes, "__float__") or not float(megabytes) >= 0.0:
        raise ArgumentError(
            f"[DistributedDataParallel] bucket_cap_mb is {megabytes!r}; it must be a number of megabytes, 0 for a bucket for each parameter."
        )
    return int(min(float(megabytes) * MEGABYTE, 1 << 62))


class _State:
    """The state of the exchange, which is not part of the module's state."""

    reducer: Reducer

    def __init__(self) -> None:
        self.syncs = True
        self.has_hook = False
        self.joining: _Join | None = None

    def set_syncs(self, value: bool) -> None:
        if value != self.syncs:
            tracing.changes += 1
        self.syncs = value

    def set_joining(self, value: _Join | None) -> None:
        tracing.changes += 1
        self.joining = value
        self.reducer.is_joined = value is not None


class _Join:
    """The context `join`, for processes with different numbers of batches."""

    def __init__(self, model: DistributedDataParallel, divides_by_all: bool, throws: bool) -> None:
        self._model, self._reducer = model, model._state.reducer
        self._divides_by_all, self._throws = divides_by_all, throws
        self.steps = 0

    def _count(self, is_active: bool) -> int:
        active = np.zeros(self._reducer.engine.size, np.int64)
        active[self._reducer.engine.rank] = is_active
        self._reducer.engine.all_reduce(active, ReduceOp.SUM).wait()
        left = int(active.sum())
        self._reducer.roots.root = _last(active)
        if self._throws and left < self._reducer.engine.size:
            raise DistError("[DistributedDataParallel.join] detected at least one rank that exhausted inputs.")
        self._reducer.channel.divisor = 0 if self._divides_by_all else left
        return left

    def begin_step(self) -> None:
        self._count(True)
        self.steps += 1

    def shadow(self) -> None:
        """Take part in the exchanges of the others, after this process's last batch."""
        engine, model = self._reducer.engine, self._model
        while self._count(False):
            model._exchange_buffers()
            self._reducer.shadow_buckets()
        self._reducer.channel.divisor = self._reducer.roots.root = 0
        most = np.zeros(engine.size, np.int64)
        most[engine.rank] = self.steps
        engine.all_reduce(most, ReduceOp.SUM).wait()
        last = _last(most == most.max())
        for t in (*model.module.parameters(), *model.module.buffers()):
            _from(t, last, engine)


def _last(which: np.ndarray) -> int:
    """The last process for which `which` is true (PyTorch's rule for ties), else 0. All processes take its values."""
    return int(np.flatnonzero(which).max(initial=0))


def _from(t: Tensor, root: int, engine: Any) -> None:
    array = np.ascontiguousarray(t.detach().numpy())
    engine.broadcast(array.reshape(-1).view(np.uint8), root).wait()
    if engine.rank != root:
        with_values(t, array)


def with_values(t: Tensor, array: np.ndarray) -> None:
    """Give a tensor the values of an array."""
    t.write_(array.reshape(tuple(t.shape)))
