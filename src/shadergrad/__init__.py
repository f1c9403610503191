"""shadergrad: PyTorch's habits on any GPU that a shader can reach.

import shadergrad as sg; see README.md for a first page and docs/architecture.md for how a call reaches the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import (
    accelerator,
    amp,
    autograd,
    backends,
    compiler,
    cuda,
    data,
    devices,
    distributed,
    fft,
    func,
    functions,
    interop,
    jit,
    linalg,
    mps,
    nn,
    optim,
    profiling,
    quantization,
    random,
    signal,
    special,
    testing,
    utils,
)
from .amp import autocast, is_autocast_available, is_autocast_enabled
from .autocast_state import (
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    set_autocast_cache_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    set_autocast_gpu_dtype,
)
from .autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .autograd.grad_mode import is_inference_mode_enabled
from .compiled_module import CompiledModule, compile
from .complex_numbers import angle, complex, conj, imag, is_complex, polar, real, view_as_complex, view_as_real
from .dtypes import DType as dtype
from .dtypes import (
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .dtypes import bool_ as bool
from .errors import (
    ArgumentTypeError,
    AutogradError,
    CheckpointError,
    CompileError,
    DeviceError,
    DeviceLostError,
    DTypeError,
    IndexRangeError,
    LimitError,
    OutOfMemoryError,
    PlanError,
    ShadergradError,
    ShapeError,
)
from .fft.short_time import istft, stft
from .func import vmap
from .functions import *  # noqa: F403  # the function forms; their names are functions.__all__
from .linalg.top_level import (
    chain_matmul,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    det,
    inverse,
    logdet,
    lu,
    lu_solve,
    lu_unpack,
    matrix_exp,
    matrix_power,
    nuclear_norm,
    pca_lowrank,
    pinverse,
    qr,
    slogdet,
    svd,
    svd_lowrank,
    triangular_solve,
)
from .profiling import profile
from .quantization import quantize
from .random import get_rng_state, initial_seed, seed, set_rng_state
from .run.sizes import mark_dynamic
from .run.step import CompiledStep
from .serialization import load, save
from .signal.top_level import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window
from .special.top_level import i0, igamma, igammac, mvlgamma, polygamma
from .tensor import (
    Generator,
    Size,
    Tensor,
    as_tensor,
    device,
    get_default_device,
    manual_seed,
    set_default_device,
    sync,
)
from .tensor_attributes import (
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
    are_deterministic_algorithms_enabled,
    asarray,
    can_cast,
    channels_last,
    channels_last_3d,
    contiguous_format,
    from_dlpack,
    get_default_dtype,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    is_nonzero,
    is_same_size,
    newaxis,
    preserve_format,
    promote_types,
    result_type,
    set_default_dtype,
    set_default_tensor_type,
    set_float32_matmul_precision,
    set_num_interop_threads,
    set_num_threads,
    set_printoptions,
    strided,
    typename,
    use_deterministic_algorithms,
)
from .version import __version__

from .autograd import checkpoint as checkpoint  # isort: skip  # last: the module .checkpoint has the same name
from .functions import tensor as tensor  # isort: skip  # and so has the package .tensor

if TYPE_CHECKING:
    from . import distributions as distributions
    from . import extend as extend
    from . import logic as logic
    from . import models as models
    from . import onnx as onnx
    from . import recipes as recipes
    from . import train as train
    from . import web as web

float = float32
int = int32
short = int16
long = int64
half = float16
double = float64
cfloat = complex64
cdouble = complex128

__all__ = [
    "ArgumentTypeError",
    "AutogradError",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "CheckpointError",
    "CompileError",
    "CompiledModule",
    "CompiledStep",
    "DTypeError",
    "DeviceError",
    "DeviceLostError",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "HalfTensor",
    "IndexRangeError",
    "IntTensor",
    "LimitError",
    "LongTensor",
    "OutOfMemoryError",
    "PlanError",
    "ShadergradError",
    "ShapeError",
    "ShortTensor",
    "Size",
    "Tensor",
    "__version__",
    "accelerator",
    "amp",
    "angle",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "asarray",
    "autocast",
    "autograd",
    "backends",
    "bartlett_window",
    "bfloat16",
    "blackman_window",
    "bool",
    "can_cast",
    "cdouble",
    "cfloat",
    "chain_matmul",
    "channels_last",
    "channels_last_3d",
    "checkpoint",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "clear_autocast_cache",
    "compile",
    "compiler",
    "complex",
    "complex64",
    "complex128",
    "conj",
    "contiguous_format",
    "cuda",
    "data",
    "det",
    "device",
    "devices",
    "distributed",
    "distributions",
    "double",
    "dtype",
    "enable_grad",
    "extend",
    "fft",
    "float",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "func",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_rng_state",
    "half",
    "hamming_window",
    "hann_window",
    "i0",
    "igamma",
    "igammac",
    "imag",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "interop",
    "inverse",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_complex",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_nonzero",
    "is_same_size",
    "istft",
    "jit",
    "kaiser_window",
    "linalg",
    "load",
    "logdet",
    "logic",
    "long",
    "lu",
    "lu_solve",
    "lu_unpack",
    "manual_seed",
    "mark_dynamic",
    "matrix_exp",
    "matrix_power",
    "models",
    "mps",
    "mvlgamma",
    "newaxis",
    "nn",
    "no_grad",
    "nuclear_norm",
    "onnx",
    "optim",
    "pca_lowrank",
    "pinverse",
    "polar",
    "polygamma",
    "preserve_format",
    "profile",
    "profiling",
    "promote_types",
    "qr",
    "quantization",
    "quantize",
    "random",
    "real",
    "recipes",
    "result_type",
    "save",
    "seed",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "short",
    "signal",
    "slogdet",
    "special",
    "stft",
    "strided",
    "svd",
    "svd_lowrank",
    "sync",
    "testing",
    "train",
    "triangular_solve",
    "typename",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "use_deterministic_algorithms",
    "utils",
    "view_as_complex",
    "view_as_real",
    "vmap",
    "web",
]
__all__ += functions.__all__

_LATER = (
    "distributions",
    "extend",
    "logic",
    "models",
    "onnx",
    "recipes",
    "train",
    "web",
)  # imported when they are first asked for


if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            import importlib  # here, as few programs come this way

            return importlib.import_module(f".{name}", __name__)
        from .system.suggestions import suggesting  # for the same reason

        return suggesting(__name__)(name)


def __dir__() -> list[str]:
    return sorted(__all__)
