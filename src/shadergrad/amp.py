"""Mixed precision: autocast and the decorators of custom functions.

Autocast computes matrix multiplications in 16 bits, and operations that lose precision in float32; tensor/precision.py has the lists.
grad_scaler.py scales losses. Source: https://pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .arguments import checked
from .dtypes import DType, bfloat16, float16, parse_dtype
from .errors import ArgumentError, PrecisionWarning
from .grad_scaler import GradScaler
from .runtime.device import canonical_name, standing_for
from .tensor import Tensor, resolve_device
from .tensor.placement import OTHER_BACKENDS, host_device
from .tensor.precision import cast_under_autocast, here


def kinds_of(device_type: str) -> frozenset[str]:
    """The kinds of devices that a name means, such as 'webgpu'; none for a device of PyTorch's that this process does not have."""
    kind = device_type.partition(":")[0]
    stand_in = standing_for(kind)
    if stand_in is not None:
        return frozenset([stand_in.partition(":")[0]])
    if OTHER_BACKENDS.fullmatch(kind):
        return frozenset()
    found = {canonical_name(kind).partition(":")[0]}
    if kind == "cpu" and host_device() is None:  # a program that knows of no devices, on one
        found.add(resolve_device(None).partition(":")[0])
    return frozenset(found)


class autocast:
    """A context, or a decorator, within which products and convolutions of float32 tensors are computed of float16 or bfloat16.

    Operations follow PyTorch's lists for the CPU where device_type is "cpu", and those for CUDA on others. Weights stay as they are;
    with cache_enabled (the default) each is cast once in the outermost context. Backward passes run outside of it. dtype: by default
    bfloat16 for "cpu", else float16. For a device that is not there, or another dtype, it warns and changes nothing. Raises ArgumentError for a
    device_type that is no str, DeviceError for one that is unknown.

    >>> with sg.autocast("cpu"):
    ...     y = sg.ones(2, 3) @ sg.ones(3, 2)
    >>> y.dtype
    shadergrad.bfloat16
    """

    def __init__(
        self, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        _check_device_type(device_type)
        self.device = self.device_type = device_type
        self.fast_dtype = self.dtype = default_dtype(device_type) if dtype is None else parse_dtype(dtype)
        self._kinds = kinds_of(device_type)
        self._caches = here.caches if cache_enabled is None else cache_enabled
        if enabled and not self._kinds:
            warnings.warn(
                f"autocast changes nothing: there is no device {device_type!r}. Hint: autocast('webgpu'), or 'cpu'.",
                PrecisionWarning,
                stacklevel=2,
            )
            enabled = False
        if enabled and not self.dtype.is_half:
            warnings.warn(
                f"autocast changes nothing: its dtype is float16 or bfloat16, not {self.dtype.name}.",
                PrecisionWarning,
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[Any, Any]] = []  # a stack, for one object may be entered again while inside

    def __enter__(self) -> autocast:
        self._before.append((here.kinds, here.casts))
        kinds = {kind: state for kind, state in (here.kinds or {}).items() if kind not in self._kinds}
        if self._enabled:
            kinds |= dict.fromkeys(self._kinds, (self.dtype, lists_of(self.device_type)))
        here.kinds = kinds or None
        here.casts = (here.casts if here.casts is not None else {}) if self._caches and kinds else None
        return self

    def __exit__(self, *_: object) -> None:
        here.kinds, here.casts = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


def default_dtype(device_type: str) -> DType:
    """The dtype of autocast where none is named."""
    kind = device_type.partition(":")[0]
    return (here.lower or {}).get(kind) or (bfloat16 if kind == "cpu" else float16)


def lists_of(device_type: str) -> str:
    """Whose lists of operators count: PyTorch's for the CPU, or those for CUDA."""
    return "cpu" if device_type == "cpu" else "cuda"


def state_of(device_type: str) -> tuple[DType, str] | None:
    """The lower dtype and the lists that count on a device now; None outside of autocast."""
    return next((state for kind, state in (here.kinds or {}).items() if kind in kinds_of(device_type)), None)


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """A decorator for `forward` of a Function. With cast_inputs, under autocast, its floating tensors are cast to that dtype, and it runs with
    autocast off; without, it runs as it is, and its backward as it did (custom_bwd).

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
        state = state_of(device_type)
        ctx._dtype = default_dtype(device_type) if state is None else state[0]
        ctx._fwd_used_autocast = state is not None and cast_inputs is None
        if state is None or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        dtype = parse_dtype(cast_inputs)
        args, kwargs = _cast(args, dtype), _cast(kwargs, dtype)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return forward


def _cast(value: Any, dtype: DType) -> Any:
    """What holds tensors, with those that are floating cast."""
    if isinstance(value, Tensor):
        return cast_under_autocast(value, dtype)
    if isinstance(value, dict):
        return {k: _cast(v, dtype) for k, v in value.items()}
    return type(value)(_cast(v, dtype) for v in value) if type(value) in (list, tuple) else value


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """A decorator for `backward` of a Function, beside custom_fwd: it runs under autocast as `forward` did.

    Raises ArgumentError for a device_type that is no str.

    >>> class Context:
    ...     _fwd_used_autocast = False
    ...     _dtype = sg.bfloat16
    >>> sg.amp.custom_bwd(lambda ctx, g: g, device_type="cpu")(Context(), 3)
    3
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ArgumentError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


@checked
def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether operations on a device are cast now.

    >>> with sg.autocast("cpu"):
    ...     sg.amp.is_autocast_enabled("cpu"), sg.amp.is_autocast_enabled("webgpu")
    (True, False)
    """
    return state_of(device_type) is not None


@checked
def is_autocast_available(device_type: str) -> bool:
    """Whether autocast can be at work on a device: on every one that is there.

    >>> sg.amp.is_autocast_available("cpu")
    True
    """
    return bool(kinds_of(device_type))


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "is_autocast_enabled"]
