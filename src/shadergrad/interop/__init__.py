"""Exchange with other libraries: PyTorch's state dicts and tensors, safetensors files, .npz files."""

from . import torch as torch
from .errors import InteropError
from .files import load_npz, read_arrays, save_npz
from .state_dict import LoadResult, load_state_dict
from .torch_tensors import from_torch, to_torch

__all__ = [
    "InteropError",
    "LoadResult",
    "from_torch",
    "load_npz",
    "load_state_dict",
    "read_arrays",
    "save_npz",
    "to_torch",
    "torch",
]
