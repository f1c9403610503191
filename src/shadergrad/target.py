"""A target: all that the compiler knows of a device, as plain data. In: nothing but values. Out: one frozen record.

`Target` holds the limits that an adapter reports and the `Traits` of a named row of ROWS, which says what such adapters take
long for. Only `runtime/targets.py` turns an adapter into a Target: no other module compares the name of a vendor or a driver.
A GPU with other habits is another row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Costs:
    """The numbers of the estimate that orders tiles (compile/estimate.py), fitted to an H200 (benchmarks/products.py). A GPU with
    fewer cores wants the same order, only sooner.

    cores: of the GPU. registers: of a core, in words. rate: multiplications a second and core. step: seconds that a step along a
    contraction waits for memory and barriers. launch: seconds of a dispatch. join: seconds in which a workgroup adds up the sums of
    its slices. bandwidth: bytes a second.
    """

    cores: int = 132
    registers: int = 65536
    rate: float = 224e9
    step: float = 0.45e-6
    launch: float = 3e-6
    join: float = 1.3e-6
    bandwidth: float = 2.5e12


@dataclass(frozen=True)
class Traits:
    """What adapters of a kind take long for, and what they gain by.

    name: of the row in ROWS.
    unrolls: long texts cost nothing, so loops are written out: drivers get no hint to unroll them. A browser compiles each text
        again whenever a page is opened.
    component_stores: a thread may write one component of a vector in workgroup memory. WGSL lets a compiler write the whole vector
        (Direct3D's does), over what other threads write beside it.
    zeroes_slowly: the zeroing of workgroup memory, which WebGPU asks for, is written out word by word in every thread.
    dear_loads: a load takes as long as hundreds of multiplications, from workgroup memory too, for it is made for one thread after
        the other; threads of a subgroup hand each other values for next to nothing, and a load of 64 bits takes no longer than one of
        32. Both sides of a branch take time in all threads, so that a workgroup takes as long as all that its kernel may do.
    shuffled_from: where loads are dear, matrix multiplications of more multiplications than this share loads within a subgroup.
    branches_up_to: where loads are dear, elements up to which a kernel may be part of one whose workgroups do different things.
    winograd: 3x3 convolutions and their gradients go by Winograd's way (primitives/winograd.py) where that is estimated to take less
        than so many times the time of plain products; 0: none do, but large ones where loads are dear.
    table: the file in compile/tables with the tiles that were measured on such adapters; "" for none.
    """

    name: str
    unrolls: bool = False
    component_stores: bool = False
    zeroes_slowly: bool = False
    dear_loads: bool = False
    # tiles take half a second of a processor to compile in software, and 16 times as many multiplications 20 to 40 ms to run
    shuffled_from: int = 1 << 19
    branches_up_to: int = 1 << 16  # a map of 128 times as many takes 13 ms of a processor in software
    winograd: float = 0.0
    table: str = ""
    costs: Costs = Costs()


PORTABLE_TRAITS = Traits("portable", zeroes_slowly=True)
NATIVE_TRAITS = Traits("native", unrolls=True, component_stores=True)
ROWS: Mapping[str, Traits] = {
    row.name: row
    for row in (
        # whatever a browser runs on
        PORTABLE_TRAITS,
        # a GPU of which no more is known, through wgpu-native
        NATIVE_TRAITS,
        # Winograd's way takes less than is estimated on an H200 (2026-11-24): 0.3 to 0.5 for 0.37 to 0.54 (128 to 512 channels), 0.46
        # for 0.64 to 0.7 (64), 0.43 for 0.76, 0.64 for 0.79 and 0.79 for 0.93 (32 to 64 channels)
        replace(NATIVE_TRAITS, name="discrete", winograd=1.0, table="discrete"),
        # a rasteriser on the processor whose vectors have at least eight lanes
        replace(NATIVE_TRAITS, name="software", dear_loads=True, table="software"),
        replace(NATIVE_TRAITS, name="narrow software", table="software"),
    )
}


@dataclass(frozen=True)
class Matrices:
    """A product that matrix units make in one instruction: m x n results over k, of `operand` into `result` (names of dtypes)."""

    m: int
    n: int
    k: int
    operand: str
    result: str


@dataclass(frozen=True)
class Target:
    """What the compiler must know of a device.

    language: "wgsl" or "numpy". max_storage_buffers: bindings of a kernel. max_workgroup_invocations: threads of a workgroup.
    max_workgroup_storage: bytes of workgroup memory. max_workgroups: of a dispatch, along each dimension. max_binding_bytes: of one
    binding. checked: whether kernels report indices that are out of range. traits: the row of ROWS. measured: the digest of the table
    of measured tiles (compile/tuning.py), "" for none. f16: whether the adapter offers half precision (`shader-f16`). subgroups: the
    least and the largest size of its subgroups, (0, 0) for none. matrices: the products of its matrix units.
    """

    language: str
    max_storage_buffers: int = 8
    max_workgroup_invocations: int = 256
    max_workgroup_storage: int = 16384
    max_workgroups: int = 65535
    max_binding_bytes: int = 134217728
    checked: bool = False
    traits: Traits = PORTABLE_TRAITS
    measured: str = ""
    f16: bool = False
    subgroups: tuple[int, int] = (0, 0)
    matrices: tuple[Matrices, ...] = ()

    def __hash__(self) -> int:
        """Computed once: programs are looked up by it in every step."""
        found = self.__dict__.get("_hash")
        if found is None:
            found = hash(tuple(getattr(self, f.name) for f in fields(self)))
            object.__setattr__(self, "_hash", found)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which differs from process to process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def having(self, **traits: Any) -> Target:
        """The same target with some traits changed."""
        return replace(self, traits=replace(self.traits, **traits))

    def shuffles(self, multiplications: int) -> bool:
        """Whether threads that compute a product of so many multiplications hand each other what they loaded, instead of going by
        tiles. Smaller ones do not take long either way."""
        return self.traits.dear_loads and multiplications > self.traits.shuffled_from

    def takes_branches(self, elements: int) -> bool:
        """Whether what makes so many elements may be part of a kernel whose workgroups do different things."""
        return not self.traits.dear_loads or elements <= self.traits.branches_up_to

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Target:
        """What `dataclasses.asdict` made plain; raises TypeError or KeyError for other data."""
        traits = {**data["traits"]}
        return cls(
            **{
                **data,
                "traits": Traits(**{**traits, "costs": Costs(**traits["costs"])}),
                "subgroups": tuple(data["subgroups"]),
                "matrices": tuple(Matrices(**m) for m in data["matrices"]),
            }
        )


PORTABLE = Target("wgsl")
NUMPY = Target("numpy")
