"""Access to the attributes of objects, and tests whether an object is an nn.Module or belongs to the library."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .places import MISSING


def attributes_of(value: Any) -> dict[str, Any] | None:
    """The dict of an object's attributes."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def is_network(value: Any) -> bool:
    """Whether an object is an nn.Module, whose own guard covers its parameters, buffers and modules."""
    own = attributes_of(value)
    return own is not None and "_parameters" in own and "_modules" in own


def in_tables(owner: Any, name: str) -> Any:
    """The parameter, buffer or submodule of an nn.Module with a name; MISSING if there is none."""
    own = attributes_of(owner) if is_network(owner) else None
    tables = () if own is None else (own["_parameters"], own["_buffers"], own["_modules"])
    return next((table[name] for table in tables if name in table), MISSING)


def is_opaque(value: Any) -> bool:
    """Whether an object belongs to the library and users do not set its attributes. They do set attributes in a tensor's dict."""
    own = type(value).__module__.startswith("shadergrad.")
    return own and not is_network(value) and not isinstance(value, Tensor)
