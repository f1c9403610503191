"""The compiler's description of a device, as plain data.

`Target` holds the limits that an adapter reports and the `Traits` of a named row of ROWS. Only `runtime/targets.py` turns an
adapter into a Target: no other module reads the name of a vendor or a driver. A GPU with other traits is another row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Costs:
    """Constants of the time estimate that ranks tiles (compile/estimate.py), fitted to an H200 (benchmarks/products.py).

    cores: of the GPU. registers: of a core, in words. rate: multiplications per second and core. step: seconds that a step along a
    contraction waits for memory and barriers. launch: seconds of a dispatch. join: seconds in which a workgroup adds the sums of its
    slices. bandwidth: bytes per second.
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
    """Performance traits of a kind of adapter.

    name: of the row in ROWS.
    unrolls: the length of a kernel's text costs little, so emitters unroll loops. False for browsers on any adapter, which compile
        each text again whenever a page is opened.
    component_stores: a thread may write one component of a vector in workgroup memory. WGSL lets a compiler write the whole vector
        (Direct3D's does), over components that other threads write.
    zeroes_slowly: every thread zeroes workgroup memory word by word, as WebGPU requires zeroed memory.
    slow_loads: a load takes as long as hundreds of multiplications, also from workgroup memory, because the driver loads for one
        thread after the other. Subgroup shuffles cost almost nothing. A workgroup executes both sides of every branch.
    shuffled_from: where loads are dear, larger matrix multiplications (in multiplications) share loads within a subgroup.
    branches_up_to: where loads are dear, the most elements of a kernel that may share a dispatch with different kernels.
    winograd: 3x3 convolutions and their gradients use Winograd's algorithm (primitives/winograd.py) if its estimated time is below
        this multiple of the time of direct matrix multiplications. 0: none do, except large ones where loads are dear.
    limits_iterations: an invocation silently stops once its loops have made 65,535 iterations together (compile/loop_iterations.py).
    wide_loads: shaders have integers of 64 bits, and a load of one takes no longer than one of 32 bits. Browsers have none.
    table: the file in compile/tables with the tiles measured on such adapters; "" for none.
    """

    name: str
    unrolls: bool = False
    component_stores: bool = False
    zeroes_slowly: bool = False
    slow_loads: bool = False
    # tiles take half a second of a processor to compile in software, and 16 times as many multiplications 20 to 40 ms to run
    shuffled_from: int = 1 << 19
    branches_up_to: int = 1 << 16  # a map of 128 times as many takes 13 ms of a processor in software
    winograd: float = 0.0
    limits_iterations: bool = False
    wide_loads: bool = False
    table: str = ""
    costs: Costs = Costs()


PORTABLE_TRAITS = Traits("portable", zeroes_slowly=True)
NATIVE_TRAITS = Traits("native", unrolls=True, component_stores=True)
ROWS: Mapping[str, Traits] = {
    row.name: row
    for row in (
        # browsers, on any adapter
        PORTABLE_TRAITS,
        # browsers on a GPU of a desktop (web/plans.py); Direct3D's compiler is one that writes whole vectors
        replace(NATIVE_TRAITS, name="desktop", component_stores=False, winograd=1.0, table="discrete"),
        # browsers on a rasteriser on the processor whose subgroups share loads
        replace(PORTABLE_TRAITS, name="software page", slow_loads=True, limits_iterations=True),
        # any other GPU through wgpu-native
        NATIVE_TRAITS,
        # Winograd's way takes less than is estimated on an H200 (2026-11-24): 0.3 to 0.5 for 0.37 to 0.54 (128 to 512 channels), 0.46
        # for 0.64 to 0.7 (64), 0.43 for 0.76, 0.64 for 0.79 and 0.79 for 0.93 (32 to 64 channels)
        replace(NATIVE_TRAITS, name="discrete", winograd=1.0, table="discrete"),
        # a rasteriser on the processor whose vectors have at least eight lanes
        replace(
            NATIVE_TRAITS, name="software", slow_loads=True, wide_loads=True, limits_iterations=True, table="software"
        ),
        replace(NATIVE_TRAITS, name="narrow software", limits_iterations=True, table="software"),
    )
}


@dataclass(frozen=True)
class Matrices:
    """A matrix multiplication-add of one instruction of matrix units: m x n results over k, from dtype `operand` to dtype `result`."""

    m: int
    n: int
    k: int
    operand: str
    result: str


@dataclass(frozen=True)
class Target:
    """Limits, features and traits of a device, for the compiler.

    language: "wgsl" or "numpy". max_storage_buffers: bindings of a kernel. max_workgroup_invocations: threads of a workgroup.
    max_workgroup_storage: bytes of workgroup memory. max_workgroups: of a dispatch, along each dimension. max_binding_bytes: of one
    binding. checked: whether kernels report indices that are out of range. traits: the row of ROWS. measured: the digest of the table
    of measured tiles (compile/tuning.py), "" for none. f16: whether the adapter offers half precision (`shader-f16`). subgroups: the
    least and the largest size of its subgroups, (0, 0) for none. matrices: the products of its matrix units. converts_halves: whether
    its own conversions between float16 and float32 round as IEEE 754 says, which is seen when it is opened (runtime/halves.py).
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
    converts_halves: bool = False

    def __hash__(self) -> int:
        """Computed once: every step looks programs up by it."""
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
        """Whether a matrix multiplication of this many multiplications shares loads by subgroup shuffles instead of tiles."""
        return self.traits.slow_loads and multiplications > self.traits.shuffled_from

    def takes_branches(self, elements: int) -> bool:
        """Whether a kernel of this many elements may share a dispatch with different kernels."""
        return not self.traits.slow_loads or elements <= self.traits.branches_up_to

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Target:
        """A target from the output of `dataclasses.asdict`. Raises TypeError or KeyError for other data."""
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
