"""Creates modules without initializing their parameters: torch.nn.utils.skip_init."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from ...tensor.generator import default_stream
from ..errors import ModuleError
from ..module import Module

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """module_cls(*args, **kwargs) with uninitialized parameters. No random numbers are drawn.

    Raises ModuleError for a class that is no Module, or takes no `device`.

    >>> layer = sg.nn.utils.skip_init(nn.Linear, 2, 1)
    >>> layer.weight.shape
    shadergrad.Size([1, 2])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise ModuleError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise ModuleError("Module must support a 'device' arg to skip initialization")
    seed, drawn, _ = default_stream.at
    try:
        return module_cls(
            *args, **kwargs
        )  # initial values are drawn when something reads them, so there is nothing to save
    finally:
        default_stream.set(seed, drawn)
