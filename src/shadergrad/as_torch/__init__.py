"""Gives this library PyTorch's module names in one process, for `shadergrad run`.

In: names such as torch.nn.functional. Out: modules under those names whose contents are this library's. An installed PyTorch
is not loaded. Other processes are not affected.
"""

from .script_runner import run_module, run_script
from .stand_ins import install, installed

__all__ = ["install", "installed", "run_module", "run_script"]
