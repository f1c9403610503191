"""Derivatives of functions, as functions: gradients, products with Jacobians, Jacobians.

They are composed of `autograd`: forward-mode products differentiate backwards twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import autograd
from ..autograd import enable_grad
from ..errors import AutogradError
from ..tensor import Tensor
from .trees import leaves_of, mapped, recorded, with_leaves


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
            given = [recorded(a) if k in chosen else a for k, a in enumerate(args)]
            found = func(*given, **kwargs)
            value, aux = found if has_aux else (found, None)
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise AutogradError("[func.grad] the function must give a tensor of one element.")
            deeper = any(x.requires_grad for a in args for x in leaves_of(a))
            wanted = [x for k in chosen for x in leaves_of(given[k])]
            grads = autograd.grad(value.reshape(()), wanted, create_graph=deeper or _nested(), allow_unused=True)
        filled = iter([x.detach() * 0 if g is None else g for g, x in zip(grads, wanted, strict=True)])
        results = tuple(with_leaves(given[k], filled) for k in chosen)
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
        given = [recorded(p) for p in primals]
        found = func(*given)
    value, aux = found if has_aux else (found, None)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple[Any, ...]:
        wanted = [x for p in given for x in leaves_of(p)]
        outputs = [v for v in leaves_of(value) if v.requires_grad]
        pairs = [(v, c) for v, c in zip(leaves_of(value), leaves_of(cotangents), strict=True) if v.requires_grad]
        deeper = _depth[0] > 0 or any(x.requires_grad for p in primals for x in leaves_of(p)) or bool(create_graph)
        grads: Any = [None] * len(wanted)
        if outputs:
            grads = autograd.grad(
                outputs, wanted, [c for _, c in pairs], retain_graph=True, create_graph=deeper, allow_unused=True
            )
        filled = iter([x.detach() * 0 if g is None else g for g, x in zip(grads, wanted, strict=True)])
        return tuple(with_leaves(p, filled) for p in given)

    shown = value if _nested() else mapped(lambda v: v.detach(), value)
    return (shown, pull, aux) if has_aux else (shown, pull)


class _Linearized:
    """A function at a point: its value, and its Jacobian times tangents. The gradients' gradient is that product."""

    def __init__(self, func: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> None:
        with enable_grad():
            given = [recorded(p) for p in primals]
            found = func(*given)
            self.value, self.aux = found if has_aux else (found, None)
            self.outputs = leaves_of(self.value)
            probes = [(o.detach() * 0).requires_grad_() for o in self.outputs]
            wanted = [x for p in given for x in leaves_of(p)]
            self.smooth = [(o, p) for o, p in zip(self.outputs, probes, strict=True) if o.requires_grad]
            self.pulled: tuple[Tensor | None, ...] = ()
            if self.smooth:
                ends, cotangents = [o for o, _ in self.smooth], [p for _, p in self.smooth]
                self.pulled = autograd.grad(ends, wanted, cotangents, create_graph=True, allow_unused=True)

    def along(self, tangents: tuple[Any, ...], again: bool) -> Any:
        """The Jacobian times tangents. again: whether it is asked for once more."""
        pushed: dict[int, Tensor] = {}
        pairs = zip(self.pulled, leaves_of(tangents), strict=False)  # nothing was pulled where nothing is smooth
        along = [(g, t) for g, t in pairs if g is not None and g.requires_grad]
        if along:
            with enable_grad():
                grads = autograd.grad(
                    [g for g, _ in along],
                    [p for _, p in self.smooth],
                    [t for _, t in along],
                    retain_graph=again or None,
                    create_graph=_nested(),
                    allow_unused=True,
                )
            pushed = {id(o): g for (o, _), g in zip(self.smooth, grads, strict=True) if g is not None}
        return with_leaves(self.value, iter([pushed.get(id(o), o.detach() * 0) for o in self.outputs]))

    def shown(self) -> Any:
        return self.value if _nested() else mapped(lambda v: v.detach(), self.value)


@_counted
def jvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, has_aux: bool = False) -> Any:
    """(value, Jacobian times tangents) of func at primals: differentiated backwards twice.

    Raises AutogradError for tangents that are not built as the primals.

    >>> sg.func.jvp(lambda x: x * x, (sg.tensor([3.0]),), (sg.tensor([1.0]),))
    (tensor([9.]), tensor([6.]))
    """
    _check_tangents("jvp", tuple(primals), tuple(tangents))
    found = _Linearized(func, tuple(primals), has_aux)
    tangent = found.along(tuple(tangents), False)
    return (found.shown(), tangent, found.aux) if has_aux else (found.shown(), tangent)


@_counted
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(value, function of tangents that gives the Jacobian times them) of func at primals, which is called once.

    The function raises AutogradError for tangents that are not built as the primals.

    >>> value, push = sg.func.linearize(lambda x: x * x, sg.tensor([3.0]))
    >>> value, push(sg.tensor([1.0])), push(sg.tensor([2.0]))
    (tensor([9.]), tensor([6.]), tensor([12.]))
    """
    found = _Linearized(func, primals, False)

    @_counted
    def push(*tangents: Any) -> Any:
        _check_tangents("linearize", primals, tangents)
        return found.along(tangents, True)

    return found.shown(), push


def _check_tangents(what: str, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> None:
    own, given = leaves_of(primals), leaves_of(tangents)
    if len(primals) != len(tangents) or len(own) != len(given):
        raise AutogradError(f"{what}: Expected the tangents to have the same structure as the primals.")
    for k, (p, t) in enumerate(zip(own, given, strict=True)):
        if (p.shape, p.dtype, p.device) != (t.shape, t.dtype, t.device):
            raise AutogradError(
                f"{what}: tangent:{k} is {t.dtype.name} {tuple(t.shape)} on {t.device}, its primal {p.dtype.name} "
                f"{tuple(p.shape)} on {p.device}."
            )


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function of tensors as a function: (*shape of the value, *shape of the argument).

    argnums: which arguments, each a tensor or nested dicts, lists and tuples of them; the value may be such, too, and the result
    has for each tensor of it the Jacobians of each argument. has_aux: func gives (value, anything), and so does the result.
    chunk_size changes nothing.

    >>> sg.func.jacrev(lambda x: x * x)(sg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    chosen = _numbers(argnums)

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        found: list[Any] = []

        def of_leaves(*xs: Tensor) -> Any:
            given = iter(xs)
            instead = {k: with_leaves(args[k], given) for k in chosen}
            found.append(func(*(instead.get(k, a) for k, a in enumerate(args)), **kwargs))
            return tuple(leaves_of(found[-1][0] if has_aux else found[-1]))

        leaves = tuple(x for k in chosen for x in leaves_of(args[k]))
        rows = iter(autograd.functional.jacobian(of_leaves, leaves, create_graph=_nested()))

        def by_argument(_: Tensor) -> Any:
            row = iter(next(rows))
            parts = tuple(with_leaves(args[k], row) for k in chosen)
            return parts[0] if isinstance(argnums, int) else parts

        value, aux = found[-1] if has_aux else (found[-1], None)
        result = mapped(by_argument, value)
        return (result, mapped(lambda t: t.detach(), aux)) if has_aux else result

    return _counted(jacobian)


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """As jacrev, which computes it: there is no forward mode. randomness changes nothing.

    >>> sg.func.jacfwd(lambda x: x * x)(sg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The Jacobian of the Jacobian, as a function; of a function that gives one number, its second derivatives.

    >>> sg.func.hessian(lambda x: (x**3).sum())(sg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)
