"""Capturing: run a function once on pending tensors, and make of what it did something to replay.

In: a function and its arguments. Out: a Replay. Nothing is computed while the function runs, but every tensor that it
changes is seen (tracing.py). What it returns and what it changed become the outputs of one plan, in which parameters and
optimizer state are overwritten in place; afterwards every tensor is what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import int32
from ..errors import CompileError
from ..graph import build
from ..graph import node as nodes
from ..graph.capture import Capture
from ..graph.node import resolve
from ..plan import Label, Plan
from ..runtime.device import Storage
from ..tensor import Tensor, flush
from . import execute
from .naming import Names, distinct, name_arguments
from .replay import GradSlot, KeptGradient, Mark, Replay, empty
from .tracing import Trace, current
from .trees import exchange, leaves_of, tensors_in

Holder = Tensor | GradSlot


def capture(function: Callable[..., Any], args: Any, kwargs: Any, tensors: list[Tensor]) -> Replay:
    """Capture a call. tensors: those in the arguments, in order.

    Raises CompileError where the function cannot be captured, and whatever it raises itself; then nothing has changed.
    """
    flush(views=True)  # every tensor that exists is an input of the capture, never a constant of it
    watch = Trace()
    stand_ins = [_stand_in(t) for t in tensors]
    replaced = iter(stand_ins)
    args, kwargs = exchange((args, kwargs), Tensor, lambda _: next(replaced))
    watch.began = Tensor._of(build.constant(0, int32, "cpu"))._serial
    current.trace = watch
    try:
        captured = Captured(watch, stand_ins, Observed(watch, function(*args, **kwargs)))
        watch.undo()
        arguments = name_arguments(function, args, kwargs)
        return captured.replay(Names(watch, function), [arguments.get(id(s), "") for s in stand_ins])
    except BaseException:
        watch.undo()
        raise
    finally:
        current.trace = None


def _stand_in(t: Tensor) -> Tensor:
    """A tensor with the value of an argument, and nothing else of it."""
    if t.requires_grad:
        raise CompileError(
            "an argument of a compiled step requires grad. Hint: detach() it; parameters are captured, not passed."
        )
    node = t._node
    return Tensor._of(nodes.leaf(Argument(node.storage), node.shape, node.dtype, node.device))


class Argument:
    """The storage of an argument, while the function runs. It differs from that of every other tensor, so that arguments
    which are one tensor in this call, or which the function knows otherwise, may be different ones in the next.

    A tensor made of it that outlives the capture is computed from the argument's value, as if it had been made outside.
    """

    def __init__(self, storage: Storage) -> None:
        self.device, self.nbytes, self.handle, self._owner = storage.device, storage.nbytes, storage.handle, storage


class Observed:
    """What a function did, read off before its doings are undone.

    assigned: tensors of the outside that it gave another value; before: the nodes that they had, by id.
    gradients: (tensor, what is in its .grad now) for each slot that it set.
    outputs: the tensors whose values a run must give, each once; place: where they are among them, by id.
    result: what it returned, with marks for tensors; paths: where its tensors are in it, by id.
    """

    def __init__(self, watch: Trace, result: Any) -> None:
        changed = watch.changed()
        self.assigned = [t for t, _ in changed]
        self.before = {id(t): resolve(old) for t, old in changed}
        self.gradients = [(t, t._grad) for t, _ in watch.grads.values()]
        _refuse_hidden_tensors(result)
        returned = list(tensors_in(result, "result"))
        wanted = [*(t for _, t in returned), *self.assigned, *(g for _, g in self.gradients if g is not None)]
        self.outputs = list({id(t): t for t in wanted}.values())
        self.nodes = [t._node for t in self.outputs]
        self._check()
        self.place = {id(t): k for k, t in enumerate(self.outputs)}
        self.paths = {id(t): path for path, t in reversed(returned)}
        self.result = exchange(result, Tensor, self._mark)

    def _check(self) -> None:
        devices = {node.device for node in self.nodes}
        if len(devices) > 1:
            raise CompileError(
                f"a compiled step works on one device, this one makes tensors on {' and '.join(sorted(devices))}."
            )
        if not devices:
            raise CompileError("the function returned no tensor and changed none: there is nothing to compile.")

    def _mark(self, t: Tensor) -> Mark:
        return Mark(self.place[id(t)], t._node.shape, t.dtype, t._node.device)

    def is_new(self, gradient: Tensor) -> bool:
        """Whether a gradient is a tensor that the function made, and not one that it changed."""
        return id(gradient) not in self.before


def _refuse_hidden_tensors(result: Any) -> None:
    """A tensor in an object of another kind would keep the value of the first call for ever."""
    for path, leaf in leaves_of(result, "result"):
        within = leaf if isinstance(leaf, set | frozenset) else getattr(leaf, "__dict__", {}).values()
        if not isinstance(leaf, Tensor) and any(isinstance(v, Tensor) and v._node.storage is None for v in within):
            raise CompileError(
                f"{path} is a {type(leaf).__name__} that holds a tensor of this call, and a compiled step could not give it "
                "another one in the next. Hint: return tensors in tuples, lists, dicts, named tuples or dataclasses."
            )


class Captured:
    """The graph of what a function did, and whose values its inputs and outputs are.

    holders: for each input, what holds its value, or the number of the argument that does.
    in_place: output → input whose value it replaces, and whose memory it may take over.
    """

    def __init__(self, watch: Trace, stand_ins: list[Tensor], seen: Observed) -> None:
        self.watch, self.seen = watch, seen
        read_before = {id(n.storage): n for n in seen.before.values() if n.storage is not None}
        self.graph = Capture(seen.nodes, first=[*(s._node for s in stand_ins), *read_before.values()])
        arguments = {id(s._node.storage): k for k, s in enumerate(stand_ins)}
        owners = self._owners()
        storages = [id(source.storage) for source in self.graph.sources]
        self.holders: list[Holder | int] = [arguments.get(s, owners[s]) for s in storages]
        self.in_place: dict[int, int] = {}
        for k, t in enumerate(seen.outputs):
            position = self.graph.position_of_source(seen.before[id(t)]) if id(t) in seen.before else None
            if position is not None:
                self.in_place[k] = position

    def _owners(self) -> dict[int, Holder]:
        """What holds every captured value, by storage, so that a later change of it is seen."""
        found: dict[int, Holder] = {id(self.seen.before[id(t)].storage): t for t in self.seen.assigned}
        for t, grad in self.watch.grads.values():
            if grad is not None:
                found[id(grad._node.storage)] = GradSlot(t)
        for node in self.graph.sources:
            if id(node.storage) not in found:
                owner = None if node.owner is None else node.owner()
                found[id(node.storage)] = Tensor._of(node) if owner is None else owner
        return found

    # -- what the plan calls them

    def labels(self, names: Names, arguments: list[str]) -> execute.Labels:
        """Roles and names of inputs and outputs. A new value is labelled as the input that it replaces."""
        inputs = distinct(self._label_of_input(holder, names, arguments) for holder in self.holders)
        slots = {id(g): t for t, g in self.seen.gradients}
        fresh = [k for k in range(len(self.seen.outputs)) if k not in self.in_place]
        own = distinct(self._label_of_output(self.seen.outputs[k], names, slots) for k in fresh)
        outputs = dict(zip(fresh, own, strict=True)) | {k: inputs[i] for k, i in self.in_place.items()}
        return tuple(inputs), tuple(outputs[k] for k in range(len(outputs)))

    def _label_of_input(self, holder: Holder | int, names: Names, arguments: list[str]) -> Label:
        if isinstance(holder, int):
            return Label("argument", arguments[holder])
        if isinstance(holder, GradSlot):
            return names.of_gradient(holder.tensor)
        return names.of(holder, changes=id(holder) in self.seen.before)

    def _label_of_output(self, t: Tensor, names: Names, slots: dict[int, Tensor]) -> Label:
        if id(t) in self.seen.paths:
            return Label("result", self.seen.paths[id(t)])
        return names.of_gradient(slots[id(t)]) if id(t) in slots else names.of(t, changes=True)

    # -- what a call needs

    def replay(self, names: Names, arguments: list[str]) -> Replay:
        """Compiled. arguments: the names of the function's arguments. Tensors must be as they were before the capture."""
        seen = self.seen
        program, _ = execute.programs.get(self.graph, self.in_place, self.labels(names, arguments), names.function)
        for g in self._new_gradients():
            if g._node.storage is None:  # else the next flush would compute it, in a plan of its own
                empty(g)
        gradients = self._kept_gradients()
        rewritten = {id(kept.tensor) for kept in gradients}
        flags = [(h, "requires_grad", h.requires_grad) for h in self.holders if isinstance(h, Tensor)]
        return Replay(
            program=program,
            holders=[None if isinstance(h, int) else h for h in self.holders],
            arguments=[(k, h) for k, h in enumerate(self.holders) if isinstance(h, int)],
            changed=self._moved(program.plan, rewritten),
            gradients=gradients,
            grads=[(t, g) for t, g in seen.gradients if id(g) not in rewritten],
            result=seen.result,
            flags=[*self.watch.attributes.values(), *flags],
            slots=[(GradSlot(t), none) for t, none in self.watch.grad_reads.values()],
        )

    def _kept_gradients(self) -> list[KeptGradient]:
        """Those that no run reads, so that each may write them where the run before did."""
        accumulated = {id(h.tensor) for h in self.holders if isinstance(h, GradSlot)}
        return [
            KeptGradient(t, g, self.seen.place[id(g)])
            for t, g in self.seen.gradients
            if g is not None and self.seen.is_new(g) and id(t) not in accumulated
        ]

    def _moved(self, plan: Plan, rewritten: set[int]) -> list[tuple[Tensor, int]]:
        """Tensors whose new value is not written over the old one: changed ones, and gradients that are none of `rewritten`."""
        apart = [t for t in self.seen.assigned if plan.buffers[plan.outputs[self.seen.place[id(t)]]].aliases is None]
        gradients = [g for g in self._new_gradients() if id(g) not in rewritten]
        return [(t, self.seen.place[id(t)]) for t in (*apart, *gradients)]

    def _new_gradients(self) -> list[Tensor]:
        return [g for _, g in self.seen.gradients if g is not None and self.seen.is_new(g)]
