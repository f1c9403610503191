"""Functions of functions, as torch.func: gradients, products with Jacobians, calls with other parameters, batches.

They are composed of `autograd`: forward-mode products differentiate backwards twice, and `vmap` calls the function for each
element of the batch, which the compiler then fuses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from . import autograd
from .arguments import checked
from .autograd import enable_grad
from .autograd.activation_checkpointing import Streams
from .errors import ArgumentError, AutogradError
from .nn import Module
from .tensor import Tensor, stack

# -- trees of tensors


def _leaves(tree: Any) -> list[Tensor]:
    """The tensors in nested dicts, lists and tuples, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, Mapping):
        return [leaf for value in tree.values() for leaf in _leaves(value)]
    if isinstance(tree, list | tuple):
        return [leaf for value in tree for leaf in _leaves(value)]
    return []


def _mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same form with function(tensor) for each tensor."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, Mapping):
        return type(tree)((k, _mapped(function, v)) for k, v in tree.items())  # type: ignore[call-arg]
    if isinstance(tree, list | tuple):
        parts = [_mapped(function, v) for v in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _filled(tree: Any, values: Any) -> Any:
    """A tree of the same form with the next of `values` for each tensor."""
    return _mapped(lambda _: next(values), tree)


def _recorded(tree: Any) -> Any:
    """Views of the tensors that record: gradients of higher order go on to what they are of."""
    return _mapped(lambda x: x.clone() if x.requires_grad else x.detach().requires_grad_(), tree)


def _numbers(argnums: int | tuple[int, ...]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


_depth = [0]  # of the transformations that run


def _nested() -> bool:
    return _depth[0] > 1


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Inner transformations record, for the outer ones."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        _depth[0] += 1
        try:
            return function(*args, **kwargs)
        finally:
            _depth[0] -= 1

    return run


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (gradient, value) of `func`, which gives one number; see `grad`.

    >>> sg.func.grad_and_value(lambda x: (x * x).sum())(sg.tensor([3.0]))
    (tensor([6.]), tensor(9.))
    """

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            chosen = _numbers(argnums)
            given = [_recorded(a) if k in chosen else a for k, a in enumerate(args)]
            found = func(*given, **kwargs)
            value, aux = found if has_aux else (found, None)
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise AutogradError("[func.grad] the function must give a tensor of one element.")
            deeper = any(x.requires_grad for a in args for x in _leaves(a))
            wanted = [x for k in chosen for x in _leaves(given[k])]
            grads = autograd.grad(value.reshape(()), wanted, create_graph=deeper or _nested(), allow_unused=True)
        filled = iter([x.detach() * 0 if g is None else g for g, x in zip(grads, wanted, strict=True)])
        results = tuple(_filled(given[k], filled) for k in chosen)
        first = results[0] if isinstance(argnums, int) else results
        shown = value if deeper or _nested() else value.detach()
        return (first, (shown, aux)) if has_aux else (first, shown)

    return _counted(differentiated)


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of `func`, which gives a tensor of one element, as a function of the same arguments.

    argnums: which of them, each a tensor or nested dicts, lists and tuples of them. has_aux: func gives (value, anything),
    and so does the result. Nests: grad(grad(f)). Raises AutogradError for another value.

    >>> sg.func.grad(lambda x: (x**3).sum())(sg.tensor([2.0]))
    tensor([12.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


@_counted
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(value, function of cotangents of the value that gives those of primals), and what func gave beside the value.

    >>> value, pull = sg.func.vjp(lambda x: x * x, sg.tensor([3.0]))
    >>> pull(sg.tensor([1.0]))
    (tensor([6.]),)
    """
    with enable_grad():
        given = [_recorded(p) for p in primals]
        found = func(*given)
    value, aux = found if has_aux else (found, None)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple[Any, ...]:
        wanted = [x for p in given for x in _leaves(p)]
        outputs = [v for v in _leaves(value) if v.requires_grad]
        pairs = [(v, c) for v, c in zip(_leaves(value), _leaves(cotangents), strict=True) if v.requires_grad]
        deeper = _depth[0] > 0 or any(x.requires_grad for p in primals for x in _leaves(p)) or bool(create_graph)
        grads: Any = [None] * len(wanted)
        if outputs:
            grads = autograd.grad(
                outputs, wanted, [c for _, c in pairs], retain_graph=True, create_graph=deeper, allow_unused=True
            )
        filled = iter([x.detach() * 0 if g is None else g for g, x in zip(grads, wanted, strict=True)])
        return tuple(_filled(p, filled) for p in given)

    shown = value if _nested() else _mapped(lambda v: v.detach(), value)
    return (shown, pull, aux) if has_aux else (shown, pull)


@_counted
def jvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, has_aux: bool = False) -> Any:
    """(value, Jacobian times tangents) of func at primals: differentiated backwards twice.

    >>> sg.func.jvp(lambda x: x * x, (sg.tensor([3.0]),), (sg.tensor([1.0]),))
    (tensor([9.]), tensor([6.]))
    """
    with enable_grad():
        given = [_recorded(p) for p in primals]
        found = func(*given)
        value, aux = found if has_aux else (found, None)
        outputs = _leaves(value)
        probes = [(o.detach() * 0).requires_grad_() for o in outputs]
        wanted = [x for p in given for x in _leaves(p)]
        smooth = [(o, p) for o, p in zip(outputs, probes, strict=True) if o.requires_grad]
        pushed: dict[int, Tensor] = {}
        if smooth:
            pulled = autograd.grad(
                [o for o, _ in smooth], wanted, [p for _, p in smooth], create_graph=True, allow_unused=True
            )
            along = [
                (g, t)
                for g, t in zip(pulled, _leaves(tuple(tangents)), strict=True)
                if g is not None and g.requires_grad
            ]
            if along:
                grads = autograd.grad(
                    [g for g, _ in along],
                    [p for _, p in smooth],
                    [t for _, t in along],
                    create_graph=_nested(),
                    allow_unused=True,
                )
                pushed = {id(o): g for (o, _), g in zip(smooth, grads, strict=True) if g is not None}
    tangent = _filled(value, iter([pushed.get(id(o), o.detach() * 0) for o in outputs]))
    shown = value if _nested() else _mapped(lambda v: v.detach(), value)
    return (shown, tangent, aux) if has_aux else (shown, tangent)


def jacrev(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The Jacobian of a function of tensors as a function: (*shape of the value, *shape of the argument).

    >>> sg.func.jacrev(lambda x: x * x)(sg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        def of_one(x: Any) -> Any:
            return func(*(x if k == argnums else a for k, a in enumerate(args)))

        return autograd.functional.jacobian(of_one, args[argnums], create_graph=_nested())

    return _counted(jacobian)


jacfwd = jacrev


def hessian(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The Hessian of a function that gives one number, as a function.

    >>> sg.func.hessian(lambda x: (x**3).sum())(sg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    @functools.wraps(func)
    def second(*args: Any) -> Any:
        def of_one(x: Any) -> Any:
            return func(*(x if k == argnums else a for k, a in enumerate(args)))

        return autograd.functional.hessian(of_one, args[argnums], create_graph=_nested())

    return _counted(second)


@checked
def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` over a batch: called for each element along the axes in_dims, results stacked along out_dims.

    in_dims: an axis, or one for each argument, or nested as the arguments are; None for what all share. Keyword arguments are
    shared. out_dims: an axis, one for each part of a tuple, None for a result that is the same for all and stays as it is. The
    function is called as often as the batch is long (PyTorch: once), so it may look at values and shapes as one element has
    them, and long batches take long to record. randomness: 'different', every call draws for itself; 'same', all draw the
    same; 'error', a call that draws raises AutogradError. chunk_size changes nothing. Raises ArgumentError for no batch axis, for
    one that a tensor has not, for batches of different sizes, and for results that are no tensors.

    >>> sg.func.vmap(lambda a, b: (a * b).sum())(sg.ones(2, 3), sg.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentError(f"vmap(): randomness must be 'error', 'different' or 'same', but got {randomness!r}.")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        axes = in_dims if isinstance(in_dims, list | tuple) else (in_dims,) * len(args)
        if len(axes) != len(args):
            raise ArgumentError(f"vmap(): in_dims has {len(axes)} entries for {len(args)} arguments.")
        taken = [(x, d) for a, axis in zip(args, axes, strict=True) for x, d in _with_axes(a, axis) if d is not None]
        for x, d in taken:
            if not -x.ndim <= d < x.ndim:
                raise ArgumentError(f"vmap(): in_dims has the axis {d} for a tensor of shape {tuple(x.shape)}.")
        sizes = {x.shape[d] for x, d in taken}
        if len(sizes) != 1:
            raise ArgumentError(
                f"vmap(): Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}."
            )
        streams = Streams()
        results = []
        for k in range(sizes.pop()):
            parts = [iter(_with_axes(a, d)) for a, d in zip(args, axes, strict=True)]
            one = [_mapped(lambda _, p=p, k=k: _part(*next(p), k), a) for a, p in zip(args, parts, strict=True)]
            again = streams.rewound(None) if randomness == "same" else nullcontext()
            with again if k else streams.watched():
                results.append(func(*one, **kwargs))
            if not k and streams.drawn and randomness == "error":
                raise AutogradError(
                    "vmap(): the function draws random numbers. Hint: randomness='different' or randomness='same'."
                )
        if not results:
            raise ArgumentError("vmap(): the batch is empty.")
        return _stacked(results, out_dims)

    return batched


def _with_axes(tree: Any, axes: Any) -> list[tuple[Tensor, int | None]]:
    """The tensors of a tree in order, each with its axis; axes: one for all, or nested as the tree is."""
    if axes is None or isinstance(axes, int):
        return [(leaf, axes) for leaf in _leaves(tree)]
    if isinstance(tree, Mapping) and isinstance(axes, Mapping) and tree.keys() == axes.keys():
        return [found for key, value in tree.items() for found in _with_axes(value, axes[key])]
    if isinstance(tree, list | tuple) and isinstance(axes, list | tuple) and len(tree) == len(axes):
        return [found for value, axis in zip(tree, axes, strict=True) for found in _with_axes(value, axis)]
    raise ArgumentError(f"vmap(): in_dims {axes!r} is not built as its argument, a {type(tree).__name__}.")


def _part(x: Tensor, axis: int | None, k: int) -> Tensor:
    return x if axis is None else x.select(axis, k)


def _stacked(results: list[Any], out_dims: Any) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        axis = out_dims[0] if isinstance(out_dims, list | tuple) and len(out_dims) == 1 else out_dims
        if axis is not None and not isinstance(axis, int):
            raise ArgumentError(f"vmap(): out_dims {out_dims!r} is for several results, the function gives one.")
        return first if axis is None else stack(results, axis)
    if isinstance(first, tuple) and isinstance(out_dims, tuple):
        if len(out_dims) != len(first):
            raise ArgumentError(f"vmap(): out_dims has {len(out_dims)} entries for {len(first)} results.")
        return tuple(_stacked([r[k] for r in results], d) for k, d in enumerate(out_dims))
    if isinstance(first, list | tuple):
        return type(first)(_stacked([r[k] for r in results], out_dims) for k in range(len(first)))
    if isinstance(first, Mapping):
        return {k: _stacked([r[k] for r in results], out_dims) for k in first}
    raise ArgumentError(f"vmap(): the function gives a {type(first).__name__}, not tensors.")


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with other tensors in the place of its parameters and buffers, by their dotted names.

    parameter_and_buffer_dicts: a dict, or several. Gradients go to those tensors. strict: raise ArgumentError for names that
    are missing or unknown. tie_weights: tensors that the module holds under several names are replaced under all.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> sg.func.functional_call(layer, {"weight": sg.ones(1, 2)}, (sg.ones(3, 2),))
    tensor([[2.],
            [2.],
            [2.]])
    """
    dicts = (
        parameter_and_buffer_dicts
        if isinstance(parameter_and_buffer_dicts, list | tuple)
        else [parameter_and_buffer_dicts]
    )
    given: dict[str, Any] = {name: value for d in dicts for name, value in d.items()}
    places = _places(module)
    unknown = [name for name in given if name not in places]
    missing = [name for name in places if name not in given]
    if strict and (unknown or missing):
        raise ArgumentError(f"functional_call(): missing keys {missing}, unexpected keys {unknown}.")
    changed: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, value in given.items():
            if name in places:
                for table, last in _same(places, name) if tie_weights else [places[name]]:
                    changed.append((table, last, table[last]))
                    table[last] = value
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for table, last, value in reversed(changed):
            table[last] = value


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """The table of the module, and the name in it, of each parameter and buffer by dotted name."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            for name, value in table.items():
                if value is not None:
                    found[f"{prefix}.{name}" if prefix else name] = (table, name)
    return found


def _same(places: dict[str, Any], name: str) -> list[tuple[dict[str, Any], str]]:
    table, last = places[name]
    wanted = table[last]
    return [(t, n) for t, n in places.values() if t[n] is wanted]


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


__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "stack_module_state",
    "vjp",
    "vmap",
]
