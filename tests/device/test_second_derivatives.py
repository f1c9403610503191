"""Convolution and batch norm, whose gradients are written by hand: first and second derivatives against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close

# input, weight, arguments
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "padded": ((2, 3, 6, 5), (4, 3, 3, 3), {"padding": 1}),
    "with steps": ((2, 3, 7, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
    "with steps and windows apart": ((1, 2, 9, 9), (3, 2, 3, 2), {"stride": (2, 3), "padding": 2, "dilation": (2, 1)}),
    "padded further than the window reaches": ((2, 2, 4, 4), (2, 2, 1, 2), {"padding": 2, "stride": 3}),
    "depthwise": ((2, 4, 6, 6), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    "in groups, with steps": ((2, 4, 6, 6), (6, 2, 3, 3), {"stride": 2, "groups": 2}),
    "whose last elements no window reaches": ((1, 2, 8, 8), (2, 2, 3, 3), {"stride": 4}),
}


def drawn(*shape: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def derivatives(lib: Any, make: Any, arrays: list[np.ndarray], function: Any) -> list[np.ndarray]:
    """The value, its gradients, and the gradients of those."""
    leaves = [make(a).requires_grad_() for a in arrays]
    y = function(lib, *leaves)
    first = lib.autograd.grad((y * y * y).sum(), leaves, create_graph=True)
    second = lib.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return [t.detach().numpy() for t in (y, *first, *second)]


def assert_derivatives_equal(arrays: list[np.ndarray], function: Any, device: str, tolerance: float) -> None:
    found = derivatives(sg, lambda a: sg.tensor(a, device=device), arrays, function)
    wanted = derivatives(torch, torch.tensor, arrays, function)
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b, tolerance, tolerance * max(1.0, float(np.abs(b).max())))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_on_cpu(name: str) -> None:
    shape, window, words = CONVOLUTIONS[name]
    arrays = [drawn(*shape, dtype="float64"), drawn(*window, dtype="float64")]
    assert_derivatives_equal(arrays, lambda lib, x, w: lib.nn.functional.conv2d(x, w, **words), "cpu", 1e-9)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_on_webgpu(name: str, webgpu: str) -> None:
    shape, window, words = CONVOLUTIONS[name]
    arrays = [drawn(*shape, dtype="float32"), drawn(*window, dtype="float32")]
    assert_derivatives_equal(arrays, lambda lib, x, w: lib.nn.functional.conv2d(x, w, **words), webgpu, 1e-4)


def normalized(lib: Any, x: Any, weight: Any, bias: Any) -> Any:
    return lib.nn.functional.batch_norm(x, None, None, weight, bias, True)


@pytest.mark.parametrize("mean", [0.0, 10.0, -300.0])
@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 7), (3, 2, 4, 5)], ids=str)
def test_batch_norm_on_cpu(shape: tuple[int, ...], mean: float) -> None:
    parameters = [drawn(shape[1], dtype="float64"), drawn(shape[1], dtype="float64")]
    assert_derivatives_equal([drawn(*shape, dtype="float64") + mean, *parameters], normalized, "cpu", 1e-8)


@pytest.mark.parametrize("mean", [0.0, 10.0])
def test_batch_norm_on_webgpu(mean: float, webgpu: str) -> None:
    parameters = [drawn(2, dtype="float32"), drawn(2, dtype="float32")]
    x = (drawn(3, 2, 4, 5, dtype="float32") + np.float32(mean)).astype("float32")
    assert_derivatives_equal([x, *parameters], normalized, webgpu, 1e-4)


def test_batch_norm_of_a_small_deviation_far_from_zero(device: str) -> None:
    """One pass over the elements loses no digits that two would keep: the mean is 1e4 deviations from zero."""
    x = 100 + 0.01 * drawn(64, 2, 8, dtype="float64")
    found = sg.nn.functional.batch_norm(sg.tensor(x.astype("float32"), device=device), None, None, training=True)
    x = x.astype("float32").astype("float64")
    wanted = (x - x.mean((0, 2), keepdims=True)) / np.sqrt(x.var((0, 2), keepdims=True) + 1e-5)
    assert_close(found.numpy(), wanted, 2e-3, 2e-3)


def test_batch_norm_of_equal_elements_is_zero(device: str) -> None:
    x = sg.full((5, 2, 3), 7.3, device=device)
    assert not sg.nn.functional.batch_norm(x, None, None, training=True, eps=1e-12).numpy().any()
