"""A cache for functions that are compositions of operations. When arguments have the same structure as in an earlier call, the same nodes
are added to the graph without running the function's Python.

In: a function of tensors and plain values that returns a tensor or a tuple of them. Out: the same function, several times as fast, for
the layers and losses of uncompiled training loops. The nodes must depend only on the plain arguments and on the shapes, dtypes, devices
and classes of the tensors. The function must have no side effect: no random numbers, no in-place writes, no reads of values, no warnings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from .. import symbolic_sizes
from ..dtypes import DType, default_dtype
from ..graph import node as nodes
from ..graph.composition import Recipe, Row
from ..graph.node import Node, mode
from ..graph.primitive import WITHOUT_TENSORS
from .base import TensorBase
from .handle import wrap
from .precision import here

P = ParamSpec("P")
R = TypeVar("R")

MOST_RECIPES = 512  # per function
OWN = f"{__name__.split('.')[0]}."  # the package whose tensor classes are known to have no behaviour of their own
BY_VALUE = {int, str, bool, type(None), DType}  # types of arguments, besides tensors, that keys compare by value
BY_TEXT = {float}  # types that keys compare by text: 0.0 is not -0.0

_classes: set[type[Any]] = set()  # classes of OWN that occurred


class _Unlike(Exception):
    """An argument that cannot be part of a key."""


def composed(function: Callable[P, R], *, gives_views: bool = False, is_patient: bool = False) -> Callable[P, R]:
    """The function with a cache of the nodes that it adds. While recording is observed, the function itself runs.

    gives_views: results may be views of arguments, for callers that write to neither in place. is_patient: the nodes of a first call are
    not cached, for arguments with numbers that change from call to call.
    """
    met: set[Any] = set()
    recipes: dict[Any, tuple[Recipe, bool] | None] = {}  # and whether the results are a tuple

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if mode.heard or symbolic_sizes.follows or here.kinds:
            return function(*args, **kwargs)
        inputs: list[Node] = []
        first: dict[int, int] = {}
        key: list[Any] = [mode.grad, default_dtype()]
        try:
            for value in args:
                _describe(value, inputs, first, key)
            for name, value in kwargs.items():
                key.append(name)
                _describe(value, inputs, first, key)
        except _Unlike:
            return function(*args, **kwargs)
        what = tuple(key)
        known = recipes.get(what)
        if known is not None:
            recipe, is_tuple = known
            made = recipe.results(inputs, inputs[0].device)
            return tuple(map(wrap, made)) if is_tuple else wrap(made[0])  # type: ignore[return-value]
        if what in recipes:
            return function(*args, **kwargs)
        if is_patient and what not in met:
            if len(met) >= MOST_RECIPES:
                met.clear()
            met.add(what)
            return function(*args, **kwargs)
        with nodes.nodes_of() as made:
            result = function(*args, **kwargs)
        if len(recipes) >= MOST_RECIPES:
            recipes.clear()
        recipes[what] = _recipe(result, inputs, made, gives_views)
        return result

    return call


def _describe(value: Any, inputs: list[Node], first: dict[int, int], key: list[Any]) -> None:
    """Add an argument to the key, and its node to the inputs. first: the first position of each node among them, by id."""
    kind = type(value)
    key.append(kind)
    if kind in _classes or (isinstance(value, TensorBase) and kind.__module__.startswith(OWN)):
        _classes.add(kind)
        node = value._node
        place = first.setdefault(id(node), len(inputs))
        if place < len(inputs):  # given twice
            key.append(place)
        inputs.append(node)
        key += (node.shape, node.dtype, node.device, node.requires_grad)
    elif kind in BY_VALUE:
        key.append(value)
    elif kind in BY_TEXT or (isinstance(value, tuple | list) and all(type(n) is int for n in value)):
        key.append(repr(value))
    else:
        raise _Unlike


def _is_new(result: Any) -> bool:
    """Whether a tensor is not a view of another, though views may have been made of it."""
    shared = result._shared
    return shared is None or (not result._path and not shared.path and shared.tensor() is result)


def _recipe(result: Any, inputs: Sequence[Node], made: Sequence[Node], gives_views: bool) -> tuple[Recipe, bool] | None:
    """The recipe of the results from the inputs; None if a result is not a new tensor, or depends on something else."""
    results = result if type(result) is tuple else (result,)
    if not all(type(r) is TensorBase._class and (gives_views or _is_new(r)) for r in results):
        return None
    place = {id(node): k for k, node in enumerate(inputs)}
    ours = {id(node) for node in made}
    ends = [r._node for r in results]
    device = ends[0].device
    if any(id(end) in place for end in ends) or any(node.device != device for node in inputs):
        return None
    rows: list[Row] = []
    needed = nodes.topological(ends, lambda n: () if id(n) in place else n.inputs)
    for node in sorted(needed, key=lambda n: n.serial):  # in order of creation, which hooks can observe
        if id(node) in place:
            continue
        is_plain = type(node.primitive).__module__.startswith(WITHOUT_TENSORS)
        if id(node) not in ours or not is_plain or node.device != device or node.storage is not None:
            return None
        places = tuple([place[id(i)] for i in node.inputs])
        rows.append((node.primitive, places, node.shape, node.dtype, node.requires_grad))
        place[id(node)] = len(inputs) + len(rows) - 1
    return Recipe(rows, [place[id(end)] for end in ends], len(inputs)), result is results
