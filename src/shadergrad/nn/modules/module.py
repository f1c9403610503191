"""Global hooks of all modules, as in torch.nn.modules.module. They run before a module's own hooks of the same kind.

register_module_forward_pre_hook, register_module_forward_hook                    around forward
register_module_full_backward_pre_hook, register_module_full_backward_hook       around the backward pass
register_module_parameter_registration_hook, and those of buffers and modules    when one is registered
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor import RemovableHandle
from ..hooks import BACKWARD, BACKWARD_PRE, FORWARD, FORWARD_PRE, everywhere, registrations
from ..module import Module
from ..state_dicts import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX
from ..state_dicts import IncompatibleKeys as _IncompatibleKeys

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_private = _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys  # which programs import from here


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, args) before forward of every module; as Module.register_forward_pre_hook.

    >>> with nn.modules.module.register_module_forward_pre_hook(lambda module, args: print(type(module).__name__)):
    ...     _ = nn.Sequential(nn.Linear(2, 1))(sg.ones(2))
    Sequential
    Linear
    """
    return everywhere.tables[FORWARD_PRE].add(hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """hook(module, args, output) after forward of every module; as Module.register_forward_hook.

    >>> with nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 2):
    ...     nn.Identity()(sg.ones(2))
    tensor([2., 2.])
    """
    table = everywhere.tables[FORWARD]
    kinds = [kind for kind, wanted in ((table.with_kwargs, with_kwargs), (table.always, always_call)) if wanted]
    return table.add(hook, False, *kinds)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, grad_output) before the backward pass of every module; as Module.register_full_backward_pre_hook.

    >>> names = []
    >>> with nn.modules.module.register_module_full_backward_pre_hook(lambda module, grads: names.append(type(module).__name__)):
    ...     nn.Linear(2, 1)(sg.ones(2)).sum().backward()
    >>> names
    ['Linear']
    """
    return everywhere.tables[BACKWARD_PRE].add(hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, grad_input, grad_output) after the backward pass of every module; as Module.register_full_backward_hook.

    >>> x = sg.ones(2, requires_grad=True)
    >>> with nn.modules.module.register_module_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,)):
    ...     nn.Identity()(x).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    return everywhere.tables[BACKWARD].add(hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, name, parameter) when a parameter is registered; its result, unless None, replaces it.

    >>> with nn.modules.module.register_module_parameter_registration_hook(lambda module, name, p: print(name)):
    ...     _ = nn.Linear(2, 1)
    weight
    bias
    """
    return registrations["parameter"].add(hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, name, buffer) when a buffer is registered; its result, unless None, replaces it.

    >>> with nn.modules.module.register_module_buffer_registration_hook(lambda module, name, b: print(name)):
    ...     _ = nn.BatchNorm1d(1, affine=False)
    running_mean
    running_var
    num_batches_tracked
    """
    return registrations["buffer"].add(hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, name, child) when a module is registered; its result, unless None, replaces it.

    >>> with nn.modules.module.register_module_module_registration_hook(lambda module, name, child: nn.Identity()):
    ...     nn.Sequential(nn.Linear(2, 1))
    Sequential(
      (0): Identity()
    )
    """
    return registrations["module"].add(hook)
