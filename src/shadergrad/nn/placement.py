"""Moving a module to another device or dtype, in place."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType, parse_dtype
from ..tensor import Tensor, names_device
from .errors import ModuleTypeError
from .module_tree import ModuleTree


def move(module: ModuleTree[Any], args: tuple[Any, ...], device: Any, dtype: Any) -> None:
    """As Tensor.to(*args), of all parameters and buffers; a dtype is for the floating ones."""
    for arg in args:
        if isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        elif names_device(arg):
            device = arg
        elif isinstance(arg, DType) or not isinstance(arg, bool):
            dtype = arg
    kind = None if dtype is None else parse_dtype(dtype)
    if kind is not None and not kind.is_floating_point:
        raise ModuleTypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={kind!r}")
    # the largest first: a small one is read, and with it would be computed whatever else has not left this device
    for tensor in sorted([*module.parameters(), *module.buffers()], key=lambda t: -t.numel()):
        wanted = kind if tensor.is_floating_point() else None
        moved = tensor.detach().to(device=device, dtype=wanted)
        gradient = None if tensor._grad is None else tensor._grad.detach().to(device=device, dtype=wanted)
        if (moved.device, moved.dtype) != (tensor.device, tensor.dtype):
            tensor._become(moved._node)
            tensor._grad = gradient
        del moved
        tensor._share_no_more()  # with tensors that were only inspected
    for part in module.modules():
        part.__dict__["_moves"] = part.__dict__.get("_moves", 0) + 1  # a compiled step that used it is captured anew
