"""Hand-written kernels: a call is a primitive with a complete shader, a NumPy twin and a gradient.

A subclass names its `arguments` and defines shape and dtype (`infer`), value (`numpy`), gradient (`vjp`) and the shader (`kernel`).
A call of several kernels returns its nodes from `expand`; the cpu device still runs its `numpy`. In a graph a call is an
ordinary node. Its inputs are stored before it runs; reshapes of them are free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ..graph.build import Builder
from ..graph.node import Node
from ..graph.primitive import Primitive


class Written(NamedTuple):
    """An element of the result, or four, which a call's kernel passes to its epilogue.

    value: its expression, f32 or vec4<f32>. place: its row-major position, for four elements in units of four. guard: the condition that it
    lies within the result, "" if it always does; otherwise the place is any number.
    """

    value: str
    place: str
    guard: str = ""
    quad: bool = False


@dataclass(frozen=True)
class CallKernel:
    """The shader of a call.

    body: the statements of its entry point. They see the inputs as read-only arrays by the names in `arguments`, the
    array `result`, `wg: i32` (the number of the workgroup) and `lid: u32` (the number of the thread in it).
    workgroups: their number; any number, because the grid is folded into the device's limits.
    vectors: the arrays bound as array<vec4<...>>; their sizes must be multiples of four.
    preamble: the text before the entry point: constants, workgroup variables, functions. flops: for `explain`.
    functions: the functions of compile/wgsl/math.wgsl that they call.
    written: the elements that a thread passes to the epilogue instead of writing them to `result`, as expressions of the body.
    octets: the inputs of float16 that are bound as array<vec4<u32>>, eight halves each; their sizes must be multiples of eight.
    on_units: whether the shader uses matrix units.
    """

    body: str
    threads: int
    workgroups: int
    preamble: str = ""
    vectors: frozenset[str] = frozenset()
    flops: int = 0
    functions: tuple[str, ...] = ()
    written: tuple[Written, ...] = ()
    octets: frozenset[str] = frozenset()
    on_units: bool = False


class Call(Primitive):
    """The base of calls; subclasses set kind = "call"."""

    kind: ClassVar[str] = ""
    arguments: ClassVar[tuple[str, ...]] = ()
    # whether its body may be part of a kernel with others: it has no preamble, and does not return
    may_share: ClassVar[bool] = False

    @property
    def epilogue(self) -> bool:
        """Whether its kernel may include elementwise operations on its result; then the kernel has `written`."""
        return False

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        """The shader for inputs of these shapes, with the `options` that compile/calls.py chose."""
        raise NotImplementedError

    def expand(self, r: Builder, *inputs: Node) -> Node | None:
        """The nodes that compute a call of several kernels; None for a single kernel."""
        return None
