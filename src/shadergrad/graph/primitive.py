"""The record of a primitive operation.

The class of an operation holds its shape rule (`infer`), its NumPy value (`numpy`) and its gradient (`vjp`, in terms of nodes).
Elementwise operations also hold their WGSL, calls a whole shader; compile/elements.py pulls the few others. Primitives are
interned: equal parameters give the same object, so graphs compare and hash by identity.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from .. import symbolic_sizes
from ..dtypes import DType, named_dtype
from ..errors import CompileError

Shape = tuple[int, ...]
Number = bool | int | float | complex

OWN = f"{__name__.split('.')[0]}.primitives."  # the package whose rules satisfy `Primitive.structural`
WITHOUT_TENSORS = (OWN, f"{__package__}.")  # packages whose primitives hold no tensors
MOST_RECENT = 4096  # primitives that are cached although no node uses them
REGISTRY: dict[str, type[Primitive]] = {}


class _Interned(type):
    """Calling a primitive class twice with equal parameters gives one object."""

    _instances: ClassVar[weakref.WeakValueDictionary[Any, Any]] = weakref.WeakValueDictionary()
    _recent: ClassVar[dict[Any, Any]] = {}  # keeps primitives alive that the next step of a loop would make again

    def __call__(cls, *args: Any) -> Any:
        # 0, 0.0, -0.0 and False are equal and have equal hashes, but are different constants: the type and the text distinguish them.
        key = (cls, args, repr(args)) if args else cls
        if symbolic_sizes.follows and (of := symbolic_sizes.forms(args)):
            key = (key, symbolic_sizes.follows, *of)  # sizes of one name have another first value in each family
        found = _Interned._recent.get(key)
        if found is not None:
            return found
        found = _Interned._instances.get(key)
        if found is None:
            found = super().__call__(*args)
            if isinstance(found, Primitive):
                object.__setattr__(found, "form", found.without_numbers())
            _Interned._instances[key] = found
        if cls.__module__.startswith(WITHOUT_TENSORS):
            if len(_Interned._recent) >= MOST_RECENT:
                _Interned._recent.clear()
            _Interned._recent[key] = found
        return found


class Form(metaclass=_Interned):
    """The common part of primitives that differ only in numbers: their class and their other parameters."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


@dataclass(frozen=True, eq=False)
class Primitive(metaclass=_Interned):
    """One operation, with its static parameters as fields.

    Kernels can read some numeric parameters from memory (see graph/numbers.py). A primitive with such parameters lists them
    (`numbers`), has a form without them (`without_numbers`, kept as `form`), and can take nodes in their place (`opened`).
    """

    kind: ClassVar[str] = ""  # source, elementwise, view, index, reduce, dot, call, host
    differentiable: ClassVar[bool] = True
    selects: ClassVar[bool] = False  # returns an element of its input, whose bits may be compared with the input's
    moves: ClassVar[bool] = False  # moves or casts elements without arithmetic, so halves stay halves (build.in_single)
    unpacks: ClassVar[bool] = (
        False  # its result takes more memory than its inputs, so each reader computes it, and it is not stored
    )
    gathers: ClassVar[bool] = False  # gets or gives a cotangent that stands for several (primitives/joint.py)
    cost: ClassVar[int] = 1  # scalar operations an element, roughly
    form: ClassVar[Form | None] = None  # each primitive has its own
    structural: ClassVar[bool] = (
        False  # what `vjp` adds refers to g, the node and its inputs alone, and hangs on no more
    )
    # than primitives, shapes and dtypes, so that graph/tape.py may add it again

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.structural = cls.__module__.startswith(OWN)  # those of others may do anything
        if cls.kind:
            REGISTRY[cls.__name__] = cls

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def infer(self, *inputs: Any) -> tuple[Shape, DType]:
        """Shape and dtype of the result; raises ShapeError or DTypeError."""
        raise NotImplementedError

    def of_half(self, dtype: DType) -> Primitive:
        """The same operation for operands of a 16-bit dtype: its own numbers are rounded to that dtype."""
        return self

    def without_numbers(self) -> Form | None:
        """The form without the numbers; None if there are none."""
        return None

    def numbers(self, dtype: DType) -> tuple[tuple[Number, DType], ...]:
        """The numbers and their dtypes, for a result of `dtype`; primitives of one form have equally many."""
        return ()

    def opened(self, inputs: Sequence[Any], numbers: Sequence[Any]) -> Any:
        """The node of this operation with `numbers` instead of its own: each a number, or a node of shape ()."""
        raise NotImplementedError

    def numpy(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """The value, from the arrays of the inputs."""
        raise NotImplementedError

    def vjp(self, g: Any, node: Any) -> tuple[Any, ...]:
        """The cotangents of the inputs of `node`, given g, the cotangent of its value."""
        raise NotImplementedError


def named(name: str, *parameters: Any) -> Any:
    """The primitive of a class name, for modules below the primitives."""
    return REGISTRY[name](*parameters)


_parameters: weakref.WeakValueDictionary[tuple[str, str], Any] = weakref.WeakValueDictionary()


_kept: list[list[Any]] = []  # the lists that `keeping` fills, the innermost last


@contextmanager
def keeping() -> Iterator[list[Any]]:
    """A context that collects the objects in parameters of primitives that are described within it. While its list lives, `from_data` finds them."""
    _kept.append([])
    try:
        yield _kept[-1]
    finally:
        _kept.pop()


def to_data(primitive: Primitive) -> dict[str, Any]:
    """A primitive as plain data: its class and its parameters by name. A parameter that is an object (an operation of
    extend.py) is stored by name, and `from_data` finds it while this process holds it.

    Raises CompileError for a primitive whose class was replaced by another of the same name.
    """
    cls = type(primitive)
    if REGISTRY.get(cls.__name__) is not cls:
        raise CompileError(
            f"[{primitive.name}] there is another primitive {cls.__name__}. Hint: give one another name."
        )
    return {"primitive": cls.__name__, **{f.name: _plain(getattr(primitive, f.name)) for f in fields(cls)}}


def from_data(data: dict[str, Any]) -> Primitive:
    """The primitive that `to_data` described. Raises CompileError if this process does not know it."""
    cls = REGISTRY.get(data["primitive"])
    if cls is None:
        raise CompileError(f"there is no primitive {data['primitive']!r}. Hint: import the module that defines it.")
    return cls(*(_rich(data[f.name]) for f in fields(cls)))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    kind, text = f"{type(value).__module__}.{type(value).__qualname__}", repr(value)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    number = 1
    try:
        weakref.ref(value)
    except TypeError:
        raise CompileError(
            f"a plan cannot hold {kind} as a parameter of a primitive. Hint: numbers, strings, tuples, or a dataclass."
        ) from None
    while (
        _parameters.setdefault((kind, f"{digest}-{number}"), value) != value
    ):  # different, although their text is the same
        number += 1
    if _kept:
        _kept[-1].append(_parameters[kind, f"{digest}-{number}"])
    return {"object": kind, "digest": f"{digest}-{number}"}


def _rich(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_rich, value))
    if not isinstance(value, dict):
        return value
    if "dtype" in value:
        return named_dtype(value["dtype"])
    if "complex" in value:
        return complex(*value["complex"])
    found = _parameters.get((value["object"], value["digest"]))
    if found is None:
        raise CompileError(
            f"this plan applies a {value['object']} of another process. Hint: plans with such operations are replayed on a "
            "GPU, or compiled anew."
        )
    return found
