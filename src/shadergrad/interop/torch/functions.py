"""Functions of nn.functional that PyTorch computes as one operation. In and out: tensors of the device "torch".

Each has the arguments and the meaning of its namesake in nn.functional.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as theirs

from ...nn.functional.device_overrides import override
from ...tensor import Tensor
from .device import NAME, to_ours, to_theirs


def _translated(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function of PyTorch as a function of our tensors."""

    def call(*args: Any, **kwargs: Any) -> Tensor:
        return to_ours(function(*map(_of, args), **{name: _of(value) for name, value in kwargs.items()}))

    return call


def _of(value: Any) -> Any:
    return to_theirs(value) if isinstance(value, Tensor) else value


def _embedding(input: Any, weight: Any, *options: Any, **named: Any) -> Any:
    return theirs.embedding(input.long(), weight, *options, **named)


def _gelu(input: Any, approximate: str = "none") -> Any:
    return theirs.gelu(input, approximate=approximate)


def _cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    return theirs.cross_entropy(input, target if target.is_floating_point() else target.long(), *args, **kwargs)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """inplace: writes into our input tensor, because torch.Tensors are never overwritten here."""
    result = to_ours(theirs.dropout(to_theirs(input), p, training))
    return input._update_in_place(result, "dropout_") if inplace else result


override(
    NAME,
    {
        "linear": _translated(theirs.linear),
        "embedding": _translated(_embedding),
        "layer_norm": _translated(theirs.layer_norm),
        "gelu": _translated(_gelu),
        "scaled_dot_product_attention": _translated(theirs.scaled_dot_product_attention),
        "cross_entropy": _translated(_cross_entropy),
        "dropout": _dropout,
    },
)
