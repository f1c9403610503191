"""shadergrad: PyTorch's habits on any GPU that a shader can reach.

import shadergrad as sg; see README.md for a first page and docs/architecture.md for how a call reaches the GPU.
"""

from . import autograd, data, devices, interop, nn, optim
from .autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .dtypes import bool_ as bool
from .dtypes import float32, float64, int32, int64, uint8, uint32
from .errors import (
    AutogradError,
    CheckpointError,
    CompileError,
    DeviceError,
    DeviceLostError,
    DTypeError,
    IndexRangeError,
    LimitError,
    OutOfMemoryError,
    ShadergradError,
    ShapeError,
)
from .functions import *  # noqa: F403
from .serialization import load, save
from .step import CompiledStep, compile
from .tensor import (
    Generator,
    Size,
    Tensor,
    arange,
    as_tensor,
    device,
    empty,
    eye,
    from_numpy,
    full,
    full_like,
    get_default_device,
    linspace,
    manual_seed,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    set_default_device,
    sync,
    zeros,
    zeros_like,
)
from .version import __version__

from .tensor import tensor as tensor  # isort: skip  # last: the module .tensor has the same name

float = float32
int = int32
