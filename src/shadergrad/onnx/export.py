"""A model to ONNX.

model, sample → graphs of primitives (captured.py) → nodes, by a rule each (elementwise, reductions, views, calls) → program
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ..arguments import refuse, whole
from ..compiled_module import CompiledModule
from ..errors import CompileError
from ..graph import node as nodes
from ..graph.node import grad_mode
from ..nn.functional.attention import ways
from ..nn.module import Module
from ..run.naming import name_arguments
from ..run.step import CompiledStep
from ..run.trees import exchange, tensors_in
from ..system.optional_packages import require
from ..tensor import Tensor
from ..tensor.creation import zeros
from ..version import __version__
from . import calls, elementwise, reductions, views
from .axes import Dynamic, from_axes, from_shapes
from .captured import Captured, Operation, captured, place
from .errors import OnnxError
from .program import OnnxProgram
from .sizes import Size, Sizes
from .state import exporting
from .writer import Value, Writer

OPSET = 18  # by default
OPSETS = (18, 24)  # that have the operators, in these forms
RULES: Mapping[str, Callable[..., Value]] = {**elementwise.RULES, **reductions.RULES, **views.RULES, **calls.RULES}
CLOSE = 1e-5  # to which onnxruntime must agree, where it is asked


def export(
    model: Callable[..., Any],
    args: Any = (),
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    keep_initializers_as_inputs: bool = False,
    external_data: bool | None = None,
    verify: bool = False,
) -> OnnxProgram:
    """A model as an ONNX program, for inference; with `path` also as a file. Needs the extra `onnx`.

    model: a module, which is exported as in eval mode and stays as it is, or a function of tensors. Nothing is computed.
    args, kwargs: a sample of its arguments, a tensor or a tuple, whose last element may be a dict of keyword arguments. Tensors become
    inputs, in order; other values are part of the program.
    input_names, output_names: instead of the names of the arguments, and of `output`.
    opset_version: of ONNX's operators, 18 by default.
    dynamic_axes: axes whose size may be another in each run: {input: {axis: name}} or {input: [axes]}. dynamic_shapes: the same by the
    arguments' names, or in their order, with Dims for axes. All other sizes are those of the sample. Axes of one name have one size.
    keep_initializers_as_inputs: weights are inputs, too, which a run may replace.
    external_data: whether weights lie in a second file, by default where one file cannot hold them.
    verify: run the program in onnxruntime, on the sample, and compare with the model to 1e-5.

    Raises OnnxError for a model that draws random numbers, changes its buffers or applies an operation that ONNX lacks, and where sizes
    decide what it computes in a way that cannot be followed; CompileError where it reads values of tensors in Python.

    >>> program = sg.onnx.export(nn.Linear(2, 3), sg.ones(4, 2), dynamic_axes={"input": {0: "batch"}})
    >>> program
    OnnxProgram(4 nodes, input -> output)
    >>> program(sg.ones(7, 2))[0].shape
    shadergrad.Size([7, 3])
    """
    onnx = require("onnx", "onnx", "export to ONNX")
    if not callable(model):
        refuse("export", "model", model, "nn.Module or a function of tensors")
    if path is not None and not isinstance(path, str | os.PathLike):
        refuse(
            "export", "path", path, "a path. Hint: file.write(program.model_proto.SerializeToString()) for an open file"
        )
    opset = _opset(opset_version, onnx)
    model = _unwrapped(model)
    args, kwargs = _arguments(args, kwargs)
    tensors = [t for _, t in tensors_in((args, kwargs))]
    if len({id(t) for t in tensors}) < len(tensors):
        raise OnnxError(
            "[onnx] the sample has the same tensor twice. Hint: a clone() for one of them: they are two inputs."
        )
    named = name_arguments(model, args, kwargs)
    inputs = _names([named.get(id(t), f"input_{k}") for k, t in enumerate(tensors)], input_names, "input")
    results: list[str] = []
    with _in_eval_mode(model), grad_mode(False), exporting():
        function = _function(model, args, kwargs, tensors, results)
        dynamic = _dynamic(model, args, kwargs, dynamic_axes, dynamic_shapes, inputs, output_names or (), tensors)
        with _composed_attention() if dynamic.names else nullcontext():
            graph, dynamic = _capture(function, tensors, dynamic)
        outputs = _names([re.sub(r"^result", "output", r) for r in results], output_names, "output")
        if both := {*inputs} & {*outputs}:
            raise OnnxError(
                f"[onnx] inputs and outputs are both called {', '.join(sorted(both))}. Hint: output_names=[...] gives others."
            )
        program = _program(graph, inputs, outputs, dynamic, opset, keep_initializers_as_inputs)
        if verify:
            _verify(program, function, tensors)
    if path is not None:
        program.save(path, external_data)
    return program


def _opset(wanted: int | None, onnx: Any) -> int:
    low, high = OPSETS[0], min(OPSETS[1], onnx.defs.onnx_opset_version())
    opset = OPSET if wanted is None else whole("export", "opset_version", wanted)
    if not low <= opset <= high:
        raise OnnxError(f"[onnx] opset_version is {opset}; programs are written for {low} to {high}.")
    return opset


def _unwrapped(model: Any) -> Any:
    """The model behind sg.compile."""
    while isinstance(model, CompiledModule | CompiledStep):
        model = model._orig_mod if isinstance(model, CompiledModule) else model._function
    return model


def _arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = tuple(args) if isinstance(args, tuple | list) else (args,)
    if not kwargs and args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], args[-1]
    return args, dict(kwargs or {})


def _names(found: Sequence[str], given: Sequence[str] | None, kind: str) -> list[str]:
    """Names for inputs or outputs: those that are given, then those that were found, in letters and digits, each once."""
    if isinstance(given, str) or not all(isinstance(name, str) and name for name in given or ()):
        raise OnnxError(f"[onnx] {kind}_names is {given!r}. Hint: a list of names, one for each tensor.")
    given = list(given or ())
    if len({*given}) < len(given):
        raise OnnxError(f"[onnx] {kind}_names has a name twice: {given}.")
    if len(given) > len(found):
        raise OnnxError(f"[onnx] {len(given)} {kind} names are given, for {len(found)} {kind}s.")
    names: list[str] = []
    for k, name in enumerate(found):
        name = given[k] if k < len(given) else re.sub(r"\W+", "_", name).strip("_") or f"{kind}_{k}"
        while name in names:
            name += "_"
        names.append(name)
    return names


@contextmanager
def _in_eval_mode(model: Any) -> Iterator[None]:
    """Every module of the model in eval mode, and afterwards as it was."""
    owner = model if isinstance(model, Module) else getattr(model, "__self__", None)  # of a method
    before = [(m, m.training) for m in owner.modules()] if isinstance(owner, Module) else []
    try:
        if isinstance(owner, Module):
            owner.eval()
        yield
    finally:
        for m, training in before:
            m.training = training


@contextmanager
def _composed_attention() -> Iterator[None]:
    """Attention as one operation has a least length, and is another operation below it: with sizes that vary, it is composed."""
    before, ways.composed_alone = ways.composed_alone, True
    try:
        yield
    finally:
        ways.composed_alone = before


def _function(
    model: Callable[..., Any], args: Any, kwargs: Any, tensors: Sequence[Tensor], results: list[str]
) -> Callable[..., Any]:
    """The model as a function of its tensors that gives all tensors of its result, each by itself. results: their paths."""

    def function(*given: Tensor) -> tuple[Tensor, ...]:
        instead = {id(t): g for t, g in zip(tensors, given, strict=True)}
        own, named = exchange((args, kwargs), Tensor, lambda t: instead[id(t)])
        found = list(tensors_in(model(*own, **named), "result"))
        results[:] = [path for path, _ in found]
        return tuple(t.clone() for _, t in found)

    return function


def _dynamic(
    model: Any,
    args: Any,
    kwargs: Any,
    axes: Any,
    shapes: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    tensors: Sequence[Tensor],
) -> Dynamic:
    if axes and shapes:
        raise OnnxError("[onnx] dynamic_axes and dynamic_shapes say the same. Hint: give one.")
    if shapes:
        forward = model.forward if isinstance(model, Module) else model
        bound = inspect.signature(forward).bind(*args, **kwargs)
        made = from_shapes(shapes, bound.arguments, inputs, tensors)
    else:
        made = from_axes(axes or {}, inputs, outputs or ("output",), tensors)
    made.check([t.shape for t in tensors])
    return made


def _capture(function: Callable[..., Any], tensors: Sequence[Tensor], dynamic: Dynamic) -> tuple[Captured, Dynamic]:
    """The graph, by the first choice of sizes that the model takes, and the axes that it was found with."""
    shapes = [t.shape for t in tensors]
    failed: Exception | None = None
    for axes in (dynamic, dynamic.merged(shapes)) if dynamic.unnamed else (dynamic,):
        for trial in axes.trials(shapes):
            try:
                return _captured_beyond(function, tensors, axes, trial), axes
            except CompileError as error:
                raise OnnxError(f"[onnx] the model does what no file can: {error}") from error
            except OnnxError:
                raise
            except Exception as error:
                if not dynamic.names:
                    raise
                failed = failed or error
    captured(
        function, [[_sized(t, k, Dynamic(), {}) for k, t in enumerate(tensors)]], [{}]
    )  # raises the error of a wrong sample
    sizes, reason = ", ".join(dict.fromkeys(dynamic.names.values())), str(failed).rstrip(".")
    raise OnnxError(
        f"[onnx] the model does not take other sizes of the dynamic axes ({sizes}): {reason}. Hint: one name for axes that must have one size; "
        "Dim(name, min=, max=) says which sizes there are; or export it with fixed sizes."
    ) from failed


def _captured_beyond(
    function: Callable[..., Any], tensors: Sequence[Tensor], axes: Dynamic, trial: Sequence[Sizes]
) -> Captured:
    """The graph for the sizes of a trial, and for larger ones than the sample's, unless the model does not take those."""

    def at(calls: Sequence[Sizes]) -> Captured:
        return captured(function, [[_sized(t, k, axes, of) for k, t in enumerate(tensors)] for of in calls], calls)

    if not axes.names:
        return at(trial)
    try:
        return at([*trial, axes.beyond([t.shape for t in tensors], trial)])
    except (CompileError, OnnxError):
        raise
    except Exception:  # as where there are no more positions
        return at(trial)


def _sized(t: Tensor, number: int, dynamic: Dynamic, sizes: Sizes) -> Tensor:
    """A tensor as the one of the sample, with other sizes."""
    shape = [sizes.get(dynamic.names.get((number, axis), ""), n) for axis, n in enumerate(t.shape)]
    if shape == list(t.shape):
        node = t.detach()._node
        if node.storage is None:
            node = t.detach().clone()._node
            return Tensor._of(node)
        return Tensor._of(nodes.leaf(node.storage, node.shape, node.dtype, node.device))
    return zeros(shape, dtype=t.dtype, device=t.device)


def _program(
    graph: Captured,
    inputs: Sequence[str],
    outputs: Sequence[str],
    dynamic: Dynamic,
    opset: int,
    weights_are_inputs: bool,
) -> OnnxProgram:
    w = Writer(dynamic.symbols(inputs))
    helper = w.onnx.helper
    values: dict[int, Value] = {}
    taken = {*inputs, *outputs}
    for row, name in zip(graph.inputs, inputs, strict=True):
        values[row] = w.value(name, graph.rows[row].shape, graph.rows[row].dtype)
    held: list[tuple[str, Any, np.ndarray]] = []
    for row, (name, array) in graph.held.items():
        while name in taken:
            name += "_"
        taken.add(name)
        held.append((name, graph.rows[row].dtype, array))
        values[row] = Value(name, array.shape, graph.rows[row].shape, graph.rows[row].dtype)
    for operation in graph.operations:
        values[operation.gives] = _applied(w, operation, [values[row] for row in operation.reads], graph)
    found = [w.full(values[row]) for row in graph.outputs]
    made = _needed(w, found, outputs)
    used = {name for n in made for name in n.input}
    for row, used_at in graph.varying.items():
        if values[row].name in used:
            raise OnnxError(
                f"[onnx] the model makes a tensor of Python's numbers ({graph.held[row][0]}), used{used_at}, and another one for other sizes of "
                "the dynamic axes. Hint: compute it of tensors, as sg.arange() does, or export the model with fixed sizes."
            )
    initializers = [_tensor(w, name, array, dtype) for name, dtype, array in held if name in used]
    initializers += [w.onnx.numpy_helper.from_array(a, name) for name, a in w.initializers.items() if name in used]
    rows = [graph.rows[row] for row in graph.inputs]
    infos = [_info(w, name, row) for name, row in zip(inputs, rows, strict=True)]
    if weights_are_inputs:
        infos += [helper.make_tensor_value_info(n, w.type_of(d), a.shape) for n, d, a in held if n in used]
    results = [graph.rows[row] for row in graph.outputs]
    given = [_info(w, name, row) for name, row in zip(outputs, results, strict=True)]
    opsets = [helper.make_opsetid("", opset)]
    proto = helper.make_model(
        helper.make_graph(made, "model", infos, given, initializers),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),
        producer_name="shadergrad",
        producer_version=__version__,
    )
    if proto.ByteSize() < 1 << 30:
        w.onnx.checker.check_model(proto)
    return OnnxProgram(
        proto,
        [(n, r.dtype) for n, r in zip(inputs, rows, strict=True)],
        [(n, r.dtype) for n, r in zip(outputs, results, strict=True)],
    )


def _applied(w: Writer, operation: Operation, inputs: Sequence[Value], graph: Captured) -> Value:
    rule = RULES.get(operation.primitive)
    out = graph.rows[operation.gives]
    if (
        rule is None
        and operation.primitive in elementwise.ELEMENTS
        and elementwise.has_form(operation.primitive, inputs[0].dtype)
    ):
        rule = elementwise.of_elements
    if rule is None:
        given = operation.parameters
        # a function on the host, a user's kernel, or a primitive
        name = given.get("function") or given.get("operation", {}).get("object", operation.primitive).rpartition(".")[2]
        of = f" of {inputs[0].dtype.name}" if inputs else ""
        raise OnnxError(
            f"[onnx] the model applies {name.lower()}{of}{place(operation.origin)}, for which there are no ONNX operators. Hint: export "
            "the part of the model before it, and compute the rest outside."
        )
    try:
        return rule(w, inputs, operation, out)
    except OnnxError as error:
        raise OnnxError(f"{error} This is {operation.primitive.lower()}{place(operation.origin)}.") from None


def _needed(w: Writer, found: Sequence[str], outputs: Sequence[str]) -> list[Any]:
    """The nodes that outputs need, in order, whose results are called as the outputs are."""
    by_result = {name: n for n in w.nodes for name in n.output}
    wanted: set[str] = set()
    left = list(found)
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += by_result[name].input if name in by_result else ()
    made = [n for n in w.nodes if wanted.intersection(n.output)]
    renamed: dict[str, str] = {}
    for name, output in zip(found, outputs, strict=True):
        if name in by_result and name not in renamed:
            renamed[name] = output
        else:
            made.append(w.onnx.helper.make_node("Identity", [name], [output]))
    for n in made:
        n.input[:] = [renamed.get(name, name) for name in n.input]
        n.output[:] = [renamed.get(name, name) for name in n.output]
    return made


def _tensor(w: Writer, name: str, array: np.ndarray, dtype: Any) -> Any:
    """A weight. NumPy holds bfloat16 as float32, whose upper half it is."""
    if dtype.is_half and array.dtype.itemsize > dtype.itemsize:
        upper = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return w.onnx.helper.make_tensor(name, w.type_of(dtype), array.shape, upper.tobytes(), raw=True)
    return w.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def _info(w: Writer, name: str, row: Any) -> Any:
    shape = [str(n) if isinstance(n, Size) else n for n in row.shape]
    return w.onnx.helper.make_tensor_value_info(name, w.type_of(row.dtype), shape)


def _verify(program: OnnxProgram, function: Callable[..., Any], tensors: Sequence[Tensor]) -> None:
    wanted = [np.asarray(t.numpy()) for t in function(*tensors)]
    found = [t.numpy() for t in program(*tensors)]
    for name, a, b in zip(program.output_names, wanted, found, strict=True):
        if a.shape != b.shape or not np.allclose(a, b, rtol=CLOSE, atol=CLOSE, equal_nan=True):
            worst = (
                np.abs(a.astype(float) - b.astype(float)).max()
                if a.shape == b.shape
                else f"shape {b.shape}, not {a.shape}"
            )
            raise OnnxError(f"[onnx] onnxruntime differs from the model in {name}: {worst}.")
