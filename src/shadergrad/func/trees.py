"""Trees of tensors: nested dicts, lists and tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..tensor import Tensor


def leaves_of(tree: Any) -> list[Tensor]:
    """The tensors in nested dicts, lists and tuples, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, Mapping):
        return [leaf for value in tree.values() for leaf in leaves_of(value)]
    if isinstance(tree, list | tuple):
        return [leaf for value in tree for leaf in leaves_of(value)]
    return []


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same form with function(tensor) for each tensor."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, Mapping):
        return type(tree)((k, mapped(function, v)) for k, v in tree.items())  # type: ignore[call-arg]
    if isinstance(tree, list | tuple):
        parts = [mapped(function, v) for v in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def with_leaves(tree: Any, values: Any) -> Any:
    """A tree of the same form with the next of `values` for each tensor."""
    return mapped(lambda _: next(values), tree)


def recorded(tree: Any) -> Any:
    """Recorded views of the tensors, through which gradients of higher order reach the tensors."""
    return mapped(lambda x: x.clone() if x.requires_grad else x.detach().requires_grad_(), tree)
