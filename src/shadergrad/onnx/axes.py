"""The axes of inputs whose size may be another in each run.

In: PyTorch's `dynamic_axes` or `dynamic_shapes`, and the sample. Out: a name for each such axis, and a few sizes to try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..arguments import refuse, whole
from ..tensor import Tensor
from .errors import OnnxError
from .sizes import Sizes

Axis = tuple[int, int]  # of the inputs which, and which of its axes
CALLS = 4  # how many sizes of each axis are tried: two give a formula, the others confirm it
TWELVE = 12
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)


class Dim:
    """A dynamic axis by name, for `dynamic_shapes`; min and max: the sizes that it may have. PyTorch's `torch.export.Dim`.

    Dim.AUTO and Dim.DYNAMIC are axes without a name, Dim.STATIC is a fixed one.

    >>> sg.onnx.Dim("batch", max=64)
    Dim('batch', min=1, max=64)
    """

    AUTO: Any
    DYNAMIC: Any
    STATIC: Any

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str):
            refuse("Dim", "name", name, "str")
        self.__name__ = name
        self.min = 1 if min is None else whole("Dim", "min", min, 0)
        self.max = None if max is None else whole("Dim", "max", max)
        if self.max is not None and self.max < self.min:
            raise OnnxError(f"[onnx] Dim({name!r}) has sizes of {self.min} to {self.max}: there are none.")

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = Dim("auto"), Dim("dynamic"), Dim("static")


class Dynamic:
    """The dynamic axes of an export. names: of each its name; axes of one name have one size. limits: of each name."""

    def __init__(self) -> None:
        self.names: dict[Axis, str] = {}
        self.limits: dict[str, tuple[int, int | None]] = {}
        self.unnamed: set[str] = set()  # generated names

    def add(self, axis: Axis, wanted: Any, unnamed: str) -> None:
        """wanted: a name, a Dim, or True for an axis without a name."""
        if wanted in (True, Dim.AUTO, Dim.DYNAMIC):
            self.unnamed.add(unnamed)
            wanted = unnamed
        name = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", None)
        if not isinstance(name, str):
            raise OnnxError(f"[onnx] a dynamic axis is {wanted!r}. Hint: a name, or Dim(name).")
        self.names[axis] = name
        self.limits[name] = (getattr(wanted, "min", None) or 1, getattr(wanted, "max", None))

    def check(self, shapes: Sequence[Sequence[int]]) -> None:
        """Raises OnnxError where axes of one name have two sizes in the sample, or one that its limits exclude."""
        seen: dict[str, int] = {}
        for (number, axis), name in self.names.items():
            size = shapes[number][axis]
            low, high = self.limits[name]
            if seen.setdefault(name, size) != size or size < low or (high is not None and size > high):
                raise OnnxError(
                    f"[onnx] the dynamic axis {name!r} has size {size} in input {number}, and elsewhere {seen[name]}; its limits are {low} "
                    f"to {'any' if high is None else high}. Hint: another name for axes of another size."
                )

    def merged(self, shapes: Sequence[Sequence[int]]) -> Dynamic:
        """The same with one name for unnamed axes of one size."""
        made, first = Dynamic(), dict[int, str]()
        for (number, axis), name in self.names.items():
            if name in self.unnamed:
                name = first.setdefault(shapes[number][axis], name)
            made.names[number, axis] = name
            made.limits[name] = self.limits[name]
        return made

    def symbols(self, inputs: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Where the size of each name is found: an input's name, and its axis."""
        found: dict[str, tuple[str, int]] = {}
        for (number, axis), name in self.names.items():
            found.setdefault(name, (inputs[number], axis))
        return found

    def trials(self, shapes: Sequence[Sequence[int]]) -> Iterator[list[Sizes]]:
        """Sizes to try: different ones for different names, of those that a model probably takes; then multiples of the sample's, for
        models that take no others."""
        sample = {name: shapes[number][axis] for (number, axis), name in self.names.items()}
        if not sample:
            yield [{}]
            return
        choices = {name: _sizes(*self.limits[name], sample[name]) for name in sample}
        yield [
            {name: found[(k + shift) % len(found)] for shift, (name, found) in enumerate(choices.items())}
            for k in range(CALLS)
        ]
        yield [
            {name: n * _at(PRIMES, k + shift) for shift, (name, n) in enumerate(sample.items())} for k in range(CALLS)
        ]

    def beyond(self, shapes: Sequence[Sequence[int]], trial: Sequence[Sizes]) -> Sizes:
        """Larger sizes than those of the sample, within the limits, and different ones for different names where there are. They are even
        where those of a trial are all odd, for halves that are rounded follow other formulas there; then they are multiples of three, too."""
        found: dict[str, int] = {}
        for shift, ((number, axis), name) in enumerate(self.names.items()):
            high = self.limits[name][1]
            larger = TWELVE * (2 * max(shapes[number][axis], PRIMES[CALLS]) // TWELVE + 1 + shift)
            larger += any(call[name] % 2 == 0 for call in trial)
            found.setdefault(name, larger if high is None else min(high, larger))
        return found


def _at(values: Sequence[int], k: int) -> int:
    return values[k % len(values)]


def _sizes(low: int, high: int | None, sample: int) -> list[int]:
    """Sizes within limits, up to that of the sample where there are enough: models may have a longest sequence."""
    most = max(sample, PRIMES[CALLS]) if high is None else high
    least = max(low, 2)
    found = [n for n in PRIMES if least <= n <= most and (n <= sample or sample < PRIMES[CALLS])]
    found += [n for n in range(least, min(most, least + 64) + 1) if n not in found]
    if len(found) < CALLS:
        raise OnnxError(
            f"[onnx] a dynamic axis may have the sizes {low} to {high}: too few to follow it. Hint: export it with a fixed size."
        )
    return found[: max(CALLS, 6)]


def from_axes(
    dynamic_axes: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str], tensors: Sequence[Tensor]
) -> Dynamic:
    """From `dynamic_axes`: by the name of an input a dict, axis to name, or a list of axes. Those of outputs follow from the model.

    Raises OnnxError for names and axes that there are not, and where it names outputs alone.
    """
    if not isinstance(dynamic_axes, Mapping):
        refuse("export", "dynamic_axes", dynamic_axes, "a dict: {input: {axis: name}} or {input: [axes]}")
    made = Dynamic()
    for name, wanted in dynamic_axes.items():
        if isinstance(wanted, str) or not isinstance(wanted, Mapping | Sequence):
            refuse("export", f"dynamic_axes[{name!r}]", wanted, "a dict of axes and names, or a list of axes")
        if name not in (*inputs, *outputs):
            raise OnnxError(
                f"[onnx] dynamic_axes names {name!r}, but inputs and outputs are {', '.join((*inputs, *outputs))}."
            )
        if name not in inputs:
            continue
        number = inputs.index(name)
        named = wanted.items() if isinstance(wanted, Mapping) else ((axis, True) for axis in wanted)
        for k, (axis, called) in enumerate(named, 1):
            made.add((number, _axis(axis, tensors[number], name)), called, f"{name}_dynamic_axes_{k}")
    if dynamic_axes and not dynamic_axes.keys() & {*inputs}:
        raise OnnxError(
            f"[onnx] dynamic_axes names {', '.join(dynamic_axes)}, which the model makes, and no input: sizes of outputs follow from those of "
            f"inputs. Hint: name axes of {', '.join(inputs)}."
        )
    return made


def from_shapes(
    dynamic_shapes: Any, arguments: Mapping[str, Any], inputs: Sequence[str], tensors: Sequence[Tensor]
) -> Dynamic:
    """From `dynamic_shapes`: built as the arguments are, for each tensor a dict, axis to Dim, or a sequence of one Dim an axis.

    arguments: the sample by the names of the model's arguments. Raises OnnxError where it is built otherwise.
    """
    if not isinstance(dynamic_shapes, Mapping):
        if len(dynamic_shapes) != len(arguments):
            raise OnnxError(f"[onnx] dynamic_shapes has {len(dynamic_shapes)} entries, for {len(arguments)} arguments.")
        dynamic_shapes = dict(zip(arguments, dynamic_shapes, strict=True))
    for name in dynamic_shapes:
        if name not in arguments:
            raise OnnxError(f"[onnx] dynamic_shapes names {name!r}, but the arguments are {', '.join(arguments)}.")
    made, number = Dynamic(), {id(t): k for k, t in enumerate(tensors)}
    for name, wanted in dynamic_shapes.items():
        for t, of in _by_tensor(arguments[name], wanted):
            k = number[id(t)]
            for axis, dim in of.items() if isinstance(of, Mapping) else enumerate(of):
                axis = _axis(axis, t, inputs[k])
                is_fixed = dim is None or dim is Dim.STATIC or type(dim) is int
                if not is_fixed:
                    made.add((k, axis), dim, f"{inputs[k]}_{axis}")
    return made


def _by_tensor(value: Any, wanted: Any) -> Iterator[tuple[Tensor, Any]]:
    """Each tensor in an argument, with what is wanted of its axes."""
    if wanted is None:
        return
    if isinstance(value, Tensor):
        yield value, wanted
    elif isinstance(value, Mapping) and isinstance(wanted, Mapping):
        for key, inner in wanted.items():
            yield from _by_tensor(value[key], inner)
    elif isinstance(value, list | tuple) and isinstance(wanted, list | tuple) and len(value) == len(wanted):
        for inner, of in zip(value, wanted, strict=True):
            yield from _by_tensor(inner, of)
    else:
        raise OnnxError(
            f"[onnx] dynamic_shapes has {wanted!r} for a {type(value).__name__}. Hint: build it as the arguments are."
        )


def _axis(axis: Any, t: Tensor, name: str) -> int:
    if not isinstance(axis, int) or not -t.ndim <= axis < t.ndim:
        raise OnnxError(f"[onnx] {name} has {t.ndim} axes, and no axis {axis!r}.")
    return axis % t.ndim
