"""Modules that hold parameters: ParameterList, ParameterDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..tensor import Tensor
from .containers import position
from .errors import ModuleError, ModuleTypeError
from .module import Module
from .parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(key: Any, value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = "" if value.device == "cpu" else f" ({value.device})"
    return f"  ({key}): {kind} containing: [{value.dtype!r} of size {'x'.join(map(str, value.shape))}{where}]"


class ParameterList(Module):
    """A list of registered parameters; tensors become parameters, other values stay as they are.

    append, extend, indexing and slicing as for a list. Raises IndexRangeError for a position out of range, ModuleError
    if it is called.

    >>> weights = nn.ParameterList([sg.ones(2), sg.zeros(3)])
    >>> weights
    ParameterList(
        (0): Parameter containing: [shadergrad.float32 of size 2]
        (1): Parameter containing: [shadergrad.float32 of size 3]
    )
    >>> [name for name, _ in weights.named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(getattr(self, str(k)) for k in range(self._size)[index])
        return getattr(self, str(position(index, self._size)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(position(index, self._size)), _as_parameter(value))

    def __len__(self) -> int:
        self._guard()
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self))])

    def append(self, value: Any) -> ParameterList:
        """Put a parameter, a tensor or any value at the end; returns the list."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Put values at the end; returns the list.

        Raises ModuleTypeError for anything but an iterable, and for one tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise ModuleTypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(_described(k, value) for k, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ModuleError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of registered parameters in insertion order; tensors become parameters, other values stay as they are.

    From a dict, another ParameterDict, or pairs. Raises KeyError for a name that does not exist, ModuleError if it is
    called.

    >>> weights = nn.ParameterDict({"scale": sg.ones(2)})
    >>> weights["shift"] = sg.zeros(2)
    >>> list(weights)
    ['scale', 'shift']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: tuple[str, ...] = ()
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys:
            self._keys = (*self._keys, key)
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        self._keys = tuple(k for k in self._keys if k != key)
        delattr(self, key)

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> tuple[str, ...]:
        """The names, in order."""
        self._guard()
        return self._keys

    def values(self) -> list[Any]:
        """The parameters and other values, in order."""
        return [self[key] for key in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """(name, value), in order."""
        return [(key, self[key]) for key in self.keys()]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, else default."""
        return getattr(self, key) if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name; where there is none, it is set to default first."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of a name. Raises KeyError if there is none."""
        found = self[key]
        del self[key]
        return found

    def clear(self) -> None:
        """Remove all values."""
        for key in self._keys:
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add the values of a dict, another ParameterDict, or (name, value) pairs, also for names that are there."""
        pairs: Any = parameters.items() if isinstance(parameters, Mapping | ParameterDict) else parameters
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_described(key, value) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ModuleError("ParameterDict should not be called.")
