"""Makes `import torch` import this library in the child processes of a program under `shadergrad run`.

Python imports this file when such a process starts, because its folder is first in PYTHONPATH; the command line of multiprocessing's processes runs
it, too. It imports the library only when the process imports torch. It also runs the interpreter's own sitecustomize, which it hides.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)


class _Torch:
    """A finder for torch, which removes itself at its first use."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            # imported here, because few processes import torch
            from shadergrad.as_torch.child_processes import become_torch
        except ImportError as error:
            print(f"shadergrad run: this process has PyTorch instead of shadergrad: {error}", file=sys.stderr)
            return None
        return become_torch(name)


def _run_the_other():
    """Run the sitecustomize that this one hides."""
    places = [place for place in sys.path if os.path.realpath(place) != os.path.realpath(_HERE)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if "torch" not in sys.modules and not any(type(finder).__name__ == "_Torch" for finder in sys.meta_path):
    sys.meta_path.insert(0, _Torch())
if __name__ == "sitecustomize":
    _run_the_other()
