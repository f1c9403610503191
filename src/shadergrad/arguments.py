"""Checks of arguments by their annotations, and the errors for wrong ones.

    checked      wraps a function: arguments have the annotated types, none is missing, none is unknown
    whole, ...   the same check for one argument, where the annotation is not specific enough

Every check raises a one-line error that names the call, the argument, and its type or value. A check first looks for the type of a value
in a set. Only values of other types are inspected, and converted if possible: a NumPy integer or a tensor of one integer becomes an int.
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from .errors import ArgumentError, ArgumentTypeError, NotTensorsError, ShadergradError
from .old_forms import as_today
from .symbolic_sizes import Varying

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


_tensor_classes: set[type] = set()
_tensor_kinds: list[set[type]] = []  # of all annotations that admit tensors; they get the classes of later


class Checkable:
    """What every tensor is to a check, for those who make tensors stand above."""

    __slots__ = ()

    ndim: Any

    def _receive(self, value: Any, what: str) -> None:
        """Take the result of a function that was told to write it here."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        _tensor_classes.add(cls)
        for types in _tensor_kinds:
            types.add(cls)


def refuse(what: str, name: str, value: Any, wanted: str) -> NoReturn:
    """Raise for an argument of another type."""
    hint = " Hint: sg.tensor(...) makes one." if wanted == "Tensor" and value is not None else ""
    raise ArgumentTypeError(f"{what}(): argument '{name}' must be {wanted}, not {type_name(value)}.{hint}")


def type_name(value: Any) -> str:
    """The type of a value as users know it: int, numpy.ndarray, None."""
    if value is None:
        return "None"
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]}.{kind.__name__}"


def whole(what: str, name: str, value: Any, least: int | None = None) -> int:
    """The whole number that an argument must be, and not below `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        refuse(what, name, value, "int")
    if least is not None and number < least:
        raise ArgumentError(f"{what}(): {_bound(name, least)}, but got {name}={value}.")
    return number


def _bound(name: str, least: int) -> str:
    if least == 0:
        return f"negative {name} is not supported"
    return f"{name} should be greater than zero" if least == 1 else f"{name} should be at least {least}"


def sizes(what: str, name: str, value: Any, least: int = 0) -> tuple[int, ...]:
    """The whole numbers that an argument gives, one or several, none below `least`."""
    given: tuple[Any, ...] = (value,)
    if isinstance(value, Iterable) and not isinstance(value, str):
        given = tuple(value)
    for size in given:
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            refuse(what, name, size, "int or a tuple of ints")
        if size < least:
            raise ArgumentError(f"{what}(): {_bound(name, least)}, but got {name}={value}.")
    return given


def number(what: str, name: str, value: Any) -> float:
    """The number that an argument must be."""
    if isinstance(value, str) or not hasattr(value, "__float__"):
        refuse(what, name, value, "float")
    return value


# -- annotations


_REFUSED: Any = object()  # what a look at a value gives where the value will not do


class Kind(NamedTuple):
    """What an annotation admits."""

    types: set[type]  # those that are admitted at a glance
    look: tuple[Callable[[Any], Any], ...]  # at values of other types: each gives the value to use, or _REFUSED
    wanted: str

    def admit(self, value: Any) -> Any:
        """The value that the function shall get."""
        if type(value) in self.types:
            return value
        for look in self.look:
            found = look(value)
            if found is not _REFUSED:
                return found
        return _REFUSED


def _int(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return _REFUSED
    if type(value) is Varying:
        return value
    try:
        return operator.index(value)
    except TypeError:
        return _REFUSED


def _number(value: Any) -> Any:
    if isinstance(value, np.number | np.bool_) and not isinstance(value, np.complexfloating):
        return value
    return value if isinstance(value, int | float) or (isinstance(value, Checkable) and value.ndim == 0) else _REFUSED


def _instance(*types: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, types) else _REFUSED


def _several(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A list or tuple of what `look` admits."""

    def look_at_each(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return _REFUSED
        found = [look(v) for v in value]
        return _REFUSED if any(f is _REFUSED for f in found) else tuple(found)

    return look_at_each


def _callable(value: Any) -> Any:
    return value if callable(value) else _REFUSED


_tensor = _instance(Checkable)
_ints = _several(_int)

# by annotation: the types admitted at a glance, what else is admitted, and how errors call it
WORDS: dict[str, tuple[set[type], Callable[[Any], Any] | None, str]] = {
    "None": ({type(None)}, None, ""),
    "bool": ({bool}, lambda v: bool(v) if isinstance(v, np.bool_) else _REFUSED, "bool"),
    "int": ({int}, _int, "int"),
    "float": ({int, float, bool}, _number, "float"),
    "Number": ({int, float, bool, complex}, _number, "Number"),
    "str": ({str}, _instance(str), "str"),
    "Path": (set(), _instance(os.PathLike), "Path"),
    "np.ndarray": ({np.ndarray}, _instance(np.ndarray, np.generic), "numpy.ndarray"),
    "Generator": (set(), lambda v: v if type(v).__name__ == "Generator" else _REFUSED, "Generator"),
    "Callable[..., Any]": (set(), _callable, "a function"),
    "Callable[P, R]": (set(), _callable, "a function"),
    "Callable[[Any], Any]": (set(), _callable, "a function"),
    "Callable[[Any], None]": (set(), _callable, "a function"),
    "Callable[[str, Module], bool]": (set(), _callable, "a function of a name and a module"),
    "Tensor": (set(), _tensor, "Tensor"),
    "Sequence[int]": (set(), _ints, "tuple of ints"),
    "Sequence[Sequence[int]]": (set(), _several(_ints), "tuple of tuples of ints"),
    "Sequence[Tensor]": (set(), _several(_tensor), "tuple of Tensors"),
}


def _kind(annotation: str) -> Kind | None:
    """What an annotation admits; None for what a function must look at itself: modules stand above this file."""
    if annotation in ("Any", "object", "M"):
        return None
    parts = [_word(part) for part in annotation.split(" | ")]
    admitted, looks, wanted = zip(*(WORDS[part] for part in parts), strict=True)
    types: set[type] = set().union(*admitted)
    if "Tensor" in parts:
        types |= _tensor_classes
        _tensor_kinds.append(types)
    names = list(dict.fromkeys(w for w in wanted if w))
    return Kind(types, tuple(k for k in looks if k is not None), " or ".join(names))


def _word(part: str) -> str:
    """Rooms of tensors are all Tensor to users, and so are the variables that stand for one."""
    if part.startswith("Sequence[") and part[9:-1].endswith("Tensor"):
        return "Sequence[Tensor]"
    return {"T": "Tensor", "Sequence[T]": "Sequence[Tensor]"}.get(part, "Tensor" if _is_tensor(part) else part)


def _is_tensor(part: str) -> bool:
    return part == "TensorBase" or (part.endswith("Tensor") and part.isidentifier())


def _refuse_element(what: str, name: str, value: Any, wanted: str) -> None:
    """Raise for a list or tuple where one is wanted, with what in it will not do."""
    if isinstance(value, list | tuple) and "tuple of" in wanted:
        look = _tensor if "Tensors" in wanted else _int if wanted.endswith("tuple of ints") else _ints
        for k, element in enumerate(value):
            if look(element) is _REFUSED:
                found = type_name(element)
                error = NotTensorsError if look is _tensor else ArgumentTypeError
                raise error(f"{what}(): argument '{name}' must be {wanted}, but element {k} is {found}.")


NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "axis0": "dim0", "axis1": "dim1"}  # PyTorch takes them too


# arguments of functions that make tensors: memory layout, which the compiler decides
HARMLESS = frozenset(("layout", "memory_format", "pin_memory"))
HARMLESS_VALUES = ("strided", "preserve_format", "contiguous_format", "channels_last", "channels_last_3d", True, False)


class _Signature:
    """What a function takes, and what it is to say of what it does not.

    signature: where the function is a method as users call it as a function. skip: arguments in front that are not looked at: self,
    of a method.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, signature: inspect.Signature | None, skip: int, on_tensor: bool
    ) -> None:
        self.signature = signature or inspect.signature(function)
        parameters = list(self.signature.parameters.values())
        self.name = name
        self.first = parameters[0].name if signature else ""
        self.on_tensor = on_tensor
        self.kinds: dict[str, Kind] = {}
        self.positional: list[str] = []
        self.rest: str | None = None  # the parameter that takes all further arguments
        for k, p in enumerate(parameters):
            kind = None if k < skip else _kind("Any" if p.annotation is inspect.Parameter.empty else str(p.annotation))
            if kind is not None:
                self.kinds[p.name] = kind
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                self.positional.append(p.name)
            elif p.kind is p.VAR_POSITIONAL:
                self.rest = p.name
        self.types = {name: kind.types for name, kind in self.kinds.items()}
        self.by_position = tuple(self.types.get(name) for name in self.positional)
        known = {p.name for p in parameters}
        self.places = "device" in known
        self.made = self.places or name in ("contiguous", "clone", "to", "empty_like")
        self.renamed = {a: n for a, n in NUMPY_NAMES.items() if n in known and a not in known}

    def without_out(self, options: dict[str, Any]) -> dict[str, Any]:
        """The other options; what makes a tensor makes it on the device of the one that it is written to."""
        rest = {name: value for name, value in options.items() if name != "out"}
        if self.places:
            rest.setdefault("device", getattr(options["out"], "device", None))
        return rest

    def of(self, name: str, value: Any) -> Any:
        """The value to use for an argument."""
        kind = self.kinds.get(name)
        if kind is None or type(value) in kind.types:
            return value
        found = kind.admit(value)
        if found is _REFUSED:
            _refuse_element(self.name, name, value, kind.wanted)
            refuse(self.name, name, value, kind.wanted)
        return found

    def positionals(self, args: tuple[Any, ...]) -> list[Any]:
        names = self.positional
        found = [self.of(names[k], v) if k < len(names) else v for k, v in enumerate(args)]
        if self.rest in self.kinds:
            found[len(names) :] = [self.of(self.rest, v) for v in found[len(names) :]]
        return found

    def admitted(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values to use for positional arguments, and the options, of a call in an old form too."""
        today = as_today(self.name, args, options, Checkable)
        return (tuple(self.positionals(args)), options) if today is None else today

    def otherwise(self, call: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The result of a failed call, if it has a deprecated form; else raises its error, with an explanation if the arguments do not fit."""
        today = as_today(self.name, args, options, Checkable)
        if today is not None:
            return call(*today[0], **today[1])
        error = self.mismatch(args, options)
        if error is None:
            raise  # within the handler of the caller
        raise error from None

    def named(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        types = self.types
        for alias, name in self.renamed.items():
            if alias in options and name not in options:
                options[name] = options.pop(alias)
        if self.made:
            for name in HARMLESS & options.keys():
                if options[name] is None or options[name] in HARMLESS_VALUES:
                    del options[name]
        for name, value in options.items():
            if name in types and type(value) not in types[name]:
                options = {name: self.of(name, value) for name, value in options.items()}
                break
        if self.first in options:
            args = (options.pop(self.first), *args)
        return args, options

    def mismatch(self, args: tuple[Any, ...], options: dict[str, Any]) -> ArgumentTypeError | None:
        """The error of a call that does not fit, or whose `self` is not a tensor."""
        error = mismatch(self.name, self.signature, args, options)
        if error is None and self.on_tensor and not isinstance(args[0], Checkable):
            return ArgumentTypeError(f"{self.name}(): argument 'self' must be Tensor, not {type_name(args[0])}.")
        return error


def mismatch(what: str, signature: inspect.Signature, args: Any, options: dict[str, Any]) -> ArgumentTypeError | None:
    """The error of a call with a missing, unknown or surplus argument."""
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        return ArgumentTypeError(f"{what}(): {error}")
    return None


def signature_with(function: Callable[..., Any], first: str, kind: str) -> inspect.Signature:
    """The signature of a method that is called as a function: its first argument has the name and annotation given."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=[parameters[0].replace(name=first, annotation=kind), *parameters[1:]])


def checked(
    function: F,
    name: str = "",
    signature: inspect.Signature | None = None,
    *,
    method: bool = False,
    constructor: bool = False,
    out: bool = False,
) -> F:
    """The function with a check of its arguments, which raises ArgumentTypeError for other types than the annotated ones.

    name: what users call it, if not by its own name. signature: of a method that is to be a function, as `signature_with` gives it.
    method: the first argument is `self`, a tensor; constructor: it is what is made. out: whether it may be told tensors that the
    result is written to, by a keyword of that name. What is admitted costs a look into a set for each argument; a wrong number of
    arguments is seen when the call fails. The first call reads the annotations: of a thousand such functions a program calls few.
    """
    public = name or function.__name__
    few = 1 if method or constructor else 0
    takes: Any = None  # a _Signature
    by_position: tuple[set[type] | None, ...] = ()
    rest = False

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        nonlocal takes, by_position, rest
        if takes is None:
            found = _Signature(function, public, signature, skip=few, on_tensor=method)
            by_position, rest = found.by_position, found.rest in found.kinds
            takes = found  # last: another thread may call meanwhile
        if len(args) > few:
            for value, admitted in zip(args, by_position, strict=False):
                if admitted is not None and type(value) not in admitted:
                    args, options = takes.admitted(args, options)
                    break
            else:
                if rest:
                    args = tuple(takes.positionals(args))
        if options:
            if out and "out" in options:
                return written(public, options["out"], call(*args, **takes.without_out(options)))
            args, options = takes.named(args, options)
        try:
            return function(*args, **options)
        except ShadergradError:
            raise
        except (TypeError, AttributeError):
            return takes.otherwise(call, args, options)

    call.__name__ = call.__qualname__ = public
    call.unchecked = function  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]  # wraps gives another type, and the same signature


def checked_with_out(function: Callable[..., R]) -> Callable[..., R]:
    """As `checked`, for a function that may be told tensors that its result is written to: the keyword `out`."""
    return checked(function, out=True)


def written(what: str, out: Any, result: Any) -> Any:
    """The result of a function in the tensors that it was told to write to."""
    if out is None:
        return result
    several = isinstance(result, tuple)
    given, results = (out, result) if several else ((out,), (result,))
    if not isinstance(given, list | tuple) or not all(isinstance(t, Checkable) for t in given):
        wanted = "tuple of Tensors" if several else "Tensor"
        raise NotTensorsError(f"{what}(): argument 'out' must be {wanted}, not {type_name(out)}.")
    if len(given) != len(results):
        raise ArgumentTypeError(f"{what}(): argument 'out' must be {len(results)} tensors, not {len(given)}.")
    for target, value in zip(given, results, strict=True):
        target._receive(value, what)
    return type(result)._make(given) if hasattr(result, "_make") else type(result)(given) if several else out


def check_constructors(*classes: type) -> None:
    """Put `__init__` of classes behind a check of its arguments, by the name of the class."""
    for cls in classes:
        cls.__init__ = checked(cls.__init__, cls.__name__, constructor=True)
