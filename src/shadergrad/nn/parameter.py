"""The tensors that modules register and optimizers train."""

from __future__ import annotations

from ..tensor import Tensor
from .arguments import check_tensor


class Parameter(Tensor):
    """A tensor that modules register and optimizers train."""

    __slots__ = ()

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        check_tensor("Parameter", "data", data)
        self._adopt(data.detach()._node)
        self._hold(self._node)
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()
