"""The choice of backend for scaled_dot_product_attention, as torch.nn.attention; flex_attention.py has attention with custom scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from ..errors import ModuleTypeError
from ..functional.attention import ways
from ..multihead_attention import (
    MultiheadAttention as MultiheadAttention,  # modules that version 0.1 pickled refer to it here
)
from . import flex_attention as flex_attention

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's backends of attention. Here there are two: MATH, operator by operator, and blockwise attention under all other names.

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
    """A context in which scaled_dot_product_attention runs operator by operator, if only MATH is named.

    backends: an SDPBackend, or a list of them. With others, blockwise attention is used for the shapes that it supports, as without the
    context; PyTorch raises for unsupported shapes. set_priority changes nothing. Raises ModuleTypeError for anything else.

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
