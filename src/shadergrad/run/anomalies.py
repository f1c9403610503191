"""Finds the operation that produced NaN: in gradients, and in the results of a compiled step.

In: the gradients of a rule, or a function that would be a compiled step. Out: nothing, or an AutogradError that names the operation and
the user's line. Every value is read as soon as it is made, which is slow; autograd/anomaly_mode.py enables this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..drive import execute
from ..drive.tracing import current
from ..errors import AutogradError
from ..graph.leaves import Variable
from ..graph.node import Node, mode
from ..graph.origin import entered, named
from ..primitives.joint import Meeting, Numbered
from ..tensor import Tensor
from .trees import tensors_in

NO_LINE = "No forward pass information available. Enable detect anomaly during forward pass for more information."


def refuse_nan_gradients(node: Node, cotangents: Sequence[Node | None]) -> None:
    """Raise AutogradError if the gradient rule of an operation gives NaN."""
    if current.trace is not None:  # nothing has been computed yet
        return
    for k, (source, g) in enumerate(zip(node.inputs, cotangents, strict=True)):
        if g is not None and source.requires_grad and _has(np.isnan, g):
            name = Tensor._of(node).grad_fn.name() if node.requires_grad else node.primitive.name
            raise AutogradError(
                f"Function {name!r} returned nan values in its {k}th output. {_place(node, 'It is of')}"
            )


def _place(node: Node, what: str, shown: str = "") -> str:
    """The user's line that recorded an operation, as a sentence."""
    if node.origin is None or not node.origin.line:
        return NO_LINE
    (origin,) = named([node.origin], entered())
    module = f", in {origin.module}" if origin.module else ""
    phase = (
        ""
        if origin.phase == "forward"
        else f", in the {origin.phase} {'pass' if origin.phase == 'backward' else 'step'}"
    )
    return f"{what} {shown or repr(node)}, recorded at {origin.line}{module}{phase}."


def _is_read(node: Node) -> bool:
    """Whether a node has a value that may contain NaN."""
    return node.dtype.category >= 2 and node.size > 0 and not isinstance(node.primitive, Meeting | Numbered)


def _has(test: Callable[[np.ndarray], Any], node: Node) -> bool:
    return _is_read(node) and bool(test(execute.download(node)).any())


class _Recorded(list[Node]):
    """Nodes in the order of creation, with the operands that they had then, because computed nodes release their operands."""

    def __init__(self) -> None:
        super().__init__()
        self.operands: dict[int, tuple[Node, ...]] = {}
        self.shown: dict[int, str] = {}

    def append(self, node: Node) -> None:
        self.operands[id(node)] = node.inputs
        self.shown[id(node)] = repr(node)
        super().append(node)


def checked_for_nan(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Runs function(*args, **kwargs) without compiling it. If its results or the tensors that it changes contain NaN, it raises an
    AutogradError that names the first operation which produced NaN from operands without NaN.
    """
    before = mode.made, mode.heard, mode.written
    mode.made, mode.heard, mode.written = made, _, written = _Recorded(), True, []
    try:
        result = function(*args, **kwargs)
    finally:
        mode.made, mode.heard, mode.written = before
        if mode.made is not None:
            mode.made += made
        if mode.written is not None:
            mode.written += written
    ends = [t._node for _, t in tensors_in(result)]
    ends += {ref: node for ref, node in written if ref() is not None}.values()
    for end in ends:
        if _has(np.isnan, end):
            _raise(made, end)
    return result


def _raise(made: _Recorded, end: Node) -> None:
    source = _source(made, end, np.isnan)
    found = f"A step gave NaN. {_place(source, 'It comes from', made.shown.get(id(source), ''))}"
    for operand in made.operands.get(id(source), ()):
        if _has(np.isinf, operand):
            first = _source(made, operand, np.isinf)
            found += f" An operand is infinite. {_place(first, 'That comes from', made.shown.get(id(first), ''))}"
            break
    raise AutogradError(found)


def _source(made: _Recorded, node: Node, test: Callable[[np.ndarray], Any]) -> Node:
    """The operation that first produced the values which `test` finds in a node."""
    while True:
        operands = node.inputs if isinstance(node.primitive, Variable) else made.operands.get(id(node), node.inputs)
        behind = next((i for i in operands if _has(test, i)), None)
        if behind is None:
            return node
        node = behind
