"""torch.compile(backend="shadergrad"): each graph of PyTorch's, forward and backward, is one compiled step.

In: a graph of AOTAutograd's, which is functional but for copies of new values into its arguments, after all else. Out: a function that
replays a plan, and then gives those arguments their new values.
A graph is captured by running it once over torch.Tensors of the device, through dispatch.py: so uncompiled and compiled programs use
the same kernels. A graph with an operator that needs values, or the host, runs operator by operator, with a warning.
https://docs.pytorch.org/docs/stable/torch.compiler_custom_backends.html
"""

from __future__ import annotations

import collections
import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from ..errors import CompileError
from ..run.step import CompiledStep
from ..tensor import Tensor
from . import dispatch
from .callers import users_line
from .dtypes import STORED
from .private import (
    aot_autograd,
    before_optimizers,
    full_name,
    name_of,
    skip_when_tracing,
    trace_functions_over_lists,
)
from .storage import cell_of, is_ours, offset_of, read, view, wrap, write

aten = torch.ops.aten
RESHAPED = {  # layouts in a capture may differ from PyTorch's: a tensor that is contiguous there may not be so here
    aten.view.default: aten.reshape.default,
    aten._unsafe_view.default: aten.reshape.default,
    aten._reshape_alias.default: lambda x, size, stride: x.reshape(size),
}
NEEDS_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class UncompiledGraph(UserWarning):
    """A graph of torch.compile runs operator by operator on the device."""


def _is_tensor(meta: Any) -> bool:
    return isinstance(meta, torch.Tensor)


def _dtype(meta: Any) -> torch.dtype | None:
    return meta.dtype if _is_tensor(meta) else None


def _writes(graph: torch.fx.Graph) -> dict[torch.fx.Node, tuple[int, torch.fx.Node]]:
    """The copies of new values into arguments of a graph that nothing reads afterwards: by node, the argument's number and the value."""
    place = {node: k for k, node in enumerate(graph.nodes)}
    arguments = {node: k for k, node in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    found = {}
    for node in graph.nodes:
        if node.target is not aten.copy_.default or node.users or node.args[0] not in arguments:
            continue
        if all(place[user] <= place[node] and user not in found for user in node.args[0].users):
            found[node] = arguments[node.args[0]], node.args[1]
    return found


def _reasons(graph: torch.fx.Graph, writes: Collection[torch.fx.Node]) -> Iterator[str]:
    """The reasons why a graph cannot be one step, in words."""
    constant: set[torch.fx.Node] = set()  # nodes that PyTorch's cpu computes from constants, once, during the capture
    for node in graph.nodes:
        value = node.meta.get("val")
        is_operator = isinstance(node.target, torch._ops.OpOverload)
        is_elsewhere = _is_tensor(value) and value.device.type != "webgpu"
        if node.op == "get_attr" or (is_elsewhere and is_operator and _is_constant(node, constant)):
            constant.add(node)
        elif node.op in ("placeholder", "call_function") and is_elsewhere:
            yield f"{node.name} is a tensor on {value.device}, and a step runs on one device"
        elif node in writes:
            pass
        elif node.op == "call_function" and is_operator:
            yield from _reasons_of(node, node.target)
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            yield f"it calls {node.target}, an operator over graphs"
        elif node.op not in ("placeholder", "call_function", "output"):
            yield f"it calls {node.target}"


def _is_constant(node: torch.fx.Node, constant: set[torch.fx.Node]) -> bool:
    is_random = torch.Tag.nondeterministic_seeded in node.target.tags  # type: ignore[union-attr]
    return not is_random and all(n in constant for n in node.all_input_nodes)


def _reasons_of(node: torch.fx.Node, op: Any) -> Iterator[str]:
    name = full_name(name_of(op))
    if any(tag in op.tags for tag in NEEDS_VALUES) and (op is not aten.index.Tensor or _has_mask(node)):
        yield f"the result of {name} depends on values"
    if dispatch.is_on_host(op):
        yield f"{name} has no kernel on the device"
    for given, argument in zip(node.args, op._schema.arguments, strict=False):
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if is_written and isinstance(given, torch.fx.Node) and given.op == "placeholder":
            yield f"{name} writes an argument of the graph"


def _has_mask(node: torch.fx.Node) -> bool:
    masks = (torch.bool, torch.uint8)
    return any(i is not None and i.meta["val"].dtype in masks for i in node.args[1])  # type: ignore[union-attr]


def _order(meta: Any) -> tuple[int, ...] | None:
    """The memory order of a result's axes, outermost first; None if it is row-major, as shadergrad's tensors are."""
    if not _is_tensor(meta) or meta.is_contiguous():
        return None
    strides = [int(s) for s in meta.stride()]
    order = tuple(sorted(range(len(strides)), key=lambda i: (-strides[i], i)))
    expected = 1
    for i in reversed(order):
        if int(meta.shape[i]) != 1 and strides[i] != expected:
            return None  # expanded, or with gaps: no view of its memory is made
        expected *= int(meta.shape[i])
    return order


class Graph:
    """One graph: a compiled step, called with a list of its arguments, which it empties."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._boxed_call = True  # AOTAutograd reads it: the caller then holds no argument longer than needed
        self.module = module
        self.nodes = list(module.graph.nodes)
        held = [operator.attrgetter(node.target)(module) for node in self.nodes if node.op == "get_attr"]
        self.constants = [x for x in held if is_ours(x)]
        given = [n.meta.get("val") for n in self.nodes if n.op == "placeholder"]
        self.dtypes = [_dtype(m) for m in given]
        results = self.nodes[-1].args[0]
        self.results: Sequence[Any] = results  # type: ignore[assignment]
        metas = [n.meta.get("val") if isinstance(n, torch.fx.Node) else None for n in self.results]
        self.result_dtypes = [_dtype(m) for m in metas]
        self.orders = [_order(m) for m in metas]
        self.writes = _writes(module.graph)
        self._layouts: dict[Any, int] = {}  # of arguments, with a number for each combination
        self.step: CompiledStep[Any, Any] | None = CompiledStep(self._values)
        if reason := next(_reasons(module.graph, self.writes), None):
            self._run_op_by_op(reason)

    def _run_op_by_op(self, reason: str) -> None:
        self.step = None
        line = users_line()
        warnings.warn(
            f"a graph of torch.compile runs op by op on the device webgpu{f' (called at {line})' if line else ''}: {reason}.",
            UncompiledGraph,
            stacklevel=3,
        )

    def __call__(self, args: list[Any]) -> Any:
        for constant in self.constants:  # before the capture: computed within the step, it would be a part of it
            _ = cell_of(constant).value
        if self.step is None:
            given = [*args]
            args.clear()
            with torch.no_grad():
                return self.module(*given)
        values, layouts = zip(*map(_taken, args), strict=True) if args else ((), ())
        try:
            found: Any = self.step(*values, self._layouts.setdefault(layouts, len(self._layouts)))
        except CompileError as error:
            self._run_op_by_op(str(error).splitlines()[0].rstrip("."))
            return self(args)
        made, shown, written = found
        for (k, _), value in zip(self.writes.values(), written, strict=True):
            write(args[k], value)
        args.clear()
        wholes: list[Any] = [None] * len(made)
        return [self._wrapped(made, wholes, *where) if isinstance(where, tuple) else where for where in shown.each]

    def _wrapped(self, made: Any, wholes: list[Any], k: int, dtype: Any, layout: Any) -> torch.Tensor:
        """A result: the whole of a tensor that the step made, or a view over it, whose storage it shares with others."""
        if wholes[k] is None:
            wholes[k] = wrap(made[k], dtype)
            if layout is None:
                return wholes[k]
        shape, stride, offset = layout or (wholes[k].shape, wholes[k].stride(), 0)
        return view(wholes[k], shape, stride, offset)

    def _values(self, *given: Any) -> tuple[Any, ...]:
        """The graph's results, computed from the values of its arguments and the number of their layouts: the function that the step captures.

        Returns the storages of the results, for each result its storage and layout, and the new values of arguments.
        """
        *values, number = given
        with torch.no_grad():
            found: dict[torch.fx.Node, Any] = {}
            layouts = next(each for each, n in self._layouts.items() if n == number)
            arguments: Iterator[Any] = iter(zip(values, self.dtypes, layouts, strict=True))
            look = found.__getitem__
            for node in self.nodes:
                if node.op == "placeholder":
                    value, dtype, layout = next(arguments)
                    value = wrap(value, dtype) if isinstance(value, Tensor) else value
                    found[node] = value if layout is None else view(value, *layout)
                elif node.op == "get_attr":
                    found[node] = operator.attrgetter(node.target)(self.module)
                elif node.op == "call_function" and node not in self.writes:
                    args, kwargs = torch.fx.map_arg(node.args, look), torch.fx.map_arg(node.kwargs, look)
                    found[node] = RESHAPED.get(node.target, node.target)(*args, **kwargs)
            written = [read(found[value]) for _, value in self.writes.values()]
            return *self._shown([found[r] if isinstance(r, torch.fx.Node) else r for r in self.results]), written

    def _shown(self, results: list[Any]) -> tuple[list[Any], _Shown]:
        users = _users(results)
        results = [
            _laid(r, order) if order is not None and users[_storage(r)] == 1 else r
            for r, order in zip(results, self.orders, strict=True)
        ]
        users = _users(results)  # all results stay alive until the end, so that no two storages have one address
        places: dict[int, int] = {}
        made: list[Any] = []
        shown: list[Any] = []
        for result, dtype in zip(results, self.result_dtypes, strict=True):
            if not isinstance(result, torch.Tensor):
                shown.append(result)
                continue
            layout = _layout_of(result)
            if layout is None and (users[_storage(result)] == 1 or not _is_plain(result)):
                made.append(read(result))
                shown.append((len(made) - 1, dtype, None))
                continue
            at = places.get(_storage(result))
            if at is None:
                at = places[_storage(result)] = len(made)
                made.append(cell_of(result).value)
            shown.append((at, dtype, layout or (tuple(result.shape), result.stride(), 0)))
        return made, _Shown(shown)


class _Shown:
    """For each result the number of its storage, its dtype and its layout; or the result, if it is not a tensor. Not a container, so that
    the replay of a step does not look for tensors within.
    """

    __slots__ = ("each",)

    def __init__(self, each: list[Any]) -> None:
        self.each = each


def _users(results: list[Any]) -> collections.Counter[int]:
    """The number of results in each storage."""
    return collections.Counter(_storage(r) for r in results if isinstance(r, torch.Tensor))


def _storage(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata


def _is_plain(x: torch.Tensor) -> bool:
    """Whether the values in the storage are those of the tensor: no view as another dtype, and no lazy conjugate."""
    return cell_of(x).value.dtype is STORED[x.dtype] and not x.is_conj() and not x.is_neg()


def _layout_of(x: torch.Tensor) -> Any:
    """Shape, strides and offset; None if a tensor is all of its storage in row-major order, or is not plain."""
    if (x.is_contiguous() and x.numel() == cell_of(x).value.numel()) or not _is_plain(x):
        return None
    return tuple(x.shape), x.stride(), offset_of(x)


def _taken(x: Any) -> tuple[Any, Any]:
    """An argument as the step takes it, and its layout."""
    if not isinstance(x, torch.Tensor):
        return x, None
    value, dtype = cell_of(x).value, STORED[x.dtype]
    node = value._node
    if node.shape == x.shape and node.dtype is dtype and x.is_contiguous() and not x.is_conj() and not x.is_neg():
        return value, None  # most often
    layout = _layout_of(x)
    return (read(x), None) if layout is None else (value, layout)


def _laid(x: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """The same values, in the memory order of PyTorch's own kernels."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return x.permute(order).contiguous().permute(back)


def _count_on_device(optimizer: torch.optim.Optimizer) -> None:
    """Let an optimizer without state count its steps on the device, as PyTorch's compiler does for CUDA: a count on the host would
    be a tensor of another device in the graph. If it has state, PyTorch moves the counts itself.
    """
    for group in optimizer.param_groups:
        if "capturable" in group and all(is_ours(p) and p not in optimizer.state for p in group["params"]):
            group["capturable"] = True


# this module is imported when a program asks for the backend, before PyTorch traces
skip_when_tracing(__name__.partition(".")[0])
trace_functions_over_lists()
before_optimizers(_count_on_device)


def _compiled(module: torch.fx.GraphModule, example: Any) -> Callable[[list[Any]], Any]:
    return Graph(module)


def backend(module: torch.fx.GraphModule, example: Any, **options: Any) -> Callable[..., Any]:
    """The function that torch.compile calls with a graph. torch.compile(options=) has no valid options, and raises TypeError.

    >>> torch.compile(model, backend="shadergrad")(x)
    """
    if options:
        raise TypeError(
            f'torch.compile(backend="shadergrad") has no options, not {sorted(options.get("options", options))}.'
        )
    return aot_autograd(_compiled)(module, example)
