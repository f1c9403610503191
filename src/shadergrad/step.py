"""sg.compile: capture a function once, then replay its plan.

The first call with arguments of new shapes runs the function on pending tensors: nothing is computed, but every tensor
that it changes is seen. What it returns and what it changed are compiled into one plan, in which parameters and
optimizer state are overwritten in place. Later calls bind the arguments and submit.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import execute, tracing
from .compile.pipeline import explain
from .dtypes import int32
from .errors import CompileError
from .graph import node as nodes
from .graph.capture import Capture
from .graph.leaves import Variable
from .graph.node import Node
from .plan import Plan
from .runtime.device import Program, Storage
from .tensor import Tensor, flush
from .tracing import Trace, current

CAPTURE_BYTES = execute.PROGRAM_BYTES  # of host memory for the captures that one step keeps


@dataclass
class _Captured:
    """A compiled signature.

    holders: for each program input, the tensor (or gradient slot) whose value it is; arguments are put in at each call.
    arguments: (input, argument) positions.
    changed: (tensor, output) pairs: which outputs that are not in place become whose new value.
    gradients: those that are not inputs too, so that each run may write the same memory again.
    into: the program's `into`, once a run has made that memory.
    grads: (tensor, tensor put into its .grad or None), all others.
    flags: (owner, attribute, value) that can only change when tracing.changes does; slots: those that may at any time.
    """

    program: Program
    holders: list[Tensor | _GradSlot | None]
    arguments: list[tuple[int, int]]
    changed: list[tuple[Tensor, int]]
    gradients: list[_Gradient]
    grads: list[tuple[Tensor, Tensor | None]]
    result: Any
    flags: list[tuple[Any, str, Any]]
    slots: list[tuple[_GradSlot, bool]]
    into: list[Storage | None] | None = None
    flags_seen: int = -1

    def bind(self, tensors: list[Tensor]) -> list[Any]:
        """The holders with these arguments among them."""
        for position, argument in self.arguments:
            self.holders[position] = tensors[argument]
        return self.holders

    def holds(self) -> bool:
        """Whether what the function looked at outside its arguments is as it was."""
        if self.flags_seen != tracing.changes:
            if not all(getattr(owner, name) == value for owner, name, value in self.flags):
                return False
            self.flags_seen = tracing.changes
        return all(slot.is_none == none for slot, none in self.slots)


class CompiledStep:
    """A function that runs as one submission. Call it as the function itself.

    captures: how often the function was captured, that is once a combination of shapes, dtypes and Python arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._entries: OrderedDict[Any, list[_Captured]] = OrderedDict()  # the signature used last at the end
        self._nbytes = 0
        self._latest: _Captured | None = None
        self.captures = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current.trace is not None:
            return self._function(*args, **kwargs)
        tensors: list[Tensor] = []
        if kwargs or not all(isinstance(a, Tensor) for a in args):
            signature = _signature((args, kwargs), tensors)
        else:
            tensors.extend(args)
            signature = tuple([(n.shape, n.dtype, n.device) for n in [t._node for t in args]])
        for entry in self._entries.get(signature, ()):
            if entry.holds():
                break
        else:
            entry = self._capture(args, kwargs, tensors)
            self._keep(signature, entry)
        self._entries.move_to_end(signature)
        self._latest = entry
        return self._replay(entry, tensors)

    @property
    def plan(self) -> Plan:
        """The plan that ran last."""
        if self._latest is None:
            raise CompileError("this step has no plan before its first call.")
        return self._latest.program.plan

    def explain(self) -> str:
        """A table of the kernels of the plan that ran last: archetype, shape, bytes, flops, dispatches."""
        return explain(self.plan)

    def inputs(self, *args: Any, **kwargs: Any) -> list[np.ndarray]:
        """The values that the plan's inputs would have in a call with these arguments: what a plan needs to be replayed elsewhere."""
        tensors: list[Tensor] = []
        _signature((args, kwargs), tensors)
        entry = self._latest
        assert entry is not None
        return [execute.download(holder._node) for holder in entry.bind(tensors)]

    # -- capture

    def _keep(self, signature: Any, entry: _Captured) -> None:
        """Add a capture, and let go of those that were used longest ago where memory gets short."""
        self._entries.setdefault(signature, []).append(entry)
        self._entries.move_to_end(signature)
        self._nbytes += execute.plan_bytes(entry.program.plan)
        while self._nbytes > CAPTURE_BYTES:
            oldest, entries = next(iter(self._entries.items()))
            if entries[0] is entry:
                break
            self._nbytes -= execute.plan_bytes(entries.pop(0).program.plan)
            if not entries:
                del self._entries[oldest]

    def _capture(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> _Captured:
        flush(views=True)  # every tensor that exists is an input of the capture, never a constant of it
        watch = Trace()
        stand_ins: list[Tensor] = []
        for t in tensors:
            stand_in = Tensor._of(nodes.leaf(t._node.storage, t._node.shape, t._node.dtype, t._node.device))
            if t.requires_grad:
                raise CompileError(
                    "an argument of a compiled step requires grad. Hint: detach() it; parameters are captured, not passed."
                )
            stand_ins.append(stand_in)
        replaced = iter(stand_ins)
        watch.began = Tensor._of(nodes.constant(0, int32, "cpu"))._serial
        current.trace = watch
        try:
            result = self._function(*_replace(args, replaced), **_replace(kwargs, replaced))
            entry = self._build(watch, stand_ins, result)
        except BaseException:
            watch.undo()
            raise
        finally:
            current.trace = None
        self.captures += 1
        return entry

    def _build(self, watch: Trace, stand_ins: list[Tensor], result: Any) -> _Captured:
        returned: list[Tensor] = []
        result = _replace(result, _Collector(returned))
        new_grads = [(t, t._grad) for t, _ in watch.grads.values()]
        assigned = [(t, old) for t, old in watch.nodes.values() if t._node is not old and t._serial <= watch.began]
        grad_tensors = [g for _, g in new_grads if g is not None]
        wanted: dict[int, Tensor] = {id(t): t for t in [*returned, *(t for t, _ in assigned), *grad_tensors]}
        outputs = list(wanted.values())
        devices = {t._node.device for t in outputs}
        if len(devices) > 1:
            raise CompileError(
                f"a compiled step works on one device, this one makes tensors on {' and '.join(sorted(devices))}."
            )
        if not outputs:
            raise CompileError("the function returned no tensor and changed none: there is nothing to compile.")
        old_nodes = {id(t): nodes.resolve(old) for t, old in assigned}
        sources = [n for n in old_nodes.values() if n.storage is not None]
        capture = Capture([t._node for t in outputs], first=_distinct([*(s._node for s in stand_ins), *sources]))
        owners = self._owners(watch, capture, old_nodes, assigned)
        in_place: dict[int, int] = {}
        for k, t in enumerate(outputs):
            old = old_nodes.get(id(t))
            position = None if old is None else capture.position_of_source(old)
            if position is not None:
                in_place[k] = position
        program, _ = execute.programs.get(capture, in_place)
        place = {id(t): k for k, t in enumerate(outputs)}
        kept_grads = [g for g in grad_tensors if id(g) not in old_nodes]
        arguments: list[tuple[int, int]] = []
        holders: list[Tensor | _GradSlot | None] = []
        for position, source in enumerate(capture.sources):
            argument = next((k for k, s in enumerate(stand_ins) if s._node is source), None)
            holders.append(owners[id(source)] if argument is None else None)
            if argument is not None:
                arguments.append((position, argument))
        accumulated = {id(s.tensor) for s in holders if isinstance(s, _GradSlot)}
        result = _replace_marks(result, returned, place)
        watch.undo()
        flags = [*watch.attributes.values()]
        flags += [(h, "requires_grad", h.requires_grad) for h in holders if isinstance(h, Tensor)]
        rows = program.plan
        fresh = [(t, place[id(t)]) for t, _ in assigned if rows.buffers[rows.outputs[place[id(t)]]].aliases is None]
        kept_ids = {id(g) for g in kept_grads}
        gradients = [
            _Gradient(t, g, place[id(g)])
            for t, g in new_grads
            if g is not None and id(g) in kept_ids and id(t) not in accumulated
        ]
        rewritten = {id(kept.tensor) for kept in gradients}
        return _Captured(
            program=program,
            holders=holders,
            arguments=arguments,
            changed=fresh + [(g, place[id(g)]) for g in kept_grads if id(g) not in rewritten],
            gradients=gradients,
            grads=[(t, g) for t, g in new_grads if id(g) not in rewritten],
            result=result,
            flags=flags,
            slots=[(_GradSlot(t), none) for t, none in watch.grad_reads.values()],
        )

    def _owners(
        self, watch: Trace, capture: Capture, old_nodes: dict[int, Node], assigned: list[tuple[Tensor, Node]]
    ) -> dict[int, Tensor | _GradSlot]:
        """What holds every captured value, so that a later change of it is seen."""
        by_storage: dict[int, Tensor | _GradSlot] = {}
        for t, _ in assigned:
            old = old_nodes[id(t)]
            if old.storage is not None:
                by_storage[id(old.storage)] = t
        for t, grad in watch.grads.values():
            if grad is not None and grad._node.storage is not None:
                by_storage[id(grad._node.storage)] = _GradSlot(t)
        for node in capture.sources:
            if id(node.storage) not in by_storage:
                owner = None if node.owner is None else node.owner()
                by_storage[id(node.storage)] = owner if owner is not None else Tensor._of(node)
        return {id(node): by_storage[id(node.storage)] for node in capture.sources}

    # -- replay

    def _replay(self, entry: _Captured, tensors: list[Tensor]) -> Any:
        holders = entry.bind(tensors)
        inputs: list[Storage] = [holder._node.storage for holder in holders]
        if None in inputs:
            for holder in holders:
                execute.realize([holder._node])
            inputs = [holder._node.storage for holder in holders]
        self._protect()
        into = entry.into
        if into is not None and any(
            kept.tensor._node.storage is not into[kept.output] or kept.is_held_elsewhere() for kept in entry.gradients
        ):
            into = entry.into = None  # someone keeps a gradient, or has given it another value: write to fresh memory
            for kept in entry.gradients:
                kept.renew()
        outputs = entry.program.run(inputs, into)
        if into is None and entry.gradients:
            again = {kept.output for kept in entry.gradients}
            entry.into = [storage if k in again else None for k, storage in enumerate(outputs)]
            for kept in entry.gradients:
                _give(kept.tensor, outputs[kept.output])
        for tensor, k in entry.changed:
            _give(tensor, outputs[k])
        for kept in entry.gradients:
            kept.owner._grad = kept.tensor
        for tensor, grad in entry.grads:
            tensor._grad = grad
        return _restore(entry.result, outputs)

    def _protect(self) -> None:
        """Before state is overwritten in place: compute what was recorded against its present value."""
        if nodes.nodes_made != self._nodes_seen:
            flush(views=True)
            self._nodes_seen = nodes.nodes_made

    _nodes_seen = -1


class _Gradient:
    """A gradient that a compiled step puts into owner.grad, and whose memory the next run may write again.

    That is safe while nobody but us and owner.grad holds the tensor or its storage, which reference counts tell.
    """

    __slots__ = ("output", "owner", "tensor")

    def __init__(self, owner: Tensor, tensor: Tensor, output: int) -> None:
        self.owner = owner
        self.tensor = tensor
        self.output = output

    def is_held_elsewhere(self) -> bool:
        ours = 2 if self.owner._grad is self.tensor else 1
        return (
            sys.getrefcount(self.tensor) - 1 > ours or sys.getrefcount(self.tensor._node.storage) - 1 > STORAGE_HOLDERS
        )

    def renew(self) -> None:
        """Leave the tensor to whoever holds it."""
        node = self.tensor._node
        self.tensor = Tensor._of(Node(node.primitive, (), node.shape, node.dtype, node.device))


STORAGE_HOLDERS = 2  # of a gradient's storage: its node and `into`


def _give(tensor: Tensor, storage: Storage) -> None:
    """Let a tensor have the value in `storage`."""
    node = tensor._node
    if node.storage is not storage:
        made = nodes.leaf(storage, node.shape, node.dtype, node.device)
        tensor._hold(nodes.variable(made, tensor) if isinstance(node.primitive, Variable) else made)


class _GradSlot:
    """The .grad of a tensor, whatever is in it now."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def is_none(self) -> bool:
        return self.tensor._grad is None

    @property
    def _node(self) -> Node:
        assert self.tensor._grad is not None
        return self.tensor._grad._node


class _Mark:
    """The place of a returned tensor within a result."""

    def __init__(self, output: int, shape: tuple[int, ...], dtype: Any, device: str) -> None:
        self.output, self.shape, self.dtype, self.device = output, shape, dtype, device


class _Collector:
    """An iterator for _replace that keeps the tensors it meets."""

    def __init__(self, found: list[Tensor]) -> None:
        self.found = found


def _distinct(items: list[Node]) -> list[Node]:
    return list({id(n.storage): n for n in items}.values())


def _signature(value: Any, tensors: list[Tensor]) -> Any:
    """What must be equal for two calls to share a capture; collects the tensors in order."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return ("tensor", value._node.shape, value._node.dtype.name, value._node.device)
    if isinstance(value, np.ndarray):
        raise CompileError(
            "a compiled step takes tensors. Hint: sg.tensor(array, device=...) puts an array on a device."
        )
    if isinstance(value, tuple | list):
        return (type(value).__name__, *(_signature(v, tensors) for v in value))
    if isinstance(value, dict):
        return ("dict", *((k, _signature(v, tensors)) for k, v in value.items()))
    try:
        hash(value)
    except TypeError:
        raise CompileError(
            f"a compiled step takes tensors, numbers, strings and containers of them, not {type(value).__name__}."
        ) from None
    return (type(value).__name__, value)


def _replace(value: Any, tensors: Any) -> Any:
    """`value` with its tensors exchanged, in order, for those of an iterator (or collected)."""
    if isinstance(value, Tensor):
        if isinstance(tensors, _Collector):
            tensors.found.append(value)
            return value
        return next(tensors)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_replace(v, tensors) for v in value))
    if isinstance(value, tuple | list):
        return type(value)(_replace(v, tensors) for v in value)
    if isinstance(value, dict):
        return {k: _replace(v, tensors) for k, v in value.items()}
    return value


def _replace_marks(value: Any, returned: list[Tensor], place: dict[int, int]) -> Any:
    marks = iter([_Mark(place[id(t)], t._node.shape, t.dtype, t._node.device) for t in returned])
    return _replace(value, marks)


def _restore(value: Any, outputs: list[Storage]) -> Any:
    if isinstance(value, _Mark):
        return Tensor._of(nodes.leaf(outputs[value.output], value.shape, value.dtype, value.device))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_restore(v, outputs) for v in value))
    if isinstance(value, tuple | list):
        return type(value)(_restore(v, outputs) for v in value)
    if isinstance(value, dict):
        return {k: _restore(v, outputs) for k, v in value.items()}
    return value


def compile(function: Callable[..., Any]) -> CompiledStep:
    """Capture `function` on first use and replay it from then on, in one submission a call.

    The function may call backward() and optimizer steps, and change tensors in place; all of that happens on the
    device. It may not read values (item(), print, if tensor). Arguments: tensors, numbers, strings, containers;
    a new combination of shapes, dtypes and Python values captures anew.
    """
    return CompiledStep(function)
