"""PyTorch's names for this library, in one process: what `shadergrad run` gives a script.

In: names such as torch.nn.functional. Out: modules under those names whose contents are this library's. Nothing of an
installed PyTorch is loaded, and other processes see nothing of it.
"""

from .script_runner import run_module, run_script
from .stand_ins import install, installed

__all__ = ["install", "installed", "run_module", "run_script"]
