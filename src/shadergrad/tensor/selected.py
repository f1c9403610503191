"""x[mask] within a compiled step: elements whose number is unknown until the step runs, for x[mask] *= 2 and x[mask] = f(x[mask]).

In: a tensor, and a key with one mask. Out: a `Selected`, which holds the values at all places. Elementwise operations compute at all places, and an
assignment with the same mask takes those at which it is true. Everything else would need the number of elements, and raises a CompileError.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from ..drive.tracing import current
from ..errors import CompileError
from ..graph.leaves import Constant
from ..graph.node import Node, resolve
from ..graph.primitive import Primitive
from .coercion import OPERANDS
from .comparison import where
from .masks import WHAT, Choice
from .names import AUGMENTED
from .operators import not_ours
from .public import Tensor
from .subscript import SubscriptTensor

MOST_COMPARED = 256  # nodes of two masks

ONE_OPERAND = (
    "__abs__", "__invert__", "__neg__", "__pos__", "abs", "bool", "ceil", "clone", "cos", "detach", "double", "exp", "expm1", "float",
    "floor", "half", "int", "isfinite", "isnan", "log", "log10", "log1p", "log2", "logical_not", "long", "nan_to_num", "neg", "negative",
    "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
TWO_OPERANDS = (
    "add", "and", "eq", "floordiv", "ge", "gt", "le", "lshift", "lt", "mod", "mul", "ne", "or", "pow", "rshift", "sub", "truediv", "xor",
)  # fmt: skip
REFLECTED = ("add", "and", "floordiv", "mod", "mul", "or", "pow", "sub", "truediv", "xor")
METHODS = (
    "add", "clamp", "clamp_max", "clamp_min", "clip", "div", "fmod", "maximum", "minimum", "mul", "pow", "remainder", "sub",
)  # fmt: skip


class Selected(Tensor):
    """The elements of a tensor at the places of a mask, before their number is known. Made by x[mask] within a compiled step."""

    __slots__ = ("_choice", "_everywhere")
    _choice: Choice
    _everywhere: Any

    def __init__(self, choice: Choice, everywhere: Any) -> None:
        self._begin(everywhere._node)
        self._choice, self._everywhere = choice, everywhere

    @staticmethod
    def of(choice: Choice) -> Selected:
        """The elements that a key selects."""
        return Selected(choice, _shielded(choice.part.clone(), choice))

    @property
    def _node(self) -> Node:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise the error of a use that needs the number of elements."""
        if current.trace is not None:
            current.trace.on_read(WHAT)
        raise CompileError(
            f"{WHAT} within a compiled step has no elements after it. Hint: return sg.where(mask, x, 0)."
        )

    def put_into(self, choice: Choice) -> Any:
        """The part of `choice`, with these elements at the places of its mask."""
        if choice.part.shape != self._everywhere.shape or not _is_same(self._choice, choice):
            self.refuse()
        return where(choice.mask, self._everywhere, choice.part)

    def _beside(self, other: Any) -> Any:
        """Another operand, at all places."""
        if isinstance(other, Selected):
            if other._everywhere.shape != self._everywhere.shape or not _is_same(self._choice, other._choice):
                self.refuse()
            return other._everywhere
        if not isinstance(other, Tensor):
            return other
        rest = self._everywhere.shape[self._choice.axes :]
        if other.numel() == 1 and other.ndim:
            other = other.reshape(1)
        elif other.ndim > len(rest) or any(
            n not in (1, m) for n, m in zip(other.shape[::-1], rest[::-1], strict=False)
        ):
            self.refuse()  # it has an axis for the elements, or more axes than the part
        return _shielded(other.expand(self._everywhere.shape), self._choice) if other.requires_grad else other

    def _mapped(self, function: Callable[..., Any], *operands: Any, **options: Any) -> Selected:
        options = {name: self._beside(value) for name, value in options.items()}
        return Selected(self._choice, function(self._everywhere, *map(self._beside, operands), **options))

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """With another dtype."""
        return self._mapped(lambda x: x.to(*args, **kwargs))


def _shielded(value: Any, choice: Choice) -> Any:
    """The value, with gradients from the chosen places alone: elsewhere a derivative may be infinite, and 0 times it NaN."""
    return where(choice.mask, value, value.detach()) if value.requires_grad else value


def _is_same(one: Choice, other: Choice) -> bool:
    return one.axes == other.axes and _computes_the_same(one.mask._node, other.mask._node)


def _computes_the_same(one: Node, other: Node) -> bool:
    """Whether two nodes are the same operations on the same values, such as x > 0 written twice."""
    stack, left = [(one, other)], MOST_COMPARED
    while stack:
        a, b = map(resolve, stack.pop())
        if a is b:
            continue
        left -= 1
        is_pending = a.storage is None and b.storage is None
        if not left or not is_pending or len(a.inputs) != len(b.inputs) or not _is_one(a.primitive, b.primitive):
            return False
        stack += zip(a.inputs, b.inputs, strict=True)
    return True


def _is_one(a: Primitive, b: Primitive) -> bool:
    """Whether two primitives are the same. Constants are made anew, so they are compared by number and dtype."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return (repr(a.value), a.dtype) == (repr(b.value), b.dtype)
    return a is b


def _method(name: str) -> Callable[..., Any]:
    def method(self: Selected, *operands: Any, **options: Any) -> Any:
        return self._mapped(lambda x, *rest, **named: getattr(x, name)(*rest, **named), *operands, **options)

    return method


def _reflected(name: str) -> Callable[..., Any]:
    of_two = getattr(operator, f"__{name}__")

    def method(self: Selected, other: Any) -> Any:
        if not isinstance(other, OPERANDS):
            return not_ours(name, self, other)
        return self._mapped(lambda x, y: of_two(y, x), other)

    return method


def _in_place(name: str) -> Callable[..., Any]:
    in_place = getattr(operator, f"__i{name}__")

    def method(self: Selected, other: Any) -> Any:
        return self._mapped(lambda x, y: in_place(x.clone(), y), other)

    return method


for _name in (*ONE_OPERAND, *METHODS, *(f"__{name}__" for name in TWO_OPERANDS)):
    setattr(Selected, _name, _method(_name))
for _name in REFLECTED:
    setattr(Selected, f"__r{_name}__", _reflected(_name))
for _name in AUGMENTED:
    setattr(Selected, f"__i{_name}__", _in_place(_name))

SubscriptTensor._selected = Selected
