"""Mixed precision, as far as programs ask for it: everything stays in float32, and a warning says so once.

A float32 program needs no scaling of losses either, so GradScaler passes everything on.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .arguments import checked
from .errors import ArgumentError, PrecisionWarning
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


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """A decorator for `forward` of a Function that changes nothing: autocast is never at work, so cast_inputs has nothing to cast.

    Raises ArgumentError for a device_type that is no str.

    >>> class Double(sg.autograd.Function):
    ...     @staticmethod
    ...     @sg.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @sg.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> Double.apply(sg.ones(2))
    tensor([2., 2.])
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._fwd_used_autocast = False
        return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """A decorator for `backward` of a Function, beside custom_fwd; it changes nothing.

    Raises ArgumentError for a device_type that is no str.

    >>> sg.amp.custom_bwd(lambda ctx, g: g, device_type="cpu")(None, 3)
    3
    """
    _check_device_type(device_type)
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ArgumentError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


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


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "is_autocast_enabled"]
