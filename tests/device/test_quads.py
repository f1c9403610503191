"""Four neighbours at once: short columns that a thread reduces by fours, pads and concatenations whose elements come in fours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.drive import execute
from shadergrad.runtime.device import get_device
from shadergrad.target import ROWS
from shadergrad.testing import assert_close

F = sg.nn.functional
rng = np.random.default_rng(0)


@pytest.fixture
def gpu(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device that takes the kernels of a GPU: processors reduce a column a thread."""
    device: Any = get_device(webgpu)
    if device.target.traits.slow_loads:
        monkeypatch.setattr(device, "target", replace(device.target, traits=ROWS["discrete"]))
    execute.programs.clear()
    return webgpu


def results_and_kernels(function: Callable[..., Any], x: sg.Tensor) -> tuple[list[sg.Tensor], Any]:
    step = sg.compile(function)
    found = step(x)
    program = step._ran_last("time")[1].program
    return list(found), program.plan.kernels


def assert_equal_on_cpu(function: Callable[..., Any], found: list[sg.Tensor], x: sg.Tensor) -> None:
    for own, exact in zip(found, function(x.cpu()), strict=True):
        assert_close(own.cpu(), exact, rtol=2e-3 if own.dtype is sg.float16 else 1e-5, atol=1e-5)


def epilogues(x: sg.Tensor) -> tuple[sg.Tensor, ...]:
    """Reductions of the first axis, with operations after them: all have a vec4 form but the choice of rows by a maximum."""
    wide = x.float()
    total = wide.sum(0)
    table = sg.arange(8, device=x.device) * 10.0
    chosen = table[wide.amax(0).clamp(0, 7).int()]
    return total, (wide.amax(0) * 2 + 1).to(x.dtype), chosen, wide.softmax(0), x[0] + total.to(x.dtype)


@pytest.mark.parametrize("dtype", [sg.float32, sg.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("rows", [2, 7])
def test_a_thread_reduces_four_short_columns(gpu: str, dtype: Any, rows: int) -> None:
    x = sg.tensor(rng.standard_normal((rows, 128, 132)).astype("f4"), device=gpu).to(dtype)
    found, kernels = results_and_kernels(epilogues, x)
    assert any("4 columns" in k.choice for k in kernels)
    assert_equal_on_cpu(epilogues, found, x)


def test_integers_of_eight_bits_wrap_in_all_four_columns(gpu: str) -> None:
    x = sg.tensor(rng.integers(0, 256, (5, 128, 128)), dtype=sg.uint8, device=gpu)
    found, kernels = results_and_kernels(lambda x: (x.sum(0, dtype=sg.uint8), x.amax(0)), x)
    assert any("4 columns" in k.choice for k in kernels)
    exact = x.cpu().numpy()
    assert np.array_equal(found[0].numpy(), exact.sum(0, dtype=np.uint8))
    assert np.array_equal(found[1].numpy(), exact.max(0))


@pytest.mark.parametrize("columns", [16383, 16386])
def test_columns_that_four_does_not_divide_are_reduced_one_by_one(gpu: str, columns: int) -> None:
    x = sg.tensor(rng.standard_normal((3, columns)).astype("f4"), device=gpu)
    found, kernels = results_and_kernels(lambda x: (x.sum(0),), x)
    assert not any("4 columns" in k.choice for k in kernels)
    assert_equal_on_cpu(lambda x: (x.sum(0),), found, x)


@pytest.mark.parametrize("dtype", [sg.float32, sg.float16, sg.int32], ids=["float32", "float16", "int32"])
@pytest.mark.parametrize(
    ("low", "high"), [(4, 8), (0, 4), (-4, 4), (4, -8), (2, 2), (1, 3), (-2, 6)], ids=lambda n: str(n)
)
def test_pads_and_concatenations(webgpu: str, dtype: Any, low: int, high: int) -> None:
    """Of quads, and of rows in which a quad would cross an edge."""
    x = sg.tensor(rng.integers(-9, 10, (3, 12)), device=webgpu).to(dtype)

    def function(x: sg.Tensor) -> tuple[sg.Tensor, ...]:
        padded = F.pad(x, (low, high), value=2)
        joined = [sg.cat([x, padded, x], -1), sg.cat([x[:, :5], -x[:, 5:]], -1), sg.cat([x, x + 1], 0)]
        return padded + 1, padded.transpose(0, 1) + 1, *(y * 2 for y in joined)

    found, _ = results_and_kernels(function, x)
    assert_equal_on_cpu(function, found, x)


def test_the_gradient_of_a_split_is_loaded_by_fours(webgpu: str) -> None:
    def function(x: sg.Tensor) -> tuple[sg.Tensor]:
        x = x.detach().requires_grad_()
        a, b, c = x.split(8, -1)
        (a * 2 + b.exp() * c).sum().backward()
        assert x.grad is not None
        return (x.grad,)

    x = sg.tensor(rng.standard_normal((6, 24)).astype("f4"), device=webgpu)
    found, kernels = results_and_kernels(function, x)
    assert all("array<f32>" not in k.source.partition("@compute")[0] for k in kernels if k.archetype == "map")
    assert_equal_on_cpu(function, found, x)
