"""Python imports this at the start of each process that a program under `shadergrad run` starts: `import torch` is this library there too.

The folder of this file stands first in PYTHONPATH for those processes. Nothing is imported until a program asks for torch, and the
sitecustomize that the interpreter has without it runs as ever.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)


class _Torch:
    """Finds torch, once."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            # here, as few processes ask for torch
            from shadergrad.as_torch.child_processes import become_torch
        except ImportError as error:
            print(f"shadergrad run: this process has PyTorch instead of shadergrad: {error}", file=sys.stderr)
            return None
        return become_torch(name)


def _run_the_other():
    """The sitecustomize that this one hides."""
    places = [place for place in sys.path if os.path.realpath(place) != os.path.realpath(_HERE)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _Torch())
_run_the_other()
