"""The record that every primitive operation is.

All that one operation knows stands in its class: the shape rule (`infer`), the NumPy value (`numpy`), and its gradient
(`vjp`, in terms of nodes); elementwise operations also say how they read in a shader, calls give a whole one, and how
the few others are pulled stands in compile/render.py. Primitives are interned: equal parameters give the same object, so
graphs compare and hash by identity.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..dtypes import DType, parse_dtype

if TYPE_CHECKING:
    from .node import Node

Shape = tuple[int, ...]

REGISTRY: dict[str, type[Primitive]] = {}


class _Interned(type):
    """Calling a primitive class twice with equal parameters gives one object."""

    _instances: ClassVar[weakref.WeakValueDictionary[Any, Any]] = weakref.WeakValueDictionary()

    def __call__(cls, *args: Any) -> Any:
        # 0, 0.0, -0.0 and False are equal and hash alike, yet are different constants: the type and the text tell.
        key = (cls, args, tuple(map(repr, args)))
        found = _Interned._instances.get(key)
        if found is None:
            found = _Interned._instances[key] = super().__call__(*args)
        return found


@dataclass(frozen=True, eq=False)
class Primitive(metaclass=_Interned):
    """One operation, with its static parameters as fields."""

    kind: ClassVar[str] = ""  # source, elementwise, view, index, reduce, dot, call
    differentiable: ClassVar[bool] = True
    cost: ClassVar[int] = 1  # scalar operations an element, roughly

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.kind:
            REGISTRY[cls.__name__] = cls

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        """Shape and dtype of the result; raises ShapeError or DTypeError."""
        raise NotImplementedError

    def numpy(self, *arrays: np.ndarray) -> np.ndarray:
        """The value; `arrays` as the inputs."""
        raise NotImplementedError

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        """The cotangents of the inputs of `node`, given g, the cotangent of its value."""
        raise NotImplementedError


def named(name: str, *parameters: Any) -> Any:
    """The primitive of a class name: how what lies below the primitives speaks of them."""
    return REGISTRY[name](*parameters)


def to_data(primitive: Primitive) -> dict[str, Any]:
    """A primitive as plain data."""

    def plain(value: Any) -> Any:
        return {"dtype": value.name} if isinstance(value, DType) else value

    return {
        "primitive": type(primitive).__name__,
        **{f.name: plain(getattr(primitive, f.name)) for f in fields(primitive)},
    }


def from_data(data: dict[str, Any]) -> Primitive:
    """The primitive that `to_data` described."""

    def rich(value: Any) -> Any:
        if isinstance(value, dict):
            return parse_dtype(value["dtype"])
        return tuple(map(rich, value)) if isinstance(value, list) else value

    cls = REGISTRY[data["primitive"]]
    return cls(*(rich(data[f.name]) for f in fields(cls)))
