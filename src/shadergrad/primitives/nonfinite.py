"""Whether arrays hold infinities or NaN: one kernel for as many arrays as it may bind, for the gradients of a GradScaler.

Only the compiler makes it (compile/finite_tests.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DType, bfloat16, float16, float32
from ..graph.node import Node
from ..graph.primitive import Shape
from .call import Call, CallKernel

THREADS = 256
GROUPS = 512  # workgroups at most
LOADS = 4  # loads per thread from which on there are more workgroups; a workgroup with a barrier takes half a millisecond in software
LANES, HALVES = 4, 2  # components of a vector; halves in a word
EXPONENT = {
    float32: 0x7F800000,
    float16: 0x7C00,
    bfloat16: 0x7F80,
}  # the bits of infinity: with the sign cleared, other numbers are below


@dataclass(frozen=True, eq=False)
class NonFinite(Call):
    """For each workgroup, 1.0 if one of the elements that it tests is infinite or NaN, else 0.0: float32 (workgroups,). The inputs are
    `count` arrays of float32, float16 or bfloat16. The assignment of elements to workgroups is unspecified.
    """

    kind = "call"
    differentiable = False
    count: int

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"x{k}" for k in range(self.count))

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        return (_groups(inputs),), float32

    def numpy(self, *arrays):
        found = any(not np.isfinite(x.astype(np.float32)).all() for x in arrays)
        return np.full(_groups(arrays), found, np.float32)

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        """A thread keeps the largest bits, without signs, of each dtype."""
        vectors = {name for name, x in zip(self.arguments, inputs, strict=True) if _is_vector(x)}
        octets = {name for name, x in zip(self.arguments, inputs, strict=True) if _is_octets(x)}
        dtypes, groups = list(dict.fromkeys(x.dtype for x in inputs)), _groups(inputs)
        body = ["if (lid == 0u) { atomicStore(&found, 0u); }", "workgroupBarrier();"]  # its memory may hold any bits
        body += [f"var most_{d.name} = vec4<u32>();" for d in dtypes]
        for name, x in zip(self.arguments, inputs, strict=True):
            body += _loop(name, x, name in vectors or name in octets, groups)
        tests = (f"any(most_{d.name} >= vec4<u32>({EXPONENT[d]}u))" for d in dtypes)
        body += [
            f"if ({' || '.join(tests)}) {{ atomicOr(&found, 1u); }}",
            "workgroupBarrier();",
            "if (lid == 0u) { result[wg] = f32(atomicLoad(&found)); }",
        ]
        return CallKernel(
            "\n".join(body),
            THREADS,
            groups,
            "var<workgroup> found: atomic<u32>;\n",
            vectors=frozenset(vectors),
            octets=frozenset(octets),
            flops=sum(x.size for x in inputs),
        )


def _groups(arrays: Sequence[Any]) -> int:
    """The number of workgroups: a power of two, so that kernels of similar arrays have results of equal length; at least two, because
    compile/finite_tests.py searches for the maximum of several results.
    """
    longest = max(x.size for x in arrays)
    wanted = -(-longest // (THREADS * LANES * LOADS))
    return min(GROUPS, 1 << max(1, (wanted - 1).bit_length()))


def _is_vector(x: Node) -> bool:
    return x.dtype is float32 and x.size % LANES == 0


def _is_octets(x: Node) -> bool:
    return x.dtype is float16 and x.size % (LANES * HALVES) == 0


def _loop(name: str, x: Node, vector: bool, groups: int) -> list[str]:
    """The statements that read an array."""
    words = x.size if x.dtype is float32 else -(-x.size // HALVES)
    count = words // LANES if vector else words
    kind = "vec4<u32>" if vector else "u32"
    bits = f"bitcast<{kind}>({name}[i])"
    if x.dtype is not float32 and x.size % HALVES:  # the last word has an unused half, which may hold any bits
        bits = f"select({bits}, {bits} & 0xffffu, i == {count - 1})"
    if not vector:
        bits = f"vec4<u32>({bits}, 0u, 0u, 0u)"
    most = f"most_{x.dtype.name}"
    if x.dtype is float32:
        taken = [f"{most} = max({most}, bits & vec4<u32>(0x7fffffffu));"]
    else:
        taken = [
            f"{most} = max({most}, bits & vec4<u32>(0x7fffu));",
            f"{most} = max({most}, (bits >> vec4<u32>(16u)) & vec4<u32>(0x7fffu));",
        ]
    return [
        f"for (var i = wg * {THREADS} + i32(lid); i < {count}; i += {groups * THREADS}) {{",
        f"  let bits = {bits};",
        *(f"  {line}" for line in taken),
        "}",
    ]
