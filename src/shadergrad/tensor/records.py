"""Methods generated from the records of elementwise operations that are marked public."""

from __future__ import annotations

from typing import Any

from ..graph.node import make
from ..graph.primitive import REGISTRY
from ..primitives import special as special  # whose records are methods too
from ..primitives.elementwise import Elementwise
from .coercion import floating
from .gradients import GradientTensor
from .handle import wrap


def public_records() -> dict[str, type[Elementwise]]:
    """The records that are methods, by the method's name."""
    found = {c.__name__.lower(): c for c in REGISTRY.values() if issubclass(c, Elementwise) and c.public}
    return dict(sorted(found.items()))


def _method(name: str, record: type[Elementwise]) -> Any:
    primitive = record()

    def method(self: Any) -> Any:
        return wrap(make(primitive, floating(self)))

    method.__name__ = method.__qualname__ = name
    argument, result = record.example
    method.__doc__ = f"""{record.__doc__} Integers and bools give float32.

>>> x = sg.tensor({argument})
>>> x.{name}()
tensor({result})"""
    return method


class RecordTensor(GradientTensor):
    """The public elementwise operations of one operand; integers and bools give float32."""

    __slots__ = ()


for _name, _record in public_records().items():
    setattr(RecordTensor, _name, _method(_name, _record))
