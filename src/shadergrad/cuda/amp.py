"""autocast, GradScaler and the decorators of Functions by the names that they had first, for "cuda" alone: see shadergrad.amp."""

from __future__ import annotations

from typing import Any

from .. import amp
from .. import grad_scaler as of_any
from ..dtypes import float16


class autocast(amp.autocast):
    """shadergrad.autocast("cuda"): enabled comes first.

    >>> with sg.cuda.amp.autocast(False):
    ...     y = sg.ones(2) * 2
    >>> y.dtype
    shadergrad.float32
    """

    def __init__(self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(of_any.GradScaler):
    """shadergrad.amp.GradScaler, of which init_scale comes first.

    >>> sg.cuda.amp.GradScaler(8.0).get_scale()
    8.0
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """As amp.custom_fwd, of CUDA.

    >>> sg.cuda.amp.custom_fwd(lambda ctx, x: x)(type("Context", (), {})(), 3)
    3
    """
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """As amp.custom_bwd, of CUDA.

    >>> class Context:
    ...     _fwd_used_autocast = False
    ...     _dtype = sg.float16
    >>> sg.cuda.amp.custom_bwd(lambda ctx, g: g)(Context(), 3)
    3
    """
    return amp.custom_bwd(bwd, device_type="cuda")


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
