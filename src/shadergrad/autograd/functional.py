"""Derivatives of Python functions of tensors: jacobian, hessian, and their products with vectors.

In: a function of one or several tensors, and the point of the derivative. Out: tensors, or tuples of them if inputs or outputs
are tuples. A Jacobian takes a backward pass for each element of the output. Reference:
https://pytorch.org/docs/stable/autograd.html#functional-higher-level-api
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from ..errors import ArgumentError, ArgumentTypeError, AutogradError, ShapeError
from ..graph import build
from ..graph.node import grad_mode
from ..tensor import Tensor, stack, tensors_of
from .derivatives import grad

__all__ = [
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vhp",
    "vjp",
]

Tensors = Tensor | Sequence[Tensor]
P = ParamSpec("P")
R = TypeVar("R")
_INDEPENDENT = "The {what} of the user-provided function is independent of input {input}. This is not allowed in strict mode{when}."


def _recorded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, also within no_grad as outside of it: create_graph alone says whether the result has a history."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        with grad_mode(True):
            return function(*args, **options)

    return call


@_recorded
def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """d(output) / d(input), of the output's shape followed by the input's.

    A tensor for one output and one input, else tuples: [output][input]. strict: raise AutogradError instead of returning zeros
    if an output does not depend on an input, or, with create_graph, if the result does not. create_graph: the result can be
    differentiated again. vectorize, strategy: ways to the same numbers; all take a backward pass for each element of the output.
    Raises ArgumentError for an unknown strategy, and for strict with vectorize, as PyTorch does.

    >>> sg.autograd.functional.jacobian(lambda x: x * x, sg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ArgumentError(f"jacobian(): strategy must be 'forward-mode' or 'reverse-mode', not {strategy!r}.")
    if strict and vectorize:
        raise ArgumentError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Hint: leave out "
            "vectorize, which changes no number."
        )
    xs = _leaves(inputs, create_graph, "jacobian")
    ys, single = _outputs(func, xs, "jacobian")
    rows = [tuple(_jacobian_of(y, x, create_graph, strict) for x in xs) for y in ys]
    found = [row[0] if isinstance(inputs, Tensor) else row for row in rows]
    return found[0] if single else tuple(found)


def _jacobian_of(y: Tensor, x: Tensor, create_graph: bool, strict: bool) -> Tensor:
    flat = y.reshape(-1)
    rows = [_derivatives([flat[k]], [x], None, create_graph, strict)[0] for k in range(y.numel())]
    if not rows:
        return Tensor._of(build.constant(0, x.dtype, x._node.device, (*y.shape, *x.shape)))
    return stack(rows).reshape(*y.shape, *x.shape)


@_recorded
def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a function whose output has one element: input's shape twice; tuples [input][input].

    Raises ShapeError for an output with more elements. create_graph, strict, vectorize, outer_jacobian_strategy: as jacobian.

    >>> sg.autograd.functional.hessian(lambda x: (x * x * x).sum(), sg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    def gradients(*xs: Tensor) -> Any:
        found = tuple(_derivatives([_scalar(func, xs, "hessian")], xs, None, True, strict))
        return found[0] if isinstance(inputs, Tensor) else found

    return jacobian(gradients, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


@_recorded
def vjp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, v . jacobian). v: of the output's shape, optional if it has one element.

    The product has the inputs' shapes. Raises ShapeError for another v. create_graph, strict: as jacobian.

    >>> sg.autograd.functional.vjp(lambda x: x * x, sg.tensor([1.0, 2.0]), sg.tensor([1.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    xs = _leaves(inputs, create_graph, "vjp")
    ys, single = _outputs(func, xs, "vjp")
    vs = _vectors(v, ys, "vjp", "output")
    found = _derivatives(ys, xs, vs, create_graph, strict)
    return _given(ys, single, create_graph), _as(inputs, found)


@_recorded
def jvp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, jacobian . v). v: of the inputs' shapes, optional if they have one element.

    The product has the output's shape. It is computed by two backward passes: the product is the derivative of vjp with respect
    to its vector. Raises ShapeError for another v. create_graph, strict: as jacobian.

    >>> sg.autograd.functional.jvp(lambda x: x * x, sg.tensor([1.0, 2.0]), sg.tensor([1.0, 0.0]))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    xs = _leaves(inputs, create_graph, "jvp")
    vs = _vectors(v, xs, "jvp", "input")
    ys, single = _outputs(func, xs, "jvp")
    us = [Tensor._of(build.like(y._node, 0)).requires_grad_() for y in ys]
    first = _derivatives(ys, xs, us, True, strict)
    recorded = [(g, w) for g, w in zip(first, vs, strict=True) if g.requires_grad]
    found = _derivatives([g for g, _ in recorded], us, [w for _, w in recorded], create_graph, False)
    if strict and create_graph and not all(g.requires_grad for g in found):
        raise AutogradError(_INDEPENDENT.format(what="jacobian", input=0, when=" when create_graph=True"))
    return _given(ys, single, create_graph), found[0] if single else tuple(found)


@_recorded
def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, v . hessian) of a function whose output has one element. v, and the product: of the inputs' shapes.

    Raises ShapeError for another output or v. create_graph, strict: as jacobian.

    >>> sg.autograd.functional.vhp(lambda x: (x * x * x).sum(), sg.tensor([1.0, 2.0]), sg.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    xs = _leaves(inputs, create_graph, "vhp")
    vs = _vectors(v, xs, "vhp", "input")
    y = _scalar(func, xs, "vhp")
    first = _derivatives([y], xs, None, True, strict)
    recorded = [(g, w) for g, w in zip(first, vs, strict=True) if g.requires_grad]
    found = _derivatives([g for g, _ in recorded], xs, [w for _, w in recorded], create_graph, strict)
    return _given([y], True, create_graph), _as(inputs, found)


@_recorded
def hvp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, hessian . v): the same as vhp, because a Hessian is symmetric.

    >>> sg.autograd.functional.hvp(lambda x: (x * x * x).sum(), sg.tensor([1.0, 2.0]), sg.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return vhp(func, inputs, v, create_graph, strict)


def _leaves(inputs: Tensors, create_graph: bool, what: str) -> list[Tensor]:
    """The points of the derivatives: new leaves, or, with create_graph, aliases with history."""
    given = tensors_of(inputs, what, "inputs")
    return [x.clone() if create_graph and x.requires_grad else x.detach().requires_grad_() for x in given]


def _outputs(func: Callable[..., Any], xs: Sequence[Tensor], what: str) -> tuple[list[Tensor], bool]:
    output = func(*xs)
    single = isinstance(output, Tensor)
    ys = [output] if single else output
    if not isinstance(ys, tuple | list) or not all(isinstance(y, Tensor) for y in ys):
        raise ArgumentTypeError(f"{what}(): the function must give a Tensor or a tuple of Tensors, not {output!r}")
    return list(ys), single


def _scalar(func: Callable[..., Any], xs: Sequence[Tensor], what: str) -> Tensor:
    (y, *more), single = _outputs(func, xs, what)
    if not single or more:
        raise ArgumentError(f"The function given to {what} should return a single Tensor")
    if y.numel() != 1:
        raise ShapeError(f"The Tensor returned by the function given to {what} should contain a single element.")
    return y.reshape(())


def _derivatives(ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Any, create_graph: bool, strict: bool) -> list[Tensor]:
    """grad, with zeros for outputs that do not depend on an input."""
    pairs = [(y, None if vs is None else v) for y, v in zip(ys, vs or ys, strict=True) if y.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(xs)
    if pairs:
        outputs, cotangents = [y for y, _ in pairs], [v for _, v in pairs]
        found = grad(outputs, xs, cotangents, retain_graph=True, create_graph=create_graph, allow_unused=True)
    if strict:
        for k, g in enumerate(found):
            if g is None or (create_graph and not g.requires_grad):
                what, when = ("output", "") if g is None else ("jacobian", " when create_graph=True")
                raise AutogradError(_INDEPENDENT.format(what=what, input=k, when=when))
    return [Tensor._of(build.like(x._node, 0)) if g is None else g for x, g in zip(xs, found, strict=True)]


def _vectors(v: Any, of: Sequence[Tensor], what: str, side: str) -> list[Tensor]:
    if v is None:
        if len(of) != 1 or of[0].numel() != 1:
            raise ShapeError(f"The vector v can only be None if the {side} is a single Tensor with one element.")
        return [Tensor._of(build.like(of[0]._node, 1))]
    vs = list(tensors_of(v, what, "v"))
    if len(vs) != len(of) or any(a.shape != b.shape for a, b in zip(vs, of, strict=True)):
        raise ShapeError(f"v has shapes {[list(a.shape) for a in vs]}, the {side}s have {[list(b.shape) for b in of]}.")
    return vs


def _given(ys: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    kept = list(ys) if create_graph else [y.detach() for y in ys]
    return kept[0] if single else tuple(kept)


def _as(inputs: Tensors, found: Sequence[Tensor]) -> Any:
    return found[0] if isinstance(inputs, Tensor) else tuple(found)
