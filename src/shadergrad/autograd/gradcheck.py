"""Derivatives against finite differences.

In: a function of tensors, and tensors that require grad, float64 or complex128 on the cpu device. Out: True, or a GradcheckError that
shows both Jacobians. The check moves every element of every input a little up and down, so keep the inputs small. A complex number
counts as two elements, its parts.
Reference: https://pytorch.org/docs/stable/notes/gradcheck.html
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import complex128, float64
from ..errors import AutogradError
from ..graph.node import grad_mode
from ..tensor import Tensor
from ..tensor.strides import overlaps
from .derivatives import GradArgumentError, grad


class GradcheckError(AutogradError):
    """Raised by gradcheck and gradgradcheck: a gradient that is not the derivative. The message shows both Jacobians."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the backward pass of `func` with central differences.

    func: maps `inputs` to one or several tensors. For every floating output and every input that requires grad: |analytical -
    numerical| <= atol + rtol * |numerical|, where the Jacobians have a row for each element of the input and a column for each
    of the output.
    eps: the step of the differences.
    nondet_tol: the largest difference between two backward passes.
    raise_exception: raise GradcheckError instead of returning False.
    check_forward_ad, check_backward_ad: compare forward derivatives, as `func.jvp` computes them, and the backward pass.
    fast_mode, check_undefined_grad, check_grad_dtypes, masked: change nothing. Whole Jacobians are compared, which is stricter; no gradient is
    undefined or sparse, and each has its input's dtype.
    Raises GradArgumentError (a ValueError) if no input requires grad, neither way is to be checked, or batched gradients are, which there
    are not.

    >>> x = sg.tensor([1.0, 2.0], dtype=sg.float64, requires_grad=True)
    >>> sg.autograd.gradcheck(lambda x: x * x, x)
    True
    """
    if check_batched_grad or check_batched_forward_grad:
        raise GradArgumentError(
            "gradcheck: batched gradients cannot be checked, for gradients are computed one by one."
        )
    if not (check_forward_ad or check_backward_ad):
        raise GradArgumentError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True, but got neither."
        )
    ways = ([_backward, _backward] if check_backward_ad else []) + ([_forward] if check_forward_ad else [])
    try:
        _check(func, [inputs] if isinstance(inputs, Tensor) else list(inputs), ways, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradients of `func`, as functions of `inputs` and `grad_outputs`.

    grad_outputs: a cotangent for each output that requires grad; by default random numbers.
    check_fwd_over_rev, check_rev_over_rev: compare forward derivatives of the gradients, and their backward pass. Other arguments: as for
    gradcheck.

    >>> x = sg.tensor([1.0, 2.0], dtype=sg.float64, requires_grad=True)
    >>> sg.autograd.gradgradcheck(lambda x: x * x * x, x)
    True
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cotangents = [_shaped(rng.standard_normal(_size(y)), y).requires_grad_() for y in _outputs(func, given)]
    else:
        cotangents = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def gradients(*args: Any) -> Any:
        xs, us = args[: len(given)], args[len(given) :]
        wanted = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        found = grad(_outputs(func, xs), wanted, list(us), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        [*given, *cotangents],
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


Jacobians = list[list[np.ndarray]]  # by output and input, each (elements of the input, elements of the output)


def _check(
    func: Callable[..., Any],
    inputs: list[Any],
    ways: Sequence[Callable[[Sequence[Tensor], Sequence[Tensor]], Jacobians]],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise GradArgumentError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for k in wanted:
        if inputs[k].dtype not in (float64, complex128):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check will likely fail if "
                "all the inputs are not of double precision. Hint: float64 lives on the cpu device.",
                stacklevel=4,
            )
    outputs = _outputs(func, inputs)
    if not outputs:
        _check_constant(func, inputs, wanted, eps, atol)
        return
    computed = [way(outputs, [inputs[k] for k in wanted]) for way in ways]
    places = [j for j, y in enumerate(_listed(func(*inputs))) if isinstance(y, Tensor) and y.requires_grad]
    for i, k in enumerate(wanted):
        numerical = _numerical(func, inputs, k, places, eps)
        for j, place in enumerate(places):
            found = [jacobians[j][i] for jacobians in computed]
            if ways[:2] == [_backward, _backward] and np.abs(found[0] - found[1]).max(initial=0.0) > nondet_tol:
                raise GradcheckError(
                    f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                    f"different values, for output {place} with respect to input {k}:\n{found[0]}\n{found[1]}"
                )
            for analytical in found:
                if not np.allclose(analytical, numerical[j], rtol, atol, equal_nan=True):
                    raise GradcheckError(_mismatch(place, k, numerical[j], analytical))


def _mismatch(output: int, argument: int, numerical: np.ndarray, analytical: np.ndarray) -> str:
    apart = np.abs(analytical - numerical)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(apart), np.inf, apart))), apart.shape)
    return (
        f"Jacobian mismatch for output {output} with respect to input {argument},\nnumerical:{numerical}\n"
        f"analytical:{analytical}\nfarthest apart at element {int(worst[0])} of the input and {int(worst[1])} of the output: "
        f"{numerical[worst]} and {analytical[worst]}"
    )


def _listed(output: Any) -> list[Any]:
    return list(output) if isinstance(output, tuple | list) else [output]


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """The outputs that have a gradient."""
    with grad_mode(True):
        return [y for y in _listed(func(*inputs)) if isinstance(y, Tensor) and y.requires_grad]


def _size(x: Tensor) -> int:
    return x.numel() * (2 if x.dtype.is_complex else 1)


def _flat(x: Tensor) -> np.ndarray:
    """The elements, float64, in one axis: of complex ones the parts."""
    values = x.detach().numpy().reshape(-1)
    return values.astype(np.complex128).view(np.float64) if x.dtype.is_complex else values.astype(np.float64)


def _shaped(values: np.ndarray, like: Tensor) -> Tensor:
    """A tensor like another of the numbers that `_flat` gives."""
    whole = values.view(np.complex128) if like.dtype.is_complex else values
    return Tensor(whole.reshape(like.shape), dtype=like.dtype, device=like.device)


def _unit(like: Tensor, element: int) -> Tensor:
    values = np.zeros(_size(like))
    values[element] = 1.0
    return _shaped(values, like)


def _backward(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Jacobians:
    """By a backward pass for each element of an output."""
    found = []
    for y in outputs:
        jacobians = [np.zeros((_size(x), _size(y))) for x in inputs]
        for column in range(_size(y)):
            gradients = grad(y, inputs, _unit(y, column), retain_graph=True, allow_unused=True)
            for jacobian, g in zip(jacobians, gradients, strict=True):
                if g is not None:
                    jacobian[:, column] = _flat(g)
        found.append(jacobians)
    return found


def _forward(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Jacobians:
    """By a forward derivative for each element of an input: the derivative of the backward pass by its vector."""
    found = []
    for y in outputs:
        u = _shaped(np.zeros(_size(y)), y).requires_grad_()
        jacobians = [np.zeros((_size(x), _size(y))) for x in inputs]
        for jacobian, g in zip(jacobians, grad(y, inputs, u, create_graph=True, allow_unused=True), strict=True):
            if g is None or not g.requires_grad:  # the output does not depend on the input
                continue
            for row in range(_size(g)):
                (moved,) = grad(g, [u], _unit(g, row), retain_graph=True, allow_unused=True)
                if moved is not None:
                    jacobian[row] = _flat(moved)
        found.append(jacobians)
    return found


def _numerical(
    func: Callable[..., Any], inputs: list[Any], argument: int, places: Sequence[int], eps: float
) -> list[np.ndarray]:
    """The Jacobians of the outputs at `places` by one input, by central differences."""
    x = inputs[argument]
    memory = x.detach()
    start = _flat(memory).copy()

    def moved(element: int, by: float) -> list[np.ndarray]:
        values = start.copy()
        values[element] += by
        shifted = _shaped(values, x).requires_grad_()
        if is_one_place_each:  # in place: the function may read the tensor itself, such as the weight of a module
            memory.copy_(shifted.detach())
            shifted = x
        outputs = _listed(func(*inputs[:argument], shifted, *inputs[argument + 1 :]))
        return [_flat(outputs[p]) for p in places]

    is_one_place_each = not overlaps(tuple(x.shape), x.stride())
    try:
        rows = [
            [(up - down) / (2 * eps) for up, down in zip(moved(k, eps), moved(k, -eps), strict=True)]
            for k in range(_size(x))
        ]
    finally:
        if is_one_place_each:
            memory.copy_(_shaped(start, x))
    if not rows:
        return [np.zeros((0, 0)) for _ in places]
    return [np.stack([row[j] for row in rows]) for j in range(len(places))]


def _check_constant(
    func: Callable[..., Any], inputs: list[Any], wanted: Sequence[int], eps: float, atol: float
) -> None:
    """Checks that outputs without gradients do not change."""
    places = [j for j, y in enumerate(_listed(func(*inputs))) if isinstance(y, Tensor) and y.dtype.category >= 2]
    for k in wanted:
        for j, numerical in zip(places, _numerical(func, inputs, k, places, eps), strict=True):
            if np.abs(numerical).max(initial=0.0) > atol:
                raise GradcheckError(
                    f"Numerical gradient for function expected to be zero: output {j} does not require grad, but changes with "
                    f"input {k}:\n{numerical}"
                )
