"""The state of autocast, which PyTorch's functions read and set: enabled or not for a device type, its dtype, its cache of casts.

In: a device type. Out: the state of this thread. `with autocast(...)` restores the state at its end.
Source: the functions of torch that torch.amp.autocast_mode calls, https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from typing import Any

from .amp import default_dtype, kinds_of, lists_of, state_of
from .arguments import checked
from .dtypes import DType, parse_dtype
from .tensor.precision import here


@checked
def get_autocast_dtype(device_type: str) -> DType:
    """The dtype in which autocast computes products on a device, also where it is off: bfloat16 for "cpu", else float16, unless one was set.

    >>> sg.get_autocast_dtype("cpu")
    shadergrad.bfloat16
    >>> with sg.autocast("cpu", dtype=sg.float16):
    ...     sg.get_autocast_dtype("cpu")
    shadergrad.float16
    """
    state = state_of(device_type)
    return default_dtype(device_type) if state is None else state[0]


@checked
def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Let autocast compute products in this dtype, from now on and where none is named. Raises DTypeError for an unknown one.

    >>> sg.set_autocast_dtype("cpu", sg.float16)
    >>> with sg.autocast("cpu"):
    ...     (sg.ones(2, 2) @ sg.ones(2, 2)).dtype
    shadergrad.float16
    >>> sg.set_autocast_dtype("cpu", sg.bfloat16)
    """
    kind = parse_dtype(dtype)
    here.lower = {**(here.lower or {}), device_type.partition(":")[0]: kind}
    if state_of(device_type) is not None:
        set_autocast_enabled(device_type, True)


@checked
def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Begin or end autocast on a device, without a context; set_autocast_enabled(enabled) means "cuda".

    >>> sg.set_autocast_enabled("cpu", True)
    >>> (sg.ones(2, 2) @ sg.ones(2, 2)).dtype
    shadergrad.bfloat16
    >>> sg.set_autocast_enabled("cpu", False)
    """
    if not isinstance(device_type, str):
        device_type, enabled = "cuda", device_type
    present = kinds_of(device_type)
    kinds = {kind: state for kind, state in (here.kinds or {}).items() if kind not in present}
    if enabled:
        lower = (here.lower or {}).get(device_type.partition(":")[0]) or get_autocast_dtype(device_type)
        kinds |= dict.fromkeys(present, (lower, lists_of(device_type)))
    here.kinds = kinds or None


@checked
def is_autocast_cache_enabled() -> bool:
    """Whether a context keeps the casts of parameters: autocast's cache_enabled, where it names none.

    >>> sg.is_autocast_cache_enabled()
    True
    """
    return here.caches


@checked
def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether contexts keep the casts of parameters, where they name none.

    >>> sg.set_autocast_cache_enabled(True)
    """
    here.caches = enabled


@checked
def clear_autocast_cache() -> None:
    """Forget the casts of parameters that the present context keeps, so that they are cast anew.

    >>> sg.clear_autocast_cache()
    """
    if here.casts is not None:
        here.casts.clear()


@checked
def is_autocast_cpu_enabled() -> bool:
    """is_autocast_enabled("cpu"), by its older name.

    >>> sg.is_autocast_cpu_enabled()
    False
    """
    return state_of("cpu") is not None


@checked
def set_autocast_cpu_enabled(enabled: bool) -> None:
    """set_autocast_enabled("cpu", enabled), by its older name.

    >>> sg.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


@checked
def get_autocast_cpu_dtype() -> DType:
    """get_autocast_dtype("cpu"), by its older name.

    >>> sg.get_autocast_cpu_dtype()
    shadergrad.bfloat16
    """
    return get_autocast_dtype("cpu")


@checked
def set_autocast_cpu_dtype(dtype: Any) -> None:
    """set_autocast_dtype("cpu", dtype), by its older name.

    >>> sg.set_autocast_cpu_dtype(sg.bfloat16)
    """
    set_autocast_dtype("cpu", dtype)


@checked
def get_autocast_gpu_dtype() -> DType:
    """get_autocast_dtype("cuda"), by its older name.

    >>> sg.get_autocast_gpu_dtype()
    shadergrad.float16
    """
    return get_autocast_dtype("cuda")


@checked
def set_autocast_gpu_dtype(dtype: Any) -> None:
    """set_autocast_dtype("cuda", dtype), by its older name.

    >>> sg.set_autocast_gpu_dtype(sg.float16)
    """
    set_autocast_dtype("cuda", dtype)


__all__ = [
    "clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip
