"""Derivatives of Python functions of tensors: jacobian, hessian, and their products with vectors.

In: a function of one or several tensors, and the point of the derivative. Out: tensors, or tuples of them if inputs or outputs
are tuples. A Jacobian takes a backward pass for each element of the output. Reference:
https://pytorch.org/docs/stable/autograd.html#functional-higher-level-api
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
    if an output does not depend on an input. create_graph: the result can be differentiated again. vectorize, strategy: ways to
    the same numbers; all take a backward pass for each element of the output. Raises ArgumentError for an unknown strategy.

    >>> sg.autograd.functional.jacobian(lambda x: x * x, sg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ArgumentError(f"jacobian(): strategy must be 'forward-mode' or 'reverse-mode', not {strategy!r}.")
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
        with grad_mode(True):
            y = _scalar(func(*xs), "hessian")
            found = tuple(_derivatives([y], xs, None, True, strict))
        return found[0] if isinstance(inputs, Tensor) else found

    return jacobian(gradients, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


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
    vs = _vectors(v, ys, "v", "output")
    found = _derivatives(ys, xs, vs, create_graph, strict)
    return _given(ys, single, create_graph), _as(inputs, found)


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
    vs = _vectors(v, xs, "v", "input")
    ys, single = _outputs(func, xs, "jvp")
    us = [Tensor._of(build.like(y._node, 0)).requires_grad_() for y in ys]
    first = _derivatives(ys, xs, us, True, strict)
    recorded = [(g, w) for g, w in zip(first, vs, strict=True) if g.requires_grad]
    found = _derivatives([g for g, _ in recorded], us, [w for _, w in recorded], create_graph, False)
    return _given(ys, single, create_graph), found[0] if single else tuple(found)


def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, v . hessian) of a function whose output has one element. v, and the product: of the inputs' shapes.

    Raises ShapeError for another output or v. create_graph, strict: as jacobian.

    >>> sg.autograd.functional.vhp(lambda x: (x * x * x).sum(), sg.tensor([1.0, 2.0]), sg.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    xs = _leaves(inputs, create_graph, "vhp")
    vs = _vectors(v, xs, "v", "input")
    with grad_mode(True):
        y = _scalar(func(*xs), "vhp")
    first = _derivatives([y], xs, None, True, strict)
    recorded = [(g, w) for g, w in zip(first, vs, strict=True) if g.requires_grad]
    found = _derivatives([g for g, _ in recorded], xs, [w for _, w in recorded], create_graph, strict)
    return _given([y], True, create_graph), _as(inputs, found)


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
    with grad_mode(True):
        return [x.clone() if create_graph and x.requires_grad else x.detach().requires_grad_() for x in given]


def _outputs(func: Callable[..., Any], xs: Sequence[Tensor], what: str) -> tuple[list[Tensor], bool]:
    with grad_mode(True):
        output = func(*xs)
    single = isinstance(output, Tensor)
    ys = [output] if single else output
    if not isinstance(ys, tuple | list) or not all(isinstance(y, Tensor) for y in ys):
        raise ArgumentTypeError(f"{what}(): the function must give a Tensor or a tuple of Tensors, not {output!r}")
    return list(ys), single


def _scalar(output: Any, what: str) -> Tensor:
    y = output if isinstance(output, Tensor) else output[0]
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
    if strict and any(g is None for g in found):
        raise AutogradError("The output of the user-provided function is independent of an input, and strict=True.")
    return [Tensor._of(build.like(x._node, 0)) if g is None else g for x, g in zip(xs, found, strict=True)]


def _vectors(v: Any, of: Sequence[Tensor], name: str, what: str) -> list[Tensor]:
    if v is None:
        if len(of) != 1 or of[0].numel() != 1:
            raise ShapeError(f"The vector {name} can only be None if the {what} is a single Tensor with one element.")
        return [Tensor._of(build.like(of[0]._node, 1))]
    vs = [v] if isinstance(v, Tensor) else list(v)
    if len(vs) != len(of) or any(a.shape != b.shape for a, b in zip(vs, of, strict=True)):
        raise ShapeError(
            f"{name} has shapes {[list(a.shape) for a in vs]}, the {what}s have {[list(b.shape) for b in of]}."
        )
    return vs


def _given(ys: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    kept = list(ys) if create_graph else [y.detach() for y in ys]
    return kept[0] if single else tuple(kept)


def _as(inputs: Tensors, found: Sequence[Tensor]) -> Any:
    return found[0] if isinstance(inputs, Tensor) else tuple(found)
