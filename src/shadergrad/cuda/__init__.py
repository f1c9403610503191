"""torch.cuda's names, for programs that look for CUDA: no CUDA device exists, and calls that are harmless without one do nothing.

This library reaches GPUs through WebGPU: `x.to("webgpu")`. A call that needs a CUDA device raises a DeviceError that says so. Under
`shadergrad run` the name 'cuda' may stand for a GPU of WebGPU's; then that is the only CUDA device.
"""

from __future__ import annotations

from typing import Any

from .. import random
from ..errors import DeviceError, OutOfMemoryError
from ..runtime.device import count_of, current_of, get_device, make_current, standing_for
from ..tensor import sync
from . import amp, nvtx
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from .properties import get_arch_list, get_device_capability, get_device_properties
from .streams import Event, Stream, StreamContext, current_stream, default_stream, is_current_stream_capturing, stream
from .types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

WITHOUT = "CUDA is not there: GPUs are reached by WebGPU. Hint: .to('webgpu'), sg.devices for what there is."


def is_available() -> bool:
    """False, but under `shadergrad run` on a GPU.

    >>> sg.cuda.is_available()
    False
    """
    return standing_for("cuda") is not None


def is_initialized() -> bool:
    """False.

    >>> sg.cuda.is_initialized()
    False
    """
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False.

    >>> sg.cuda.is_bf16_supported()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> sg.cuda.device_count()
    0
    """
    return count_of("cuda")


def manual_seed(seed: int) -> None:
    """Nothing: without CUDA PyTorch does nothing either. sg.manual_seed seeds all devices.

    >>> sg.cuda.manual_seed(0)
    """


def manual_seed_all(seed: int) -> None:
    """Nothing, as manual_seed.

    >>> sg.cuda.manual_seed_all(0)
    """


def get_rng_state_all() -> list[Any]:
    """[]: there is no device. sg.get_rng_state() is the cpu's.

    >>> sg.cuda.get_rng_state_all()
    []
    """
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Nothing, for there is no device.

    >>> sg.cuda.set_rng_state_all([])
    """


def ipc_collect() -> None:
    """Nothing: no memory is shared between processes.

    >>> sg.cuda.ipc_collect()
    """


def get_rng_state(device: Any = None) -> Any:
    """sg.get_rng_state(): one stream is behind all devices.

    >>> len(sg.cuda.get_rng_state()) > 0
    True
    """
    return random.get_rng_state()


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """sg.set_rng_state(new_state): one stream is behind all devices.

    >>> sg.cuda.set_rng_state(sg.cuda.get_rng_state())
    """
    random.set_rng_state(new_state)


def init() -> None:
    """Nothing: devices open at their first use.

    >>> sg.cuda.init()
    """


class device:  # PyTorch's name
    """Within, 'cuda' is the device of that number. Tensors stay where they are.

    >>> with sg.cuda.device(-1):
    ...     pass
    """

    def __init__(self, device: Any) -> None:
        self.idx = device
        self._before: int | None = None

    def __enter__(self) -> None:
        if self.idx not in (None, -1):
            self._before = current_of("cuda")
            set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            make_current("cuda", self._before)


def synchronize(device: Any = None) -> None:
    """Raises DeviceError: sg.sync() waits for all devices.

    >>> try:
    ...     sg.cuda.synchronize()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:21])
    [cuda.synchronize] CU
    """
    if is_available():
        return sync()
    raise DeviceError(f"[cuda.synchronize] {WITHOUT} sg.sync() waits for all devices.")


def current_device() -> int:
    """Raises DeviceError.

    >>> try:
    ...     sg.cuda.current_device()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:21])
    [cuda.current_device]
    """
    if is_available():
        return current_of("cuda")
    raise DeviceError(f"[cuda.current_device] {WITHOUT}")


def set_device(device: Any) -> None:
    """Raises DeviceError: sg.set_default_device("webgpu").

    >>> try:
    ...     sg.cuda.set_device(0)
    ... except sg.DeviceError as error:
    ...     print(str(error)[:17])
    [cuda.set_device]
    """
    if is_available():
        number = str(device).removeprefix("cuda").removeprefix(":")
        return make_current("cuda", int(number)) if number.isdigit() else None
    raise DeviceError(f"[cuda.set_device] {WITHOUT}")


def get_device_name(device: Any = None) -> str:
    """Raises DeviceError.

    >>> try:
    ...     sg.cuda.get_device_name()
    ... except sg.DeviceError as error:
    ...     print(str(error)[:22])
    [cuda.get_device_name]
    """
    name = standing_for("cuda")
    if name is not None:
        return get_device(name).describe()
    raise DeviceError(f"[cuda.get_device_name] {WITHOUT}")


__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "nvtx",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]
