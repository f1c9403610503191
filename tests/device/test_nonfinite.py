"""NaN and infinities go where PyTorch's go, within one kernel too: drivers' algebra takes x * 0, x - x and 0 / x for 0."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad.compile.pipeline import compile_graph
from shadergrad.graph.capture import Capture
from shadergrad.target import PORTABLE

X = np.array([np.nan, np.inf, -np.inf, 1.0, 0.0, -0.0, -2.5, 3e38], np.float32)
Y = np.array([1.0, np.inf, np.inf, np.nan, 0.0, np.inf, 1.0, 3e38], np.float32)
HIDDEN: dict[str, Callable[[Any, Any], Any]] = {
    "x * 0": lambda x, y: x * 0,
    "x * -0.0": lambda x, y: x * -0.0,
    "isnan(x * 0)": lambda x, y: (x * 0).isnan(),
    "isfinite(x * 0)": lambda x, y: (x * 0).isfinite(),
    "x * 0 == 0": lambda x, y: (x * 0) == 0,
    "0 * x + 1": lambda x, y: 0 * x + 1,
    "x - x": lambda x, y: x - x,
    "isnan(x - x)": lambda x, y: (x - x).isnan(),
    "x + -x": lambda x, y: x + -x,
    "-x + x": lambda x, y: -x + x,
    # WGSL bounds division for divisors up to 2^126
    "x / x": lambda x, y: (x / 4) / (x / 4),
    "0 / x": lambda x, y: 0 / x,
    "x / 0": lambda x, y: x / 0,
    "x / -0": lambda x, y: x / -0.0,
    "(x + y) - x": lambda x, y: (x + y) - x,
    "x - (x + y)": lambda x, y: x - (x + y),
    "(x - y) + y": lambda x, y: (x - y) + y,
    "y + (x - y)": lambda x, y: y + (x - y),
    "x - (x - y)": lambda x, y: x - (x - y),
    "x * 1 - x": lambda x, y: x * 1 - x,
    "exp(x) - exp(x)": lambda x, y: x.exp() - x.exp(),
    "|x| - |x|": lambda x, y: x.abs() - x.abs(),
    "x * (y - y)": lambda x, y: x * (y - y),
    "nan_to_num(x * 0)": lambda x, y: (x * 0).nan_to_num(7.0),
    "mean(x * 0)": lambda x, y: (x * 0).mean(),
    "a rounding trick": lambda x, y: (x + 12582912.0) - 12582912.0,
}
PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "isnan": lambda x, y: x.isnan(),
    "isinf": lambda x, y: x.isinf(),
    "isfinite": lambda x, y: x.isfinite(),
    "x == x": lambda x, y: x == x,
    "x <= x": lambda x, y: x <= x,
    "x > x": lambda x, y: x > x,
    "x != x": lambda x, y: x != x,
    "not x < y": lambda x, y: ~(x < y),
    "nan_to_num": lambda x, y: x.nan_to_num(),
    "maximum": lambda x, y: x.maximum(y),
    "relu": lambda x, y: x.relu(),
    "sign": lambda x, y: x.sign(),
    "sgn": lambda x, y: x.sgn(),
    "isfinite of a sum": lambda x, y: x.sum().isfinite(),
}


@pytest.mark.parametrize("repeats", [1, 3], ids=["four by four", "one by one"])
@pytest.mark.parametrize("name", HIDDEN | PLAIN)
def test_nan_and_infinities_are_pytorchs(name: str, repeats: int, device: str) -> None:
    x, y = np.tile(X, repeats)[: 8 * repeats - (repeats > 1)], np.tile(Y, repeats)[: 8 * repeats - (repeats > 1)]
    found = (HIDDEN | PLAIN)[name](sg.tensor(x, device=device), sg.tensor(y, device=device)).numpy()
    wanted = (HIDDEN | PLAIN)[name](torch.from_numpy(x), torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", PLAIN)
def test_compiled_kernels_place_nan_and_infinities_as_pytorch(name: str, device: str) -> None:
    """Of many elements, so that the cpu device writes a kernel."""
    x, y = np.tile(X, 4000), np.tile(Y, 4000)
    step = sg.compile(lambda x, y: (PLAIN[name](x * x.abs(), y - x), x + y))
    given = sg.tensor(x, device=device), sg.tensor(y, device=device)
    step(*given)
    found = step(*given)[0].numpy()
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    wanted = PLAIN[name](a * a.abs(), b - a).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_driver_would_take_for_a_number_is_hidden_from_it(name: str) -> None:
    x, y = sg.tensor(np.ones(7, np.float32)), sg.tensor(np.full(7, 2, np.float32))
    plan, _ = compile_graph(Capture([HIDDEN[name](x, y)._node]).graph(), PORTABLE)
    assert re.search(r"bitcast<f32>\(bitcast<u32>\(.*\) \| u32\(wid\.z\)\)", plan.kernels[0].source)


def test_ordinary_arithmetic_hides_nothing() -> None:
    x, y = sg.tensor(np.ones(7, np.float32)), sg.tensor(np.full(7, 2, np.float32))
    plan, _ = compile_graph(Capture([((x * y + x) * 0.1 - y / x + (x + y) + x)._node]).graph(), PORTABLE)
    assert "wid.z" not in plan.kernels[0].source


@pytest.mark.parametrize("shape", [(6,), (16,), (7, 2), (16, 3), (2, 9)])
@pytest.mark.parametrize("seed", range(5))
def test_distinct_lines_with_nan_stand_where_pytorch_has_them(shape: tuple[int, ...], seed: int) -> None:
    """Each is distinct, and is neither below nor above another line where the two differ in NaN alone."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, shape).astype(np.float32)
    x[rng.random(shape) < 0.3] = np.nan
    axis = 1 if shape[0] == 2 else 0
    ours, theirs = (lib.unique(lib.tensor(x), return_inverse=True, return_counts=True, dim=axis) for lib in (sg, torch))
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_of_many_distinct_lines_those_with_nan_come_last() -> None:
    x = np.append(np.arange(20.0), [np.nan, np.nan])[::-1].copy()
    values, inverse = sg.unique(sg.tensor(x), return_inverse=True, dim=0)
    np.testing.assert_array_equal(values.numpy(), np.append(np.arange(20.0), [np.nan, np.nan]))
    np.testing.assert_array_equal(values.numpy()[inverse.numpy()], x)
