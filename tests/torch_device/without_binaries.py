"""torchvision's Python parts where its binary ones do not load, as beside a PyTorch of another build: timm and transformers import it.

Its operators on boxes are declared, and have no kernel: calling one raises.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import torch

NAMES = """
nms qnms roi_align _roi_align_backward ps_roi_align _ps_roi_align_backward roi_pool _roi_pool_backward ps_roi_pool _ps_roi_pool_backward
qroi_align deform_conv2d _deform_conv2d_backward
"""


@functools.cache
def binaries_load() -> bool:
    """Whether torchvision's operators load here, if it is installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return True
    for path in Path(found.origin).parent.glob("_C*"):
        try:
            torch.ops.load_library(path)
        except OSError:
            return False
    return True


@functools.cache
def declare_operators() -> Any:
    """Declare what torchvision would give meta kernels to when it is imported; once."""
    if binaries_load():
        return None
    library = torch.library.Library("torchvision", "DEF")
    for name in NAMES.split():
        library.define(f"{name}(Tensor x, Tensor y, float z) -> Tensor")
    return library  # which lives as long as the cache
