"""Small modules of PyTorch. For each, a function returns the contents."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, Optional, Union
from urllib.parse import urlparse

import shadergrad
from shadergrad.nn.init import fans

from ...dtypes import DType
from ...jit import ignore
from ...pytorch_files import safe_classes
from ...tensor import Tensor, device
from ...tensor.hooks import RemovableHandle
from ..absent import absent
from . import private_names
from .copies import copies
from .foreach import foreach_functions
from .network_functions import network_functions
from .nn_names import stateless, with_indices
from .storages import STORAGE_TYPES


def _no(*args: Any, **kwargs: Any) -> bool:
    """Always False."""
    return False


def _identity(thing: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A decorator without effect."""
    return thing if callable(thing) and not args and not kwargs else (lambda f: f)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


def _config() -> dict[str, Any]:
    def show() -> str:
        """The name and version of this library."""
        return f"shadergrad {shadergrad.__version__}, under the names of PyTorch"

    def parallel_info() -> str:
        """The number of threads."""
        return f"threads: {shadergrad.get_num_threads()}"

    return {"show": show, "parallel_info": parallel_info}


def _types() -> dict[str, Any]:
    return {
        "Number": int | float | bool,
        "_int": int,
        "_float": float,
        "_bool": bool,
        "_complex": complex,
        "_size": shadergrad.Size | list[int] | tuple[int, ...],
        "_dtype": DType,
        "_device": device,
        "Device": device | str | int | None,
        "Tensor": Tensor,
        "FileLike": str | os.PathLike,
        "Storage": STORAGE_TYPES["UntypedStorage"],
        "_TensorOrTensors": Tensor | tuple[Tensor, ...],
        "_TensorOrTensorsOrGradEdge": Tensor | tuple[Tensor, ...],
        "PySymType": int,
        "IntLikeType": int,
        "FloatLikeType": float,
        "BoolLikeType": bool,
    }


def _common_types() -> dict[str, Any]:
    numbers = {"_scalar_or_tuple_1_t": int | tuple[int], "_size_any_t": int | tuple[int, ...]}
    for n in range(1, 7):
        numbers |= {f"_size_{n}_t": int | tuple[int, ...], f"_ratio_{n}_t": float | tuple[float, ...]}
    return numbers | {
        "_ratio_any_t": float | tuple[float, ...],
        "_maybe_indices_t": Any,
        "_tensor_list_t": Tensor | list[Tensor],
    }


def _utils_hooks() -> dict[str, Any]:
    return {"RemovableHandle": RemovableHandle, "unserializable_hook": _identity, "warn_if_has_hooks": _nothing}


def _overrides() -> dict[str, Any]:
    def is_tensor_like(inp: Any) -> bool:
        """Whether an object is a tensor."""
        return isinstance(inp, Tensor)

    return {
        "is_tensor_like": is_tensor_like,
        "has_torch_function": _no,
        "has_torch_function_unary": _no,
        "has_torch_function_variadic": _no,
    }


def _profiler() -> dict[str, Any]:
    class record_function(contextlib.ContextDecorator):
        """A context and decorator without effect, because PyTorch's profiler is missing. Use sg.profile."""

        def __init__(self, name: str, args: Any = None) -> None:
            self.name = name

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    class ProfilerActivity(enum.Enum):
        """The activities of PyTorch's profiler, which is missing."""

        CPU = 0
        XPU = 1
        MTIA = 2
        CUDA = 3
        HPU = 4

    return {
        "record_function": record_function,
        "ProfilerActivity": ProfilerActivity,
        "kineto_available": _no,
        "supported_activities": lambda: set(),
    }


def _flop_counter() -> dict[str, Any]:
    class FlopCounterMode:
        """A placeholder: entering it raises an error."""

        def __init__(
            self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
        ) -> None: ...

        def __enter__(self) -> Any:
            return absent("torch.utils.flop_counter.FlopCounterMode")()

        def __exit__(self, *_: object) -> None: ...

        def get_total_flops(self) -> int:
            """Always 0."""
            return 0

        def get_flop_counts(self) -> dict[str, Any]:
            """Always {}."""
            return {}

    return {"FlopCounterMode": FlopCounterMode}


def _init() -> dict[str, Any]:
    return {
        "_calculate_fan_in_and_fan_out": fans,
        "_calculate_correct_fan": lambda t, mode: fans(t)[mode.lower() == "fan_out"],
    }


def _onnx() -> dict[str, Any]:
    from . import onnx_export  # imported here, because it imports the ONNX package

    return {
        **onnx_export.names(),
        "register_custom_op_symbolic": _nothing,  # an export of such an operator raises
        "unregister_custom_op_symbolic": _nothing,
    }


def _export() -> dict[str, Any]:
    return {"Dim": shadergrad.onnx.Dim}


def _fx() -> dict[str, Any]:
    def wrap(fn_or_name: Any) -> Any:
        """Returns the function, or its name. There is no tracer that would have to treat it as a leaf."""
        return fn_or_name

    return {"wrap": wrap}


def _compatibility() -> dict[str, Any]:
    return {"compatibility": _identity}


def _torch_utils() -> dict[str, Any]:
    def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
        """The number of a device."""
        return device if isinstance(device, int) else shadergrad.device(device or "cpu").index

    def _flatten_dense_tensors(tensors: Any) -> Tensor:
        """All elements of all tensors, one after the other."""
        return shadergrad.cat([t.reshape(-1) for t in tensors])

    def _unflatten_dense_tensors(flat: Tensor, tensors: Any) -> tuple[Tensor, ...]:
        """The inverse of _flatten_dense_tensors: tensors with the shapes of `tensors`."""
        parts = flat.split([t.numel() for t in tensors])
        return tuple(p.reshape(t.shape) for p, t in zip(parts, tensors, strict=True))

    return {
        "_get_device_index": _get_device_index,
        "_flatten_dense_tensors": _flatten_dense_tensors,
        "_unflatten_dense_tensors": _unflatten_dense_tensors,
        "_element_size": lambda dtype: dtype.itemsize,
        "_is_compiling": _no,
    }


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """The arguments of Tensor.to as (device, dtype, non_blocking, memory_format)."""
    found: dict[str, Any] = {"device": None, "dtype": None, "non_blocking": False, "copy": False, "memory_format": None}
    found |= kwargs
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        found["device"], found["dtype"] = rest[0].device, rest.pop(0).dtype
    elif rest and isinstance(rest[0], DType):
        found["dtype"] = rest.pop(0)
    elif rest:
        found["device"] = rest.pop(0)
        if rest and not isinstance(rest[0], bool):
            found["dtype"] = rest.pop(0)
    found |= dict(zip(("non_blocking", "copy"), rest, strict=False))
    where = found["device"]
    place = None if where is None else device(f"cuda:{where}" if isinstance(where, int) else where)
    return place, found["dtype"], found["non_blocking"], found["memory_format"]


def _settings(**values: Any) -> Callable[[], dict[str, Any]]:
    """Settings that a program may read and set, without effect."""
    return lambda: dict(values)


def _serialization() -> dict[str, Any]:
    """The classes that torch.load may create from a pickled file, in addition to plain data."""

    class safe_globals(contextlib.AbstractContextManager[None]):
        """A context in which torch.load may also create these classes."""

        def __init__(self, safe_globals: list[Any]) -> None:
            self.classes = list(safe_globals)

        def __enter__(self) -> None:
            safe_classes.extend(self.classes)

        def __exit__(self, *_: object) -> None:
            del safe_classes[len(safe_classes) - len(self.classes) :]

    return {
        "add_safe_globals": safe_classes.extend,
        "get_safe_globals": lambda: list(safe_classes),
        "clear_safe_globals": safe_classes.clear,
        "safe_globals": safe_globals,
    }


def _core() -> dict[str, Any]:
    """Names of PyTorch's extension module that libraries use: usage logging, and dispatch keys."""

    class DispatchKey(enum.Enum):
        """The dispatch keys of PyTorch that libraries name."""

        CPU = "CPU"
        CUDA = "CUDA"
        Meta = "Meta"
        Autograd = "Autograd"
        AutocastCPU = "AutocastCPU"
        AutocastCUDA = "AutocastCUDA"
        AutocastXPU = "AutocastXPU"
        CompositeExplicitAutograd = "CompositeExplicitAutograd"
        CompositeImplicitAutograd = "CompositeImplicitAutograd"

    class DispatchKeySet:
        """A set of dispatch keys."""

        def __init__(self, *keys: Any) -> None:
            self.keys = frozenset(keys)

        def __or__(self, other: Any) -> Any:
            return DispatchKeySet(*self.keys, *other.keys)

        def has(self, key: Any) -> bool:
            """Whether the set contains a key."""
            return key in self.keys

    return {
        "_log_api_usage_once": _nothing,
        "_get_tracing_state": _nothing,  # None: jit.trace does not exist
        "DispatchKey": DispatchKey,
        "DispatchKeySet": DispatchKeySet,
        "_get_privateuse1_backend_name": lambda: "privateuseone",
    }


def _backend(**values: Any) -> Callable[[], dict[str, Any]]:
    """A backend that is not available."""
    return lambda: {"is_available": _no, "is_built": _no, "enabled": False, **values}


def _no_devices() -> dict[str, Any]:
    """The functions of a kind of device that is not available."""
    return {
        "is_available": _no,
        "is_initialized": _no,
        "is_bf16_supported": _no,
        "device_count": lambda: 0,
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "empty_cache": _nothing,
        "_is_in_bad_fork": _no,
    }


def _cpu() -> dict[str, Any]:
    class Stream:
        """A stream of the CPU, which has only one."""

        def __init__(self, priority: int = -1) -> None: ...

        def wait_stream(self, stream: Any) -> None:
            """Does nothing: there is only one stream."""

    @contextlib.contextmanager
    def stream(stream: Any) -> Iterator[None]:
        """A context without effect: there is only one stream."""
        yield

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: "cpu",
        "set_device": _nothing,
        "synchronize": lambda device=None: shadergrad.sync("cpu"),
        "Stream": Stream,
        "stream": stream,
        "current_stream": lambda device=None: Stream(),
    }


def _jit_internal() -> dict[str, Any]:
    def boolean_dispatch(
        arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """A function that calls if_true or if_false, depending on one of the arguments."""

        @functools.wraps(if_true)
        def fn(*given: Any, **named: Any) -> Any:
            chosen = named.get(arg_name, given[arg_index] if arg_index < len(given) else default)
            return (if_true if chosen else if_false)(*given, **named)

        return fn

    return {
        "ignore": ignore,
        "unused": ignore,
        "export": _identity,
        "_overload": _identity,
        "_overload_method": _identity,
        "boolean_dispatch": boolean_dispatch,
        "is_scripting": _no,
        "Final": Final,
        "Optional": Optional,
        "Union": Union,
        "Tuple": tuple,
        "List": list,
        "Dict": dict,
    }


SMALL: dict[str, Callable[[], dict[str, Any]]] = {
    "": lambda: foreach_functions() | copies() | STORAGE_TYPES | network_functions() | private_names.core_functions(),
    "random": lambda: {"default_generator": private_names.default_generator("cpu")},
    "_dynamo": private_names.compiled_modules,
    "_dynamo.eval_frame": private_names.compiled_modules,
    "backends.cudnn": private_names.cudnn_switches,
    "distributions.utils": private_names.of_distributions,
    "nn._reduction": private_names.reductions,
    "nn.parameter": private_names.lazy_parameters,
    "utils.data._utils.collate": private_names.collating,
    "utils.model_zoo": private_names.model_zoo,
    "storage": lambda: STORAGE_TYPES,
    "__config__": _config,
    "_C": lambda: _core() | private_names.extension_module(),
    "_C._nn": lambda: {"_parse_to": parse_to},
    "serialization": _serialization,
    "hub": lambda: {"urlparse": urlparse},
    "jit": lambda: {"Final": Final},
    "types": _types,
    "nn.common_types": _common_types,
    "distributed.optim": lambda: {"ZeroRedundancyOptimizer": shadergrad.optim.ZeroRedundancyOptimizer},
    "utils.hooks": _utils_hooks,
    "overrides": _overrides,
    "profiler": _profiler,
    "autograd.profiler": _profiler,
    "nn.init": lambda: _init() | private_names.initial_values(),
    "nn.functional": lambda: with_indices() | {"_Reduction": private_names._Reduction},
    "nn.utils.stateless": stateless,
    "utils.flop_counter": _flop_counter,
    "onnx": _onnx,
    "export": _export,
    "fx": _fx,
    "fx._compatibility": _compatibility,
    "_utils": _torch_utils,
    "_jit_internal": _jit_internal,
    "_dynamo.config": _settings(suppress_errors=False, cache_size_limit=8, verbose=False, capture_scalar_outputs=False),
    "_inductor.config": _settings(coordinate_descent_tuning=False, fx_graph_cache=True),
    "backends.openmp": _backend(),
    "backends.mkl": _backend(),
    "backends.opt_einsum": _backend(strategy=None),
    "backends.xnnpack": _backend(),
    "backends.mha": _backend(),
    "backends.quantized": _settings(engine="none", supported_engines=["none"]),
    "backends.nnpack": _backend(),
    "backends.kleidiai": _backend(),
    "backends.mkldnn": _backend(),
    "backends.cpu": lambda: {"get_cpu_capability": lambda: "DEFAULT"},
    "xpu": _no_devices,
    "mtia": _no_devices,
    "cpu": _cpu,
}
