"""Modules called with other tensors than they hold, and the tensors of several modules as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ..errors import ArgumentError
from ..nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from ..nn.errors import ModuleError, ModuleKeyError, ModuleTypeError
from ..nn.utils.parametrize import is_parametrized, replaced
from ..tensor import Tensor, stack


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with other tensors instead of its parameters, buffers and plain attributes, by dotted names.

    parameter_and_buffer_dicts: a dict, or several with different names. Gradients go to those tensors. A buffer that the module
    replaces meanwhile is replaced in the dict, and not in the module. The name of a parametrized tensor stands for its value.
    strict: raise ModuleError for names of parameters and buffers that are missing or unknown. tie_weights: tensors that the
    module holds under several names are replaced under all. Raises ArgumentError for two values of those, ModuleTypeError for what is no
    tensor, or stands in the place of none.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> sg.func.functional_call(layer, {"weight": sg.ones(1, 2)}, (sg.ones(3, 2),))
    tensor([[2.],
            [2.],
            [2.]])
    """
    given = _united(parameter_and_buffer_dicts)
    tied = _tied(module, given) if tie_weights else given
    if strict:
        known = [*_names(module)]
        unexpected = [name for name in tied if name not in known]
        missing = [name for name in known if name not in tied]
        problems = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
        problems += [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else []
        if problems:
            raise ModuleError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems))
    with ExitStack() as stack:
        places = {name: stack.enter_context(_exchanged(module, name, value)) for name, value in tied.items()}
        result = module(*(args if isinstance(args, tuple) else () if args is None else (args,)), **(kwargs or {}))
        now = {name: places[name]() for name in given}
    if isinstance(parameter_and_buffer_dicts, dict):  # what the module put in place of them, as a count of batches
        parameter_and_buffer_dicts.update({n: v for n, v in now.items() if v is not parameter_and_buffer_dicts[n]})
    return result


def _united(dicts: Any) -> dict[str, Any]:
    """One dict of several, whose names must be different."""
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, Sequence) or not all(isinstance(d, dict) for d in dicts):
        raise ArgumentError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = Counter(name for d in dicts for name in d)
    repeated = [name for name, often in names.items() if often > 1]
    if repeated:
        raise ArgumentError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: value for d in dicts for name, value in d.items()}


def _names(module: Module) -> Iterator[str]:
    """Of all parameters and buffers, of shared ones all names."""
    for named in (module.named_parameters, module.named_buffers):
        for name, _ in named(remove_duplicate=False):
            yield name


def _tied(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """What is given, for every name of what the module holds under several."""
    tensors = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    by_tensor: dict[int, list[str]] = {}
    for name, t in tensors:
        by_tensor.setdefault(id(t), []).append(name)
    result = dict(given)
    for names in by_tensor.values():
        values = [given[name] for name in names if name in given]
        if any(value is not values[0] for value in values):
            raise ArgumentError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if values:
            result.update(dict.fromkeys(names, values[0]))
    return result


@contextmanager
def _exchanged(module: Module, path: str, value: Any) -> Iterator[Callable[[], Any]]:
    """Within, `value` is the parameter, buffer or other tensor of a dotted name. Gives a function: what is there now."""
    if value is not None and not isinstance(value, Tensor):
        raise ModuleTypeError(f"{value} is not an instance of shadergrad.Tensor")
    prefix, _, name = path.rpartition(".")
    if not name:
        raise ModuleKeyError('tensor name can\'t be empty string ""')
    part: Module = module.get_submodule(prefix)
    if is_parametrized(part, name) and value is not None:
        with replaced(part, name, value):
            yield lambda: value
        return
    tables: list[Any] = [part._parameters, part._buffers]
    table: dict[str, Any] = next((t for t in tables if name in t), part.__dict__)
    if table is part.__dict__:
        if isinstance(getattr(type(part), name, None), property):  # which would be read all the same
            raise ModuleTypeError(
                f"`{path}` is computed by {type(part).__name__} and cannot be replaced. Hint: replace the tensors that it is computed of."
            )
        before = getattr(part, name, None)
        if before is not None and not isinstance(before, Tensor):
            raise ModuleTypeError(f"attribute `{name}`: {before} is not an instance of shadergrad.Tensor")
    was_there = name in table
    before = table.get(name)
    table[name] = value
    try:
        yield lambda: table.get(name)
    finally:
        if was_there:
            table[name] = before
        else:
            table.pop(name, None)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of models of one structure, stacked along a new first axis, by name: for vmap.

    >>> params, buffers = sg.func.stack_module_state([nn.Linear(2, 1), nn.Linear(2, 1)])
    >>> params["weight"].shape
    shadergrad.Size([2, 1, 2])
    """
    if not models:
        raise ArgumentError("stack_module_state(): Expected at least one model, got 0.")
    params: dict[str, Tensor] = {
        name: stack([dict(m.named_parameters())[name].detach() for m in models]).requires_grad_()
        for name, _ in models[0].named_parameters()
    }
    buffers = {name: stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()}
    return params, buffers


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let all batch norms of a module use the batch's statistics and track none, in place; gives the module.

    >>> layer = sg.func.replace_all_batch_norm_modules_(nn.BatchNorm1d(2))
    >>> layer.running_mean is None
    True
    """
    for part in root.modules():
        if isinstance(part, BatchNorm1d | BatchNorm2d | BatchNorm3d):
            part.running_mean = part.running_var = part.num_batches_tracked = None
            part.track_running_stats = False
    return root
