"""What PyTorch's table of operators (op_db) is to us: which entries count, what ours is called, what differs on purpose.

An entry is looked up by its name: `nn.functional.relu` is sg.nn.functional.relu, `linalg.det` is sg.linalg.det, `add` is
sg.add or Tensor.add. Entries that PyTorch's table writes as a function of its own (`lambda x, shape: x.view(shape)`) are
that function with our package in the place of torch. Nothing is mapped by hand, so a missing operator is a missing name.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator
from types import CellType, FunctionType
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import shadergrad as sg

# by the names of entries: what is left out, and why
LEFT_OUT = {
    r"sparse_.*|to_sparse": "sparse tensors",
    r"torch__scaled_mm.*": "quantised",
    r"as_strided.*|empty_strided|new_empty_strided|empty_permuted": "strides",
    r"view_as_.*|complex|polar|cfloat|cdouble|chalf|conj.*|resolve_.*|imag|.*_complex|istft": "complex numbers",
    r"jiterator.*|bmm_triton.*|torch_ops_.*|native_.*|hash_tensor|slice": "PyTorch's internals",
    r"_(?!_).*|max_pool2d_with_indices_backward|grid_sampler_.d|unsafe_.*": "PyTorch's internals",
    r"(?!index_|put).*_copy|nonzero_static|resize_.*|.*without_cudnn": "PyTorch's internals",
    r"masked_(?!fill|scatter|select).*": "torch.masked, a prototype",
}

# by the names of entries: what is drawn, or not initialised: shapes and dtypes are compared
DRAWN = re.compile(
    r"cauchy|exponential|geometric|log_normal|normal.*|uniform|.*dropout.*|rand.*|multinomial|bernoulli|new_empty|empty.*"
    r"|nn_functional_rrelu|.*fractional_max_pool.*|svd_lowrank|pca_lowrank|.*multi_head_attention_forward"
)


def left_out(op: Any) -> str | None:
    """Why an entry does not count; None where it does."""
    name = op.formatted_name
    return next((why for pattern, why in LEFT_OUT.items() if re.fullmatch(pattern, name)), None)


def counted() -> list[Any]:
    """The entries that count, in the order of the table."""
    return [op for op in op_db if left_out(op) is None]


class MissingError(Exception):
    """There is no such name here."""


def lookup(path: str) -> Any:
    """What a dotted name of torch is to us."""
    found: Any = sg
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise MissingError(path)
    return found


def ours(op: Any) -> Callable[..., Any]:
    """Our callable for an entry. Raises MissingError."""
    function = op.op
    if isinstance(function, FunctionType) and "testing/_internal" in function.__code__.co_filename:
        return translated(function)
    name = op.name
    if name.startswith("__"):
        return getattr(operator, name) if name == "__getitem__" else lookup(f"Tensor.{name}")
    try:
        return lookup(name)
    except MissingError:
        return lookup(f"Tensor.{name}")


def translated_or_named(form: Any) -> Callable[..., Any]:
    """Our callable for a form of an entry: a function of the table, or a method of PyTorch's."""
    if isinstance(form, functools.partial):
        return functools.partial(translated_or_named(form.func), *form.args, **form.keywords)
    if isinstance(form, FunctionType) and "testing/_internal" in form.__code__.co_filename:
        return translated(form)
    path = next(_paths(form), None)
    return lookup(path or f"Tensor.{form.__name__}")


class _Torch:
    """torch, as a function of the table sees it, with our package behind the names."""

    def __getattr__(self, name: str) -> Any:
        return lookup(name)


def _plainly(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """wrapper_set_seed of the table, which seeds torch."""
    return function(*args, **options)


def translated(function: FunctionType) -> FunctionType:
    """A function of the table with our package in the place of torch. Raises MissingError for a method that is not there."""
    called = function.__code__.co_names
    for name in () if "torch" in called else called:
        if hasattr(torch.Tensor, name) and not hasattr(sg.Tensor, name):
            raise MissingError(f"Tensor.{name}")
    names = {**function.__globals__, "torch": _Torch(), "wrapper_set_seed": _plainly}
    cells = tuple(CellType(_of_cell(c.cell_contents)) for c in function.__closure__ or ())
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)


def _of_cell(value: Any) -> Any:
    if isinstance(value, functools.partial):
        return functools.partial(_of_cell(value.func), *value.args, **value.keywords)
    path = next(_paths(value), None) if callable(value) else None
    return value if path is None else lookup(path)


def _paths(value: Any) -> Iterator[str]:
    for prefix, namespace in (("", torch), ("nn.functional.", torch.nn.functional), ("Tensor.", torch.Tensor)):
        name = getattr(value, "__name__", "")
        if getattr(namespace, name, None) is value:
            yield prefix + name
