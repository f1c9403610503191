"""Parametrizations, as torch.nn.utils.parametrize: module.weight is computed from other parameters whenever it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd import no_grad
from ...drive.tracing import current
from ...errors import ArgumentError
from ...graph.node import mode
from ...tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..errors import ModuleError
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]


class ParametrizationList(ModuleList):
    """The parametrizations of one parameter, in order, and the tensors to which they apply: `original`, or `original0`, `original1`, ...

    is_tensor: whether there is only `original`; ntensors: the number of tensors. unsafe: whether shape and dtype may change.

    >>> class Double(nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> layer = nn.Linear(2, 1)
    >>> _ = sg.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    >>> type(layer.parametrizations.weight).__name__
    'ParametrizationList'
    """

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ArgumentError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        given: Any = original
        with no_grad():
            for module in reversed(modules):
                given = _inverse(module, given)
        self.is_tensor: bool = isinstance(given, Tensor)
        if not (self.is_tensor or isinstance(given, list | tuple)):
            raise ArgumentError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(given).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(given)
        shape, dtype = original.shape, original.dtype
        if self.is_tensor:
            only: Any = given
            _check_dtype("When `right_inverse` outputs one tensor, it may not change the dtype", dtype, only.dtype)
            _put(original, only)  # the same parameter: an optimizer has it
            self._register("original", original)
        else:
            for k, part in enumerate(given):
                if not isinstance(part, Tensor):
                    raise ArgumentError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{k} of the sequence with type {type(part).__name__}."
                    )
                whole = part
                if isinstance(original, Parameter):
                    whole = Parameter(part.detach(), original.requires_grad)
                self._register(f"original{k}", whole)
        if not unsafe:
            with no_grad():
                _check_same(self(), shape, dtype)

    def _register(self, name: str, tensor: Tensor) -> None:
        if isinstance(tensor, Parameter):
            self.register_parameter(name, tensor)
        else:
            self.register_buffer(name, tensor)

    def originals(self) -> list[Tensor]:
        """The tensors to which the parametrizations apply."""
        return [getattr(self, name) for name in self._names()]

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{k}" for k in range(self.ntensors)]

    def forward(self) -> Tensor:
        """The value of the parametrized tensor."""
        x: Any = self.originals()
        for k, module in enumerate(self):
            x = module(*x) if k == 0 else module(x)
        return x

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor is `value`, by the parametrizations' right_inverse.

        Raises ModuleError if one has none, ArgumentError if its tensors do not fit the originals.
        """
        given: Any = value
        with no_grad():
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is None:
                    raise ModuleError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                given = inverse(given)
            if self.is_tensor and not isinstance(given, Tensor):
                raise ArgumentError(f"`right_inverse` should return a tensor. Got {type(given).__name__}")
            parts = [given] if self.is_tensor else given
            if not isinstance(parts, Sequence) or len(parts) != self.ntensors:
                raise ArgumentError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}.")
            for name, own, part in zip(self._names(), self.originals(), parts, strict=True):
                _check_dtype(f"The tensor returned by `right_inverse` is for `{name}`", own.dtype, part.dtype)
                _put(own, part)


def _inverse(module: Module, value: Any) -> Any:
    """The result of a parametrization's right_inverse for `value`; the value itself if it has none."""
    inverse = getattr(module, "right_inverse", None)
    if inverse is None:
        return value
    try:
        return inverse(value)
    except NotImplementedError:
        return value


def _put(tensor: Tensor, value: Tensor) -> None:
    """Assign a value of any shape to a tensor, which stays the same object."""
    if value is tensor:
        return
    with no_grad():
        if value.shape == tensor.shape:
            tensor.copy_(value)
        else:
            tensor.data = value.detach()


def _check_dtype(what: str, wanted: Any, found: Any) -> None:
    if found is not wanted:
        raise ArgumentError(f"{what}: {wanted!r} became {found!r}.")


def _check_same(found: Any, shape: Any, dtype: Any) -> None:
    """Raise ArgumentError if the result of a parametrization is no tensor, or has another shape or dtype."""
    if not isinstance(found, Tensor):
        raise ArgumentError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
    for what, before, after in (("dtype", dtype, found.dtype), ("shape", shape, found.shape)):
        if before != after:
            raise ArgumentError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is enabled: "
                f"{before!r} became {after!r}."
            )


class _Cache:
    """The values of parametrized tensors within `cached`, by module, name and whether gradients are recorded. A step that is captured
    within `cached` does not use them, because they would become its constants."""

    def __init__(self) -> None:
        self.trace = current.trace
        self.values: dict[tuple[int, str, bool], Any] = {}


_caches: list[_Cache] = []  # those of the contexts that were entered
_instead: dict[tuple[int, str], Tensor] = {}  # by id of the module, and name: the replacements of func.functional_call


def _property(name: str) -> property:
    def value_of(module: Any) -> Tensor:
        if _instead and (id(module), name) in _instead:
            return _instead[id(module), name]
        made_of = module.parametrizations[name]
        if not _caches or _caches[-1].trace is not current.trace:
            return made_of()
        values, key = _caches[-1].values, (id(made_of), name, mode.grad)
        if key not in values:
            values[key] = (made_of(), made_of)  # keeps the list alive, so that its id stays unique
        return values[key][0]

    return property(value_of, lambda module, value: module.parametrizations[name].right_inverse(value))


@contextmanager
def replaced(module: Module, name: str, value: Tensor) -> Iterator[None]:
    """A context in which the parametrized tensor of that name is `value`, and its functions are not called."""
    before = _instead.get((id(module), name))
    _instead[id(module), name] = value
    try:
        yield
    finally:
        del _instead[id(module), name]
        if before is not None:
            _instead[id(module), name] = before


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Replace a parameter or buffer of a module by a function of it; returns the module.

    parametrization: a module whose forward takes the original tensor. Its right_inverse, if any, computes the original of the
    present value. Further parametrizations are applied to the result of earlier ones. It gets the module's training mode.
    Raises ArgumentError for a name that is no tensor, and for another shape or dtype, unless unsafe.

    >>> class Double(nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> before = layer.weight.detach().clone()
    >>> _ = sg.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    >>> layer.weight.detach().equal(before * 2)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parts: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        parts.append(parametrization)
        parts.unsafe = parts.unsafe or unsafe
        return module
    parameter, buffer = module._parameters.get(tensor_name), module._buffers.get(tensor_name)
    tensor = parameter if parameter is not None else buffer
    if tensor is None:
        raise ArgumentError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    made = ParametrizationList([parametrization], tensor, unsafe).train(module.training)
    delattr(module, tensor_name)
    if "parametrizations" not in module._modules:
        module.parametrizations = ModuleDict().train(module.training)
        cls = type(module)
        module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {"_plain_class": cls})
    module.parametrizations[tensor_name] = made
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def _check_further(module: Module, name: str, parametrization: Module) -> None:
    """Raise ArgumentError if a further parametrization changes shape or dtype."""
    with no_grad():
        before = getattr(module, name)
        after = parametrization(before)
        _check_same(after, before.shape, before.dtype)
        back = _inverse(parametrization, after)
        if back is not after:
            _check_same(back, before.shape, before.dtype)


def type_before_parametrizations(module: Module) -> type:
    """The class of a module, without parametrizations.

    >>> layer = sg.nn.utils.parametrizations.weight_norm(nn.Linear(2, 1))
    >>> sg.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return getattr(type(module), "_plain_class", type(module)) if is_parametrized(module) else type(module)


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
    """Make it a plain parameter again, with its present value, or with its original one; returns the module.

    Raises ArgumentError if it is not parametrized, and if it has several originals and the original value is requested.

    >>> layer = sg.nn.utils.parametrizations.weight_norm(nn.Linear(2, 1))
    >>> sg.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    Linear(in_features=2, out_features=1, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    parts: Any = module.parametrizations[tensor_name]
    if not leave_parametrized and not parts.is_tensor:
        raise ArgumentError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors."
        )
    first = parts.originals()[0]
    with no_grad():
        if not leave_parametrized:
            kept: Any = first
        elif parts.is_tensor:  # the same parameter: an optimizer has it
            kept = first
            _put(first, parts().detach().clone())
        else:
            kept = parts().detach().clone()
            kept = Parameter(kept, first.requires_grad) if isinstance(first, Parameter) else kept
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(kept, Parameter):
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    if not len(module.parametrizations):  # type: ignore[arg-type]
        del module.parametrizations
        module.__class__ = module._plain_class  # type: ignore[assignment]
    return module


@contextmanager
def cached() -> Iterator[None]:
    """A context in which each parametrized tensor is computed once, when it is first read. Its original should not change within the context.

    >>> layer = sg.nn.utils.parametrizations.weight_norm(nn.Linear(2, 1))
    >>> with sg.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    is_outermost = not _caches or _caches[-1].trace is not current.trace
    _caches.append(_Cache() if is_outermost else _caches[-1])
    try:
        yield
    finally:
        _caches.pop()
