"""A module of ours as a torch.nn.Module. In: torch.Tensors. Out: torch.Tensors with PyTorch's history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ...graph.node import grad_mode
from ...nn.device_twins import DeviceTwins, Twin
from ...nn.module import Module
from ...nn.parameter import Parameter
from ...run.trees import exchange
from ...tensor import Tensor
from ..errors import InteropError
from . import functions as functions
from .device import NAME, to_ours, to_theirs
from .parameter_names import torch_names
from .threads import check_threads, limited


class _TorchTwins(DeviceTwins):
    """Twins that are the parameters and buffers of a torch.nn.Module."""

    def __init__(self, module: Module) -> None:
        self.theirs: dict[str, torch.Tensor] = {}  # by our name
        super().__init__(module, NAME)

    def make(self, name: str, own: Tensor) -> Tensor:
        value = torch.zeros(tuple(own.shape), dtype=getattr(torch, own.dtype.name))
        if isinstance(own, Parameter):
            value = torch.nn.Parameter(value, own.requires_grad and own.is_floating_point())
        self.theirs[name] = value
        return _twin(value)

    def copy(self, twin: Twin, array: np.ndarray) -> None:
        theirs = self.theirs[twin.name]
        value = torch.from_numpy(array)
        if value.dtype is theirs.dtype:  # overwritten in place, which changes the twin too
            theirs.data.copy_(value)
        else:
            theirs.data = value
            twin.other = _twin(theirs)

    def require(self, twin: Twin) -> None:
        self.theirs[twin.name].requires_grad_(twin.own.requires_grad)
        super().require(twin)

    def settle(self, twin: Twin, now: Tensor) -> None:
        value = to_theirs(now).detach()
        theirs = self.theirs[twin.name]
        if value.data_ptr() != theirs.data_ptr():
            theirs.data.copy_(value)
            twin.other = _twin(theirs)


def _twin(value: torch.Tensor) -> Tensor:
    """Our tensor for a parameter or a buffer of PyTorch's: a leaf in both libraries."""
    with grad_mode(False):
        leaf = to_ours(value)
    if not isinstance(value, torch.nn.Parameter):
        return leaf
    leaf._node.storage.handle = value
    parameter = Parameter(leaf, requires_grad=False)
    if value.requires_grad:
        parameter.requires_grad_()
    return parameter


class Mirror(torch.nn.Module):
    """The result of `sg.interop.torch.mirror`: a torch.nn.Module with the same computation as one of our modules.

    Its parameters and buffers have PyTorch's names (`names`: ours to theirs), and the module's values at the time of a call. It
    runs the module's own forward, so every module can be mirrored.
    """

    def __init__(self, module: Module, threads: int | None = None) -> None:
        super().__init__()
        self._device_twins = _TorchTwins(module)
        self._threads = check_threads(threads)
        self.names = torch_names(dict.fromkeys(name for name, _ in _named(module)))
        parts: dict[str, torch.nn.Module] = {"": self}
        kinds = {path: part._get_name() for path, part in module.named_modules()}
        by_id = {id(twin.own): self._device_twins.theirs[twin.name] for twin in self._device_twins.twins}
        persistent = module.state_dict().keys()
        for name, own in _named(module):
            prefix, _, last = self.names[name].rpartition(".")
            part, value = _part(parts, prefix, kinds.get(name.rpartition(".")[0], "")), by_id[id(own)]
            if isinstance(value, torch.nn.Parameter):
                part.register_parameter(last, value)
            else:
                part.register_buffer(last, value, persistent=name in persistent)
        self.training = module.training
        self.sync()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward on torch.Tensors, arrays or our tensors. Returns torch.Tensors in place of tensors.

        It uses the module's training flags. Dropout draws from PyTorch's generator, seeded by ours.
        """
        return self.run(self._device_twins.module, *args, **kwargs)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function that calls the module, for example to compute a loss, in the same way as forward."""
        self.sync()
        return self.run_unsynced(function, *args, **kwargs)

    def run_unsynced(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """As run, with the values of the latest sync, even if the module's values have changed since."""
        device_twins = self._device_twins
        seed = device_twins.next_seed()
        with device_twins.in_place(), limited(self._threads), _seeded(seed), grad_mode(torch.is_grad_enabled()):
            given = _exchanged((args, kwargs))
            result = function(*given[0], **given[1])
            return exchange(result, Tensor, to_theirs)

    def sync(self) -> int:
        """Copy the parameters and buffers of the module that have changed since the last sync. Returns their number.

        Each call of the mirror syncs first.
        """
        return self._device_twins.sync()

    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients as arrays, by our names. Afterwards the mirror's gradients are None."""
        found = {}
        for twin in self._device_twins.twins:
            theirs = self._device_twins.theirs[twin.name]
            if theirs.grad is not None:
                found[twin.name] = theirs.grad.numpy()
                theirs.grad = None
        return found

    def backward(self, loss: torch.Tensor) -> None:
        """loss.backward() with the mirror's number of threads."""
        with limited(self._threads):
            loss.backward()

    def write_gradients(self) -> None:
        """Add the mirror's gradients to .grad of the module's parameters, and clear them in the mirror."""
        gradients = self.gradients()
        for twin in self._device_twins.twins:
            if twin.name in gradients:
                own = twin.own
                new = Tensor(gradients[twin.name], dtype=own.dtype, device=own.device)
                own.grad = new if own.grad is None else own.grad + new

    def write_back_buffers(self) -> None:
        """Count calls of the mirror as calls of the module: copy the mirror's buffers to the module, and advance its generator by one
        draw."""
        self._device_twins.write_back_buffers()

    def write_back(self) -> None:
        """Copy the mirror's values, after training or loading, to the module."""
        for twin in self._device_twins.twins:
            twin.own.write_(self._device_twins.theirs[twin.name].detach().numpy())

    def train(self, mode: bool = True) -> Mirror:
        """Set the training flags, also of the module, whose forward reads them."""
        super().train(mode)
        self._device_twins.module.train(mode)
        return self


def _named(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Each parameter and buffer, under each of its names."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


class _Part(torch.nn.Module):
    """A submodule of the mirror, which only holds tensors. kind: the class name of our module."""

    kind = ""

    def _get_name(self) -> str:
        return self.kind or "Module"


def _part(parts: dict[str, torch.nn.Module], prefix: str, kind: str = "") -> torch.nn.Module:
    if prefix not in parts:
        before, _, last = prefix.rpartition(".")
        parts[prefix] = _Part()
        above = _part(parts, before)
        if hasattr(above, last):
            raise InteropError(f"[mirror] the module has a part {prefix!r}, a name that the mirror has for itself.")
        above.add_module(last, parts[prefix])
    part = parts[prefix]
    if isinstance(part, _Part) and kind:
        part.kind = kind
    return part


def _exchanged(given: Any) -> Any:
    """Arguments with all tensors and arrays on the device "torch"."""
    given = exchange(given, Tensor, _values)
    given = exchange(given, np.ndarray, torch.from_numpy)
    return exchange(given, torch.Tensor, to_ours)


def _values(tensor: Tensor) -> torch.Tensor:
    if tensor.requires_grad:
        raise InteropError(
            "[mirror] an input of shadergrad's requires grad, and PyTorch's gradients do not reach it. "
            "Hint: give a torch.Tensor that does, or detach() it."
        )
    return torch.from_numpy(tensor.numpy())


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """A context in which PyTorch's generator starts from a seed; afterwards it has its previous state."""
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


__all__ = ["Mirror"]
