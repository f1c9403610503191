"""Variable, of PyTorch before 0.4: a tensor."""

from __future__ import annotations

from ..tensor import Tensor


def Variable(data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Tensor:
    """The tensor, as a leaf that requires grad if requested. All tensors are Variables since PyTorch 0.4.

    >>> sg.autograd.Variable(sg.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """
    if requires_grad and not data.requires_grad:
        return data.detach().requires_grad_()
    return data
