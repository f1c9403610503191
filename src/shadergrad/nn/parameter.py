"""Parameters and buffers: the tensors that modules register and optimizers train."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor, empty
from .arguments import check_tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that modules register when it is set as an attribute, and that optimizers train.

    data: a tensor, whose memory the parameter shares; it is a separate leaf. Raises ArgumentTypeError for anything but a
    tensor.

    >>> nn.Parameter(sg.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        check_tensor("Parameter", "data", data)
        self._alias_of(data)
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A new parameter with the same value, and without a gradient, as in PyTorch."""
        result = memo[id(self)] = Parameter(self.detach().clone(), self.requires_grad)
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that modules register as a buffer when it is set as an attribute; in the state dict if persistent.

    data: a tensor, whose memory the buffer shares; an empty one by default. Raises ArgumentTypeError for anything but a tensor.

    >>> class Counter(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.count = nn.Buffer(sg.zeros(1))
    >>> [name for name, _ in Counter().named_buffers()]
    ['count']
    """

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        given = empty(0) if data is None else check_tensor("Buffer", "data", data)
        self._alias_of(given)
        if given.requires_grad:
            self.requires_grad_()
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A new buffer with the same value."""
        result: Any = super().__deepcopy__(memo)
        result.persistent = self.persistent
        return result
