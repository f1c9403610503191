"""autocast, GradScaler and the decorators of Functions by the names that they had first: see shadergrad.amp."""

from __future__ import annotations

from typing import Any

from .. import amp
from ..amp import GradScaler, autocast

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """As amp.custom_fwd, of CUDA; it changes nothing.

    >>> sg.cuda.amp.custom_fwd(lambda ctx, x: x)(type("Context", (), {})(), 3)
    3
    """
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """As amp.custom_bwd, of CUDA; it changes nothing.

    >>> sg.cuda.amp.custom_bwd(lambda ctx, g: g)(None, 3)
    3
    """
    return amp.custom_bwd(bwd, device_type="cuda")
