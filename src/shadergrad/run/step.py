"""sg.compile: captures a function once for each kind of arguments, then replays its plan.

The first call with arguments of new shapes runs the function on pending tensors: nothing is computed, but every tensor
that it changes is recorded. Its results and its changes are compiled into one plan, in which parameters and
optimizer state are overwritten in place. Later calls bind the arguments and submit.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from .. import cpython
from ..drive import execute
from ..drive.tracing import current
from ..errors import CompileError
from ..graph import node as nodes
from ..graph.primitive import keeping
from ..plan import Explanation, Plan
from ..system import interrupts
from ..target import NUMPY, PORTABLE, Target
from ..tensor import Tensor, flush
from ..tensor.precision import here
from .anomalies import checked_for_nan
from .capture import capture
from .naming import describe_arguments
from .portable import PortableStep
from .replay import Replay
from .sizes import SizesSeen
from .trees import containers_in, has_gradient, layout_of, marks_of, signature, without_numbers, without_sizes
from .users_code import users_traceback

P = ParamSpec("P")  # the parameters of a compiled function
R = TypeVar("R")  # its result

MOST_VALUES = (
    8  # captures that differ only in numbers among the arguments, or in Python state: each holds gradients of its own
)
MOST_CAPTURES = 64  # per step
WARNED_AT = 8  # captures
CAPTURE_BYTES = execute.PROGRAM_BYTES  # host memory for the captures of one step


class CompiledStep(Generic[P, R]):
    """A function that runs as one submission, made by `sg.compile`. Call it as the function itself.

    captures: how often the function was captured: once for each combination of shapes, dtypes and Python arguments, and
    of the Python values that it reads. From the 8th on a warning says once what changed. Threads may share a step; their
    calls run one after the other.

    >>> step = sg.compile(lambda x: (x * x).sum())
    >>> step(sg.tensor([1.0, 2.0])), step(sg.tensor([3.0, 4.0])), step.captures
    (tensor(5.), tensor(25.), 1)
    """

    def __init__(
        self, function: Callable[P, R], most_unwarned: int = WARNED_AT - 1, dynamic: bool | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._most_unwarned = most_unwarned
        self._dynamic = dynamic
        self._forget()

    def _forget(self) -> None:
        """Reset to the state before the first call."""
        self._entries: OrderedDict[Any, list[Replay]] = OrderedDict()  # least recently used first
        self._nbytes = 0
        self._latest: tuple[Any, Replay] | None = None  # with its signature
        self._nodes_seen = -1
        self._described: dict[str, str] = {}
        self._has_warned = False
        self._sizes = SizesSeen(self._dynamic)
        self.captures = 0

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy. Captures are not copied, because they refer to this function's tensors, not to those of its copy."""
        uncalled = CompiledStep.__new__(CompiledStep)
        uncalled._dynamic = self._dynamic
        uncalled._forget()
        return {**vars(self), **vars(uncalled)}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current.trace is not None or cpython.refuted:
            if cpython.refuted:
                cpython.warn_once()
            return self._function(*args, **kwargs)
        if nodes.mode.inspect is not None:
            return checked_for_nan(self._function, args, kwargs)
        try:
            result = self._run(args, kwargs)
        except CompileError as error:  # the function's fault: its traceback needs only the user's lines
            raise error.with_traceback(users_traceback(error)) from error.__cause__
        if interrupts.waiting.is_waiting:
            interrupts.deliver()
        return result

    def _run(self, args: Any, kwargs: Any) -> Any:
        with execute.lock:
            key, tensors = _describe(args, kwargs)
            if here.kinds:
                key = (key, frozenset(here.kinds.items()))
            latest = self._latest
            if latest is not None and latest[0] == key and latest[1].holds(tensors):
                entry = latest[1]
            else:
                entry = self._find(key, args, kwargs, tensors)
            if nodes.nodes_made != self._nodes_seen:
                self._protect()
            return entry.run(entry.storages(tensors), tensors, (args, kwargs))

    def _find(self, key: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Replay:
        """The capture that holds for a call, a new one if none does. It becomes the latest, which calls try first."""
        entries = self._entries.get(key, [])
        for k in range(len(entries) - 1, -1, -1):
            if entries[k].holds(tensors):
                entry = entries[k]
                entries.append(entries.pop(k))  # least recently used first
                break
        else:
            entry = self._capture(key, args, kwargs, tensors)
        self._entries.move_to_end(key)
        if self._latest is not None and self._latest[1] is not entry:
            self._latest[1].let_go()
        self._latest = (key, entry)
        return entry

    def _capture(self, key: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Replay:
        described = describe_arguments(self._function, args, kwargs)
        pattern = _without_sizes(args, kwargs)
        is_said = self._sizes.is_marked_dynamic(pattern) and (self._latest is None or self._latest[0] != key)
        if self.captures >= self._most_unwarned and not self._has_warned and not is_said:
            self._has_warned = True
            changed = self._what_changed(key, described)
            warnings.warn(
                f"{getattr(self, '__name__', 'a compiled step')} is captured for the {self.captures + 1}th time: {changed}. A "
                "capture runs the function in Python, and may compile. Hint: docs/compile.md says what calls can share.",
                stacklevel=5,
            )
        try:
            entry, _ = capture(self._function, args, kwargs, tensors, sizes=self._sizes.of(pattern, tensors))
        except CompileError:
            raise
        except Exception as error:  # the function's own: the capture was undone, so a plain call repeats its effects
            function: Callable[..., R] = self._function
            function(*args, **kwargs)
            raise error
        self._described = described
        self.captures += 1
        self._keep(key, entry)
        return entry

    def _what_changed(self, key: Any, described: dict[str, str]) -> str:
        """The reason why the previous capture does not hold."""
        before = self._described
        if self._latest is not None and self._latest[0] == key:
            return self._latest[1].broken()
        changes = [
            f"argument {k!r} went from {before[k]} to {v}" for k, v in described.items() if before.get(k, v) != v
        ]
        return changes[0] if changes else "its arguments are built otherwise"

    def _keep(self, key: Any, entry: Replay) -> None:
        """Add a capture, and drop the least recently used ones beyond the memory limit."""
        same = self._entries.setdefault(key, [])
        same.append(entry)
        if len(same) > MOST_VALUES:
            self._nbytes -= execute.plan_bytes(same.pop(0).program.plan)
        self._entries.move_to_end(key)
        self._nbytes += execute.plan_bytes(entry.program.plan)
        while self._nbytes > CAPTURE_BYTES or sum(map(len, self._entries.values())) > MOST_CAPTURES:
            oldest, entries = next(iter(self._entries.items()))
            if entries[0] is entry:
                break
            self._nbytes -= execute.plan_bytes(entries.pop(0).program.plan)
            if not entries:
                del self._entries[oldest]
        alike = [k for k in self._entries if without_numbers(k) == without_numbers(key)]
        for oldest in alike[:-MOST_VALUES]:  # they share programs, but each has memory for gradients
            self._nbytes -= sum(execute.plan_bytes(e.program.plan) for e in self._entries.pop(oldest))

    def _protect(self) -> None:
        """Before state is overwritten in place, compute pending operations that use its present value."""
        flush(views=True)
        self._nodes_seen = nodes.nodes_made

    @property
    def plan(self) -> Plan:
        """The plan of the latest run. Raises CompileError before the first call."""
        return self._ran_last("plan")[1].plan

    def explain(self, why: bool = False, choices: bool = False) -> Explanation:
        """A table of the plan of the latest run, a str. On a GPU: its dispatches by number, with kernel, archetype, the module or
        line of origin, shape, bytes and flops. On the cpu device: NumPy's operations, with the number of runs of each and the
        size of its results.

        Modules have the names that they have in named_modules of the outermost one; an arrow marks a module whose gradients
        a kernel computes. why: instead of sizes, the dispatches that each reads from, and why they are separate kernels. choices: the parameters of
        each kernel (tile, threads, loads, parts). On the cpu device these two list native kernels, and what NumPy computes.

        Raises CompileError before the first call, ArgumentError if both why and choices are given.

        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Softmax(-1))
        >>> step = sg.compile(lambda x: model(x))
        >>> print(step.portable(sg.ones(4, 2)).plan.explain(why=True))
        #  kernel                   from  reads  not one kernel, for
        ------------------------------------------------------------
        0  dot_add                  0
        1  reducemax_reducesum_div  1     #0     a product gives tiles, no whole rows
        2 dispatches, with those that they read results of, and why they are not one
        >>> print(step.portable(sg.ones(4, 2)).plan.explain(choices=True))
        #  kernel                   from  choice
        ----------------------------------------
        0  dot_add                  0     dot: direct 32x32x1, 4x4 a thread
        1  reducemax_reducesum_div  1     row: a thread a row, 4 a workgroup, loads of 1, unrolled, joined at once
        2 dispatches, and the choice that each kernel was made by
        """
        return self._ran_last("table")[1].plan.explain(why, choices)

    def _repr_html_(self) -> str | None:
        """In notebooks: the table; before the first call the default representation."""
        return None if self._latest is None else self.explain()._repr_html_()

    def inputs(self, *args: Any, **kwargs: Any) -> list[np.ndarray]:
        """The values of the plan's inputs in a call with these arguments, with which the plan can be replayed
        elsewhere. Raises CompileError if the latest plan is for other arguments.
        """
        latest, entry = self._ran_last("inputs")
        key, tensors = _describe(args, kwargs)
        if key != latest:
            raise CompileError(
                "these arguments have other shapes, dtypes or Python values than those of the call that ran last. "
                "Hint: call the step with them first."
            )
        return [*(execute.download(holder._node) for holder in entry.bind(tensors)), *entry.program.numbers]

    def portable(self, *args: P.args, **kwargs: P.kwargs) -> PortableStep:
        """A call with these arguments, for another runner: a plan within WebGPU's default limits, whatever
        the tensors' device, and the values that it reads and changes. Nothing runs, and nothing changes.

        Raises CompileError if the function cannot be captured, or has effects that only Python can repeat: storing something
        in a Python object, or changing an argument. DTypeError for a dtype that no GPU has.

        >>> w = sg.ones(2)
        >>> step = sg.compile(lambda x: w.add_(x).sum())
        >>> step.portable(sg.tensor([1.0, 2.0])).plan
        Plan(wgsl: 2 kernels, 2 dispatches, 2 inputs, 2 outputs, 0 B of temporaries)
        >>> w
        tensor([1., 1.])
        """
        return self._planned(PORTABLE, args, kwargs)

    def planned_for(self, target: Target, *args: P.args, **kwargs: P.kwargs) -> PortableStep:
        """The same as `portable`, with a plan for another target: one with larger limits, or with optional features.

        >>> from dataclasses import replace
        >>> from shadergrad.target import PORTABLE
        >>> sg.compile(lambda x: x + 1).planned_for(replace(PORTABLE, max_storage_buffers=10), sg.ones(3)).plan
        Plan(wgsl: 1 kernel, 1 dispatch, 1 input, 1 output, 0 B of temporaries)
        """
        return self._planned(target, args, kwargs)

    def node_by_node(self, *args: P.args, **kwargs: P.kwargs) -> PortableStep:
        """The same as `portable`, with the plan that the cpu device would run: NumPy's operations by name, one per node.

        >>> sg.compile(lambda x: (x * x).sum()).node_by_node(sg.ones(3)).plan
        Plan(numpy: 2 kernels, 2 dispatches, 1 input, 1 output, 0 B of temporaries)
        """
        return self._planned(NUMPY, args, kwargs)

    def _planned(self, target: Target, args: Any, kwargs: Any) -> PortableStep:
        with execute.lock:
            _, tensors = _describe(args, kwargs)
            with keeping() as operations:
                replay, watch = capture(self._function, args, kwargs, tensors, target)
            return PortableStep(replay, watch, tensors, operations=operations)

    def _ran_last(self, what: str) -> tuple[Any, Replay]:
        if self._latest is None:
            cpython.require()
            raise CompileError(
                f"this step has no {what} before its first call, which compiles it. Hint: call it once with its arguments."
            )
        return self._latest


def node_by_node(function: Callable[..., Any], tensors: Sequence[Tensor]) -> PortableStep:
    """The plan of function(*tensors), as `CompiledStep.node_by_node` gives it, in any dtype."""
    with execute.lock:
        given = list(tensors)
        return PortableStep(*capture(function, tuple(given), {}, given, NUMPY), given, on_gpu=False)


def _describe(args: Any, kwargs: Any) -> tuple[Any, list[Tensor]]:
    """The signature of a call, and the tensors in its arguments, in order."""
    tensors: list[Tensor] = []
    if not kwargs:
        described: list[Any] = []
        for t in args:
            if type(t) is int:
                described.append(("int", t))
                continue
            if not isinstance(t, Tensor):
                tensors = []
                break
            n = t._node
            layout = None if t._shared is None else layout_of(t)
            flags = n.requires_grad or (t._grad is not None and has_gradient(t))
            described.append((n.shape, n.dtype, n.device, flags, layout, *marks_of(t)))
            tensors.append(t)
        else:
            if len(tensors) > 1 and len({*tensors}) < len(tensors):
                described.append(_which_is_which(tensors))
            return tuple(described), tensors
    signed = signature((args, kwargs), tensors)
    containers = [value for value, _ in containers_in((args, kwargs))]
    return (signed, _which_is_which(tensors), _which_is_which(containers)), tensors


def _which_is_which(tensors: Sequence[Any]) -> tuple[int, ...]:
    """For each object, the number of the first identical one, because functions may compare `x is y`."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(t), k) for k, t in enumerate(tensors))


def _without_sizes(args: Any, kwargs: Any) -> Any:
    """The common part of the signatures of calls that differ only in sizes and numbers."""
    return without_numbers(without_sizes(signature((args, kwargs), [])))
