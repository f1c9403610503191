"""Elementwise functions over all exponents of float32, in units in the last place: accuracy.py, with a few mantissas."""

from __future__ import annotations

import numpy as np
import pytest

import shadergrad as sg
from accuracy import Function, functions, worst

MANTISSAS = 24
FUNCTIONS = {f.name: f for f in functions()}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_is_exact_to_some_units_at_every_exponent(function: Function, device: str) -> None:
    found = worst(function, device, MANTISSAS)
    assert found.ulp <= function.bound, f"{found.ulp:.4g} ulp at {found.at}"


@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if f.bound > 8])
def test_more_than_eight_units_have_a_reason(name: str) -> None:
    assert FUNCTIONS[name].reason


def test_whole_powers_and_logarithms_are_exact(webgpu: str) -> None:
    n = np.arange(-126, 128, dtype=np.float32)
    powers = np.ldexp(np.float32(1), n.astype(int))
    np.testing.assert_array_equal(sg.tensor(n, device=webgpu).exp2().numpy(), powers)
    np.testing.assert_array_equal(sg.tensor(powers, device=webgpu).log2().numpy(), n)


@pytest.mark.parametrize("x", [3e5, 1e9, -7e20, 3e38])
def test_sines_of_large_angles(x: float, device: str) -> None:
    x = float(np.float32(x))
    t = sg.tensor([x], device=device)
    for ours, exact in ((t.sin(), np.sin), (t.cos(), np.cos), (t.tan(), np.tan)):
        np.testing.assert_allclose(ours.numpy(), exact([np.float64(x)]), rtol=1e-6)


def test_entropy_near_certainty_keeps_its_digits(device: str) -> None:
    p = np.array([1 - 6e-8, 1 - 1e-6, 1 - 1e-3], np.float32)
    found = sg.nn.functional.binary_cross_entropy(
        sg.tensor(p, device=device), sg.ones(3, device=device), reduction="none"
    )
    np.testing.assert_allclose(found.numpy(), -np.log(p.astype(np.float64)), rtol=1e-6)


def test_the_spread_of_large_numbers_keeps_its_digits(device: str) -> None:
    x = (np.random.default_rng(0).standard_normal(200_000) + 1e5).astype(np.float32)
    exact = x.astype(np.float64)
    for name, wanted in (("std", exact.std(ddof=1)), ("var", exact.var(ddof=1))):
        np.testing.assert_allclose(getattr(sg.tensor(x, device=device), name)().item(), wanted, rtol=2e-6)


@pytest.mark.parametrize("n", [1_000_000, 10_000_000])
def test_running_sums_of_millions_keep_their_digits(n: int, device: str) -> None:
    x = np.random.default_rng(0).random(n, np.float32)
    found = sg.tensor(x, device=device).cumsum(0).numpy()[:: n // 100]
    np.testing.assert_allclose(found, x.cumsum(dtype=np.float64)[:: n // 100], rtol=1e-5)


def test_hyperbolic_functions_end_where_their_results_do(device: str) -> None:
    x = sg.tensor([-89.4, 89.4, 88.9, -0.0], device=device)
    exact = x.numpy().astype(np.float64)
    np.testing.assert_allclose(x.sinh().numpy(), np.sinh(exact), rtol=1e-6)
    np.testing.assert_allclose(x.cosh().numpy(), np.cosh(exact), rtol=1e-6)
    assert np.isnan(sg.tensor([0.5, -3.0, -3001.6, -1e9], device=device).acosh().numpy()).all()
