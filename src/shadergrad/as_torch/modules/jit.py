"""torch.jit: names that TorchScript programs import, and use as decorators and annotations. They compile nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from ... import nn
from ...jit import ignore, script

T = TypeVar("T")


class ScriptModule(nn.Module):
    """A class that no module here is of."""


RecursiveScriptModule = type(
    "RecursiveScriptModule", (ScriptModule,), {"__doc__": "A class that no module here is of."}
)
ScriptFunction = type("ScriptFunction", (), {"__doc__": "A class that no function here is of."})
TopLevelTracedModule = type("TopLevelTracedModule", (ScriptModule,), {"__doc__": "A class that no module here is of."})


class Attribute(Generic[T]):
    """The value itself. The type, which is for TorchScript, is ignored."""

    def __new__(cls, value: Any, type: Any = None) -> Any:
        return value


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself; the type is ignored."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's isinstance, also for the generic types of typing; of these only the outer type is tested."""
    import builtins  # its isinstance is hidden by this function's name
    import typing

    return builtins.isinstance(obj, typing.get_origin(target_type) or target_type)


def _identity(thing: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Returns the function, class or module itself."""
    return (lambda f: f) if thing is None else thing


script_if_tracing = interface = _overload = _overload_method = script_method = _identity
freeze = optimize_for_inference = _script_if_tracing = _identity
_drop = unused = ignore


def _set_nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing, because there is no TorchScript compiler."""


set_fusion_strategy = enable_onednn_fusion = _set_nothing


@contextmanager
def optimized_execution(should_optimize: bool) -> Any:
    """A context without effect, because there is no TorchScript compiler."""
    yield


fuser = optimized_execution
trace_module = _identity


def is_scripting() -> bool:
    """Always False."""
    return False


__all__ = ["Final", "script"]
