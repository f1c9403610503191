"""Capturing: runs a function once on pending tensors, and makes a Replay of what it did.

In: a function and its arguments. Out: a Replay. Nothing is computed while the function runs, but every tensor that it
changes is recorded (tracing.py). Its results and its changes become the outputs of one plan, in which parameters and
optimizer state are overwritten in place. Afterwards every tensor has its old value again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from .. import cpython
from ..drive import execute, tracing
from ..drive.tracing import Trace, current, unwatched
from ..dtypes import DType, default_dtype, int32, set_default
from ..errors import CompileError
from ..graph import build
from ..graph import node as nodes
from ..graph.origin import Origins
from ..symbolic_sizes import following
from ..system.gc_pause import collector_waits
from ..target import Target
from ..tensor import Tensor, flush
from .captured import Captured
from .effects import effects_of, in_outside
from .guards import state_of
from .leaks import refuse_leaks
from .naming import Names, name_arguments
from .observed import Observed
from .refusals import refuse_marks
from .replay import Replay
from .sizes import FIXED, Sizes
from .trees import containers_in, exchange, has_gradient, layout_of
from .watcher import Watcher


def newest() -> int:
    """The serial number of the newest tensor."""
    return Tensor._of(build.constant(0, int32, "cpu"))._serial


@collector_waits()  # finalizers would run within the function, but are not part of it
def capture(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    tensors: list[Tensor],
    target: Target | None = None,
    sizes: Sizes = FIXED,
) -> tuple[Replay, Trace]:
    """Capture a call. Returns the Replay and the trace. tensors: those in the arguments, in order. target: the target to compile for
    if another runner executes the call; by default the tensors' device. sizes: the arguments' sizes that vary.

    Raises CompileError if the function cannot be captured, and any exception of the function; then nothing has changed.
    """
    cpython.require()
    flush(views=True)  # every tensor that exists is an input of the capture, never a constant of it
    for t in tensors:
        execute.realize([t._node])
    themselves = frozenset(k for k, t in enumerate(tensors) if t.requires_grad or has_gradient(t))
    try:
        found, watch = _capture(function, args, kwargs, tensors, themselves, target, sizes)
    except CompileError:
        raise
    except Exception:
        uses = Counter(id(t._cell()) for t in tensors)
        twice = {k for k, t in enumerate(tensors) if uses[id(t._cell())] > 1}
        if twice <= themselves:
            raise
        themselves |= twice  # perhaps it failed because two placeholders replaced one tensor
        found, watch = _capture(function, args, kwargs, tensors, themselves, target, sizes)
    more = (found.shared_memory(tensors) | found.python.met_anew(tensors)) - themselves
    if more:
        watch.undo_backward()
        found, watch = _capture(function, args, kwargs, tensors, themselves | more, target, sizes)
    if target is not None:
        watch.undo_backward()
    try:
        refuse_leaks(watch, found.made())
    except CompileError:
        watch.undo_backward()
        raise
    found.uses_up = bool(watch.let_go)
    return found, watch


def _capture(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    tensors: list[Tensor],
    themselves: frozenset[int],
    target: Target | None,
    sizes: Sizes,
) -> tuple[Replay, Trace]:
    """themselves: the numbers of the arguments that are passed to the function as they are; placeholders with their values replace the
    others. An argument that occurs twice is replaced by one placeholder.
    """
    watch = Trace(is_portable=target is not None)
    instead, stand_ins = _stand_ins(tensors, themselves, sizes)
    given = [instead[id(t)] for t in tensors]  # a container that occurs twice stays one
    watch.layouts = {s._serial: layout for k, s in stand_ins.items() if (layout := layout_of(tensors[k])) is not None}
    args, kwargs = exchange((args, kwargs), Tensor, lambda t: instead[id(t)], {})
    containers = list(containers_in((args, kwargs)))
    marks = [dict(t.__dict__) for t in given]
    watch.began = newest()
    python = Watcher(function, (args, kwargs), watch)
    ambient = _ambient()
    current.trace = watch
    tracing.is_capturing = True
    nodes.mode.let_go = watch.let_go
    try:
        with following(sizes.family):
            with nodes.origins_of(Origins()), nodes.nodes_of() as made:
                result = python.run(function, args, kwargs)
            _refuse_ambient(ambient)
            watch.keep_histories_before(made)
            del made
            effects, result = effects_of(python.snapshot, containers, result)
            python.snapshot.undo()
            state = state_of(python, effects, result, [tensors[k] for k in themselves])
            refuse_marks(marks, given, result, state.values(), watch.began)
            seen = Observed(watch, result, stand_ins, state, given, in_outside(result, containers))
            captured = Captured(watch, stand_ins, seen, state)
            arguments = name_arguments(function, args, kwargs)
            of_arguments = {k: arguments.get(id(s), "") for k, s in stand_ins.items()}
            with unwatched():
                names = Names(watch, function)
            replay = captured.replay(names, of_arguments, target)
            state.forget()
            replay.themselves = {k: tensors[k] for k in themselves}
            return replay, watch
    except BaseException:
        if _ambient() != ambient:
            _set_ambient(*ambient)
        watch.undo()
        watch.undo_hooks()
        watch.undo_backward()
        current.trace = None
        python.snapshot.undo()
        raise
    finally:
        current.trace = None
        tracing.is_capturing = False
        nodes.mode.let_go = None


def _stand_ins(
    tensors: list[Tensor], themselves: frozenset[int], sizes: Sizes
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """The tensors that the function gets, by id of the argument; and the placeholders among them, by number of the argument."""
    instead = {id(tensors[k]): tensors[k] for k in themselves}
    made: dict[int, Tensor] = {}
    for k, t in enumerate(tensors):
        if id(t) not in instead:
            instead[id(t)] = made[k] = _stand_in(t, sizes.shape_of(k, t))
    return instead, made


def _ambient() -> tuple[bool, DType]:
    """Global settings that a function may change for all later operations."""
    return nodes.mode.grad, default_dtype()


def _set_ambient(grad: bool, dtype: DType) -> None:
    nodes.mode.grad = grad
    set_default(dtype)


def _refuse_ambient(before: tuple[Any, ...]) -> None:
    names = ("whether gradients are recorded", "the default dtype")
    changed = [name for name, was, now in zip(names, before, _ambient(), strict=True) if was != now]
    if changed:
        raise CompileError(
            f"a compiled step set {' and '.join(changed)}, and left it so; later calls would not. Hint: set it outside, or use "
            "a with block, as in `with sg.no_grad():`."
        )


def _stand_in(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A placeholder with the value of an argument and the attributes that the program set on it. shape: its shape, whose sizes may vary."""
    node = t._node
    made = Tensor._of(nodes.leaf(node.storage, shape, node.dtype, node.device))
    made.__dict__.update(t.__dict__)
    return made
