"""A plan: what to run, as plain data. In: nothing but values. Out: something any runner can execute.

A plan is a buffer table, a list of kernels, and dispatches in order. It holds no device object, so it can be hashed,
printed, written to JSON and replayed elsewhere. The cpu device runs dispatches whose kernel carries a primitive;
the webgpu device runs dispatches whose kernel carries WGSL.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from .dtypes import DType, parse_dtype
from .errors import PlanError

Role = Literal["input", "output", "temporary", "fault"]
FORMAT = 2


@dataclass(frozen=True)
class Target:
    """What the compiler must know of a device. `language` is "wgsl" or "numpy"."""

    language: str
    max_storage_buffers: int = 8
    max_workgroup_invocations: int = 256
    max_workgroup_storage: int = 16384
    max_workgroups: int = 65535
    max_binding_bytes: int = 134217728
    subgroups: bool = False
    checked: bool = False


PORTABLE = Target("wgsl")
NUMPY = Target("numpy")


@dataclass(frozen=True)
class BufferSpec:
    """One row of the buffer table.

    role: "fault" is the device's own buffer of four i32, in which checked kernels report (flag, index, axis size).
    shape, dtype: what the bytes mean. A bool is stored as u32 by wgsl targets.
    aliases: for an output that overwrites an input in place, that input's row; else None.
    slot: for a temporary, the memory slot it shares with others whose lifetimes do not overlap; else None.
    """

    role: Role
    shape: tuple[int, ...]
    dtype: DType
    aliases: int | None = None
    slot: int | None = None
    name: str = ""

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def nbytes(self) -> int:
        """Bytes on the device (at least 4)."""
        itemsize = 4 if self.dtype.name == "bool" else self.dtype.itemsize
        return max(4, self.size * itemsize)


@dataclass(frozen=True)
class Kernel:
    """One program. `access` has an entry a binding: "read", or "read_write" when the kernel writes it.

    wgsl kernels have `source` with entry point `main` and bindings @group(0) @binding(i) in the order of `access`.
    numpy kernels have `primitive`, applied to all bindings but the last, whose result is the last binding.
    """

    name: str
    archetype: str  # map, row, dot, call, or numpy
    access: tuple[str, ...]
    source: str = ""
    primitive: Any = None
    workgroup: tuple[int, int, int] = (1, 1, 1)
    shape: str = ""  # what it iterates over, for people
    flops: int = 0
    nbytes: int = 0  # bytes read and written, each once
    origin: str = ""  # the graph nodes it computes, for people


@dataclass(frozen=True)
class Dispatch:
    kernel: int  # row of Plan.kernels
    buffers: tuple[int, ...]  # row of Plan.buffers, a binding each
    grid: tuple[int, int, int] = (1, 1, 1)
    offsets: tuple[int, ...] = ()  # byte in its buffer where each binding begins; none given: 0

    def offset(self, binding: int) -> int:
        return self.offsets[binding] if self.offsets else 0


@dataclass(frozen=True)
class Plan:
    """inputs and outputs are rows of `buffers`. An output may be an input's row (returned as it came)."""

    target: Target
    buffers: tuple[BufferSpec, ...]
    kernels: tuple[Kernel, ...]
    dispatches: tuple[Dispatch, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    slots: tuple[int, ...] = ()  # bytes of each memory slot that temporaries share
    notes: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def temporary_bytes(self) -> int:
        return sum(self.slots)

    def to_json(self) -> str:
        """The plan as JSON text; `from_json` gives back an equal plan."""
        from .graph.primitive import to_data

        def kernel(k: Kernel) -> dict[str, Any]:
            data = {name: getattr(k, name) for name in Kernel.__dataclass_fields__}
            data["primitive"] = None if k.primitive is None else to_data(k.primitive)
            return data

        def buffer(b: BufferSpec) -> dict[str, Any]:
            return {**b.__dict__, "dtype": b.dtype.name}

        return json.dumps(
            {
                "format": FORMAT,
                "target": self.target.__dict__,
                "buffers": [buffer(b) for b in self.buffers],
                "kernels": [kernel(k) for k in self.kernels],
                "dispatches": [d.__dict__ for d in self.dispatches],
                "inputs": self.inputs,
                "outputs": self.outputs,
                "slots": self.slots,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote. Raises PlanError for other text, and for rows that its tables do not have."""
        try:
            data = json.loads(text)
            if data.get("format") != FORMAT:
                raise PlanError(f"this plan has format {data.get('format')!r}; this version reads format {FORMAT}.")
            plan = cls._from_data(data)
            plan._check_fields()
            plan._check_rows()
        except PlanError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            raise PlanError(f"the text is no plan: {type(error).__name__}: {error}.") from None
        return plan

    @classmethod
    def _from_data(cls, data: dict[str, Any]) -> Plan:
        from .graph.primitive import from_data

        def kernel(k: dict[str, Any]) -> Kernel:
            primitive = None if k["primitive"] is None else from_data(k["primitive"])
            return Kernel(
                **{**k, "access": tuple(k["access"]), "workgroup": tuple(k["workgroup"]), "primitive": primitive}
            )

        def buffer(b: dict[str, Any]) -> BufferSpec:
            return BufferSpec(**{**b, "shape": tuple(b["shape"]), "dtype": parse_dtype(b["dtype"])})

        return cls(
            target=Target(**data["target"]),
            buffers=tuple(buffer(b) for b in data["buffers"]),
            kernels=tuple(kernel(k) for k in data["kernels"]),
            dispatches=tuple(
                Dispatch(d["kernel"], tuple(d["buffers"]), tuple(d["grid"]), tuple(d["offsets"]))
                for d in data["dispatches"]
            ),
            inputs=tuple(data["inputs"]),
            outputs=tuple(data["outputs"]),
            slots=tuple(data["slots"]),
        )

    def _check_fields(self) -> None:
        """Raises PlanError where a text, number or truth value is of another type."""
        plain = {"str": str, "int": int, "bool": bool}
        for record in (self.target, *self.buffers, *self.kernels, *self.dispatches):
            for f in fields(record):
                value = getattr(record, f.name)
                if type(value) is not plain.get(f.type, type(value)):  # type: ignore[arg-type]
                    raise PlanError(f"the text is no plan: {f.name} of a {type(record).__name__} is {value!r}.")
        wrong = {b.role for b in self.buffers} - set(get_args(Role))
        wrong |= {entry for k in self.kernels for entry in k.access} - {"read", "read_write"}
        if wrong:
            raise PlanError(f"the text is no plan: no role or access is {wrong.pop()!r}.")

    def _check_rows(self) -> None:
        """Raises PlanError where a row is named that its table has not."""
        buffers, kernels, slots = len(self.buffers), len(self.kernels), len(self.slots)
        named = [("buffer", row, buffers) for row in (*self.inputs, *self.outputs)]
        named += [("buffer", b.aliases, buffers) for b in self.buffers if b.aliases is not None]
        named += [("slot", b.slot, slots) for b in self.buffers if b.slot is not None]
        for d in self.dispatches:
            named += [("kernel", d.kernel, kernels), *(("buffer", row, buffers) for row in d.buffers)]
        for table, row, size in named:
            if type(row) is not int or not 0 <= row < size:
                raise PlanError(f"the text is no plan: it names {table} {row!r}, and has {size}.")
        sizes = [n for b in self.buffers for n in b.shape] + [n for d in self.dispatches for n in (*d.grid, *d.offsets)]
        sizes += [n for k in self.kernels for n in k.workgroup]
        for size in (*sizes, *self.slots):
            if type(size) is not int or size < 0:
                raise PlanError(f"the text is no plan: a size or offset is {size!r}.")
        for d in self.dispatches:
            expected = len(self.kernels[d.kernel].access)
            if len(d.buffers) != expected or len(d.offsets) not in (0, expected) or len(d.grid) != 3:
                raise PlanError(
                    f"the text is no plan: kernel {d.kernel} has {expected} bindings; a dispatch of it has {len(d.buffers)} "
                    f"buffers, {len(d.offsets)} offsets and a grid of {len(d.grid)} axes."
                )
