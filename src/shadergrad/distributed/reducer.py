"""The gradients of a model, averaged over processes, bucket by bucket.

In: parameters, and a group. Out: their .grad, the mean of all processes', when the backward pass is over. The parameters are put into buckets
in the reverse of their order, which is about that of the backward pass. Each bucket is one exchange of the graph: it begins when its last
gradient is computed, and goes on while the rest of the backward pass runs (drive/stages.py), compiled or not.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..drive import execute
from ..drive.tracing import current
from ..dtypes import float16, float32
from ..errors import CompileError
from ..graph.node import grad_mode
from ..primitives.exchange import exchanged
from ..tensor import Tensor, after_backward, cat, compute_all, zeros_like
from .channels import Channel
from .engines import ReduceOp
from .errors import DistError
from .groups import ProcessGroup

MEGABYTE = 1 << 20
FIRST = 1 << 20  # bytes of the first bucket, so that its exchange starts early
NUMBERS = 1 << 12  # the most exchanges of a reducer
_count = itertools.count(1)

Hook = Callable[[Any, Any], Any]


class GradBucket:
    """Gradients that are exchanged together: the argument of a hook of register_comm_hook.

    >>> bucket = sg.distributed.GradBucket(0, sg.ones(2), [sg.zeros(2)], True)
    >>> bucket.buffer(), bucket.is_last()
    (tensor([1., 1.]), True)
    """

    def __init__(self, index: int, buffer: Tensor, parameters: list[Tensor], is_last: bool) -> None:
        self._index, self._buffer, self._parameters, self._is_last = index, buffer, parameters, is_last

    def index(self) -> int:
        """Its number."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients, one behind the other, flat."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Take others."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Those of each parameter."""
        return cut(self._buffer, self._parameters)

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether it is the last of a backward pass."""
        return self._is_last


def cut(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Split a flat tensor into parts with the shapes of other tensors."""
    found, at = [], 0
    for t in like:
        found.append(flat[at : at + t.numel()].reshape(tuple(t.shape)))
        at += t.numel()
    return found


def flat_of(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one device and dtype, one behind the other."""
    return cat([t.reshape(-1) for t in tensors]) if len(tensors) > 1 else tensors[0].reshape(-1)


def buckets_of(parameters: Sequence[Tensor], most: int) -> list[list[int]]:
    """Numbers of parameters, in the reverse of their order, of one device and dtype and at most so many bytes each."""
    found: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int]] = {}
    limit = min(FIRST, most)
    for k in reversed(range(len(parameters))):
        p = parameters[k]
        kind = (str(p.device), p.dtype)
        numbers, size = open_.get(kind, ([], 0))
        numbers.append(k)
        size += p.numel() * p.dtype.itemsize
        open_[kind] = (numbers, size)
        if size >= limit:
            found.append(numbers)
            del open_[kind]
            limit = most
    return found + [numbers for numbers, _ in open_.values()]


def kinds_of(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Tensors grouped by device and dtype."""
    kinds: dict[Any, list[Tensor]] = {}
    for t in tensors:
        kinds.setdefault((str(t.device), t.dtype), []).append(t)
    return list(kinds.values())


class Reducer:
    """See the module. names: of the parameters, for errors. finds_unused: whether some may get no gradient.

    is_armed: whether the backward pass to come exchanges.
    """

    def __init__(
        self,
        parameters: list[Tensor],
        names: list[str],
        group: ProcessGroup,
        engine: Any,
        most: int,
        finds_unused: bool,
    ) -> None:
        self.parameters, self._names, self.group, self.engine = parameters, names, group, engine
        self.channel = self._own(Channel(engine, "mean", on_devices=True))
        self.roots = Channel(engine, "root")
        self.buckets = buckets_of(parameters, most)
        self._base = (1 << 22) + next(_count) * NUMBERS
        self._finds_unused = finds_unused
        self._hook: tuple[Any, Hook] | None = None
        self.is_armed = False
        self._ready: set[int] = set()
        self._arrived: set[int] = set()  # were exchanged since the forward pass
        self._accumulated: set[int] = set()  # got gradients, of passes that exchanged nothing, since the last exchange
        self._passes = 0  # backward passes that exchanged, since the forward pass
        self._unused: dict[int, frozenset[int]] = {}  # by the pass: on all processes, as the first capture found
        self.is_joined = False  # whether others may send zeros in the place of a step
        self._waits = False
        self.handles = [p.register_post_accumulate_grad_hook(self._noting(k)) for k, p in enumerate(parameters)]

    def _own(self, channel: Channel) -> Channel:
        """A channel that frees its memory when this object is deleted."""
        weakref.finalize(self, channel.forget)
        return channel

    def exchange_by(self, compression: Any, keeps_error: bool) -> None:
        """Use another channel from now on."""
        self.channel.forget()
        self.channel = self._own(Channel(self.engine, "mean", compression, keeps_error, on_devices=True))

    def _noting(self, k: int) -> Callable[[Any], None]:
        return lambda _: self._on_ready(k)

    def set_hook(self, state: Any, hook: Hook) -> None:
        """Set the function that exchanges the buckets."""
        self._hook = state, hook

    def arm(self) -> None:
        """Prepare a forward pass whose backward pass exchanges gradients."""
        if self._ready and self._waits is False:
            self._raise_missing()
        self._ready.clear()
        self._arrived.clear()
        self._passes = 0
        self.is_armed = True

    def disarm(self) -> None:
        self.is_armed = False
        self._ready.clear()

    def _on_ready(self, k: int) -> None:
        if not self.is_armed or k in self._arrived:
            self._accumulated.add(k)
            return
        if not self._waits:
            self._waits = True
            after_backward(self._finish)
        self._ready.add(k)

    def _raise_missing(self) -> None:
        missing = [name for k, name in enumerate(self._names) if k not in self._ready]
        self._ready.clear()
        raise DistError(
            "[DistributedDataParallel] Expected to have finished reduction in the prior iteration before starting a new one. The "
            f"backward pass gave no gradient to {', '.join(missing[:8])}{' ...' if len(missing) > 8 else ''}. Hint: "
            "find_unused_parameters=True, or let the loss depend on all outputs."
        )

    def _finish(self) -> None:
        self._waits = False
        if not self.is_armed:
            return
        if len(self._ready) < len(self.parameters) and not self._finds_unused:
            return  # another backward pass may come
        if self._passes and self.is_joined:
            raise DistError(
                "[DistributedDataParallel] several backward passes of one forward pass cannot be matched by processes that have no more "
                "batches. Hint: within join() add the losses, and call backward() once."
            )
        used, self._accumulated = self._ready | self._accumulated, set()
        self._arrived |= self._ready
        self._ready.clear()
        # a second loss of the same forward pass may come, of other parameters
        self.is_armed = self._finds_unused and len(self._arrived) < len(self.parameters)
        unused = self._unused_everywhere(used) if self._finds_unused else frozenset()
        self._passes += 1
        with grad_mode(False):
            self.exchange(unused)
        if current.trace is None:
            self._compute()

    def _unused_everywhere(self, ready: set[int]) -> frozenset[int]:
        """The parameters that no process used. In compiled steps they are those of the first capture, when all processes ask."""
        if current.trace is not None and self._passes in self._unused:
            known = self._unused[self._passes] & ready
            if known:
                raise CompileError(
                    f"[DistributedDataParallel] {self._names[min(known)]} was used by no process when a step was first captured, and is "
                    "now. Hint: call the model once with all its parameters first, or leave the step uncompiled."
                )
            return self._unused[self._passes]
        used = np.zeros(len(self.parameters), np.int32)
        used[list(ready)] = 1
        self.engine.all_reduce(used, ReduceOp.SUM).wait()
        found = frozenset(np.flatnonzero(used == 0).tolist())
        if current.trace is not None:
            self._unused[self._passes] = found
        return found

    def exchange(self, unused: frozenset[int] = frozenset()) -> None:
        """Set .grad to the means."""
        for number, bucket in enumerate(self.buckets):
            parameters = [self.parameters[k] for k in bucket]
            gradients = [zeros_like(p) if p.grad is None else p.grad for p in parameters]
            mean = self._exchanged(flat_of(gradients), parameters, number)
            for k, p, part in zip(bucket, parameters, cut(mean, parameters), strict=True):
                if k in unused:
                    continue
                if p.grad is None:
                    p.grad = part
                else:
                    p.grad._assign(part._node)

    def _exchanged(self, flat: Tensor, parameters: list[Tensor], number: int) -> Tensor:
        if self._hook is None:
            return self.mean(flat, self._base + number + NUMBERS // 2)
        if current.trace is not None:
            raise CompileError(
                "[DistributedDataParallel] a compiled step cannot call a communication hook of a program's own, which wants values. "
                "Hint: fp16_compress_hook or bf16_compress_hook, or leave the step uncompiled."
            )
        state, hook = self._hook
        found = hook(state, GradBucket(number, flat, parameters, number == len(self.buckets) - 1))
        value = found.wait() if hasattr(found, "wait") else found
        return value[0] if isinstance(value, list | tuple) else value

    def mean(self, value: Tensor, number: int) -> Tensor:
        """The mean of all processes, each of which gives its value. number: of the exchange."""
        part = value if self.channel.divisor else value / self.engine.size
        sent = part.to(float16) if self.channel.casts and value.dtype is float32 else part
        return Tensor._of(exchanged(sent._node, self.channel, number)).to(value.dtype)

    def shadow_buckets(self) -> None:
        """Take part in a step with gradients of zeros, and forget the means."""
        if self._finds_unused:
            self._unused_everywhere(set())
        with grad_mode(False):
            means = []
            for number, bucket in enumerate(self.buckets):
                parameters = [self.parameters[k] for k in bucket]
                means.append(self._exchanged(flat_of([zeros_like(p) for p in parameters]), parameters, number))
        self._compute()
        del means

    def _compute(self) -> None:
        for device in dict.fromkeys(p._node.device for p in self.parameters):
            compute_all(device)

    def exchange_buffers(self, buffers: list[Tensor]) -> None:
        """Copy the buffers of the first process to all others."""
        with grad_mode(False):
            for number, together in enumerate(kinds_of(buffers)):
                root = Tensor._of(exchanged(flat_of(together)._node, self.roots, self._base + number))
                if self._finds_unused and current.trace is None:
                    execute.realize(
                        [root._node]
                    )  # before processes ask for unused parameters, whatever a program reads between
                for b, part in zip(together, cut(root, together), strict=True):
                    b._assign(part._node)
