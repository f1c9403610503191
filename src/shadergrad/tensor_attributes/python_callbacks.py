"""Python functions of single elements, called on the host: `x.apply_(f)`, `x.map_(y, f)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor, host_tensor
from .installation import install_methods


def _map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Put callable(element, its counterpart in tensor) into every element, one by one on the host. In place.

    >>> sg.ones(2).map_(sg.tensor([1.0, 2.0]), lambda a, b: a + b)
    tensor([2., 3.])
    """
    values = self.detach().numpy()
    others = np.broadcast_to(tensor.detach().numpy(), values.shape)
    found = [callable(a, b) for a, b in zip(values.ravel().tolist(), others.ravel().tolist(), strict=True)]
    return self.copy_(host_tensor(np.array(found, values.dtype).reshape(values.shape), device=self.device))


def _apply_(self: Tensor, function: Any) -> Tensor:
    """Put function(element) into every element, one by one on the host. In place; gives the tensor.

    >>> sg.ones(2).apply_(lambda v: v + 1)
    tensor([2., 2.])
    """
    values = self.detach().numpy()
    changed = np.array([function(v) for v in values.ravel().tolist()], values.dtype).reshape(values.shape)
    return self.copy_(host_tensor(changed, device=self.device))


install_methods({"apply_": _apply_, "map_": _map_})
