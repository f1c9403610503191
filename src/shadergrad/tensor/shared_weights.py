"""Linear layers that are applied many times, as in a recurrent network. In: a weight and a bias. Out: a function that applies them.

Its values are those of `linear`. The gradient of the weight is one matrix multiplication over all calls (primitives/joint.py), not a sum of
one for each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import make, mode
from ..primitives.joint import SharedProduct, SharedWeight
from .base import TensorBase
from .handle import wrap
from .succession import without_history

OWN = ("cpu", "webgpu")


def shared_linear(
    linear: Callable[..., Any], weight: TensorBase, bias: TensorBase | None
) -> Callable[[int, TensorBase], Any]:
    """linear(x, weight, bias) as a function of the number of the call, used once each, and x (n, features)."""
    given = [t for t in (weight, bias) if t is not None]
    own = str(weight.device).partition(":")[0] in OWN  # another engine computes the backward pass of other devices
    if not own or not mode.grad or not weight.requires_grad or any(t.dtype.category != 2 for t in given):
        return lambda k, x: linear(x, weight, bias)
    meeting = make(SharedWeight(), *(t._node for t in given))

    def multiply(k: int, x: TensorBase) -> Any:
        value = linear(x, weight, bias)
        if x.ndim != 2 or not (x.dtype == weight.dtype == value.dtype):
            return value
        return wrap(make(SharedProduct(k), without_history(value._node), meeting, x._node, weight._node))

    return multiply
