"""Our modules as PyTorch modules. PyTorch is imported on first use.

mirror = sg.interop.torch.mirror(model)     # a torch.nn.Module: PyTorch's names, our values
loss = loss_of(mirror(x))                   # torch.Tensors, with PyTorch's history
loss.backward()
mirror.write_gradients()                    # .grad of our parameters
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...nn.module import Module
from ...system.optional_packages import require
from ..errors import InteropError
from .parameter_names import torch_name, torch_names

if TYPE_CHECKING:
    from .module_mirror import Mirror


def mirror(module: Module, threads: int | None = None) -> Mirror:
    """A torch.nn.Module with the same computation as `module`, on PyTorch's cpu, with PyTorch's autograd.

    Its state dict has PyTorch's names (`torch_name`). Each call of the mirror first copies the parameters and buffers that have
    changed. It runs the module's own forward on the device "torch": PyTorch computes its operations. If PyTorch lacks an operation,
    NumPy computes it, and our gradient rule differentiates it.
    threads: the number of PyTorch's threads; by default two less than the number of cores, at least 1.
    Raises MissingPackageError without PyTorch; InteropError for anything but our modules, for two parameters that would have
    the same name, and for fewer than 1 thread.

    >>> model = nn.Linear(2, 1)
    >>> twin = sg.interop.torch.mirror(model)
    >>> y = twin(np.ones((1, 2), np.float32))
    >>> y.sum().backward()
    >>> twin.write_gradients()
    >>> model.weight.grad
    tensor([[1., 1.]])
    """
    if not isinstance(module, Module):
        raise InteropError(f"[mirror] takes a module of shadergrad, not a {type(module).__name__}.")
    require("torch", "torch", "a mirror in PyTorch")
    from .module_mirror import Mirror  # here, because PyTorch is optional and slow to load

    return Mirror(module, threads)


__all__ = ["mirror", "torch_name", "torch_names"]
