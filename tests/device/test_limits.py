"""The limits of devices: workgroups a dimension, buffers a kernel, bytes a binding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad.runtime.device import get_device


@pytest.mark.parametrize("workgroups", [65_535, 65_536, 65_537])
def test_as_many_workgroups_as_a_dimension_has_and_one_more(webgpu: str, workgroups: int) -> None:
    """Of 256 threads; an odd size, so that every thread has one element."""
    size = (workgroups - 1) * 256 + 1
    step = sg.compile(lambda x: x * 2)
    found = step(sg.arange(size, device=webgpu))
    assert len(step.plan.dispatches) == 1
    across, down, _ = step.plan.dispatches[0].grid
    assert (down > 1) == (workgroups > 65_535)
    assert across * down >= workgroups
    np.testing.assert_array_equal(found.numpy(), np.arange(size, dtype=np.int32) * 2)


def test_more_matrices_than_workgroups_in_a_dimension(webgpu: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(70_000, 2, 3)).astype(np.float32), rng.normal(size=(70_000, 3, 2)).astype(np.float32))
    product = (sg.tensor(a, device=webgpu) @ sg.tensor(b, device=webgpu)).numpy()
    np.testing.assert_allclose(product, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [5, 20, 90])
def test_an_expression_over_more_tensors_than_a_kernel_may_bind(webgpu: str, count: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=33).astype(np.float32) for _ in range(count)]
    tensors = [sg.tensor(a, device=webgpu) for a in arrays]
    total = tensors[0]
    for t in tensors[1:]:
        total = total + t * 0.5
    expected = arrays[0] + 0.5 * np.sum(arrays[1:], axis=0)
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [9, 70])
def test_cat_of_more_tensors_than_a_kernel_may_bind(webgpu: str, count: int) -> None:
    arrays = [np.full((2, k % 3 + 1), k, np.float32) for k in range(count)]
    joined = sg.cat([sg.tensor(a, device=webgpu) for a in arrays], dim=1)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(arrays, axis=1))


def test_a_long_sum_is_as_exact_as_numpy(webgpu: str) -> None:
    x = np.random.default_rng(0).random(1 << 22, dtype=np.float32)
    total = sg.tensor(x, device=webgpu).sum().item()
    assert abs(total - x.sum(dtype=np.float64)) < 1e-6 * x.size


@pytest.fixture(scope="module")
def millions() -> np.ndarray:
    return np.random.default_rng(0).random(1 << 24, dtype=np.float32) + 0.5


@pytest.mark.parametrize("name", ["sum", "mean", "var", "norm", "logsumexp", "max"])
@pytest.mark.parametrize("shape", [(1 << 24,), (1 << 12, 1 << 12)], ids=["all", "columns"])
def test_reductions_of_millions_are_as_exact_as_pytorchs(
    name: str, shape: tuple[int, ...], device: str, millions: np.ndarray
) -> None:
    """2^24 elements: the error is at most PyTorch's, or four units in the last place of the result."""
    x = millions.reshape(shape)
    arguments = {"logsumexp": (0,)}.get(name, ()) if len(shape) == 1 else (0,) if name != "norm" else ("fro", 0)

    def values(result: Any) -> Any:
        return result[0] if name == "max" and arguments else result

    found = values(getattr(sg.tensor(x, device=device), name)(*arguments)).numpy().astype(np.float64)
    peer = values(getattr(torch.tensor(x), name)(*arguments)).numpy().astype(np.float64)
    exact = values(getattr(torch.tensor(x, dtype=torch.float64), name)(*arguments)).numpy()
    limit = np.maximum(np.abs(peer - exact).max(), 4 * np.spacing(np.abs(exact).astype(np.float32)))
    assert np.all(np.abs(found - exact) <= limit)


def test_a_tensor_beyond_the_binding_limit_names_limit_and_remedy(webgpu: str) -> None:
    limit = get_device(webgpu).target.max_binding_bytes
    with pytest.raises(sg.DeviceError, match=r"at most|limit") as caught:
        sg.zeros(limit // 4 + 1024, device=webgpu).add(1).numpy()
    assert "smaller" in str(caught.value)


def test_what_cannot_be_computed_is_reported_once(webgpu: str) -> None:
    """A tensor that failed, though still alive, does not fail what is computed after it; its neighbours get their values."""
    limit = get_device(webgpu).target.max_binding_bytes
    sg.sync()
    read = sg.zeros(limit // 4 + 1024, device=webgpu).add(1)
    with pytest.raises(sg.DeviceError):
        read.numpy()
    sg.sync()
    flushed, neighbour = sg.zeros(limit // 4 + 1024, device=webgpu).add(1), sg.ones(3, device=webgpu) * 2
    with pytest.raises(sg.DeviceError):
        sg.sync()
    sg.sync()
    assert neighbour.tolist() == [2, 2, 2]
    assert flushed.shape == read.shape
