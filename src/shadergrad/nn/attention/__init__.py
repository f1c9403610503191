"""The choice of backend for scaled_dot_product_attention, as torch.nn.attention; flex_attention.py has attention with custom scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from ..errors import ModuleTypeError
from ..functional.attention import ways
from ..multihead_attention import (
    MultiheadAttention as MultiheadAttention,  # modules that version 0.1 pickled name it here
)
from . import flex_attention as flex_attention

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's ways of attention. Here there are two: operator by operator, MATH, and block by block, whatever else is named.

    >>> sg.nn.attention.SDPBackend.MATH.value
    0
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """A context in which scaled_dot_product_attention goes operator by operator, if MATH alone is named.

    backends: an SDPBackend, or a list of them. With others it goes block by block where that is made for the shapes, as without the
    context; PyTorch raises where it is not. set_priority changes nothing. Raises ModuleTypeError for something else.

    >>> q = sg.ones(1, 1, 8, 16)
    >>> with sg.nn.attention.sdpa_kernel(sg.nn.attention.SDPBackend.MATH):
    ...     F.scaled_dot_product_attention(q, q, q).shape
    shadergrad.Size([1, 1, 8, 16])
    """
    named = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(named, list) or not all(isinstance(b, SDPBackend) for b in named):
        raise ModuleTypeError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}"
        )
    before, ways.composed_alone = ways.composed_alone, set(named) == {SDPBackend.MATH}
    try:
        yield {}
    finally:
        ways.composed_alone = before
