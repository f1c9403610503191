"""gradcheck finds wrong gradients and says where; the operators, activations and modules that it then vouches for.

And sg.autograd.functional against PyTorch's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad.autograd import GradcheckError, gradcheck, gradgradcheck
from shadergrad.nn import functional as F


def double(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> sg.Tensor:
    """A float64 leaf; its elements are far from each other, so that no maximum has a tie."""
    size = int(np.prod(shape))
    values = np.random.default_rng(seed).permutation(np.linspace(low, high, size)) + 0.0123
    return sg.tensor(values.reshape(shape), dtype=sg.float64, requires_grad=True)


def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    return type("Mine", (sg.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def square_with(factor: float) -> Any:
    """x ** 2 whose derivative is said to be factor * x."""

    def forward(ctx: Any, x: sg.Tensor) -> sg.Tensor:
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, g: sg.Tensor) -> sg.Tensor:
        (x,) = ctx.saved_tensors
        return g * x * factor

    return function(forward, backward)


# ---------------------------------------------------------------------------------- it can fail


def test_a_right_gradient_passes() -> None:
    assert gradcheck(square_with(2.0).apply, [double(3)])
    assert gradgradcheck(square_with(2.0).apply, [double(3)])


def test_a_wrong_gradient_is_shown_with_both_jacobians() -> None:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(square_with(3.0).apply, [sg.tensor([1.0, 2.0], dtype=sg.float64, requires_grad=True)])
    text = str(caught.value)
    assert text.startswith("Jacobian mismatch for output 0 with respect to input 0,\nnumerical:")
    numerical, analytical = re.split("analytical:", text.partition("numerical:")[2])
    assert [float(v) for v in re.findall(r"\d+\.\d*", numerical)] == pytest.approx([2, 0, 0, 4])
    assert "[3. 0.]\n [0. 6.]" in analytical
    assert "element 1 of the input and 1 of the output" in text


def test_it_says_false_if_asked_not_to_raise() -> None:
    assert gradcheck(square_with(2.001).apply, double(3)) is True
    assert gradcheck(square_with(2.01).apply, double(3), raise_exception=False) is False
    assert gradcheck(square_with(2.01).apply, double(3), rtol=0.1) is True


@pytest.mark.parametrize("wrong", ["the second input", "the second output"])
def test_every_pair_of_input_and_output_is_checked(wrong: str) -> None:
    a, b = (1.0, 1.5) if wrong == "the second input" else (1.0, 1.0)
    c = 2.5 if wrong == "the second output" else 2.0

    def backward(ctx: Any, g: sg.Tensor, h: sg.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g * y * a + h * c * x, g * x * b

    def forward(ctx: Any, x: sg.Tensor, y: sg.Tensor) -> Any:
        ctx.save_for_backward(x, y)
        return x * y, x * x

    place = "output 0 with respect to input 1" if wrong == "the second input" else "output 1 with respect to input 0"
    with pytest.raises(GradcheckError, match=place):
        gradcheck(function(forward, backward).apply, [double(2), double(2, seed=1)])


def test_a_gradient_that_is_cut_is_found() -> None:
    with pytest.raises(GradcheckError, match="analytical"):
        gradcheck(lambda x: x * x.detach(), double(2))
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, double(2))
    assert gradcheck(lambda x: x.floor().detach(), double(2))


def test_a_gradient_that_differs_from_run_to_run_is_found() -> None:
    calls: list[int] = []

    def backward(ctx: Any, g: sg.Tensor) -> sg.Tensor:
        calls.append(1)
        return g * (1 + 1e-7 * len(calls))

    flaky = function(lambda ctx, x: x * 1, backward)
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(flaky.apply, double(2))
    assert gradcheck(flaky.apply, double(2), nondet_tol=1e-3)


def test_a_wrong_second_derivative_is_found() -> None:
    """The first derivative is right, but what it is made of is cut."""

    def forward(ctx: Any, x: sg.Tensor) -> sg.Tensor:
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx: Any, g: sg.Tensor) -> sg.Tensor:
        (x,) = ctx.saved_tensors
        return g * 3 * x.detach() ** 2

    cut = function(forward, backward)
    assert gradcheck(cut.apply, double(2))
    with pytest.raises(GradcheckError):
        gradgradcheck(cut.apply, double(2))


COMPLEX: dict[str, Callable[[Any, Any], Any]] = {
    "to complex": lambda z, x: z * z.conj() * z.exp() * x,
    "to real": lambda z, x: z.abs() + x,
    "to parts": lambda z, x: (z.real * x, z.imag),
    "of real": lambda z, x: (x * 1j).exp() / z,
}


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_complex_numbers_are_checked_as_those_of_pairs(name: str) -> None:
    z = sg.tensor([1 + 2j, -0.5 + 0.25j], dtype=sg.complex128, requires_grad=True)
    assert gradcheck(COMPLEX[name], [z, double(2)], check_forward_ad=True)
    assert gradgradcheck(COMPLEX[name], [z, double(2)], check_fwd_over_rev=True)


def test_a_gradient_that_is_not_conjugated_is_found() -> None:
    def forward(ctx: Any, z: sg.Tensor) -> sg.Tensor:
        ctx.save_for_backward(z)
        return z * z

    def backward(ctx: Any, g: sg.Tensor) -> sg.Tensor:
        return g * 2 * ctx.saved_tensors[0]

    z = sg.tensor([1 + 2j], dtype=sg.complex128, requires_grad=True)
    assert gradcheck(function(forward, backward).apply, z, raise_exception=False) is False
    assert gradcheck(function(forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0].conj()).apply, z)


def test_forward_derivatives_are_checked_where_asked() -> None:
    """A backward pass that is cut gives right gradients, and no forward derivative."""
    cut = function(lambda ctx, x: x * 3, lambda ctx, g: g.detach() * 3)
    assert gradcheck(cut.apply, double(2))
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(cut.apply, double(2), check_forward_ad=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(cut.apply, double(2), check_forward_ad=True, check_backward_ad=False)
    assert gradcheck(square_with(3.0).apply, double(2), check_forward_ad=True, check_backward_ad=False, rtol=0.6)


def test_pytorchs_further_modes_are_taken_or_refused() -> None:
    assert gradcheck(lambda x: x.exp(), double(2), fast_mode=True, check_undefined_grad=False, check_grad_dtypes=True)
    assert gradgradcheck(lambda x: x.exp(), double(2), gen_non_contig_grad_outputs=True, fast_mode=True)
    with pytest.raises(ValueError, match="batched gradients cannot be checked"):
        gradcheck(lambda x: x.exp(), double(2), check_batched_grad=True)
    with pytest.raises(ValueError, match="at least one of check_forward_ad or check_backward_ad"):
        gradcheck(lambda x: x.exp(), double(2), check_backward_ad=False)


def test_inputs_that_cannot_be_checked_are_named() -> None:
    with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
        gradcheck(lambda x: x, sg.ones(2))
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision floating point"):
        gradcheck(lambda x: x * 2, sg.ones(2, requires_grad=True), eps=1e-2, atol=1e-2)


def test_inputs_are_left_as_they_are() -> None:
    x = double(3)
    before = x.detach().numpy()
    gradcheck(lambda x, k: (x * k).sum(), [x, 2.0])
    assert x.grad is None
    assert x.detach().tolist() == before.tolist()


def test_no_elements_are_no_problem() -> None:
    assert gradcheck(lambda x: x * 2, sg.zeros(0, 3, dtype=sg.float64, requires_grad=True))


# ---------------------------------------------------------------------------------- what it vouches for

OPERATORS: dict[str, tuple[Callable[..., Any], list[sg.Tensor]]] = {
    "add, broadcast": (lambda x, y: x + y, [double(2, 3), double(3, seed=1)]),
    "mul, broadcast": (lambda x, y: x * y, [double(2, 1), double(3, seed=1)]),
    "div": (lambda x, y: x / y, [double(3), double(3, low=0.5, seed=1)]),
    "pow": (lambda x, y: x**y, [double(3, low=0.5), double(3, seed=1)]),
    "matmul": (lambda x, y: x @ y, [double(2, 3), double(3, 2, seed=1)]),
    "batched matmul": (lambda x, y: x @ y, [double(2, 1, 2), double(2, 2, seed=1)]),
    "einsum": (lambda x, y: sg.einsum("ij,kj->ki", x, y), [double(2, 3), double(2, 3, seed=1)]),
    "exp": (lambda x: x.exp(), [double(3)]),
    "log": (lambda x: x.log(), [double(3, low=0.5)]),
    "sqrt": (lambda x: x.sqrt(), [double(3, low=0.5)]),
    "tanh": (lambda x: x.tanh(), [double(3)]),
    "sigmoid": (lambda x: x.sigmoid(), [double(3)]),
    "erf": (lambda x: x.erf(), [double(3)]),
    "atan2": (lambda x, y: x.atan2(y), [double(3), double(3, seed=1)]),
    "sum": (lambda x: x.sum(1), [double(2, 3)]),
    "var": (lambda x: x.var(1), [double(2, 3)]),
    "max": (lambda x: x.max(1)[0], [double(2, 3)]),
    "prod": (lambda x: x.prod(1), [double(2, 3)]),
    "norm": (lambda x: x.norm(dim=1), [double(2, 3)]),
    "norm, p = 3": (lambda x: x.norm(3, 1), [double(2, 3)]),
    "cumsum": (lambda x: x.cumsum(1), [double(2, 3)]),
    "cumprod": (lambda x: x.cumprod(1), [double(2, 3, low=0.5)]),
    "softmax": (lambda x: x.softmax(1), [double(2, 3)]),
    "log_softmax": (lambda x: x.log_softmax(1), [double(2, 3)]),
    "logsumexp": (lambda x: x.logsumexp(1), [double(2, 3)]),
    "sort": (lambda x: x.sort(1)[0], [double(2, 3)]),
    "transpose": (lambda x: x.transpose(0, 1) * x.reshape(3, 2), [double(2, 3)]),
    "slices": (lambda x: x[:, ::2] * x[:, 1:], [double(2, 3)]),
    "index": (lambda x: x[sg.tensor([0, 0, 1])], [double(2, 3)]),
    "scatter_add": (lambda x, y: x.scatter_add(0, sg.tensor([0, 0, 1]), y), [double(2), double(3, seed=1)]),
    "cat": (lambda x, y: sg.cat([x, y, x]), [double(2), double(3, seed=1)]),
    "where": (lambda x, y: sg.where(x > 0, x, y), [double(3), double(3, seed=1)]),
    "gelu": (lambda x: x.gelu(), [double(3)]),
    "logaddexp": (lambda x, y: x.logaddexp(y), [double(3), double(3, seed=1)]),
    "linear": (F.linear, [double(2, 3), double(2, 3, seed=1), double(2, seed=2)]),
    "conv1d": (F.conv1d, [double(1, 2, 5), double(2, 2, 3, seed=1), double(2, seed=2)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b), [double(2, 3), double(3, seed=1), double(3, seed=2)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, sg.tensor([1, 0])), [double(2, 3)]),
    "attention": (F.scaled_dot_product_attention, [double(2, 2), double(2, 2, seed=1), double(2, 2, seed=2)]),
    "unbind in one step": (lambda x: x.unbind(1), [double(2, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_first_and_second_derivatives_are_right(name: str) -> None:
    function, inputs = OPERATORS[name]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


# ---------------------------------------------------------------------------------- autograd.functional


def two(lib: Any) -> tuple[Any, Any]:
    x, y = np.array([0.5, -1.5]), np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
    dtype = lib.float64
    return lib.tensor(x, dtype=dtype), lib.tensor(y, dtype=dtype)


def mixed(x: Any, y: Any) -> Any:
    return (y * x.exp()).sin(), (x * x).sum()


def scalar(x: Any, y: Any) -> Any:
    return ((y * x).tanh() * x.exp()).sum()


def flattened(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in flattened(v)] if isinstance(value, tuple) else [value]


def vectors(lib: Any) -> tuple[Any, Any]:
    return two(lib)


def cotangents(lib: Any) -> tuple[Any, Any]:
    return two(lib)[1] * 0.5, lib.tensor(2.0, dtype=lib.float64)


PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "jacobian": lambda lib, f: f.jacobian(mixed, two(lib)),
    "jacobian of one input": lambda lib, f: f.jacobian(lambda x: mixed(x, two(lib)[1])[0], two(lib)[0]),
    "hessian": lambda lib, f: f.hessian(scalar, two(lib)),
    "hessian of one input": lambda lib, f: f.hessian(lambda x: (x**3).sum(), two(lib)[0]),
    "vjp": lambda lib, f: f.vjp(mixed, two(lib), cotangents(lib)),
    "vjp of a scalar": lambda lib, f: f.vjp(scalar, two(lib)),
    "jvp": lambda lib, f: f.jvp(mixed, two(lib), vectors(lib)),
    "jvp of one input": lambda lib, f: f.jvp(lambda x: x * x, two(lib)[0], two(lib)[0]),
    "hvp": lambda lib, f: f.hvp(scalar, two(lib), vectors(lib)),
    "vhp": lambda lib, f: f.vhp(scalar, two(lib), vectors(lib)),
    "jacobian of a constant": lambda lib, f: f.jacobian(lambda x: x.detach() * 1, two(lib)[0]),
    "jvp of a linear function": lambda lib, f: f.jvp(lambda x: x * 3, two(lib)[0], two(lib)[0]),
    "hvp of a linear function": lambda lib, f: f.hvp(lambda x: (x * 3).sum(), two(lib)[0], two(lib)[0]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_derivatives_of_functions_equal_pytorchs(name: str) -> None:
    ours = PRODUCTS[name](sg, sg.autograd.functional)
    theirs = PRODUCTS[name](torch, torch.autograd.functional)
    assert isinstance(ours, tuple) == isinstance(theirs, tuple)
    for a, b in zip(flattened(ours), flattened(theirs), strict=True):
        assert not a.requires_grad
        assert_close(a, b, 1e-9, 1e-12)


def test_a_jacobian_can_be_differentiated_again() -> None:
    x = sg.tensor([0.5, -1.5], dtype=sg.float64, requires_grad=True)
    jacobian = sg.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True)
    jacobian.sum().backward()
    assert_close(x.grad, [3.0, -9.0], 1e-9, 0)
    x.grad = None
    sg.autograd.functional.hessian(lambda x: (x**3).sum(), x, create_graph=True).sum().backward()
    assert_close(x.grad, [6.0, 6.0], 1e-9, 0)


def test_what_a_derivative_cannot_be_of_is_refused() -> None:
    x = sg.tensor([0.5, -1.5])
    with pytest.raises(RuntimeError, match="independent of input 0"):
        sg.autograd.functional.jacobian(lambda x: x.detach(), x, strict=True)
    with pytest.raises(sg.ShapeError, match="single element"):
        sg.autograd.functional.hessian(lambda x: x * 2, x)
    with pytest.raises(sg.ShapeError, match="vector v can only be None"):
        sg.autograd.functional.vjp(lambda x: x * 2, x)
    with pytest.raises(sg.ShapeError, match=r"\[\[3\]\]"):
        sg.autograd.functional.jvp(lambda x: x * 2, x, sg.ones(3))


# ---------------------------------------------------------------------------------- functions of autograd at their edges


def test_gradcheck_moves_the_tensor_itself_which_a_function_may_read_elsewhere() -> None:
    layer = sg.nn.Linear(3, 2, dtype=sg.float64, device="cpu")
    x, before = double(4, 3).detach(), layer.weight.tolist()
    assert gradcheck(lambda _: layer(x), [layer.weight])
    assert gradgradcheck(lambda _: layer(x) ** 2, [layer.weight])
    assert layer.weight.tolist() == before


def _functional_edges(lib: Any) -> dict[str, Callable[[], Any]]:
    f = lib.autograd.functional
    x = lib.tensor([1.0, 2.0], dtype=lib.float64)
    leaf = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    v = lib.ones(2, dtype=lib.float64)

    def alone(a: Any) -> Any:
        return a.detach().clone().requires_grad_().clone()

    return {
        "several outputs of a scalar function": lambda: f.hessian(lambda a: (a.sum(), a.sum()), x),
        "a tuple of one": lambda: f.vhp(lambda a: (a.sum(),), x, v),
        "an output that is no tensor": lambda: f.hvp(lambda a: (a.sum(), "b"), x, v),
        "a vector that is none": lambda: f.vhp(lambda a: a.sum(), x, (v, 2)),
        "strict and vectorize": lambda: f.jacobian(lambda a: a, x, strict=True, vectorize=True),
        "strict hessian and vectorize": lambda: f.hessian(lambda a: (a**3).sum(), x, strict=True, vectorize=True),
        "strict, no gradient": lambda: f.vjp(lambda a: a.detach(), x, v, strict=True),
        "strict, independent": lambda: f.jacobian(alone, x, strict=True),
        "strict, independent jacobian": lambda: f.jacobian(lambda a: a.clone(), leaf, create_graph=True, strict=True),
        "strict, independent vjp": lambda: f.vjp(lambda a: a.clone(), leaf, v, create_graph=True, strict=True),
        "strict, independent jvp": lambda: f.jvp(lambda a: a.clone(), leaf, v, create_graph=True, strict=True),
        "strict hessian of a linear function": lambda: f.hessian(lambda a: (3 * a).sum(), x, strict=True),
    }


@pytest.mark.parametrize("case", _functional_edges(sg))
def test_what_pytorch_refuses_of_functional_derivatives_is_refused(case: str) -> None:
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        _functional_edges(torch)[case]()
    with pytest.raises((RuntimeError, TypeError)) as ours:
        _functional_edges(sg)[case]()
    assert isinstance(ours.value, TypeError) == isinstance(theirs.value, TypeError)


@pytest.mark.parametrize("name", ["jacobian", "hessian"])
def test_create_graph_records_within_no_grad(name: str) -> None:
    def run(lib: Any, create_graph: bool) -> tuple[bool, Any]:
        x = lib.tensor([1.0, 2.0], dtype=lib.float64)
        with lib.no_grad():
            found = getattr(lib.autograd.functional, name)(lambda a: (a**3).sum(), x, create_graph=create_graph)
        return found.requires_grad, found.tolist()

    assert [run(sg, c) for c in (False, True)] == [run(torch, c) for c in (False, True)]
