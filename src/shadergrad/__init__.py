"""shadergrad: PyTorch's habits on any GPU that a shader can reach.

import shadergrad as sg; see README.md for a first page and docs/architecture.md for how a call reaches the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import autograd, data, devices, fft, functions, interop, linalg, nn, optim, signal, special
from .autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .compiled import CompiledModule, compile
from .complex_numbers import angle, complex, conj, imag, is_complex, polar, real, view_as_complex, view_as_real
from .dtypes import bool_ as bool
from .dtypes import complex64, complex128, float32, float64, int32, int64, uint8, uint32
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
from .functions import *  # noqa: F403  # the function forms; their names are functions.__all__
from .linalg.older import (
    chain_matmul,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    det,
    inverse,
    logdet,
    matrix_exp,
    matrix_power,
    pinverse,
    qr,
    slogdet,
    svd,
    triangular_solve,
)
from .run.step import CompiledStep
from .serialization import load, save
from .signal.older import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window
from .special.older import i0, igamma, igammac, mvlgamma, polygamma
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
from .version import __version__

from .functions import tensor as tensor  # isort: skip  # last: the package .tensor has the same name

if TYPE_CHECKING:
    from . import extend as extend
    from . import logic as logic
    from . import models as models
    from . import recipes as recipes
    from . import train as train
    from . import web as web

float = float32
int = int32
long = int64
cfloat = complex64
cdouble = complex128

__all__ = [
    "ArgumentTypeError",
    "AutogradError",
    "CheckpointError",
    "CompileError",
    "CompiledModule",
    "CompiledStep",
    "DTypeError",
    "DeviceError",
    "DeviceLostError",
    "Generator",
    "IndexRangeError",
    "LimitError",
    "OutOfMemoryError",
    "PlanError",
    "ShadergradError",
    "ShapeError",
    "Size",
    "Tensor",
    "__version__",
    "angle",
    "as_tensor",
    "autograd",
    "bartlett_window",
    "blackman_window",
    "bool",
    "cdouble",
    "cfloat",
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "compile",
    "complex",
    "complex64",
    "complex128",
    "conj",
    "data",
    "det",
    "device",
    "devices",
    "enable_grad",
    "extend",
    "fft",
    "float",
    "float32",
    "float64",
    "get_default_device",
    "hamming_window",
    "hann_window",
    "i0",
    "igamma",
    "igammac",
    "imag",
    "inference_mode",
    "int",
    "int32",
    "int64",
    "interop",
    "inverse",
    "is_complex",
    "is_grad_enabled",
    "kaiser_window",
    "linalg",
    "load",
    "logdet",
    "logic",
    "long",
    "manual_seed",
    "matrix_exp",
    "matrix_power",
    "models",
    "mvlgamma",
    "nn",
    "no_grad",
    "optim",
    "pinverse",
    "polar",
    "polygamma",
    "qr",
    "real",
    "recipes",
    "save",
    "set_default_device",
    "set_grad_enabled",
    "signal",
    "slogdet",
    "special",
    "svd",
    "sync",
    "train",
    "triangular_solve",
    "uint8",
    "uint32",
    "view_as_complex",
    "view_as_real",
    "web",
]
__all__ += functions.__all__

_LATER = ("extend", "logic", "models", "recipes", "train", "web")  # imported when they are first asked for


if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            import importlib  # here, as few programs come this way

            return importlib.import_module(f".{name}", __name__)
        raise AttributeError(f"module 'shadergrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
