"""Gradients of PyTorch's backward operators by our own rules: the forward function again, over the same graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shadergrad as sg

from ...tensor import Tensor


def gradients(function: Callable[..., Tensor], inputs: list[Any], g: Tensor) -> Any:
    """Gradients of one of our functions by its inputs. None among the inputs is passed over."""
    with sg.enable_grad():
        leaves = [None if x is None else x.detach().requires_grad_() for x in inputs]
        return sg.autograd.grad(function(*leaves), [x for x in leaves if x is not None], g)
