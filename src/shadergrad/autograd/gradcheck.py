"""Derivatives against finite differences.

In: a function of tensors, and tensors that require grad, float64 on the cpu device. Out: True, or a GradcheckError that
shows both Jacobians. The check moves every element of every input a little up and down, so keep the inputs small.
Reference: https://pytorch.org/docs/stable/notes/gradcheck.html
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import float64
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
) -> bool:
    """Compare the backward pass of `func` with central differences.

    func: maps `inputs` to one or several tensors. For every floating output and every input that requires grad: |analytical -
    numerical| <= atol + rtol * |numerical|, where the Jacobians have a row for each element of the input and a column for each
    of the output.
    eps: the step of the differences.
    nondet_tol: the largest difference between two backward passes.
    raise_exception: raise GradcheckError instead of returning False.
    Raises GradArgumentError (a ValueError) if no input requires grad.

    >>> x = sg.tensor([1.0, 2.0], dtype=sg.float64, requires_grad=True)
    >>> sg.autograd.gradcheck(lambda x: x * x, x)
    True
    """
    try:
        _check(func, [inputs] if isinstance(inputs, Tensor) else list(inputs), eps, atol, rtol, nondet_tol)
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
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """gradcheck of the gradients of `func`, as functions of `inputs` and `grad_outputs`.

    grad_outputs: a cotangent for each output that requires grad; by default random numbers.

    >>> x = sg.tensor([1.0, 2.0], dtype=sg.float64, requires_grad=True)
    >>> sg.autograd.gradgradcheck(lambda x: x * x * x, x)
    True
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cotangents = [
            Tensor(rng.standard_normal(tuple(y.shape)), dtype=y.dtype, device=y.device, requires_grad=True)
            for y in _outputs(func, given)
        ]
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
    )


def _check(
    func: Callable[..., Any], inputs: list[Any], eps: float, atol: float, rtol: float, nondet_tol: float
) -> None:
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise GradArgumentError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for k in wanted:
        if inputs[k].dtype is not float64:
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point. This check will likely fail if "
                "all the inputs are not of double precision. Hint: float64 lives on the cpu device.",
                stacklevel=4,
            )
    outputs = _outputs(func, inputs)
    if not outputs:
        _check_constant(func, inputs, wanted, eps, atol)
        return
    analytical = _analytical(outputs, [inputs[k] for k in wanted])
    again = _analytical(outputs, [inputs[k] for k in wanted])
    places = [j for j, y in enumerate(_listed(func(*inputs))) if isinstance(y, Tensor) and y.requires_grad]
    for i, k in enumerate(wanted):
        numerical = _numerical(func, inputs, k, places, eps)
        for j, place in enumerate(places):
            a, n = analytical[j][i], numerical[j]
            if np.abs(a - again[j][i]).max(initial=0.0) > nondet_tol:
                raise GradcheckError(
                    f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                    f"different values, for output {place} with respect to input {k}:\n{a}\n{again[j][i]}"
                )
            if not np.allclose(a, n, rtol, atol, equal_nan=True):
                raise GradcheckError(_mismatch(place, k, n, a))


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


def _analytical(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[list[np.ndarray]]:
    """Jacobians by output and input, each (elements of the input, elements of the output), by a backward pass for each
    element of an output."""
    found = []
    for y in outputs:
        jacobians = [np.zeros((x.numel(), y.numel())) for x in inputs]
        for column in range(y.numel()):
            unit = np.zeros(y.numel())
            unit[column] = 1.0
            u = Tensor(unit.reshape(y.shape), dtype=y.dtype, device=y.device)
            for jacobian, g in zip(jacobians, grad(y, inputs, u, retain_graph=True, allow_unused=True), strict=True):
                if g is not None:
                    jacobian[:, column] = g.detach().numpy().reshape(-1)
        found.append(jacobians)
    return found


def _numerical(
    func: Callable[..., Any], inputs: list[Any], argument: int, places: Sequence[int], eps: float
) -> list[np.ndarray]:
    """The Jacobians of the outputs at `places` by one input, by central differences."""
    x = inputs[argument]
    memory = x.detach()
    start = memory.numpy().copy()

    def moved(element: int, by: float) -> list[np.ndarray]:
        values = start.reshape(-1).copy()
        values[element] += by
        shifted = Tensor(values.reshape(start.shape), dtype=x.dtype, device=x.device, requires_grad=True)
        if is_one_place_each:  # in place: the function may read the tensor itself, such as the weight of a module
            memory.copy_(shifted.detach())
            shifted = x
        outputs = _listed(func(*inputs[:argument], shifted, *inputs[argument + 1 :]))
        return [outputs[p].detach().numpy().reshape(-1).astype(np.float64) for p in places]

    is_one_place_each = not overlaps(tuple(x.shape), x.stride())
    try:
        rows = [
            [(up - down) / (2 * eps) for up, down in zip(moved(k, eps), moved(k, -eps), strict=True)]
            for k in range(x.numel())
        ]
    finally:
        if is_one_place_each:
            memory.copy_(Tensor(start, dtype=x.dtype, device=x.device))
    if not rows:
        return [np.zeros((0, 0)) for _ in places]
    return [np.stack([row[j] for row in rows]) for j in range(len(places))]


def _check_constant(
    func: Callable[..., Any], inputs: list[Any], wanted: Sequence[int], eps: float, atol: float
) -> None:
    """Checks that outputs without gradients do not change."""
    places = [j for j, y in enumerate(_listed(func(*inputs))) if isinstance(y, Tensor) and y.is_floating_point()]
    for k in wanted:
        for j, numerical in zip(places, _numerical(func, inputs, k, places, eps), strict=True):
            if np.abs(numerical).max(initial=0.0) > atol:
                raise GradcheckError(
                    f"Numerical gradient for function expected to be zero: output {j} does not require grad, but changes with "
                    f"input {k}:\n{numerical}"
                )
