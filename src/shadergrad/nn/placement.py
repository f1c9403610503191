"""Moving a module to another device or dtype, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType, parse_dtype
from ..tensor import Tensor, names_device
from .errors import ModuleTypeError
from .module_tree import ModuleTree


def change(tensor: Tensor, function: Callable[[Tensor], Tensor]) -> None:
    """Replace the value of a parameter or buffer, and of its gradient, by a function of it. The objects stay the same."""
    made = function(tensor.detach())
    gradient = None if tensor._grad is None else function(tensor._grad.detach()).detach()
    if (made.device, made.dtype) != (tensor.device, tensor.dtype) or made._node is not tensor._node:
        tensor._become(made.detach()._node)
        tensor._grad = gradient
    del made
    tensor._share_no_more()  # with tensors that were only inspected


def note_moves(module: ModuleTree[Any]) -> None:
    """Recompile compiled steps that used the module."""
    for part in module.modules():
        part.__dict__["_moves"] = part.__dict__.get("_moves", 0) + 1


def move(module: Any, args: tuple[Any, ...], device: Any, dtype: Any, applied: Any) -> None:
    """As Tensor.to(*args), of all parameters and buffers; a dtype is for the floating ones. applied: Module._apply."""
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

    def moved(tensor: Tensor) -> Tensor:
        return tensor.to(device=device, dtype=kind if tensor.is_floating_point() else None)

    if any(type(part)._apply is not applied for part in module.modules()):  # an override moves further tensors
        module._apply(moved)
        return
    # the largest first: reading a small one also computes all pending tensors that are still on this device
    for tensor in sorted([*module.parameters(), *module.buffers()], key=lambda t: -t.numel()):
        change(tensor, moved)
    note_moves(module)
