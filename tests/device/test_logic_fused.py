"""A cell in one kernel against the composition of gate layers: values, gradients, through time, in every layout."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_close
from shadergrad.drive import execute
from shadergrad.errors import AutogradError, ShapeError
from shadergrad.extend import PORTABLE
from shadergrad.logic import LogicCA, LogicNetwork, squared_error
from shadergrad.logic.fused import cell, layers
from shadergrad.nn.errors import ArgumentError

SMALL: dict[str, Any] = {"channels": 3, "kernels": 2, "perception": (9, 8, 4, 2), "update": (16, 8, 4, 3)}
DEEP: dict[str, Any] = {"channels": 2, "kernels": 3, "perception": (9, 8, 4, 2, 1), "update": (8, 4, 2)}
WIDE: dict[str, Any] = {
    "channels": 8,
    "kernels": 16,
    "perception": (9, 8, 4, 2),
    "update": (300, 256, 128, 64, 32, 16, 8),
}
MANY: dict[str, Any] = {"channels": 128, "kernels": 4, "perception": (9, 8, 4, 2, 1), "update": (512, 256, 128)}
SIZES = {"small": SMALL, "deep": DEEP, "wide": WIDE, "many": MANY}


def results(device: str, fused: bool, grid: tuple[int, ...], steps: int, **sizes: Any) -> list[np.ndarray]:
    """The end state and the gradients of the start state and of all logits, for random logits and cotangents."""
    rng = np.random.default_rng(0)
    model = LogicCA(**sizes, seed=2, device=device, fused=fused)
    with sg.no_grad():
        for p in model.parameters():
            p.copy_(sg.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32), device=device))
    start = sg.tensor(rng.random((*grid, model.channels)).astype(np.float32), device=device, requires_grad=True)
    masks = None
    if model.fire_rate is not None:
        masks = sg.tensor(rng.random((steps, *grid[1:], 1)) < model.fire_rate, device=device)
    end = model.rollout(start, steps, masks=masks)
    cotangent = sg.tensor(rng.standard_normal(tuple(end.shape)).astype(np.float32), device=device)
    found = sg.autograd.grad([end], [start, *model.parameters()], [cotangent])
    sg.sync()
    return [end.detach().numpy(), *(g.numpy() for g in found if g is not None)]


def assert_same(device: str, grid: tuple[int, ...], steps: int, **sizes: Any) -> None:
    expected = results("cpu", False, grid, steps, **sizes)
    for found, wanted in zip(results(device, True, grid, steps, **sizes), expected, strict=True):
        assert_close(found, wanted, 1e-4, 1e-4 * max(1e-3, float(np.abs(wanted).max())))


@pytest.mark.parametrize("border", ["zeros", "periodic"])
@pytest.mark.parametrize("sizes", ["small", "deep"])
@pytest.mark.parametrize(("grid", "steps"), [((2, 4, 5), 3), ((1, 1, 2), 2), ((3, 3, 1), 1), ((1, 2, 2), 4)])
def test_fused_steps_are_those_of_the_layers(
    device: str, sizes: str, grid: tuple[int, ...], steps: int, border: str
) -> None:
    assert_same(device, grid, steps, border=border, **SIZES[sizes])


@pytest.mark.parametrize("sizes", ["wide", "many"])
def test_layers_wider_than_a_workgroup(device: str, sizes: str) -> None:
    assert_same(device, (1, 2, 3), 2, border="periodic", **SIZES[sizes])


@pytest.mark.parametrize("border", ["zeros", "periodic"])
def test_fused_asynchronous_steps(device: str, border: str) -> None:
    assert_same(device, (2, 3, 4), 4, border=border, fire_rate=0.6, **SMALL)


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("most", [256, 2], ids=["a group each", "groups in turn"])
@pytest.mark.parametrize("sizes", ["small", "wide"])
@pytest.mark.parametrize("fire_rate", [None, 0.5])
def test_cells_computed_together(
    lanes: int, most: int, sizes: str, fire_rate: float | None, webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two or four cells to a workgroup, the last group not full, and workgroups that take several groups in turn."""
    monkeypatch.setattr(cell.CellCall, "lanes", property(lambda self: lanes))
    monkeypatch.setattr(cell, "MOST_WORKGROUPS", most)
    execute.programs.clear()
    assert_same(webgpu, (1, 3, 7), 2, fire_rate=fire_rate, **SIZES[sizes])
    execute.programs.clear()


@pytest.mark.parametrize("wiring", ["one wire for all", "random"])
def test_wires_read_by_many_gates(device: str, wiring: str) -> None:
    rng = np.random.default_rng(0)

    def pair(n_in: int, n_out: int) -> tuple[np.ndarray, np.ndarray]:
        if wiring == "random":
            return tuple(rng.integers(0, n_in, (2, n_out)))
        return np.zeros(n_out, int), np.arange(n_out) % n_in

    sizes = [15, 9, 5, 3]
    wires = ([pair(9, 8), pair(8, 2)], [pair(a, b) for a, b in pairwise(sizes)])
    assert_same(device, (1, 3, 3), 2, channels=3, kernels=2, perception=(9, 8, 2), update=sizes[1:], wires=wires)


@pytest.mark.slow
def test_a_compiled_training_step_equals_that_of_the_layers(device: str) -> None:
    losses = []
    for fused in (False, True):
        model = LogicCA(**SMALL, seed=1, device=device, fused=fused)
        optimizer = sg.optim.AdamW(model.parameters(), lr=0.05)

        @sg.compile
        def step(start: sg.Tensor, target: sg.Tensor, model: Any = model, optimizer: Any = optimizer) -> sg.Tensor:
            optimizer.zero_grad()
            loss = squared_error(model.rollout(start, 3), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        rng = np.random.default_rng(0)
        start = sg.tensor(rng.integers(0, 2, (2, 4, 4, 3)).astype(np.float32), device=device)
        target = sg.tensor(rng.integers(0, 2, (2, 4, 4, 3)).astype(np.float32), device=device)
        losses.append([step(start, target).item() for _ in range(6)])
        if fused and device != "cpu":
            calls = [d for d in step.plan.dispatches if step.plan.kernels[d.kernel].archetype == "call"]
            assert len(calls) == 6, "a dispatch a step forward, and one back; no step twice"
    assert losses[0][-1] < losses[0][0]
    assert_close(np.array(losses[1]), np.array(losses[0]), 1e-4, 0)


def test_new_wires_from_a_state_dict_are_used(device: str) -> None:
    start = sg.tensor(np.random.default_rng(0).random((1, 3, 3, 3)).astype(np.float32), device=device)
    source = LogicCA(**SMALL, seed=1, init="gaussian", device=device)
    other = sg.nn.Sequential(LogicCA(**SMALL, seed=2, device=device))
    other.load_state_dict({f"0.{name}": value for name, value in source.state_dict().items()})
    assert_close(other[0].rollout(start, 2).detach().numpy(), source.rollout(start, 2).detach().numpy(), 1e-6, 1e-6)
    assert not any("packed" in name for name in source.state_dict())


def test_the_experiments_fit_into_the_memory_of_every_device() -> None:
    from shadergrad.logic.experiments import EXPERIMENTS

    for e in EXPERIMENTS.values():
        assert layers.fits(e.channels, e.channels * e.kernels, (e.n_features, *e.update)), e.name


def test_a_cell_that_does_not_fit_goes_layer_by_layer() -> None:
    sizes = {"channels": 128, "kernels": 16, "perception": (9, 8, 4, 2), "update": (2200, 1100, 550, 275, 138, 128)}
    assert not LogicCA(**sizes).fused
    with pytest.raises(ArgumentError, match=r"does not fit into 16 KiB"):
        LogicCA(**sizes, fused=True)


@pytest.mark.parametrize("storage", [16384, 32768, 49152, 1 << 17])
@pytest.mark.parametrize("sizes", list(SIZES))
def test_layouts_keep_to_the_memory(sizes: str, storage: int) -> None:
    s = SIZES[sizes]
    features = s["channels"] * (1 + s["perception"][-1] * s["kernels"])
    widths = (features, *s["update"])
    limits = replace(PORTABLE, max_workgroup_storage=storage)
    found = layers.layout(s["channels"], s["channels"] * s["kernels"], widths, 4, limits)
    assert found is not None
    assert 4 * found.lanes * found.size <= storage
    assert found.threads <= PORTABLE.max_workgroup_invocations
    assert found.second - found.first >= max(widths)
    assert found.stays - found.second >= max(max(widths), 2 * max(widths[1:]) + 1, 9 * found.chunk)


def test_second_derivatives_of_a_fused_rollout_are_refused_with_a_remedy() -> None:
    model = LogicCA(**SMALL)
    start = sg.zeros(1, 2, 2, 3, requires_grad=True)
    (g,) = sg.autograd.grad([model.rollout(start, 1).sum()], [start], create_graph=True)
    assert g is not None
    with pytest.raises(AutogradError, match="fused=False"):
        g.sum().backward()


def test_no_steps_give_the_state_itself(device: str) -> None:
    model = LogicCA(**SMALL, device=device)
    start = sg.ones(1, 2, 2, 3, device=device)
    assert model.rollout(start, 0).tolist() == start.tolist()


# ---------------------------------------------------------------------------------- networks


def network_results(device: str, fused: bool, batch: tuple[int, ...], sizes: Any, **options: Any) -> list[np.ndarray]:
    """The outputs, and the gradients of the inputs and all logits."""
    rng = np.random.default_rng(0)
    model = LogicNetwork(sizes, seed=3, device=device, fused=fused, **options)
    with sg.no_grad():
        for p in model.parameters():
            p.copy_(sg.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32), device=device))
    x = sg.tensor(rng.random((*batch, sizes[0])).astype(np.float32), device=device, requires_grad=True)
    y = model(x)
    cotangent = sg.tensor(rng.standard_normal(tuple(y.shape)).astype(np.float32), device=device)
    found = sg.autograd.grad([y], [x, *model.parameters()], [cotangent], allow_unused=True)
    sg.sync()
    return [y.detach().numpy(), *(g.numpy() for g in found if g is not None)]


@pytest.mark.parametrize("batch", [(1,), (7,), (2, 3), (201,), (1603,)], ids=str)
@pytest.mark.parametrize("wiring", ["unique", "random"])
def test_a_fused_network_is_its_layers(device: str, batch: tuple[int, ...], wiring: str) -> None:
    """In groups of one, two and four samples, and more groups than workgroups."""
    sizes = (12, 40, 33, 20, 10)
    expected = network_results("cpu", False, batch, sizes, wiring=wiring)
    for found, wanted in zip(network_results(device, True, batch, sizes, wiring=wiring), expected, strict=True):
        assert_close(found, wanted, 1e-4, 1e-4 * max(1e-3, float(np.abs(wanted).max())))


@pytest.mark.parametrize("mode", ["hard", "straight-through"])
def test_modes_of_a_fused_network(device: str, mode: str) -> None:
    expected = network_results("cpu", False, (5,), (8, 10, 6), mode=mode)
    for found, wanted in zip(network_results(device, True, (5,), (8, 10, 6), mode=mode), expected, strict=True):
        assert_close(found, wanted, 1e-4, 1e-5)


def test_a_network_too_wide_for_one_kernel_goes_layer_by_layer(device: str) -> None:
    model = LogicNetwork((64, 2000, 1500), device=device)
    assert not model.fused
    assert model(sg.ones(2, 64, device=device)).shape == (2, 1500)
    with pytest.raises(ArgumentError, match=r"do not fit into 16 KiB"):
        LogicNetwork((64, 2000, 1500), fused=True)
    assert LogicNetwork((64, 1000, 1000)).fused


def test_an_input_of_the_wrong_width_is_refused_by_a_fused_network(device: str) -> None:
    with pytest.raises(ShapeError, match="axis -1 must be the 8 wires"):
        LogicNetwork((8, 6), device=device)(sg.ones(2, 7, device=device))
