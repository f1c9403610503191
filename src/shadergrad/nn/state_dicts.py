"""State dicts: the values of a module's parameters and buffers by dotted name, out and in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..tensor import Size, Tensor
from .errors import ModuleTypeError, StateDictError
from .module_tree import ModuleTree
from .parameter import Parameter


class IncompatibleKeys(NamedTuple):
    """What load_state_dict did not find, and what it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def named_state(module: ModuleTree[Any], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Parameters and persistent buffers; shared ones under each of their names, as in PyTorch."""
    module._guard()
    for name, p in module._parameters.items():
        if p is not None:
            yield prefix + name, p
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield prefix + name, buffer
    for name, child in module._modules.items():
        if child is not None:
            yield from named_state(child, f"{prefix}{name}.")


def state_dict(module: ModuleTree[Any], prefix: str, keep_vars: bool) -> OrderedDict[str, Tensor]:
    return OrderedDict((name, t if keep_vars else t.detach()) for name, t in named_state(module, prefix))


def load_state_dict(module: ModuleTree[Any], values: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """Copy values in, all or none; see Module.load_state_dict."""
    if not isinstance(values, Mapping):
        raise ModuleTypeError(f"Expected state_dict to be dict-like, got {type(values)}.")
    own = dict(named_state(module))
    missing = [name for name in own if name not in values]
    unexpected = [name for name in values if name not in own]
    problems = []
    if strict and missing:
        problems.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
    if strict and unexpected:
        problems.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
    for name, tensor in own.items():
        if hasattr(tensor, "materialize") and hasattr(values.get(name), "shape"):  # of a lazy module
            tensor.materialize(values[name].shape)  # type: ignore[attr-defined]
    found = {n: _fitting(n, tensor, values[n], assign, problems) for n, tensor in own.items() if n in values}
    if problems:
        raise StateDictError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(problems))
    for name, value in found.items():
        if assign:
            _assign(module, name, own[name], value)
        else:
            own[name].write_(value)
    result = IncompatibleKeys(missing, unexpected)
    for part in module.modules():
        for hook in list(part._hooks.after_load.values()):
            hook(part, result)
    return result


def _fitting(name: str, tensor: Tensor, value: Any, assign: bool, problems: list[str]) -> Any:
    """A value as the array, or tensor, of which `tensor` takes the values; what is wrong with it joins `problems`."""
    if not hasattr(value, "shape"):
        problems.append(
            f'While copying the parameter named "{name}", expected shadergrad.Tensor or Tensor-like object from '
            f"checkpoint but received {type(value)}"
        )
        return value
    array = value if isinstance(value, Tensor) and assign else _host(value)
    if tensor.ndim == 0 and tuple(array.shape) == (1,):
        array = array.reshape(())
    if tuple(array.shape) != tuple(tensor.shape):
        problems.append(
            f"size mismatch for {name}: copying a param with shape {Size(array.shape)} from checkpoint, "
            f"the shape in current model is {tensor.shape}."
        )
    return array


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _host(value: Any) -> np.ndarray:
    """A tensor of ours, of PyTorch or an array as an array."""
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def _assign(module: ModuleTree[Any], name: str, old: Tensor, value: Any) -> None:
    """Put the value itself in the place of a parameter or buffer."""
    path, _, last = name.rpartition(".")
    new = value if isinstance(value, Tensor) else Tensor(value)
    if isinstance(old, Parameter) and not isinstance(new, Parameter):
        new = Parameter(new, requires_grad=old.requires_grad)
    setattr(module.get_submodule(path), last, new)
