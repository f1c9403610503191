"""A plan: what to run, as plain data. In: nothing but values. Out: something any runner can execute.

A plan is a buffer table, a list of kernels, and dispatches in order. It holds no object of a device or of the graph, so it
can be compared, hashed, printed, written to JSON and replayed elsewhere. The cpu device runs kernels that name a primitive;
the webgpu device, and a browser, run kernels with WGSL.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, get_args

from .config import config
from .dtypes import DType, named_dtype
from .errors import ArgumentError, DTypeError, PlanError, PositionError, ShadergradError
from .explanation import NOWHERE, Explanation, Note, Origin, in_column, merged, short
from .target import Target

Role = Literal["argument", "parameter", "state", "counter", "constant", "temporary", "result", "fault"]
FORMAT = 6
# what a kernel may report of an index that is data, by the number that it writes: {index}, {size}
FAULTS = (
    "[gather] index {index} is out of range for an axis of size {size}.",
    "[cross_entropy] target {index} is out of bounds: there are {size} classes, 0 to {last}. Hint: ignore_index leaves out one value.",
    "[embedding] index {index} is out of range: the table has {size} rows, 0 to {last}.",
    "[scatter_add] position {index} is out of range for an axis of size {size}.",
    "[multinomial] a probability is negative, infinite or NaN, or those of a whole row are zero.",
    "[bernoulli] a probability lies outside [0, 1], or is NaN.",
    "[one_hot] class {index} is out of range: there are {size} classes, 0 to {last}.",
    "[binary_cross_entropy] all elements of input should be between 0 and 1. Hint: binary_cross_entropy_with_logits takes any.",
    "[sum] a sum or product of integers does not fit its 32 bits. Hint: .float() first, or dtype=sg.int64 on the cpu device.",
    "[masked_scatter] the mask holds in {index} places or more, but the source has {last} elements.",
    "[embedding_bag] offset {index} is out of range: the first has to be 0, and none more than the number of positions.",
    "[embedding_bag] a bag has {index} positions: each offset has to be at least the one before it.",
)
(
    IN_GATHER, IN_TARGET, IN_EMBEDDING, IN_SCATTER, IN_MULTINOMIAL, IN_BERNOULLI, IN_ONE_HOT, IN_BINARY, IN_TOTAL,
    IN_MASKED, IN_BAGS, IN_BAG_SIZE,
) = range(len(FAULTS))  # fmt: skip


def fault_error(fault: int, index: int, size: int) -> ShadergradError:
    """The error of an index out of range, or of another report by a kernel."""
    kind = DTypeError if fault == IN_TOTAL else PositionError
    return kind(FAULTS[fault].format(index=index, size=size, last=size - 1))


BINDING = 4  # bytes: what the size of a binding is a multiple of
MOST_READ = 3  # numbers of dispatches in a line of a table
VECTOR = 16  # bytes: the same, of a binding as array<vec4<...>>


class Label(NamedTuple):
    """The role and name of a buffer, for users and for other runners. (role, name) is unique among inputs, and among outputs."""

    role: Role
    name: str


@dataclass(frozen=True)
class BufferSpec:
    """One row of the buffer table.

    role: argument (differs from call to call), parameter (trained), state (overwritten from run to run: what optimizers and
    modules remember, gradients), counter (of a random stream), constant (captured, never changed by the plan; numbers that
    may be others in another capture), temporary
    (within a run), result; "fault" is the device's own buffer of four i32, in which checked kernels report (flag, index,
    axis size). An output that is a parameter, state or a counter is the new value of the input of that role and name.
    shape, dtype: what the bytes mean. For wgsl targets an element takes 4 bytes (a bool and a uint8 are stored as u32, an
    int64 as i32), or 2 bytes if it is float16 or bfloat16.
    aliases: for an output that overwrites an input in place, that input's row; else None.
    slot: for a temporary, the memory slot it shares with others whose lifetimes do not overlap; else None.
    bound: bytes that bindings of it span, from its first: a multiple of 4, of 16 where a kernel binds it as vec4. By
    default what shape and dtype need.
    """

    role: Role
    shape: tuple[int, ...]
    dtype: DType
    aliases: int | None = None
    slot: int | None = None
    name: str = ""
    bound: int = 0

    def __post_init__(self) -> None:
        if not self.bound:
            object.__setattr__(self, "bound", round_up(self.nbytes, BINDING))

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def host_bytes(self) -> int:
        """Bytes of its elements in NumPy."""
        return self.size * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of its elements on a GPU (at least 4); of dtypes that no GPU has, on the host."""
        itemsize = self.dtype.itemsize if self.dtype.stored is None else self.dtype.stored.itemsize
        nbytes = self.size * itemsize
        return max(4, round_up(nbytes, 4) if self.dtype.is_half else nbytes)


@dataclass(frozen=True)
class Kernel:
    """One program. `access` has an entry a binding: "read", or "read_write" when the kernel writes it.

    wgsl kernels have `source` with entry point `main` and bindings @group(0) @binding(i) in the order of `access`.
    numpy kernels name a `primitive`, with its parameters as JSON text (as text, -0.0 differs from 0.0, and NaN equals NaN).
    It is applied to all bindings but the last, and its result is the last.
    """

    name: str
    archetype: str  # map, row, dot, call, or numpy
    access: tuple[str, ...]
    source: str = ""
    primitive: str = ""
    parameters: str = ""
    workgroup: tuple[int, int, int] = (1, 1, 1)
    shape: str = ""  # its iteration domain, for explanations
    flops: int = 0
    nbytes: int = 0  # bytes read and written, each once
    origin: str = ""  # the graph nodes it computes, for people
    choice: str = ""  # how it is made (compile/choices.py), for people


@dataclass(frozen=True)
class Dispatch:
    kernel: int  # row of Plan.kernels
    buffers: tuple[int, ...]  # row of Plan.buffers, a binding each
    grid: tuple[int, int, int] = (1, 1, 1)
    offsets: tuple[int, ...] = ()  # byte in its buffer where each binding begins; none given: 0

    def offset(self, binding: int) -> int:
        return self.offsets[binding] if self.offsets else 0


@dataclass(frozen=True, repr=False)
class Plan:
    """inputs and outputs are rows of `buffers`. An output may be an input's row (returned as it came).

    family: of plans that differ in sizes alone, a number; 0 where there are no others. notes: what there is to tell of each
    dispatch, where it is known. Both are for the process that made it, and no part of the plan otherwise.

    repr() is one line, str() a table of the dispatches.
    """

    target: Target
    buffers: tuple[BufferSpec, ...]
    kernels: tuple[Kernel, ...]
    dispatches: tuple[Dispatch, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    slots: tuple[int, ...] = ()  # bytes of each memory slot that temporaries share
    family: int = field(default=0, compare=False)
    notes: tuple[Note, ...] = field(default=(), compare=False)

    @property
    def temporary_bytes(self) -> int:
        return sum(self.slots)

    def labelled(self, inputs: Sequence[Label], outputs: Sequence[Label]) -> Plan:
        """The same plan with other roles and names for its inputs and its first outputs."""
        buffers = list(self.buffers)
        for rows, labels in ((self.outputs, outputs), (self.inputs, inputs)):
            for row, label in zip(rows, labels, strict=False):
                buffers[row] = replace(buffers[row], role=label.role, name=label.name)
        return replace(self, buffers=tuple(buffers))

    def located(self, origins: Sequence[Origin]) -> Plan:
        """The same plan, whose notes tell where dispatches come from. origins: of the nodes of the captured graph, by place."""
        notes = [
            Note(places, separations, origins[places[0]] if len(places) == 1 else merged(origins[k] for k in places))
            for places, separations, _ in self.notes
        ]
        return replace(self, notes=tuple(notes))

    # -- for people

    def __repr__(self) -> str:
        counts = (
            (self.kernels, "kernel"),
            (self.dispatches, "dispatch"),
            (self.inputs, "input"),
            (self.outputs, "output"),
        )
        parts = [count(len(rows), word) for rows, word in counts]
        return f"Plan({self.target.language}: {', '.join(parts)}, {format_bytes(self.temporary_bytes)} of temporaries)"

    def __str__(self) -> str:
        return self.explain()

    def explain(self, why: bool = False, choices: bool = False) -> Explanation:
        """A table, a text that notebooks show as HTML: of a GPU's plan a dispatch a row, of NumPy's an operation a row.
        why: why dispatches are not one with those that they read from, instead of their sizes. choices: how each kernel is made
        (compile/choices.py), instead of its sizes. On the cpu device both tables have the native kernels, and what NumPy computes, if the plan is
        compiled there. Raises ArgumentError where both are asked for.
        """
        if why and choices:
            raise ArgumentError("[explain] why and choices are two tables. Hint: ask for one after the other.")
        if self.target.language == "numpy":
            return _native_table(self, why) if why or choices else _numpy_table(self)
        if choices:
            return _table_of_choices(self)
        return _table_of_reasons(self) if why else _wgsl_table(self)

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    # -- for other runners

    def to_json(self) -> str:
        """The plan as JSON text; `from_json` gives back an equal plan."""
        data = asdict(self)
        del data["family"], data["notes"]
        for row, spec in zip(data["buffers"], self.buffers, strict=True):
            row["dtype"] = spec.dtype.name
        return json.dumps({"format": FORMAT, **data}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote. Raises PlanError, in a line, for other text and for another format."""
        try:
            data = json.loads(text)
            found = data.pop("format")
            if found != FORMAT:
                raise PlanError(
                    f"this plan has format {str(found)[:20]}; this version reads format {FORMAT}. "
                    "Hint: write it again with this version."
                )
            plan = _from_data(data)
            _check_fields(plan)
            _check_sizes(plan)
            _check_rows(plan)
        except PlanError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            raise PlanError(f"the text is no plan: {type(error).__name__}: {error}.") from None
        return plan


def _from_data(data: dict[str, Any]) -> Plan:
    def rows(kind: Any, values: Any, **convert: Any) -> tuple[Any, ...]:
        return tuple(kind(**{**_frozen(v), **{name: f(v[name]) for name, f in convert.items()}}) for v in values)

    return Plan(
        **{
            **_frozen(data),
            "target": Target.from_data(data["target"]),
            "buffers": rows(BufferSpec, data["buffers"], dtype=named_dtype, shape=tuple),
            "kernels": rows(Kernel, data["kernels"]),
            "dispatches": rows(Dispatch, data["dispatches"]),
        }
    )


def _frozen(data: dict[str, Any]) -> dict[str, Any]:
    """With tuples for lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def _check_fields(plan: Plan) -> None:
    """Raises ValueError where a text, number, truth value, role or access is none."""
    plain = {"str": str, "int": int, "bool": bool, "float": float}
    target = plan.target
    for record in (
        target,
        target.traits,
        target.traits.costs,
        *target.matrices,
        *plan.buffers,
        *plan.kernels,
        *plan.dispatches,
    ):
        for f in fields(record):
            value = getattr(record, f.name)
            if type(value) is not plain.get(str(f.type), type(value)):
                raise ValueError(f"{f.name} of a {type(record).__name__} is {value!r}")
    words = {b.role for b in plan.buffers}.union(*(k.access for k in plan.kernels))
    if unknown := words - {*get_args(Role), "read", "read_write"}:
        raise ValueError(f"no role or access is {unknown.pop()!r}")


def _check_sizes(plan: Plan) -> None:
    """Raises ValueError where a size or an offset is none."""
    sizes = [*plan.slots, *(b.bound for b in plan.buffers)]
    for row in (*(b.shape for b in plan.buffers), *(k.workgroup for k in plan.kernels)):
        sizes += row
    for d in plan.dispatches:
        sizes += (*d.grid, *d.offsets)
    for size in sizes:
        if type(size) is not int or size < 0:
            raise ValueError(f"a size or offset is {size!r}")


def _check_rows(plan: Plan) -> None:
    """Raises ValueError where a row is named that the plan does not have."""

    def check(what: str, rows: Iterable[int | None], table: Sequence[Any]) -> None:
        for row in rows:
            if row is not None and not (type(row) is int and 0 <= row < len(table)):
                raise ValueError(f"it names {what} {row!r}, and has {len(table)}")

    check("input", plan.inputs, plan.buffers)
    check("output", plan.outputs, plan.buffers)
    check("overwritten buffer", (b.aliases for b in plan.buffers), plan.buffers)
    check("slot", (b.slot for b in plan.buffers), plan.slots)
    check("kernel", (d.kernel for d in plan.dispatches), plan.kernels)
    for d in plan.dispatches:
        check("buffer", d.buffers, plan.buffers)
        bindings = len(plan.kernels[d.kernel].access)
        if len(d.buffers) != bindings or len(d.offsets) not in (0, bindings) or len(d.grid) != 3:
            raise ValueError(
                f"kernel {d.kernel} has {bindings} bindings; a dispatch of it has {len(d.buffers)} buffers, "
                f"{len(d.offsets)} offsets and a grid of {len(d.grid)} axes"
            )


def _origins(plan: Plan) -> list[Origin]:
    """Of each dispatch."""
    return [note.origin for note in plan.notes] or [NOWHERE] * len(plan.dispatches)


def _wgsl_table(plan: Plan) -> Explanation:
    """The dispatches in order, by number."""
    run = [plan.kernels[d.kernel] for d in plan.dispatches]
    rows = [
        (
            str(n),
            k.name,
            k.archetype,
            in_column(origin),
            compact(k.shape),
            short(k.nbytes),
            short(k.flops),
            short(math.prod(d.grid)),
        )
        for n, (k, d, origin) in enumerate(zip(run, plan.dispatches, _origins(plan), strict=True))
    ]
    below = (
        f"{len(run)} dispatches, 1 submission, {sum(k.nbytes for k in run):,} bytes, "
        f"{sum(k.flops for k in run):,} flops, {plan.temporary_bytes:,} bytes of temporaries"
    )
    return Explanation(("#", "kernel", "type", "from", "shape", "bytes", "flops", "groups"), rows, 5, below)


def _table_of_choices(plan: Plan) -> Explanation:
    """The dispatches in order, and how the kernel of each is made."""
    run = [plan.kernels[d.kernel] for d in plan.dispatches]
    rows = [
        (str(n), k.name, in_column(origin), k.choice)
        for n, (k, origin) in enumerate(zip(run, _origins(plan), strict=True))
    ]
    below = f"{len(run)} dispatches, and the choice that each kernel was made by"
    return Explanation(("#", "kernel", "from", "choice"), rows, 4, below)


def _table_of_reasons(plan: Plan) -> Explanation:
    """The dispatches in order; a row for each reason why one is not one with those that it reads from."""
    rows: list[tuple[str, ...]] = []
    notes = plan.notes or (Note(),) * len(plan.dispatches)
    for n, (d, note) in enumerate(zip(plan.dispatches, notes, strict=True)):
        reasons: dict[str, list[int]] = {}
        for separation in sorted(note.separations, key=lambda a: -a.before):
            reasons.setdefault(str(separation), []).append(separation.before)
        first = str(n), plan.kernels[d.kernel].name, in_column(note.origin)
        rows += _rows_of_reasons(first, reasons)
    below = f"{len(plan.dispatches)} dispatches, with those that they read results of, and why they are not one"
    return Explanation(("#", "kernel", "from", "reads", "not one kernel, for"), rows, 5, below)


def _numpy_table(plan: Plan) -> Explanation:
    """The operations by the size of their results together, the largest first."""
    found: dict[str, tuple[int, int, BufferSpec, Origin]] = {}
    for d, origin in zip(plan.dispatches, _origins(plan), strict=True):
        name, result = plan.kernels[d.kernel].name, plan.buffers[d.buffers[-1]]
        times, nbytes, largest, of = found.get(name, (0, 0, result, origin))
        if result.host_bytes > largest.host_bytes:
            largest, of = result, origin
        found[name] = (times + 1, nbytes + result.host_bytes, largest, of)
    rows = [
        (name, f"{_shape(largest.shape)} {largest.dtype.name}", in_column(of), f"{times:,}", f"{nbytes:,}")
        for name, (times, nbytes, largest, of) in sorted(found.items(), key=lambda item: -item[1][1])
    ]
    below = (
        f"{len(plan.dispatches)} NumPy operations over {len(plan.buffers)} arrays, "
        f"{sum(nbytes for _, nbytes, *_ in found.values()):,} bytes of results, {_how_run(plan)}; "
        "a GPU's: step.portable(...).plan"
    )
    return Explanation(("operation", "largest result", "which is from", "times", "bytes of results"), rows, 3, below)


def _numpy_operations(plan: Plan) -> Explanation:
    """The operations in order, by number, with those that they read from."""
    rows, made = [], dict[int, int]()
    for n, (d, origin) in enumerate(zip(plan.dispatches, _origins(plan), strict=True)):
        *operands, result = d.buffers
        spec, before = plan.buffers[result], sorted({made[b] for b in operands if b in made})
        rows.append(
            (
                str(n),
                plan.kernels[d.kernel].name,
                in_column(origin),
                f"{_shape(spec.shape)} {spec.dtype.name}",
                _numbers(before),
            )
        )
        made[result] = n
    below = (
        f"{len(plan.dispatches)} NumPy operations, with those that they read results of; {_how_run(plan)}. Why a GPU's kernels are "
        "not one: step.portable(...).plan.explain(why=True)"
    )
    return Explanation(("#", "operation", "from", "result", "reads"), rows, 5, below)


def _native_table(plan: Plan, why: bool) -> Explanation:
    """What the cpu device runs when a plan recurs, in order: native kernels, and operations of NumPy. why: instead of their sizes the reasons why they
    are separate. Of a plan that nothing compiles, its operations.
    """
    found = [tell(plan) for tell in native_steps] if config.native_cpu else []
    if not found or not found[0]:
        return _numpy_operations(plan)
    origins, steps = _origins(plan), found[0]
    made = {row: n for n, step in enumerate(steps) for row in step.writes}
    rows: list[tuple[str, ...]] = []
    for n, step in enumerate(steps):
        first = (str(n), step.name, in_column(merged(origins[k] for k in step.places)))
        before = sorted({made[row] for row in step.reads if made.get(row, n) < n}, reverse=why)
        if not why:
            rows.append((*first, step.how, _numbers(before)))
            continue
        reasons: dict[str, list[int]] = {}
        for k in before:
            reasons.setdefault(step.reasons.get(k, ""), []).append(k)
        rows += _rows_of_reasons(first, reasons)
    last = ("reads", "not one kernel, for") if why else ("choice", "reads")
    return Explanation(("#", "kernel", "from", *last), rows, 5, f"{len(plan.dispatches)} operations, {_how_run(plan)}")


def _rows_of_reasons(first: tuple[str, str, str], reasons: Mapping[str, list[int]]) -> Iterator[tuple[str, ...]]:
    """The rows of one dispatch: a row for each reason, with the numbers of the dispatches that it is the reason for."""
    for reason, before in reasons.items() or [("", [])]:
        yield (*first, _numbers(before), reason)
        first = "", "", ""


def _numbers(before: Sequence[int]) -> str:
    """The dispatches that one reads from."""
    return " ".join(f"#{k}" for k in before[:MOST_READ]) + (" ..." if len(before) > MOST_READ else "")


class NativeStep(NamedTuple):
    """A native kernel, or an operation of NumPy. how: which it is, and its sizes. places: the dispatches of the plan that it computes. reads, writes:
    rows of a table of arrays. reasons: why it is separate from an earlier step that it reads from, by the number of that step.
    """

    name: str
    how: str
    places: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    reasons: Mapping[int, str]


# what the cpu device says of its kernels for a plan, in a line and step by step: it adds itself
native_kernels: list[Callable[[Plan], str]] = []
native_steps: list[Callable[[Plan], list[NativeStep]]] = []


def _how_run(plan: Plan) -> str:
    """Whether the cpu device fuses a plan's operations, and to what."""
    told = [tell(plan) for tell in native_kernels] if config.native_cpu else []
    return told[0] if told else "none fused"


def compact(shape: str) -> str:
    """The shape of a kernel for a column of a table."""
    parts = (part.removesuffix(")") for part in shape.replace(" x ", "x").replace(" (", ", ").split(" + "))
    return " + ".join(parts)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1"


def count(n: int, word: str) -> str:
    """'1 kernel', '2 dispatches'."""
    return f"{n} {word}" if n == 1 else f"{n} {word}{'es' if word.endswith('ch') else 's'}"


def round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def format_bytes(n: float) -> str:
    """'1.5 GiB', for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" or n == int(n) else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"
