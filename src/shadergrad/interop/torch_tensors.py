"""Single tensors to and from PyTorch. In and out: tensors, copied through NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import bfloat16
from ..system.optional_packages import require
from ..tensor import Tensor, host_tensor
from .errors import InteropError

# Devices of PyTorch's whose tensors hold ours, and the function that gives these: shadergrad.torch adds its own.
ON_DEVICE: dict[str, Callable[[Any], Tensor]] = {}


def to_torch(tensor: Tensor) -> Any:
    """A torch.Tensor on the cpu with the same values and dtype; no memory or history is shared.

    Raises MissingPackageError if PyTorch is not installed.

    >>> sg.interop.to_torch(sg.tensor([1, 2])).tolist()
    [1, 2]
    """
    torch = require("torch", "torch", "to_torch")
    array = torch.from_numpy(tensor.detach().numpy())
    return array.bfloat16() if tensor.dtype is bfloat16 else array


def from_torch(tensor: Any, device: Any = None, dtype: Any = None) -> Tensor:
    """A Tensor with the values of a torch.Tensor, of any device; no memory or history is shared.

    device: by default the default device. dtype: by default the same. Raises InteropError for other
    values, or for a dtype that NumPy lacks; MissingPackageError without PyTorch.

    >>> import torch
    >>> sg.interop.from_torch(torch.tensor([1.0, 2.0], requires_grad=True))
    tensor([1., 2.])
    """
    direct = ON_DEVICE.get(getattr(getattr(tensor, "device", None), "type", ""))
    if direct is not None:
        value = direct(tensor)
        return value.to(device or value.device, dtype or value.dtype)
    if dtype is None and str(tensor.dtype) == "torch.bfloat16":
        dtype = bfloat16
    return host_tensor(array_from_torch(tensor), dtype=dtype, device=device)


def array_from_torch(tensor: Any) -> np.ndarray:
    """The values of a torch.Tensor; those of bfloat16, which NumPy has not, as float32."""
    torch = require("torch", "torch", "from_torch")
    if not isinstance(tensor, torch.Tensor):
        raise InteropError(f"[from_torch] expected a torch.Tensor, not a {type(tensor).__name__}.")
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    try:
        return tensor.numpy(force=True)
    except (TypeError, RuntimeError) as error:  # of dtypes, and of tensors without plain memory: sparse, nested, meta
        reason = str(error).splitlines()[0]
        raise InteropError(
            f"[from_torch] NumPy has no {tensor.dtype} array of layout {tensor.layout} on {tensor.device}: {reason}"
        ) from None
