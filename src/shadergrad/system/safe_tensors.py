"""The safetensors package, or where there is none (it is compiled, and no browser has it) the same functions in Python."""

from __future__ import annotations

import numpy as np

try:
    from safetensors import SafetensorError as SafetensorError
    from safetensors import safe_open as safe_open
    from safetensors.numpy import load_file as load_file
    from safetensors.numpy import save as save
except ImportError:
    from .safe_tensors_python import SafetensorError as SafetensorError
    from .safe_tensors_python import load_file as load_file
    from .safe_tensors_python import safe_open as safe_open
    from .safe_tensors_python import save as save


def in_numpys_own(array: np.ndarray) -> np.ndarray:
    """The array. Raises TypeError for types that other packages add to NumPy: with ml_dtypes imported, as onnx and jax do, safetensors
    gives arrays of them where it raised before."""
    if array.dtype.isbuiltin == 2:
        raise TypeError(f"{array.dtype} is not a type of NumPy's own")
    return array
