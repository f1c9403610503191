"""The correspondence of dtypes. In: a torch.dtype. Out: the dtype in which the device stores it, with one warning if the two differ.

A GPU lacks float64, so it is stored as float32 there. The torch.Tensor keeps its dtype.
"""

from __future__ import annotations

import warnings

import torch

import shadergrad as sg

from ..dtypes import DType
from ..errors import DTypeError
from .callers import users_line

STORED: dict[torch.dtype, DType] = {
    torch.float32: sg.float32,
    torch.float64: sg.float64,
    torch.float16: sg.float16,
    torch.bfloat16: sg.bfloat16,
    torch.int64: sg.int64,
    torch.int32: sg.int32,
    torch.int16: sg.int16,
    torch.int8: sg.int8,
    torch.uint8: sg.uint8,
    torch.uint16: sg.uint16,
    torch.uint32: sg.uint32,
    torch.uint64: sg.uint64,
    torch.bool: sg.bool,
    torch.complex64: sg.complex64,
    torch.complex128: sg.complex128,
}
TORCH: dict[DType, torch.dtype] = {stored: dtype for dtype, stored in STORED.items()}
WIDER = {  # dtypes that shaders lack, and their substitutes
    torch.float64: "float32, with 24 bits of mantissa in place of 53",
}
_on_gpu = False
_said: set[torch.dtype] = set()


def choose(device: str) -> None:
    """Set the device for which dtypes are stored: "cpu" or "webgpu"."""
    global _on_gpu
    _on_gpu = device != "cpu"
    STORED[torch.float64] = sg.float32 if _on_gpu else sg.float64


def is_substituted(dtype: torch.dtype) -> bool:
    """Whether the device stores another dtype in its place."""
    return _on_gpu and dtype in WIDER


def stored(dtype: torch.dtype | None) -> DType:
    """The dtype in which the device holds one of PyTorch's; PyTorch's default for None.

    Raises DTypeError for a dtype that is neither stored nor substituted. Warns once for each substituted one.
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if dtype not in STORED:
        raise DTypeError(f"[torch] {dtype} is not available on the device webgpu. Hint: use float32.")
    if is_substituted(dtype) and dtype not in _said:
        _said.add(dtype)
        where = users_line()
        warnings.warn(
            f"{dtype} is computed as {WIDER[dtype]} on this device{f' (first used at {where})' if where else ''}.",
            stacklevel=2,
        )
    return STORED[dtype]


def any_substituted() -> bool:
    """Whether a tensor of a substituted dtype was ever made: only then do results need PyTorch's own dtype rules."""
    return bool(_said)
