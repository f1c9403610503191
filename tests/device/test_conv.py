"""Convolution, pooling and resampling against PyTorch: values and gradients."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

import shadergrad as sg
import shadergrad.nn.functional as FC
from helpers import as_array, assert_close, grad_of

# PyTorch, on its own speed; it says so once a process, whichever test comes first
pytestmark = pytest.mark.filterwarnings("ignore:Using padding=.same. with even kernel:UserWarning")

RNG = np.random.default_rng(0)
Case = tuple[str, Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]


def conv_cases() -> list[Case]:
    """Steps, padding, dilation, groups and window sizes of all ranks."""
    cases: list[Case] = []
    for stride, padding, dilation, groups in [(1, 0, 1, 1), (2, 1, 1, 1), (1, 1, 2, 1), (3, 2, 1, 2), (2, 1, 2, 4)]:
        size = (9, 11) if stride == 3 else (6, 7)  # small, because a software adapter compiles their kernels faster
        shapes = ((2, 4, *size), (4, 4 // groups, 3, 3), (4,))

        def forward(f: Any, s=stride, p=padding, d=dilation, g=groups) -> Any:
            return lambda x, w, b: f(x, w, b, s, p, d, g)

        def backward(f: Any, s=stride, p=padding, d=dilation, g=groups) -> Any:
            return lambda x, w, b: f(x, w, b, s, p, 0, g, d)

        name = f"stride {stride}, padding {padding}, dilation {dilation}, groups {groups}"
        cases.append((f"conv2d {name}", forward(FC.conv2d), forward(TF.conv2d), shapes))
        shapes = ((2, 4, 5, 6), (4, 8 // groups, 3, 3), (8,))
        cases.append((f"conv_transpose2d {name}", backward(FC.conv_transpose2d), backward(TF.conv_transpose2d), shapes))
    return cases


def both(name: str, ours: Any, theirs: Any, call: Callable[[Any], Any], *shapes: tuple[int, ...]) -> Case:
    return name, call(ours), call(theirs), shapes


CASES: list[Case] = [
    *conv_cases(),
    both(
        "conv2d same", FC.conv2d, TF.conv2d, lambda f: lambda x, w: f(x, w, padding="same"), (2, 3, 5, 6), (4, 3, 4, 3)
    ),
    both("conv2d 1x1", FC.conv2d, TF.conv2d, lambda f: lambda x, w: f(x, w), (2, 5, 4, 3), (7, 5, 1, 1)),
    both("conv2d unbatched", FC.conv2d, TF.conv2d, lambda f: lambda x, w: f(x, w), (3, 6, 5), (2, 3, 3, 2)),
    both("conv2d many windows", FC.conv2d, TF.conv2d, lambda f: lambda x, w: f(x, w), (3, 2, 17, 13), (5, 2, 3, 3)),
    both("conv1d", FC.conv1d, TF.conv1d, lambda f: lambda x, w: f(x, w, None, 2, 1), (3, 2, 13), (5, 2, 4)),
    both("conv3d", FC.conv3d, TF.conv3d, lambda f: lambda x, w: f(x, w, None, 1, 1), (1, 2, 4, 5, 6), (3, 2, 2, 3, 2)),
    both(
        "conv_transpose1d with output padding",
        FC.conv_transpose1d,
        TF.conv_transpose1d,
        lambda f: lambda x, w: f(x, w, None, 3, 2, 1),
        (2, 3, 5),
        (3, 4, 4),
    ),
    both("max_pool2d", FC.max_pool2d, TF.max_pool2d, lambda f: lambda x: f(x, 3, 2, 1), (2, 3, 8, 9)),
    both(
        "max_pool2d ceil, dilated",
        FC.max_pool2d,
        TF.max_pool2d,
        lambda f: lambda x: f(x, 2, 2, 0, 2, True),
        (2, 3, 8, 9),
    ),
    both("max_pool2d of ties", FC.max_pool2d, TF.max_pool2d, lambda f: lambda x: f((x - 1).relu(), 2), (2, 3, 8, 8)),
    both("max_pool1d", FC.max_pool1d, TF.max_pool1d, lambda f: lambda x: f(x, 4, 3, 1), (2, 3, 11)),
    both("avg_pool2d ceil", FC.avg_pool2d, TF.avg_pool2d, lambda f: lambda x: f(x, 3, 2, 1, True), (2, 3, 8, 9)),
    both(
        "avg_pool2d without padding",
        FC.avg_pool2d,
        TF.avg_pool2d,
        lambda f: lambda x: f(x, 3, 2, 1, False, False),
        (2, 3, 8, 9),
    ),
    both("avg_pool3d", FC.avg_pool3d, TF.avg_pool3d, lambda f: lambda x: f(x, 2), (1, 2, 4, 5, 6)),
    both(
        "adaptive_avg_pool2d",
        FC.adaptive_avg_pool2d,
        TF.adaptive_avg_pool2d,
        lambda f: lambda x: f(x, (3, 4)),
        (2, 3, 7, 8),
    ),
    both(
        "adaptive_max_pool2d",
        FC.adaptive_max_pool2d,
        TF.adaptive_max_pool2d,
        lambda f: lambda x: f(x, (3, 4)),
        (2, 3, 7, 8),
    ),
    both("nearest x2", FC.interpolate, TF.interpolate, lambda f: lambda x: f(x, scale_factor=2), (2, 3, 4, 6)),
    both("nearest to a size", FC.interpolate, TF.interpolate, lambda f: lambda x: f(x, size=(5, 9)), (2, 3, 4, 6)),
    both(
        "bilinear x2",
        FC.interpolate,
        TF.interpolate,
        lambda f: lambda x: f(x, scale_factor=2, mode="bilinear", align_corners=False),
        (2, 3, 4, 6),
    ),
    both(
        "bilinear with aligned corners",
        FC.interpolate,
        TF.interpolate,
        lambda f: lambda x: f(x, size=(5, 9), mode="bilinear", align_corners=True),
        (2, 3, 4, 6),
    ),
    both("unfold", FC.unfold, TF.unfold, lambda f: lambda x: f(x, (2, 3), 1, 1, 2), (2, 3, 7, 8)),
    both("fold", FC.fold, TF.fold, lambda f: lambda x: f(x, (7, 8), (2, 3), 1, 1, 2), (2, 18, 16)),
    both("pixel_shuffle", FC.pixel_shuffle, TF.pixel_shuffle, lambda f: lambda x: f(x, 2), (2, 8, 3, 4)),
    both("pixel_unshuffle", FC.pixel_unshuffle, TF.pixel_unshuffle, lambda f: lambda x: f(x, 2), (2, 2, 6, 4)),
]
EXACT = (np.float64, 1e-9)
SINGLE = (np.float32, 2e-5)


def results(case: Case, lib: Any, device: str, dtype: Any) -> dict[str, np.ndarray]:
    """The value, and gradients with a random cotangent, by sg or torch."""
    name, ours, theirs, shapes = case
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    inputs = [lib.tensor(rng.normal(size=s).astype(dtype), device=device, requires_grad=True) for s in shapes]
    y = (theirs if lib is torch else ours)(*inputs)
    y.backward(lib.tensor(rng.normal(size=tuple(y.shape)).astype(dtype), device=device))
    found = {"value": y} | {f"gradient of input {k}": x.grad for k, x in enumerate(inputs)}
    return {what: as_array(t) for what, t in found.items()}


def assert_equals_torch(case: Case, device: str, dtype: Any, tolerance: float) -> None:
    """Within the tolerance relative to the largest element."""
    found, expected = results(case, sg, device, dtype), results(case, torch, "cpu", dtype)
    for what, want in expected.items():
        assert_close(found[what], want, 0, tolerance * (1 + float(np.abs(want).max())), what)


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_cpu_equals_torch_in_float64(case: Case) -> None:
    assert_equals_torch(case, "cpu", *EXACT)


@pytest.mark.webgpu
@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_webgpu_equals_torch_in_float32(case: Case, webgpu: str) -> None:
    assert_equals_torch(case, webgpu, *SINGLE)


def test_max_pool_gives_positions_in_the_plane(device: str) -> None:
    x = RNG.normal(size=(2, 3, 8, 9)).astype(np.float32)
    values, positions = FC.max_pool2d(sg.tensor(x, device=device), 3, 2, 1, return_indices=True)
    expected, where = TF.max_pool2d(torch.tensor(x), 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(positions.numpy(), where.numpy())
    np.testing.assert_array_equal(values.numpy(), expected.numpy())


@pytest.mark.slow
def test_a_convolution_and_its_gradients_store_no_windows(webgpu: str) -> None:
    """The temporaries of a step stay below a tenth of the window matrix."""
    batch, channels, size, out = 4, 16, 32, 16
    weight = sg.tensor(RNG.normal(size=(out, channels, 3, 3)).astype(np.float32), device=webgpu, requires_grad=True)

    @sg.compile
    def step(x: sg.Tensor) -> tuple[sg.Tensor, ...]:
        weight.grad = None
        x = x * 1.5
        x.requires_grad_()
        y = FC.conv2d(x, weight, padding=1)
        y.square().sum().backward()
        return grad_of(weight), grad_of(x)

    step(sg.tensor(RNG.normal(size=(batch, channels, size, size)).astype(np.float32), device=webgpu))
    windows = batch * channels * 9 * size * size * 4
    image = batch * channels * size * size * 4
    assert step.plan.temporary_bytes < 4 * image < windows


def test_a_convolution_of_an_empty_batch_is_pytorchs() -> None:
    found = []
    for library in (sg, torch):
        x, w = (library.ones(shape, requires_grad=True, device="cpu") for shape in ((0, 2, 5, 5), (3, 2, 3, 3)))
        y = library.nn.functional.conv2d(x, w, padding=2)
        y.sum().backward()
        found.append([v.detach().numpy() for v in (y, x.grad, w.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_second_derivatives_of_a_convolution() -> None:
    x, w = RNG.normal(size=(1, 2, 5, 5)), RNG.normal(size=(3, 2, 3, 3))
    ours = [sg.tensor(a, requires_grad=True) for a in (x, w)]
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    (g,) = sg.autograd.grad(FC.conv2d(ours[0], ours[1], padding=1).tanh().sum(), ours[1], create_graph=True)
    (h,) = torch.autograd.grad(TF.conv2d(theirs[0], theirs[1], padding=1).tanh().sum(), theirs[1], create_graph=True)
    assert g is not None
    (g * g).sum().backward()
    (h * h).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(grad_of(a).numpy(), grad_of(b).numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4), (2, 3, 4, 0), (2, 3, 0, 0), (0, 4, 4)])
@pytest.mark.parametrize("size", [2, 0])
@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool2d"])
def test_adaptive_pools_of_nothing_are_pytorchs(name: str, size: int, shape: tuple[int, ...]) -> None:
    try:
        expected = getattr(TF, name)(torch.zeros(shape), size).shape
    except RuntimeError:
        with pytest.raises(sg.errors.ShapeError, match="non-zero size"):
            getattr(FC, name)(sg.zeros(*shape), size)
    else:
        assert getattr(FC, name)(sg.zeros(*shape), size).shape == tuple(expected)


@pytest.mark.parametrize("name", ["AdaptiveAvgPool1d", "AdaptiveMaxPool1d"])
def test_an_adaptive_pool_of_more_elements_than_there_can_be_is_refused(name: str) -> None:
    for lib in (sg, torch):
        with pytest.raises(RuntimeError):
            getattr(lib.nn, name)(0x3FFFFFFFFFFFFFFF)(lib.zeros(2, 2, 2))
