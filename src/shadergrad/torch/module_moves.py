"""Moves of modules to the device or away from it: parameters stay the same objects, so that tied ones stay tied.

In: PyTorch's Module._apply, behind .to() and similar methods. PyTorch would create new parameters, because the data of a parameter cannot be
replaced by a tensor of this device; it can swap the two instead (torch.__future__.set_swap_module_params_on_conversion). That setting changes
load_state_dict too, and refuses parameters with other references, so it is on only while a module moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Convert = Callable[[Tensor], Tensor]


def _moves(module: nn.Module, convert: Convert) -> bool:
    """Whether the conversion moves the parameters to the device or away from it, tried on an empty tensor."""
    first = next(module.parameters(), None)
    if first is None or isinstance(first, nn.parameter.UninitializedParameter):
        return False
    try:
        with torch.no_grad():
            there = convert(torch.empty(0, dtype=first.dtype, device=first.device)).device.type
    except Exception:  # a conversion that fails for empty tensors: the module's own tensors raise the error
        return False
    return (there == "webgpu") != (first.device.type == "webgpu")


def register() -> None:
    """Replace Module._apply, once."""
    of_module: Any = nn.Module._apply

    def apply(self: nn.Module, fn: Convert, recurse: bool = True) -> nn.Module:
        if torch.__future__.get_swap_module_params_on_conversion() or not _moves(self, fn):
            return of_module(self, fn, recurse)
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return of_module(self, fn, recurse)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    nn.Module._apply = apply  # type: ignore[method-assign]
