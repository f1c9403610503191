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
    """An element of the result, or a quad of four, as a call whose kernel has an epilogue gives it.

    value: its text, f32 or vec4<f32>. place: its row-major position, that of a quad in quads. guard: the condition that it lies
    within the result, "" if it always does; where it does not, the place is any number.
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
    workgroups: how many there are; any number, for the grid is folded to what the device allows.
    vectors: the arrays bound as array<vec4<...>>; their sizes must be multiples of four.
    preamble: what stands before the entry point: constants, workgroup variables, functions. flops: for `explain`.
    functions: those of compile/wgsl/math.wgsl that they call.
    written: the elements that a thread gives, in the words of the body, instead of writing to `result`.
    """

    body: str
    threads: int
    workgroups: int
    preamble: str = ""
    vectors: frozenset[str] = frozenset()
    flops: int = 0
    functions: tuple[str, ...] = ()
    written: tuple[Written, ...] = ()


class Call(Primitive):
    """The base of calls; subclasses set kind = "call"."""

    kind: ClassVar[str] = ""
    arguments: ClassVar[tuple[str, ...]] = ()
    # whether its body is well beside those of others in one kernel: it has no preamble, and does not return
    may_share: ClassVar[bool] = False

    @property
    def epilogue(self) -> bool:
        """Whether elementwise operations on its result may be part of its kernel, which says what is `written`."""
        return False

    def kernel(self, options: Any, *inputs: Node) -> CallKernel:
        """The shader for inputs of these shapes, made as `options` say, which compile/calls.py gives."""
        raise NotImplementedError

    def expand(self, r: Builder, *inputs: Node) -> Node | None:
        """The nodes that compute the same, for a call that is more than one kernel; None for one that is one."""
        return None
