"""The graph of primitives of a model's call, for export.

In: a function of tensors, and tensors. Out: rows, operations in order, and the values that the model holds. Nothing is computed,
and the model stays as it was. Where axes vary, the function is captured for a few sizes of them, and the graphs must agree.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType
from ..explanation import Origin
from ..plan import Plan
from ..primitives.random import Threefry
from ..primitives.views import Pad, Slice
from ..primitives.window import Window
from ..run.portable import PortableStep
from ..run.step import node_by_node
from ..tensor import Tensor
from ..tensor.bounds import of_any_size
from .errors import OnnxError
from .sizes import Dim, Sizes, same

MOST_NAMES = 4  # in a message
RANDOM = frozenset({Threefry.__name__, "GammaDraw"})


@dataclass(frozen=True)
class Row:
    """A value: of an input, a constant of the model, or an operation."""

    shape: tuple[Dim, ...]
    dtype: DType


@dataclass(frozen=True)
class Operation:
    """primitive: its class's name, with its parameters. reads, gives: rows."""

    primitive: str
    parameters: dict[str, Any]
    reads: tuple[int, ...]
    gives: int
    origin: Origin | None


@dataclass(frozen=True)
class Captured:
    """inputs: the rows of the tensors, in their order. held: of other inputs, name and value by row. outputs: rows.
    varying: the rows of `held` that are another value in another call, and where they are used: no file may need them."""

    rows: list[Row]
    operations: list[Operation]
    inputs: list[int]
    held: dict[int, tuple[str, np.ndarray]]
    outputs: list[int]
    varying: dict[int, str]


def captured(function: Callable[..., Any], tensors: Sequence[Sequence[Tensor]], calls: Sequence[Sizes]) -> Captured:
    """The graph of function(*tensors), which gives a tuple of tensors; tensors: those of each of the calls.

    Raises OnnxError where the model does more than compute, or computes something else in another of the calls.
    """
    with of_any_size():
        steps = [node_by_node(function, given) for given in tensors]
    for step in steps:
        _refuse_changes(step.plan)
    first, plan = steps[0], steps[0].plan
    alike = [
        [(plan.kernels[d.kernel].primitive, d.buffers) for d in plan.dispatches] for plan in (s.plan for s in steps)
    ]
    if any(other != alike[0] for other in alike):
        raise OnnxError(
            "[onnx] with other sizes of the dynamic axes the model applies other operations. Hint: export it with fixed sizes."
        )
    shapes = [[tuple(map(int, spec.shape)) for spec in step.plan.buffers] for step in steps]
    rows = [Row(same(found, calls), spec.dtype) for spec, *found in zip(plan.buffers, *shapes, strict=True)]
    given = [[json.loads(s.plan.kernels[d.kernel].parameters) for d in s.plan.dispatches] for s in steps]
    for k, d in enumerate(plan.dispatches):
        if plan.kernels[d.kernel].primitive == Slice.__name__:
            _note_ends([of[k] for of in given], [found[d.buffers[0]] for found in shapes])
    _fix_borders(plan, given)
    operations = [
        Operation(
            plan.kernels[d.kernel].primitive,
            same(parameters, calls),
            d.buffers[:-1],
            d.buffers[-1],
            plan.notes[k].origin if plan.notes else None,
        )
        for k, (d, *parameters) in enumerate(zip(plan.dispatches, *given, strict=True))
    ]
    count = len(tensors[0])
    held = {row: (name, value) for row, name, value in first.held() if row not in plan.inputs[:count]}
    return Captured(rows, operations, list(plan.inputs[:count]), held, list(plan.outputs), _varying(held, steps[1:]))


def _varying(held: dict[int, tuple[str, np.ndarray]], steps: Sequence[PortableStep]) -> dict[int, str]:
    """The rows of tensors that the model makes of Python's numbers and that are others in other calls, with the place of their first use.
    Those that repeat one number in all calls, as what a mean of windows divides by does, become one element in `held`."""
    found: dict[int, str] = {}
    for step in steps:
        for row, _, value in step.held("constant"):
            name, first = held.get(row, ("", value))
            if first.shape == value.shape and first.tobytes() == value.tobytes():
                continue
            if (
                value.size
                and first.size
                and first.ndim == value.ndim
                and (value == first.flat[0]).all()
                and (first == first.flat[0]).all()
            ):
                held[row] = (name, first.reshape(-1)[:1].reshape((1,) * first.ndim))
            else:
                readers = zip(step.plan.dispatches, step.plan.notes, strict=True)
                found[row] = place(next((note.origin for d, note in readers if row in d.buffers), None))
    return found


def _note_ends(slices: Sequence[dict[str, Any]], shapes: Sequence[tuple[int, ...]]) -> None:
    """Along which axes the slices of all calls go on to the end, as a parameter."""
    ends = [True] * len(shapes[0])
    for of, shape in zip(slices, shapes, strict=True):
        columns = zip(shape, of["starts"], of["sizes"], of["steps"], strict=True)
        for axis, (n, start, size, step) in enumerate(columns):
            ends[axis] &= size == -(-(n - start) // step)
    for of in slices:
        of["to_end"] = ends


def _fix_borders(plan: Plan, given: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Poolings pad as far as their windows reach, which hangs on the size modulo the step. Where the calls show as many borders as there
    are remainders, the widest serves all sizes: no window more fits it."""
    padded = {
        d.buffers[-1]: k for k, d in enumerate(plan.dispatches) if plan.kernels[d.kernel].primitive == Pad.__name__
    }
    readers = Counter(row for d in plan.dispatches for row in d.buffers[:-1])
    for k, d in enumerate(plan.dispatches):
        row = d.buffers[0]
        if plan.kernels[d.kernel].primitive != Window.__name__ or row not in padded or readers[row] > 1:
            continue
        pads = [of[padded[row]] for of in given]
        for axis, step in zip(given[0][k]["axes"], given[0][k]["steps"], strict=True):
            borders = {of["high"][axis] for of in pads}
            if len(borders) == step > 1:
                for of in pads:
                    of["high"][axis] = max(borders)


def _refuse_changes(plan: Plan) -> None:
    """A file computes; it draws nothing, and keeps nothing from run to run."""
    for d, note in zip(plan.dispatches, plan.notes, strict=True):
        if plan.kernels[d.kernel].primitive in RANDOM:
            raise OnnxError(
                f"[onnx] the model draws random numbers{place(note.origin)}, and a file would have to draw others in each run. Hint: give noise "
                "as an argument; dropout is off in eval mode, if it asks for self.training."
            )
    given = [plan.buffers[row] for row in plan.outputs if row not in plan.inputs]
    changed = [spec.name for spec in given if spec.role not in ("result", "argument")]
    if changed:
        raise OnnxError(
            f"[onnx] the model changes what it holds ({', '.join(changed[:MOST_NAMES])}), and a file keeps nothing from run to run. Hint: "
            "return the new value."
        )


def place(origin: Origin | None) -> str:
    """Where an operation comes from, for a message."""
    if origin is None or not (origin.module or origin.line):
        return ""
    return f" in module {origin.module}" if origin.module else f" at {origin.line}"
