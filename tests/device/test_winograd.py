"""Convolutions by points (Winograd's way) against PyTorch in float64, and when they are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import step as steps
from helpers import large_gpu
from shadergrad.compile import convolution, schedule
from shadergrad.compile.choices import Shape as Sizes
from shadergrad.compile.convolution import winograd_pays
from shadergrad.drive.execute import programs
from shadergrad.plan import Plan
from shadergrad.primitives.winograd import FromPoints, Tiling, ToPoints
from shadergrad.runtime.device import get_device
from test_calls import same
from workloads import WORKLOADS

RNG = np.random.default_rng(0)


@pytest.fixture
def by_points(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device on which every convolution that can goes by points."""
    device: Any = get_device(webgpu)
    monkeypatch.setattr(device, "target", device.target.having(winograd=1e9))
    return webgpu


def names(plan: Plan) -> list[str]:
    return [plan.kernels[d.kernel].name for d in plan.dispatches]


def conv(lib: Any, x: Any, w: Any, **options: Any) -> Any:
    return (lib.nn.functional if lib is torch else sg.nn.functional).conv2d(x, w, **options)


def derivatives(lib: Any, padding: int, x: Any, w: Any, g: Any) -> tuple[Any, ...]:
    """The result, its gradients, and theirs."""
    x, w, g = (t.detach().requires_grad_() for t in (x, w, g))
    y = conv(lib, x, w, padding=padding)
    dx, dw = lib.autograd.grad(y, [x, w], g, create_graph=True)
    second = lib.autograd.grad((dx * dx).sum() + (dw * dw).sum(), [x, w, g])
    return (y, dx, dw, *second)


@pytest.mark.parametrize(
    ("batch", "channels", "out", "height", "width", "padding"),
    [(2, 3, 5, 7, 9, 1), (2, 3, 2, 8, 12, 0), (3, 2, 2, 5, 6, 3)],
    ids=["odd sizes", "whole vectors, no padding", "wide padding"],
)
def test_values_and_derivatives_are_pytorchs(
    batch: int, channels: int, out: int, height: int, width: int, padding: int, by_points: str
) -> None:
    x = RNG.standard_normal((batch, channels, height, width))
    w = RNG.standard_normal((out, channels, 3, 3))
    y = conv(torch, torch.tensor(x), torch.tensor(w), padding=padding)
    arrays = (x, w, RNG.standard_normal(tuple(y.shape)))
    expected = derivatives(torch, padding, *map(torch.tensor, arrays))
    compiled = sg.compile(lambda x, w, g: derivatives(sg, padding, x, w, g))
    found = compiled(*(sg.tensor(a.astype(np.float32), device=by_points) for a in arrays))
    for ours, theirs in zip(found, expected, strict=True):
        wanted = theirs.detach().numpy()
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    kinds = str(compiled.explain())
    assert kinds.count("topoints") >= 3
    assert kinds.count("frompoints") >= 3


def test_parts_of_a_weight_gradient_are_added_up(by_points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "chunk_of", lambda *_: 16)
    x, g = RNG.standard_normal((2, 3, 17, 16)), RNG.standard_normal((2, 5, 17, 16))
    w = torch.zeros(5, 3, 3, 3, dtype=torch.float64, requires_grad=True)
    conv(torch, torch.tensor(x), w, padding=1).backward(torch.tensor(g))

    def gradient(x: Any, g: Any) -> Any:
        w = sg.zeros(5, 3, 3, 3, device=by_points, requires_grad=True)
        return sg.autograd.grad(conv(sg, x, w, padding=1), [w], g)[0]

    compiled = sg.compile(gradient)
    found = compiled(*(sg.tensor(a.astype(np.float32), device=by_points) for a in (x, g)))
    assert "108x5x3x16" in str(compiled.explain())  # 40 tiles in three parts, at 36 points
    assert w.grad is not None
    np.testing.assert_allclose(found.numpy(), w.grad.numpy(), rtol=0, atol=1e-5 * w.grad.abs().max().item())


@pytest.mark.parametrize("options", [{"stride": 2}, {"dilation": 2}, {"groups": 2}], ids=str)
def test_other_convolutions_stay_products(options: dict[str, int], by_points: str) -> None:
    def step(x: Any, w: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return sg.autograd.grad(conv(sg, x, w, padding=1, **options).sum(), [x, w])

    compiled = sg.compile(step)
    compiled(sg.ones(2, 4, 9, 9, device=by_points), sg.ones(4, 4 // options.get("groups", 1), 3, 3, device=by_points))
    assert "points" not in str(compiled.explain())


def test_both_gradients_share_dispatches(by_points: str) -> None:
    def step(x: Any, w: Any, g: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return sg.autograd.grad(conv(sg, x, w, padding=1), [x, w], g)

    compiled = sg.compile(step)
    compiled(*(sg.ones(*s, device=by_points) for s in ((2, 3, 8, 8), (4, 3, 3, 3), (2, 4, 8, 8))))
    found = names(compiled.plan)
    assert (found[0], found.count("topoints"), found[-1], found.count("frompoints")) == ("topoints", 1, "frompoints", 1)


def test_each_call_is_its_numpy_twin(webgpu: str) -> None:
    x = RNG.standard_normal((3, 2, 7, 8)).astype(np.float32)
    turned = Tiling("input", (1, -1), (2, 2), (2, 3, 7, 8), (56, 112, 8, 1), 0)
    g = RNG.standard_normal((2, 3, 5, 5)).astype(np.float32)
    plain = Tiling("cotangent", (0, 0), (2, 2), (2, 3, 5, 5), (75, 25, 5, 1), 0)
    same(ToPoints((turned, plain)), x, g, device=webgpu)
    points = RNG.standard_normal((36 * 2, 3, 4)).astype(np.float32)
    same(FromPoints("weight's gradient", (3, 3), 4, True, 2), points, device=webgpu)
    points = RNG.standard_normal((36, 3, 2 * 4)).astype(np.float32)
    same(FromPoints("result", (7, 8), 2, False, 1), points, device=webgpu)


def test_small_convolutions_stay_products() -> None:
    target = large_gpu()
    assert winograd_pays(256, 512, 256, Sizes(1, 256, 8192, 2304), 128, target)
    assert not winograd_pays(8, 8, 8, Sizes(1, 8, 128, 72), 128, target)
    assert not winograd_pays(256, 512, 256, Sizes(1, 256, 8192, 2304), 128, large_gpu(winograd=0.0))


def test_in_software_large_ones_go_by_points() -> None:
    target = large_gpu(winograd=0.0, slow_loads=True)

    def pays(samples: int) -> bool:
        return winograd_pays(64, 64 * samples, 64, Sizes(1, 64, 1024 * samples, 576), samples, target)

    assert [pays(samples) for samples in (8, 16, 32, 128)] == [False, False, True, True]


@pytest.mark.parametrize(("slow_loads", "transforms"), [(True, [1, 1]), (False, [2])])
def test_in_software_each_operand_goes_to_points_by_itself(slow_loads: bool, transforms: list[int]) -> None:
    """There a workgroup would take the time of both transforms."""
    step = sg.compile(lambda x, w: conv(sg, x, w, padding=1))
    x, w = sg.zeros(32, 64, 32, 32), sg.zeros(64, 64, 3, 3)
    plan = step._planned(large_gpu(slow_loads=slow_loads), (x, w), {}).plan
    found = [plan.kernels[d.kernel] for d in plan.dispatches]
    assert [len(k.access) - 1 for k in found if k.name == "topoints"] == transforms


def test_what_is_allowed_at_points_grows_with_the_samples() -> None:
    """Of 64 channels at 32x32: as many bytes are refused as those of a few large images."""
    target = large_gpu()
    for samples in (128, 512, 2048):
        assert winograd_pays(64, 64 * samples, 64, Sizes(1, 64, 1024 * samples, 576), samples, target)
    assert not winograd_pays(64, 64 * 512, 64, Sizes(1, 64, 1024 * 512, 576), 8, target)


@pytest.mark.parametrize("samples", [5, 1])
def test_in_software_weight_gradients_that_are_too_large_go_by_halves(
    samples: int, by_points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sample has no halves."""
    sizes = ((samples, 5, 9, 8), (7, 5, 3, 3), (samples, 7, 9, 8))
    x, w, g = (RNG.standard_normal(s).astype(np.float32) for s in sizes)

    def gradient(lib: Any, x: Any, w: Any, g: Any) -> Any:
        w = w.detach().requires_grad_()
        return lib.autograd.grad(conv(lib, x, w, padding=1), w, g)[0]

    kernels = []
    for most in (1 << 27, 6_000 * samples):  # a sample takes 10,368 bytes
        monkeypatch.setattr(convolution, "MOST_POINTS", most)
        programs.clear()
        step = sg.compile(lambda x, w, g: gradient(sg, x, w, g))
        found = step(*(sg.tensor(a, device=by_points) for a in (x, w, g)))
        expected = gradient(torch, *(torch.tensor(a.astype(np.float64)) for a in (x, w, g)))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
        kernels.append(names(step.plan))
    programs.clear()
    device: Any = get_device(by_points)
    assert "topoints" in kernels[0]
    in_halves = samples > 1 and device.target.traits.slow_loads
    assert ("topoints" in kernels[1]) == in_halves
    assert len(kernels[1]) > len(kernels[0]) or not in_halves


@pytest.mark.slow
def test_resnet_18_goes_by_points() -> None:
    """On a large GPU, with images of 32x32 and a batch of 128. What it may take: tests/null/test_budgets.py"""
    workload = WORKLOADS["resnet"](False)
    step = sg.compile(steps.training_step(sg, workload, workload.model(sg)))
    x, y = (sg.tensor(a) for a in workload.batch())
    plan = step._planned(large_gpu(), (x, y), {}).plan
    assert names(plan).count("topoints") == 26  # 13 convolutions, forward and backward


def test_the_cnn_goes_by_points() -> None:
    """The points of both gradients are not there at once."""
    workload = WORKLOADS["cnn"](False)
    step = sg.compile(steps.training_step(sg, workload, workload.model(sg)))
    x, y = (sg.tensor(a) for a in workload.batch())
    plan = step._planned(large_gpu(), (x, y), {}).plan
    found = [name for name in names(plan) if "topoints" in name or "frompoints" in name]
    assert found == ["topoints", "frompoints_relu", "topoints", "topoints", "frompoints", "frompoints_where"]


def test_gradients_by_points_take_turns_where_they_would_be_most_of_the_memory(
    by_points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w, g = (RNG.standard_normal(s).astype(np.float32) for s in ((2, 5, 9, 7), (3, 5, 3, 3), (2, 3, 9, 7)))

    def gradients(lib: Any, x: Any, w: Any, g: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return lib.autograd.grad(conv(lib, x, w, padding=1), [x, w], g)

    monkeypatch.setattr(schedule, "MOST_BESIDE", 0)
    step = sg.compile(lambda x, w, g: gradients(sg, x, w, g))
    found = step(*(sg.tensor(a, device=by_points) for a in (x, w, g)))
    order = names(step.plan)
    first, second = (i for i, name in enumerate(order) if name == "topoints")
    assert "dot" in order[first:second]  # which has read the first points by then
    expected = gradients(torch, *(torch.tensor(a, dtype=torch.float64) for a in (x, w, g)))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0, atol=1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize("width", [9, 12], ids=["odd sizes", "whole vectors"])
def test_what_follows_is_part_of_the_last_transform(width: int, by_points: str) -> None:
    shapes = (2, 3, 7, width), (5, 3, 3, 3), (1, 5, 1, 1), (2, 5, 7, width)
    arrays = [RNG.standard_normal(s).astype(np.float32) for s in shapes]

    def step(lib: Any, *given: Any) -> Any:
        x, w, bias, y = given
        return lib.where(y > 0, conv(lib, x, w, padding=1) + bias, 0) + y

    compiled = sg.compile(lambda *given: step(sg, *given))
    found = compiled(*(sg.tensor(a, device=by_points) for a in arrays))
    expected = step(torch, *(torch.tensor(a, dtype=torch.float64) for a in arrays)).numpy()
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert names(compiled.plan) == ["topoints", "dot", "frompoints_add"]


def test_what_the_last_transform_adds_to_is_overwritten(by_points: str) -> None:
    x, w = RNG.standard_normal((2, 3, 8, 8)), RNG.standard_normal((3, 3, 3, 3)) / 9
    ours, theirs = sg.tensor(x.astype(np.float32), device=by_points), torch.tensor(x)
    weights = sg.tensor(w.astype(np.float32), device=by_points)

    @sg.compile
    def step() -> None:
        ours.add_(conv(sg, ours, weights, padding=1))

    for _ in range(3):
        step()
        theirs = theirs + conv(torch, theirs, torch.tensor(w), padding=1)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0, atol=1e-5 * theirs.abs().max().item())
    assert names(step.plan) == ["topoints", "dot", "frompoints_add"]
    assert any(b.role != "temporary" and b.aliases is not None for b in step.plan.buffers)
