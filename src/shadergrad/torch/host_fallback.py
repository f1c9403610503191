"""The host fallback for operators that the device lacks: copied down, computed by PyTorch, copied back.

Each operator warns once, with the user's line. SHADERGRAD_TORCH_FALLBACK=error raises instead.
"""

from __future__ import annotations

import collections
import warnings
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..config import config
from ..errors import ShadergradError
from .callers import users_line
from .private import full_name, name_of
from .storage import from_host, is_ours, to_host, wrap, write

calls: collections.Counter[str] = collections.Counter()  # of operators on the host


class HostFallback(UserWarning):
    """An operator ran on the host."""


class HostFallbackError(ShadergradError, NotImplementedError):
    """An operator has no kernel on the device, and SHADERGRAD_TORCH_FALLBACK=error."""


def on_host(op: Any, args: Any, kwargs: Any) -> Any:
    """The operator on PyTorch's cpu; arguments that it writes are written on the device, too."""
    name = full_name(name_of(op))
    if config.torch_fallback == "error":
        raise HostFallbackError(
            f"[torch] {name} has no kernel on the device webgpu. Hint: SHADERGRAD_TORCH_FALLBACK=warn computes it on the host."
        )
    if name not in calls:
        line = users_line()
        warnings.warn(
            f"{name} has no kernel on the device webgpu and runs on the host{f' (first at {line})' if line else ''}: "
            "its operands are copied down, and its results back.",
            HostFallback,
            stacklevel=2,
        )
    calls[name] += 1
    down = {}

    def moved(a: Any) -> Any:
        if is_ours(a):
            return down.setdefault(id(a), to_host(a))
        return torch.device("cpu") if isinstance(a, torch.device) else a

    host_args, host_kwargs = pytree.tree_map(moved, (args, kwargs))
    out = op(*host_args, **host_kwargs)
    written = _written(op, args, kwargs, host_args, host_kwargs)

    def up(a: Any) -> Any:
        if id(a) in written:
            return written[id(a)]
        return wrap(from_host(a), a.dtype) if isinstance(a, torch.Tensor) else a

    return pytree.tree_map(up, out)


def _written(op: Any, args: Any, kwargs: Any, host_args: Any, host_kwargs: Any) -> dict[int, torch.Tensor]:
    """Write on the device the tensors that the operator wrote on the host; returns the former by the identity of the latter."""
    found = {}
    for at, argument in enumerate(op._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if argument.name in kwargs:
            ours, theirs = kwargs[argument.name], host_kwargs[argument.name]
        elif at < len(args):
            ours, theirs = args[at], host_args[at]
        else:
            continue
        for x, y in zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs), strict=True):
            if is_ours(x):
                if x.shape != y.shape:
                    x.resize_(y.shape)
                write(x, from_host(y))
                found[id(y)] = x
    return found
