"""PyTorch's side: a module of ours as one of theirs. PyTorch is imported when it is first asked for.

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
from .names import torch_name, torch_names

if TYPE_CHECKING:
    from .mirrored import Mirror


def mirror(module: Module, threads: int | None = None) -> Mirror:
    """A torch.nn.Module that computes exactly what `module` does, on PyTorch's cpu, with PyTorch's autograd.

    Its state dict has PyTorch's names (`torch_name`). Parameters and buffers are copied when the mirror is called, those
    that have changed since. The forward that runs is the module's own, on the device "torch"; what it computes there is
    computed by PyTorch, and where that has no such operation, by NumPy with our gradient rule.
    threads: of PyTorch's; by default the cores less 2, at least 1.
    MissingPackageError where PyTorch is not installed; InteropError for what is no module of ours, two parameters that
    would have one name, and fewer than 1 thread.

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
    from .mirrored import Mirror  # here, for PyTorch is optional and slow to load

    return Mirror(module, threads)


__all__ = ["mirror", "torch_name", "torch_names"]
