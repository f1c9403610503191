"""Mixed precision, as far as programs ask for it: everything stays in float32, and a warning says so once.

A float32 program needs no scaling of losses either, so GradScaler passes everything on.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .arguments import checked
from .errors import PrecisionWarning
from .tensor import Tensor

_said: set[str] = set()  # the warning is given once


class autocast:
    """A context, or a decorator, that changes nothing: all operations stay in their tensors' dtypes.

    The first one that is enabled, and asks for another dtype than float32, warns.

    >>> with sg.amp.autocast("cpu", enabled=False):
    ...     y = sg.ones(2) * 2
    >>> y.dtype
    shadergrad.float32
    """

    def __init__(
        self, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device_type, self.dtype, self.enabled = device_type, dtype, enabled
        if enabled and not _said and getattr(dtype, "name", "") != "float32":
            _said.add("autocast")
            warnings.warn(
                "autocast changes nothing here: everything is computed in float32, which is exact where half precision is not.",
                PrecisionWarning,
                stacklevel=2,
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapped


class GradScaler:
    """Passes losses and steps on: float32 gradients neither vanish nor overflow for want of bits.

    >>> w = sg.ones(1, requires_grad=True)
    >>> optimizer, scaler = sg.optim.SGD([w], lr=0.5), sg.amp.GradScaler()
    >>> scaler.scale(w.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.5], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._enabled = enabled

    def scale(self, outputs: Any) -> Any:
        """The outputs themselves."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing to undo."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Nothing to update."""

    def get_scale(self) -> float:
        """1.0."""
        return 1.0

    def is_enabled(self) -> bool:
        """False: nothing is scaled."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Nothing: {}."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to load; states of PyTorch's are taken."""


@checked
def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """False: operations stay in their tensors' dtypes.

    >>> sg.amp.is_autocast_enabled()
    False
    """
    return False


@checked
def is_autocast_available(device_type: str) -> bool:
    """False.

    >>> sg.amp.is_autocast_available("cpu")
    False
    """
    return False


__all__ = ["GradScaler", "autocast", "is_autocast_available", "is_autocast_enabled"]
