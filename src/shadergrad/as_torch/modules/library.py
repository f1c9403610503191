"""torch.library and torch.ops: operators that Python programs register, by name.

A call of an operator runs the Python function that the program registered for it. Libraries of compiled operators cannot be loaded.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from ...autograd import Function, no_grad
from ...cpython import frame_of_caller
from ...errors import AutogradError
from ..absent import StandIn, attribute

_operators: dict[str, Operator] = {}  # by "namespace::name"


class Operator:
    """A named operator: a call runs the function that was registered for it.

    Its gradient is that of register_autograd. Without it, the operator is not differentiable, unless its function was registered for a
    composite or autograd dispatch key: then the gradient comes from the operations that the function calls.
    """

    def __init__(self, name: str, schema: str | None = None) -> None:
        self._qualname, self._schema = name, schema
        self._kernel: Callable[..., Any] | None = None
        self._is_differentiable = False  # whether the gradient comes from the operations that the function calls
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._signature: inspect.Signature | None = None
        self.__name__ = name.replace("::", ".")
        self.__qualname__ = self.__name__
        self.default = self

    def __repr__(self) -> str:
        return f"<operator {self._qualname}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._kernel is None:
            raise NotImplementedError(f"{self._qualname} has no kernel: nothing was registered for it with impl().")
        if self._is_differentiable:
            return self._kernel(*args, **kwargs)
        return _Call.apply(self, kwargs, *args)

    def _takes(self, function: Callable[..., Any], differentiable: bool) -> None:
        self._kernel, self._is_differentiable = function, differentiable
        self._signature = inspect.signature(function)

    def register_fake(self, fn: Any = None, /) -> Any:
        """Does nothing and returns the function: shapes come from running the kernel."""
        return (lambda f: f) if fn is None else fn

    register_vmap = register_torch_dispatch = register_fake

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Register the function that the operator runs on every device."""
        if fn is None:
            return lambda f: self.register_kernel(device_types, f)
        self._takes(fn, False)
        return fn

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Register the operator's gradient: setup_context(ctx, inputs, output) and backward(ctx, *grads)."""
        self._backward, self._setup_context = backward, setup_context


class _Call(Function):
    """A call of an operator, as a node of the autograd graph."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, kwargs: dict[str, Any], *args: Any) -> Any:
        assert operator._kernel is not None  # __call__ has checked it
        ctx.operator, ctx.count = operator, len(args)
        with no_grad():
            result = operator._kernel(*args, **kwargs)
        if operator._setup_context is not None:
            names = inspect.signature(operator._setup_context).parameters
            if "keyword_only_inputs" in names:
                operator._setup_context(ctx, args, kwargs, result)
            else:
                operator._setup_context(ctx, args, result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        operator: Operator = ctx.operator
        if operator._backward is None:
            raise AutogradError(
                f"{operator._qualname} has no derivative. Hint: register_autograd(backward, setup_context=...)."
            )
        found = operator._backward(ctx, *grads)
        return (None, None, *(found if isinstance(found, tuple) else (found,)))


def _named(name: str, schema: str | None = None) -> Operator:
    return _operators.setdefault(name, Operator(name, schema))


def _name_of(op: Any) -> str:
    return op._qualname if isinstance(op, Operator) else str(op)


def custom_op(
    name: str,
    fn: Any = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function the operator "namespace::name"; also as a decorator."""
    if fn is None:
        return lambda f: custom_op(name, f, mutates_args=mutates_args, device_types=device_types, schema=schema)
    _operators[name] = made = Operator(name, schema)
    made._takes(fn, False)
    made.__doc__ = fn.__doc__
    return made


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), schema: str | None = None) -> Any:
    """As custom_op. A call raises where the function calls a Triton kernel, because there is no Triton."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, allow_override: bool = False, **kwargs: Any) -> Any:
    """Does nothing and returns the function: shapes come from running the kernel."""
    return (lambda f: f) if func is None else func


impl_abstract = register_vmap = register_fake


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Register the function that an operator runs."""
    return _named(_name_of(op)).register_kernel(device_types, *([] if func is None else [func]))


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Register an operator's gradient, as Operator.register_autograd."""
    _named(_name_of(op)).register_autograd(backward, setup_context=setup_context)


def define(qualname: str, schema: Any, *, lib: Any = None, tags: Any = ()) -> None:
    """Declare an operator, without a function to run."""
    _named(qualname, schema)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register the function that an operator runs; also as a decorator."""
    if func is None:
        return lambda f: impl(qualname, types, f, lib=lib)
    _named(_name_of(qualname))._takes(func, _is_composite(types))
    return func


def _is_composite(key: Any) -> bool:
    """Whether the gradient of a kernel with this dispatch key comes from the operations that it calls."""
    return "Composite" in str(key) or "Autograd" in str(key)


class Library:
    """The operators of a namespace: define(schema), then impl(name, function)."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare the operator of a schema; returns its name."""
        name = re.split(r"[(.]", schema)[0].strip()
        _named(f"{self.ns}::{name}", schema)
        return name

    def impl(
        self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = False
    ) -> None:
        """Register the function that an operator runs. Functions for the key Meta, which compute only shapes, are ignored."""
        key = dispatch_key or self.dispatch_key
        if key == "Meta":
            return
        name = _name_of(op_name).rpartition("::")[2].partition(".")[0]
        _named(f"{self.ns}::{name}")._takes(fn, _is_composite(key))

    def _register_fake(self, op_name: Any, fn: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing: shapes come from running the kernel."""

    def _destroy(self) -> None:
        for name in [n for n in _operators if n.startswith(f"{self.ns}::")]:
            del _operators[name]


def infer_schema(prototype_function: Any, /, *, mutates_args: Any = (), op_name: str | None = None) -> str:
    """The text of a function's signature."""
    return f"{op_name or ''}{inspect.signature(prototype_function)}"


def get_kernel(op: Any, dispatch_key: Any) -> Any:
    """The function that an operator runs."""
    return _named(_name_of(op))._kernel


class Namespace:
    """torch.ops.name: its attributes are the operators that the program registered."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = _operators.get(f"{self._name}::{name}")
        if found is not None:
            return found
        if name.startswith("__"):
            raise AttributeError(name)
        return attribute(f"torch.ops.{self._name}", name, frame_of_caller(), self)


class Operators(StandIn):
    """torch.ops."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Namespace(name)
        setattr(self, name, made)
        return made

    def load_library(self, path: Any) -> None:
        """Raises OSError, because operators that are compiled for PyTorch run only there."""
        raise OSError(f"{path} holds operators compiled for PyTorch, which run there alone.")


OPS = Operators("torch.ops", "Operators that programs registered.")
__all__ = [
    "Library",
    "custom_op",
    "define",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "triton_op",
]
