"""The tensors that modules register and optimizers train."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .arguments import check_tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A tensor that modules register when it is set as an attribute, and that optimizers train.

    data: a tensor, whose memory the parameter shares; it is a leaf of its own. Raises ArgumentTypeError for what is no
    tensor.

    >>> nn.Parameter(sg.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        check_tensor("Parameter", "data", data)
        self._alias_of(data)
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A parameter of its own with the same value, and without a gradient, as PyTorch's."""
        result = memo[id(self)] = Parameter(self.detach().clone(), self.requires_grad)
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()
