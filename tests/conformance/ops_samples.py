"""Samples of PyTorch's table as calls of ours: tensors, dtypes and devices are translated, the rest is passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import torch

import shadergrad as sg
from ops_names import MissingError, lookup

# what says how a tensor lies in memory, which has no meaning here
STRIDES = ("memory_format", "layout", "pin_memory", "non_blocking")


class UnsupportedError(Exception):
    """A sample that needs what is left out: complex numbers, dtypes of few bits, generators of PyTorch's."""


def each_tensor(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested arguments."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from each_tensor(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from each_tensor(v)


class Call:
    """One sample: arguments for PyTorch, and the same for us on a device, with the leaves that require gradients."""

    def __init__(self, sample: Any) -> None:
        self.args: tuple[Any, ...] = (sample.input, *sample.args)
        self.options = {k: v for k, v in sample.kwargs.items() if k not in STRIDES}
        self.process = sample.output_process_fn_grad
        self.broadcasts = bool(getattr(sample, "broadcasts_input", False))
        if any(isinstance(v, torch.Generator) for v in self.options.values()):
            raise UnsupportedError("generators")

    def torchs(self) -> tuple[tuple[Any, ...], dict[str, Any], list[torch.Tensor]]:
        """Fresh arguments for PyTorch, and the leaves that require gradients, in order."""
        leaves: list[torch.Tensor] = []

        def fresh(t: torch.Tensor) -> torch.Tensor:
            copy = t.detach().clone()
            if t.requires_grad:
                leaves.append(copy.requires_grad_())
            return copy

        return _mapped(self.args, fresh), _mapped(self.options, fresh), leaves

    def ours(self, device: str) -> tuple[tuple[Any, ...], dict[str, Any], list[sg.Tensor]]:
        """The same for us."""
        leaves: list[sg.Tensor] = []

        def here(t: torch.Tensor) -> sg.Tensor:
            made = to_ours(t, device)
            if t.requires_grad:
                leaves.append(made.requires_grad_())
            return made

        args = _mapped(self.args, here, device)
        return args, _mapped(self.options, here, device), leaves


def to_ours(t: torch.Tensor, device: str) -> sg.Tensor:
    array = t.detach().resolve_conj().resolve_neg().numpy()
    try:
        return sg.tensor(np.ascontiguousarray(array).reshape(array.shape), device=device)
    except sg.DTypeError as error:
        raise UnsupportedError(str(error)) from None


def dtype_of(dtype: torch.dtype) -> Any:
    name = str(dtype).removeprefix("torch.")
    try:
        return lookup(name)
    except MissingError:
        raise UnsupportedError(name) from None


def _mapped(value: Any, tensor: Callable[[torch.Tensor], Any], device: str | None = None) -> Any:
    """Nested arguments with `tensor` of each tensor; for a device of ours also dtypes and devices."""
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, dict):
        return {k: _mapped(v, tensor, device) for k, v in value.items()}
    if isinstance(value, list):
        return [_mapped(v, tensor, device) for v in value]
    if isinstance(value, torch.Size) and device is None:
        return value
    if isinstance(value, tuple):
        return tuple(_mapped(v, tensor, device) for v in value)
    if device is None:
        return value
    return _translated(value, device)


def _translated(value: Any, device: str) -> Any:
    if isinstance(value, torch.dtype):
        return dtype_of(value)
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return device
    if isinstance(value, torch.memory_format | torch.layout):
        raise UnsupportedError("strides")
    if isinstance(value, torch.nn.LinearCrossEntropyOptions):
        return sg.nn.LinearCrossEntropyOptions(
            **_mapped(
                {f.name: getattr(value, f.name) for f in fields(torch.nn.LinearCrossEntropyOptions)}, sg.tensor, device
            )
        )
    if isinstance(value, torch.nn.Module):
        return getattr(sg.nn, type(value).__name__)()
    if isinstance(value, complex):
        raise UnsupportedError("complex numbers")
    if callable(value) and getattr(value, "__module__", "").startswith("torch"):
        return lookup(f"nn.functional.{value.__name__}" if "functional" in value.__module__ else value.__name__)
    return value
