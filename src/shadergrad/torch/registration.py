"""torch.webgpu, the device module that PyTorch expects, and the registration of the device itself."""

from __future__ import annotations

import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import shadergrad as sg

from ..devices import adapters
from ..errors import DeviceError
from . import (
    absent,
    accelerator,
    addresses,
    autocast,
    bridge,
    copies,
    dispatch,
    dtypes,
    entry_point,
    exchange,
    files,
    memory,
    module_moves,
    optimizers,
    private,
    sequences,
    streams,
)
from .storage import Place

NAME = "webgpu"


def use(device: str) -> None:
    """Choose the shadergrad device behind torch.device("webgpu"): "webgpu", the default, or "cpu".

    Choose before the first tensor is made: tensors stay on their device. "cpu" is for machines without a GPU, and for tests.
    Raises DeviceError for another name.
    """
    if device not in ("cpu", "webgpu"):
        raise DeviceError(f'[shadergrad.torch.use] expected "webgpu" or "cpu", not {device!r}.')
    Place.device = device
    dtypes.choose(device)
    sequences.begin()


def is_available() -> bool:
    """Whether there is an adapter, or the cpu device was chosen."""
    return Place.device == "cpu" or bool(adapters())


def device_count() -> int:
    """1 if is_available() is true: PyTorch's private device in Python has one index."""
    return int(is_available())


def set_device(device: Any) -> None:
    """Raises DeviceError for any but the first."""
    index = device if isinstance(device, int) else torch.device(device).index or 0
    if index != 0:
        raise DeviceError(f"[torch.webgpu.set_device] there is one device, webgpu:0, not {device!r}.")


def manual_seed(seed: int) -> None:
    sg.manual_seed(seed)


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.from_numpy(sg.get_rng_state().copy())


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    sg.set_rng_state(state.cpu().numpy())


def get_device_name(device: Any = None) -> str:
    return adapters()[0].name if Place.device != "cpu" else "cpu (shadergrad)"


def get_device_properties(device: Any = None) -> Any:
    return SimpleNamespace(
        name=get_device_name(), total_memory=memory.total_memory(), major=0, minor=0, multi_processor_count=0
    )


class device:  # PyTorch's name
    """with torch.webgpu.device(0): the only one."""

    def __init__(self, device: Any) -> None:
        set_device(device)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _module() -> ModuleType:
    """torch.webgpu."""
    module = ModuleType(f"torch.{NAME}", __doc__)
    own = (
        is_available,
        device_count,
        set_device,
        manual_seed,
        get_rng_state,
        set_rng_state,
        get_device_name,
        get_device_properties,
        device,
    )
    for function in own:
        setattr(module, function.__name__, function)
    for function in (*streams.FUNCTIONS, *memory.FUNCTIONS):
        setattr(module, function.__name__, function)
    more: dict[str, Any] = {
        "default_stream": streams.current_stream,
        "reset_max_memory_allocated": memory.reset_peak_memory_stats,
        "ipc_collect": lambda: None,
        "can_device_access_peer": lambda device, peer: False,
        "is_current_stream_capturing": lambda: False,
        "manual_seed_all": manual_seed,
        "seed": lambda: sg.seed(),
        "seed_all": lambda: sg.seed(),
        "initial_seed": lambda: sg.initial_seed(),
        "get_rng_state_all": lambda: [get_rng_state()],
        "set_rng_state_all": lambda states: set_rng_state(states[0]),
        "current_device": lambda: 0,
        "init": lambda: None,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "_lazy_init": lambda: None,
        "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
        "is_bf16_supported": lambda *_, **__: True,
        "get_device_capability": lambda device=None: (0, 0),
    }
    for name, value in more.items():
        setattr(module, name, value)
    return module


def _warn_of_cuda() -> None:
    """Warns if CUDA is available: PyTorch makes a registered private device the accelerator of the process, and its autograd then no longer
    uses CUDA's streams: https://github.com/pytorch/pytorch/issues/161129
    """
    if torch.cuda.is_available():
        warnings.warn(
            "[shadergrad.torch] PyTorch has one accelerator a process, which is webgpu now: backward passes on cuda end in an internal "
            "assertion of PyTorch's. Hint: train on cuda in a process that does not import shadergrad.torch.",
            stacklevel=2,
        )


def register() -> None:
    """Register the device "webgpu", its module, kernels, autocast, copies, and the flush after each optimizer's step."""
    if hasattr(torch, NAME):  # this package is imported again
        return
    private.register(NAME, _module())
    torch.autograd.set_multithreading_enabled(False)  # kernels are Python: one thread holds the interpreter anyway
    module_moves.register()
    dispatch.register()
    autocast.register()
    copies.register()
    addresses.register()
    files.register()
    absent.register()
    bridge.register()
    accelerator.register()
    exchange.register()
    optimizers.register()
    entry_point.announce()
    register_optimizer_step_post_hook(lambda *_: sequences.flush())
    use(NAME)
    _warn_of_cuda()
