"""Parameters that are functions of others, as torch.nn.utils.parametrize: module.weight is computed whenever it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd import no_grad
from ...errors import ArgumentError
from ...tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations"]


class ParametrizationList(ModuleList):
    """The functions of one parameter, in order, and the parameter that they are of: `original`, or `original0`, `original1`, ...

    >>> class Double(nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> layer = nn.Linear(2, 1)
    >>> _ = sg.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    >>> type(layer.parametrizations.weight).__name__
    'ParametrizationList'
    """

    def __init__(self, modules: list[Module], original: Tensor, is_parameter: bool = True) -> None:
        super().__init__(modules)
        given: Any = original
        with no_grad():
            for module in reversed(modules):
                inverse = getattr(module, "right_inverse", None)
                if inverse is not None:
                    given = inverse(given)
        self.several = isinstance(given, list | tuple)
        names = [f"original{k}" for k in range(len(given))] if self.several else ["original"]
        for name, value in zip(names, given if self.several else [given], strict=True):
            if is_parameter:
                whole = original if value is original else Parameter(value.detach(), original.requires_grad)
                self.register_parameter(name, whole)  # type: ignore[arg-type]
            else:
                self.register_buffer(name, value)
        self._names = tuple(names)

    def forward(self) -> Tensor:
        """The value of the parametrized tensor."""
        x: Any = tuple(getattr(self, name) for name in self._names)
        for k, module in enumerate(self):
            x = module(*x) if k == 0 else module(x)
        return x

    def take(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor is `value`, by the functions' right_inverse."""
        given: Any = value
        with no_grad():
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is None:
                    raise ArgumentError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                given = inverse(given)
            for name, part in zip(self._names, given if self.several else [given], strict=True):
                getattr(self, name).copy_(part)


def _property(name: str) -> property:
    return property(
        lambda self: self.parametrizations[name](), lambda self, value: self.parametrizations[name].take(value)
    )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module the value of a function of what it was; gives the module.

    parametrization: a module whose forward takes the tensor; its right_inverse, where it has one, says of what original the
    present value comes. Further ones are applied to what the earlier give. Raises ArgumentError for a name that is no tensor,
    and for another shape or dtype, unless unsafe.

    >>> class Double(nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> before = layer.weight.detach().clone()
    >>> _ = sg.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    >>> layer.weight.detach().equal(before * 2)
    True
    """
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    parameter, buffer = module._parameters.get(tensor_name), module._buffers.get(tensor_name)
    tensor = parameter if parameter is not None else buffer
    if tensor is None:
        raise ArgumentError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    made = ParametrizationList([parametrization], tensor, parameter is not None)
    if not unsafe:
        with no_grad():
            found = made()
        if found.shape != tensor.shape or found.dtype is not tensor.dtype:
            raise ArgumentError(
                f"Registering a parametrization may not change the shape or dtype of the tensor: {tensor.dtype.name} "
                f"{tuple(tensor.shape)} became {found.dtype.name} {tuple(found.shape)}. Hint: unsafe=True."
            )
    delattr(module, tensor_name)
    if "parametrizations" not in module._modules:
        module.parametrizations = ModuleDict()
        cls = type(module)
        module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {"_plain_class": cls})
    module.parametrizations[tensor_name] = made
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or one of its tensors, is parametrized.

    >>> sg.nn.utils.parametrize.is_parametrized(nn.Linear(1, 1))
    False
    """
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return bool(len(found)) if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make it a plain parameter again, with its present value, or with its original one; gives the module.

    Raises ArgumentError where it is not parametrized, and for the original of several.

    >>> layer = sg.nn.utils.parametrizations.weight_norm(nn.Linear(2, 1))
    >>> sg.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    Linear(in_features=2, out_features=1, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    parts: Any = module.parametrizations[tensor_name]
    if not leave_parametrized and parts.several:
        raise ArgumentError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors."
        )
    first = getattr(parts, parts._names[0])
    with no_grad():
        value = parts() if leave_parametrized else first
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(first, Parameter):
        module.register_parameter(tensor_name, Parameter(value.detach().clone(), first.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    if not len(module.parametrizations):  # type: ignore[arg-type]
        del module.parametrizations
        module.__class__ = module._plain_class  # type: ignore[assignment]
    return module


@contextmanager
def cached() -> Iterator[None]:
    """Nothing to keep: equal values are computed once in a plan.

    >>> with sg.nn.utils.parametrize.cached():
    ...     y = nn.Linear(2, 1)(sg.ones(2))
    """
    yield
