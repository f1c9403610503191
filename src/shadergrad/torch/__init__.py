"""PyTorch's own device "webgpu": PyTorch's models, autograd and optimizers on any GPU that WebGPU reaches.

import torch, shadergrad.torch                  # registers the device
model = torch.nn.Linear(784, 10).to("webgpu")
"""

from __future__ import annotations

import sys

from ..system.optional_packages import require

require("torch", "torch", "shadergrad.torch")
if sys.modules["torch"].__name__ != "torch" or not hasattr(sys.modules["torch"], "_C"):
    from ..errors import ShadergradError  # late: only for this error

    raise ShadergradError(
        "[shadergrad.torch] torch is shadergrad itself in this process. Hint: start the program with python, not with shadergrad run."
    )

from .bridge import from_shadergrad, to_shadergrad  # noqa: E402  late: it needs torch
from .host_fallback import HostFallback, HostFallbackError  # noqa: E402  late: they need torch
from .private import TorchVersionError  # noqa: E402
from .registration import register, use  # noqa: E402

register()

__all__ = ["HostFallback", "HostFallbackError", "TorchVersionError", "from_shadergrad", "to_shadergrad", "use"]
