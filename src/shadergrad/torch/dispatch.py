"""From PyTorch's dispatcher to a kernel. In: an operator and its arguments. Out: its results on the device.

An operator is resolved once, in this order:

    its own kernel       table.py: operators on memory, and kernels written for the device
    the same name        same_names.py: a shadergrad function with the same signature
    a decomposition      PyTorch's own, in Python, into the former
    the host             host.py: with a warning

In-place and out= operators are their functional form and a write. Exceptions of a kernel reach the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

import shadergrad as sg

from ..dtypes import DType
from ..tensor import Tensor
from . import dtypes, halves, kernels
from .dtypes import TORCH, stored
from .host_fallback import on_host
from .kernels import memory
from .layouts import as_pytorch_lays
from .private import (
    AUTOGRAD_KEY,
    KEY,
    decompositions,
    has_kernel,
    kernel_or_composition,
    name_of,
    operator_names,
    overload,
)
from .same_names import function_of
from .sequences import followed
from .storage import Place, is_ours, read, read_or_move, refuse_generator, wrap, write
from .table import COMPOSITES, KERNELS, WITH_GRADIENT_OF_TORCH

Run = Callable[..., Any]
_libraries: list[Any] = []  # kernels are registered as long as their library lives
_resolved: dict[Any, Run] = {}
_followed: dict[Any, Run] = {}
_hosted: set[Any] = set()  # the resolved ones that the host computes
_decompositions = decompositions()
DROPPED = ("layout", "pin_memory", "memory_format", "non_blocking")  # arguments that do not affect values


def value_of(a: Any, look: Callable[[torch.Tensor], Any] = read) -> Any:
    """An argument as shadergrad's functions take it. look: how a tensor is read."""
    if isinstance(a, torch.Tensor):
        return look(a)
    if isinstance(a, (list, tuple)):
        return tuple(a) if isinstance(a, torch.Size) else type(a)([value_of(x, look) for x in a])
    return stored(a) if isinstance(a, torch.dtype) else a


def wrapped(value: Any) -> Any:
    """A result as PyTorch takes it."""
    if isinstance(value, Tensor):
        return wrap(value)
    if isinstance(value, (tuple, list)):
        return tuple([wrapped(v) for v in value])
    return value


def _wrapped_as(op: Any, args: Any, kwargs: Any, value: Any) -> Any:
    """The same if a dtype is stored as another: PyTorch's Meta kernels give the dtypes of the results."""
    leaves = pytree.tree_leaves((args, kwargs))
    named = (
        a.dtype if isinstance(a, torch.Tensor) else a for a in leaves if isinstance(a, (torch.Tensor, torch.dtype))
    )
    if not any(dtypes.is_substituted(dtype) for dtype in named):
        return wrapped(value)
    shown = op(*pytree.tree_map(_on_meta, args), **pytree.tree_map(_on_meta, kwargs))

    def as_shown(v: Any, m: Any) -> Any:
        if isinstance(v, Tensor):
            dtype = m.dtype if isinstance(m, torch.Tensor) else TORCH[v.dtype]
            return wrap(v if v.dtype is stored(dtype) else v.to(stored(dtype)), dtype)
        if isinstance(v, (tuple, list)):
            return tuple([as_shown(a, b) for a, b in zip(v, m, strict=True)])
        return v

    return as_shown(value, shown)


def _on_meta(a: Any) -> Any:
    if isinstance(a, torch.Tensor):
        return torch.empty_like(a, device="meta")
    return torch.device("meta") if isinstance(a, torch.device) else a


def _widened(out: Any, *given: Any) -> Any:
    """A result, as int64 where PyTorch has int64 and this library int32: integers of bools, unless the call names a dtype."""
    if isinstance(out, (tuple, list)):
        return tuple([_widened(part, *given) for part in out])
    if not isinstance(out, Tensor) or out.dtype is not sg.int32:
        return out
    leaves = pytree.tree_leaves(given)
    kinds = {x.dtype for x in leaves if isinstance(x, Tensor)}
    return out.to(sg.int64) if kinds == {sg.bool} and not any(isinstance(x, DType) for x in leaves) else out


def _own(name: str, op: Any) -> Run:
    """A kernel of the table, as the dispatcher calls it."""
    function, takes_tensors, takes_host, is_followed = KERNELS[name]
    if takes_tensors:
        decides = (
            not is_followed or function.__module__ == memory.__name__ or any(r.alias_info for r in op._schema.returns)
        )
        return function if decides or not op._schema.returns else as_pytorch_lays(name, op, function)
    look = read_or_move if takes_host else read
    takes_halves = name in halves.AS_THEY_ARE

    def run(*args: Any, **kwargs: Any) -> Any:
        values = [
            look(a) if isinstance(a, torch.Tensor) else value_of(a, look) if isinstance(a, (list, tuple)) else a
            for a in args
        ]
        named = {k: value_of(v, look) for k, v in kwargs.items()} if kwargs else kwargs
        if not takes_halves and halves.any_half(values):
            return wrapped(halves.in_single(function, op, (args, kwargs), values, named))
        out = _widened(function(*values, **named), values, named)
        if dtypes.any_substituted():
            return _wrapped_as(op, args, kwargs, out)
        return wrap(out) if isinstance(out, Tensor) else wrapped(out)

    return as_pytorch_lays(name, op, run)


def _same_name(op: Any, function: Callable[..., Any]) -> Run:
    """A shadergrad function, called with the arguments of the schema."""

    def run(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        while given and given[-1] is None:
            given.pop()
        named = {k: value_of(v) for k, v in kwargs.items() if v is not None and k not in DROPPED}
        refuse_generator(named.pop("generator", None))
        if "device" in named:
            named["device"] = Place.device
        values = [value_of(a) for a in given]
        out = _widened(function(*values, **named), values, named)
        if dtypes.any_substituted():
            return _wrapped_as(op, args, kwargs, out)
        return wrapped(out)

    return as_pytorch_lays(name_of(op), op, run)


def _functional_form(op: Any) -> Any:
    """The functional overload of an in-place or out= overload; None if PyTorch has none."""
    schema = op._schema
    library, packet = schema.name.split("::")
    rest = schema.overload_name
    if library != "aten":
        return None
    base = packet[:-1] if packet.endswith("_") and not packet.endswith("__") else packet
    room = getattr(torch.ops.aten, base, None)
    if room is None:
        return None
    wanted = [a.name for a in schema.arguments if not a.is_out]
    for candidate in (rest, rest.removesuffix("_out"), rest.removesuffix("out"), "default", *room.overloads()):
        found = getattr(room, candidate or "default", None)
        if found is None or found is op or any(a.alias_info for a in found._schema.arguments):
            continue
        if [a.name for a in found._schema.arguments][: len(wanted)] == wanted:
            return found
    return None


def _by_writing(op: Any, functional: Any) -> Run:
    """An in-place or out= operator: the functional form, then a write."""
    outs = [a.name for a in op._schema.arguments if a.is_out]
    makes = {a.name for a in functional._schema.arguments} & {"dtype", "device"}  # out of numbers, as linspace does

    def run(*args: Any, **kwargs: Any) -> Any:
        targets = [kwargs.pop(name) for name in outs] if outs else [args[0]]
        if outs and len(makes) == 2:
            kwargs = {"dtype": targets[0].dtype, "device": targets[0].device, **kwargs}
        result = call(functional, *args, **kwargs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        for target, value in zip(targets, results, strict=True):
            if not torch.can_cast(value.dtype, target.dtype):
                raise RuntimeError(
                    f"result type {_scalar(value)} can't be cast to the desired output type {_scalar(target)}"
                )
            if outs and target.shape != value.shape:
                target.resize_(value.shape)
            write(target, read(value))
        return targets[0] if len(targets) == 1 else tuple(targets)

    return run


NAMES = {torch.float32: "Float", torch.float64: "Double", torch.int64: "Long", torch.int32: "Int", torch.bool: "Bool"}


def _scalar(x: torch.Tensor) -> str:
    """PyTorch's name of a dtype in its errors."""
    return NAMES.get(x.dtype, str(x.dtype).removeprefix("torch.").capitalize())


def call(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operator on the device: PyTorch calls this if no kernel is registered."""
    how = _followed.get(op)
    if how is None:
        how = _followed[op] = _direct(op)
    return how(*args, **kwargs)


def _resolved_call(op: Any, *args: Any, **kwargs: Any) -> Any:
    how = _resolved.get(op)
    if how is None:
        how = _resolved[op] = _resolve(op)
    return how(*args, **kwargs)


def _on_host(op: Any) -> Run:
    _hosted.add(op)
    return lambda *args, **kwargs: on_host(op, args, kwargs)


def is_on_host(op: Any) -> bool:
    """Whether the device has no kernel for an operator, so that the host computes it."""
    if any(has_kernel(name_of(op), key) for key in (KEY, "CompositeImplicitAutograd", "CompositeExplicitAutograd")):
        return False
    if op not in _resolved:
        _resolved[op] = _resolve(op)
    return op in _hosted


def _resolve(op: Any) -> Run:
    schema, name = op._schema, name_of(op)
    if name in KERNELS:
        return _own(name, op)
    if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        functional = _functional_form(op)
        if functional is not None:
            return _by_writing(op, functional)
        return _on_host(op)
    if any(r.alias_info is not None for r in schema.returns):
        return lambda *args, **kwargs: _refuse_view(name)
    function = function_of(name)
    if function is not None:
        return _same_name(op, function)
    decomposition = _decompositions.get(op)
    if decomposition is None:
        return _on_host(op)
    return _decomposed(op, decomposition)


def _decomposed(op: Any, decomposition: Run) -> Run:
    """PyTorch's decomposition. Some call the operator itself, which the host then computes."""
    depth = 0

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth > 8:
            return on_host(op, args, kwargs)
        depth += 1
        try:
            out = decomposition(*args, **kwargs)
        finally:
            depth -= 1
        return on_host(op, args, kwargs) if out is NotImplemented else out

    return run


def _refuse_view(name: str) -> Any:
    """Refuses views made by the host: writes to the view or to its base would not reach the other."""
    raise NotImplementedError(
        f"[torch] aten::{name} has no kernel on the device webgpu, and a view of it on the host would be a copy."
    )


def _in_place(op: Any, name: str) -> Run:
    """The in-place form of a kernel over values, without consulting schemas, because optimizers call little else."""
    function, _, takes_host, _ = KERNELS[name]
    look = read_or_move if takes_host else read
    takes_halves = name in halves.AS_THEY_ARE

    def run(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        values = [read(x), *[value_of(a, look) for a in args]]
        if not takes_halves and halves.any_half(values):
            values = [halves.widened(v) for v in values]
        value = function(*values, **{k: value_of(v, look) for k, v in kwargs.items()})
        dtype = TORCH[value.dtype]
        if dtype is not x.dtype and not dtypes.is_substituted(x.dtype) and not torch.can_cast(dtype, x.dtype):
            raise RuntimeError(
                f"result type {NAMES.get(dtype, dtype)} can't be cast to the desired output type {_scalar(x)}"
            )
        return write(x, value)

    return run


def register() -> None:
    """Register every kernel, every operator for which shadergrad or PyTorch's decompositions have a function, and the general fallback."""
    kernels.load()
    library = torch.library.Library("aten", "IMPL")
    general = torch.library.Library("_", "IMPL")
    _libraries.extend((library, general))
    for name, (_, takes_tensors, _, is_followed) in KERNELS.items():
        op = overload(name)
        run = _own(name, op)
        library.impl(name, followed(op, run) if is_followed else run, KEY)
        base, _, rest = name.partition(".")
        in_place = f"{base}_.{rest}" if rest else f"{base}_"
        if not takes_tensors and in_place not in KERNELS and (target := overload(in_place)) is not None:
            library.impl(in_place, followed(target, _in_place(target, name)), KEY)
    for name, function in COMPOSITES.items():
        library.impl(name, function, KEY)
        library.impl(name, function, AUTOGRAD_KEY)
    for name, applies in WITH_GRADIENT_OF_TORCH.items():
        library.impl(name, kernel_or_composition(name, applies), AUTOGRAD_KEY)
    for name in operator_names():
        if name not in KERNELS and _is_asked_for(name):
            library.impl(name, _direct(overload(name)), KEY)
    general.fallback(call, KEY)


def _is_asked_for(name: str) -> bool:
    """Whether PyTorch would call a C++ kernel that needs more of a device than this one has, and there is a function in Python."""
    base, _, rest = name.partition(".")
    if rest.endswith("out") or base.endswith("_") or base.startswith("_foreach"):
        return False
    if has_kernel(name, "CompositeImplicitAutograd") or not has_kernel(name, "CompositeExplicitAutogradNonFunctional"):
        return False
    op = overload(name)
    if op is None or any(a.alias_info for a in op._schema.arguments):
        return False
    return function_of(name) is not None or op in _decompositions


def _direct(op: Any) -> Run:
    return followed(op, functools.partial(_resolved_call, op))


__all__ = ["call", "is_ours", "register", "value_of", "wrapped"]
