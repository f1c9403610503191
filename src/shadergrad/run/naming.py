"""Roles and names for the inputs and outputs of a captured function's plan.

In: the trace of the capture. Out: a Label for each input and output. Arguments have the names of the function's parameters, parameters
and buffers those of their module (`0.weight`), optimizer state those of its parameter (`exp_avg.0.weight`), other tensors those of
the variables that hold them, results their path in the returned value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..drive.tracing import Trace
from ..graph.node import resolve
from ..plan import Label, Role
from ..tensor import Tensor
from .places import shown
from .trees import leaves_of, tensors_in


def name_arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[int, str]:
    """The names of the tensors in the function's arguments, by id: `x`, `batch[0]`, `options['a']`."""
    bound = _bound(function, args, kwargs)
    return {id(t): path for name, value in bound.items() for path, t in tensors_in(value, name)}


def _bound(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        return dict(inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # built-ins have no signature, and hooks may change forward's arguments
        return {"args": args, "kwargs": kwargs}


def describe_arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, str]:
    """Descriptions of the arguments for messages, by name: the shape of a tensor, the value of anything else."""
    found = {}
    for name, value in _bound(function, args, kwargs).items():
        for path, leaf in leaves_of(value, name):
            found[path] = str(tuple(leaf._node.shape)) if isinstance(leaf, Tensor) else shown(leaf)
    return found


def variables_of(function: Callable[..., Any]) -> dict[int, str]:
    """The objects to which the names in a function's code refer, and the attributes of the object whose method it is, by id."""
    found = {id(value): name for name, value in getattr(getattr(function, "__self__", None), "__dict__", {}).items()}
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(function):
        return found
    try:
        free = inspect.getclosurevars(function)
    except ValueError:  # a closure variable without a value
        return found
    return found | {id(value): name for name, value in {**free.globals, **free.nonlocals}.items()}


class Names:
    """Labels for tensors that a function captured, identified by the storage of their value before the step."""

    def __init__(self, watch: Trace, function: Callable[..., Any]) -> None:
        self.function = function
        self.variables = variables_of(function)
        self._by_storage: dict[int, Label] = {}
        parameters: dict[int, str] = {}
        for prefix, module in self._prefixed(_outermost(watch.modules.values())):
            for name, p in module.named_parameters(prefix):
                parameters[id(p)] = name
                self._know(p, "parameter", name)
            for name, buffer in module.named_buffers(prefix):
                self._know(buffer, "constant", name)
        for prefix, optimizer in self._prefixed(list(watch.optimizers.values())):
            for name, p in optimizer.named_parameters():
                parameters.setdefault(id(p), self.variables.get(id(p)) or name)
                self._know(p, "parameter", parameters[id(p)])
            for name, t in optimizer.named_state(parameters):
                self._know(t, "state", f"{prefix}.{name}" if prefix else name)
        for generator in watch.generators.values():
            self._know(generator.counter, "counter", "counter")
            self._know(generator.key, "constant", "key")

    def of(self, tensor: Tensor, changes: bool = False) -> Label:
        """The label of a captured tensor, with an empty name if no variable refers to it. A constant that changes is state."""
        label = self._by_storage.get(id(resolve(tensor._node).storage))
        if label is None:
            label = Label("parameter" if tensor.requires_grad else "constant", self.variables.get(id(tensor), ""))
        return Label("state", label.name) if changes and label.role == "constant" else label

    def of_gradient(self, tensor: Tensor) -> Label:
        """The label of the gradient in a tensor's .grad."""
        name = self.of(tensor).name
        return Label("state", f"grad.{name}" if name else "grad")

    def _know(self, tensor: Tensor, role: Role, name: str) -> None:
        storage = resolve(tensor._node).storage
        if storage is not None:
            self._by_storage.setdefault(id(storage), Label(role, name))

    def _prefixed(self, owners: list[Any]) -> Iterator[tuple[str, Any]]:
        """Modules or optimizers with a prefix for their names: empty if there is one, else its variable or type."""
        for owner in owners:
            yield "" if len(owners) == 1 else self.variables.get(id(owner), type(owner).__name__), owner


def _outermost(modules: Iterable[Any]) -> list[Any]:
    """The modules with tensors that are not submodules of another."""
    found = [m for m in modules if next(m.parameters(), None) is not None or next(m.buffers(), None) is not None]
    inner = {id(below) for m in found for below in m.modules() if below is not m}
    return [m for m in found if id(m) not in inner]


def distinct(labels: Iterable[Label]) -> list[Label]:
    """The labels, with numbers where names are missing or not unique: `constant0`, `step (2)`."""
    seen: set[Label] = set()
    missing: dict[Role, int] = {}
    result = []
    for label in labels:
        role, name = label.role, label.name
        if not name:
            name = f"{role}{missing.get(role, 0)}"
            missing[role] = missing.get(role, 0) + 1
        number, unique = 1, Label(role, name)
        while unique in seen:
            number += 1
            unique = Label(role, f"{name} ({number})")
        seen.add(unique)
        result.append(unique)
    return result
