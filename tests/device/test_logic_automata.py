"""Automata of gates against a plain PyTorch automaton with sixteen gates a gate, on both devices, forward and through time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, grad_of, graph_of
from shadergrad.errors import AutogradError, DTypeError, IndexRangeError, ShapeError
from shadergrad.logic import LogicCA, Perception, Update, squared_error, wiring
from shadergrad.nn.errors import ArgumentError
from test_logic_gates import NAIVE

SIZES: dict[str, Any] = {"channels": 3, "kernels": 2, "perception": (9, 8, 4, 2), "update": (12, 6, 3)}


def automaton(device: str = "cpu", **changes: Any) -> LogicCA:
    """A small one whose logits are far from pass-through, so that every gate matters."""
    model = LogicCA(**{**SIZES, "init": "gaussian", "seed": 5, **changes})
    rng = np.random.default_rng(1)
    with sg.no_grad():
        for p in model.parameters():
            p.copy_(sg.tensor(1.5 * rng.standard_normal(tuple(p.shape)).astype(np.float32)))
    return model.to(device)


def states(*shape: int, device: str = "cpu", seed: int = 0, dtype: str = "float32") -> sg.Tensor:
    return sg.tensor(np.random.default_rng(seed).random(shape), dtype=dtype, device=device)


def bits(*shape: int, device: str = "cpu", seed: int = 0) -> sg.Tensor:
    return sg.tensor(np.random.default_rng(seed).integers(0, 2, shape).astype(np.float32), device=device)


def remember(model: LogicCA) -> None:
    """Lean every gate towards passing a wire on, so that gradients live through many steps."""
    lean = np.zeros(16, np.float32)
    lean[3] = 5
    with sg.no_grad():
        for p in model.parameters():
            p.add_(sg.tensor(lean, device=p.device))


def gradients(model: LogicCA, *others: sg.Tensor) -> list[np.ndarray]:
    """Of all parameters and the others, computed together."""
    found = [p.grad for p in [*model.parameters(), *others] if p.grad is not None]
    assert len(found) == len(list(model.parameters())) + len(others)
    together = sg.cat([g.reshape(-1) for g in found]).numpy()
    return np.split(together, np.cumsum([g.numel() for g in found])[:-1])


# -- the reference


def torch_layer(logits: torch.Tensor, wires: np.ndarray, x: torch.Tensor) -> torch.Tensor:
    a, b = x[..., wires[0]], x[..., wires[1]]
    p = logits.softmax(-1)
    return sum((p[..., k] * NAIVE[k](a, b) for k in range(16)), torch.zeros(()))


def torch_patches(state: torch.Tensor, border: str) -> torch.Tensor:
    """(batch, height, width, channels, 9), cell by cell."""
    batch, height, width, channels = state.shape
    result = torch.zeros(batch, height, width, channels, 9, dtype=state.dtype)
    for y in range(height):
        for x in range(width):
            for k in range(9):
                v, u = y + k // 3 - 1, x + k % 3 - 1
                if border == "periodic":
                    result[:, y, x, :, k] = state[:, v % height, u % width]
                elif 0 <= v < height and 0 <= u < width:
                    result[:, y, x, :, k] = state[:, v, u]
    return result


def torch_step(model: LogicCA, logits: dict[str, torch.Tensor], state: torch.Tensor) -> torch.Tensor:
    patches = torch_patches(state, model.border)
    kernels = []
    for k in range(model.perception.kernels):
        x = patches
        for n, layer in enumerate(model.perception.layers):
            x = torch_layer(logits[f"perception.layers.{n}.logits"][k], layer.wires.numpy(), x)
        kernels.append(x)
    found = torch.stack(kernels, -1).flatten(3)  # channel, sub-output, kernel
    x = torch.cat([patches[..., 4], found], -1)
    for n, layer in enumerate(model.update.layers):
        x = torch_layer(logits[f"update.layers.{n}.logits"], layer.wires.numpy(), x)
    return x


def torch_logits(model: LogicCA) -> dict[str, torch.Tensor]:
    return {
        n: torch.tensor(p.detach().numpy(), dtype=torch.float64, requires_grad=True)
        for n, p in model.named_parameters()
    }


@pytest.mark.parametrize("border", ["zeros", "periodic"])
@pytest.mark.parametrize("grid", [(4, 5), (1, 1), (2, 1), (1, 3)], ids=str)
@pytest.mark.parametrize("fused", [False, True])
def test_steps_and_their_gradients_are_those_of_sixteen_gates_cell_by_cell(
    border: str, grid: tuple[int, int], fused: bool
) -> None:
    model = automaton(border=border, fused=fused).to("float64")
    weights = states(2, *grid, 3, seed=3, dtype="float64")
    start = states(2, *grid, 3, dtype="float64").requires_grad_()
    end = model.rollout(start, 3)
    (end * weights).sum().backward()
    logits = torch_logits(model)
    reference = state = torch.tensor(start.detach().numpy(), requires_grad=True)
    for _ in range(3):
        state = torch_step(model, logits, state)
    (state * torch.tensor(weights.numpy())).sum().backward()
    assert_close(end.detach().numpy(), state.detach().numpy(), 1e-9, 1e-12, "state")
    assert start.grad is not None
    assert_close(grad_of(start).numpy(), grad_of(reference).numpy(), 1e-9, 1e-12, "start")
    for name, p in model.named_parameters():
        assert p.grad is not None
        assert_close(grad_of(p).numpy(), grad_of(logits[name]).numpy(), 1e-9, 1e-12, name)


def test_one_step_on_each_device_is_that_of_the_reference(device: str) -> None:
    model = automaton(device, channels=2, kernels=3, perception=(9, 8, 4, 2, 1), update=(8, 4, 2))
    start = states(2, 3, 4, 2, device=device)
    with torch.no_grad():
        expected = torch_step(model, torch_logits(model), torch.tensor(start.numpy(), dtype=torch.float64))
    assert_close(model.step(start).detach().numpy(), expected.numpy(), 1e-4, 1e-5)
    assert_close(model(start, 1).detach().numpy(), expected.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize(("every", "fused"), [(2, False), (2, True), (None, True)])
def test_gradients_through_twenty_steps_agree_between_devices(webgpu: str, every: int | None, fused: bool) -> None:
    results = []
    for device in ("cpu", webgpu):
        model = automaton(device, channels=2, update=(6, 4, 2), kernels=1, border="periodic", fused=fused)
        remember(model)
        start = states(2, 4, 4, 2, device=device).requires_grad_()
        end = model.rollout(start, 20, checkpoint_every=every)
        loss = squared_error(end, states(2, 4, 4, 2, device=device, seed=2))
        loss.backward()
        results.append([*gradients(model, start), loss.detach().numpy()])
    for found, wanted in zip(results[1], results[0], strict=True):
        assert np.abs(wanted).max() > 1e-4, "a gradient that vanished proves nothing"
        assert_close(found, wanted, 1e-3, 1e-3 * np.abs(wanted).max())


# -- coefficients


def test_coefficients_are_those_of_the_layers_perception_first_and_kernel_by_kernel(device: str) -> None:
    model = automaton(device)
    together = model.coefficients().detach().numpy()
    assert together.shape == (model.n_gates, 4) == (2 * 14 + 21, 4)
    first = model.perception.layers[0].logits.detach()
    assert_close(together[8:16], sg.logic.gates.coefficients(first[1]).numpy(), 1e-6, 1e-6, "kernel 1 of layer 0")
    assert_close(together[28:], model.update.coefficients().detach().numpy(), 1e-6, 1e-6, "update")
    assert_close(together[:28], model.perception.coefficients().detach().numpy(), 1e-6, 1e-6, "perception")


def test_given_coefficients_replace_those_of_the_logits() -> None:
    model = automaton()
    start = states(1, 4, 4, 3)
    coefficients = model.coefficients()
    end = model.rollout(start, 2, coefficients=coefficients)
    assert end.tolist() == model.rollout(start, 2).tolist() == model.step(model.step(start), coefficients).tolist()
    assert (
        model.rollout(start, 2, coefficients=model.coefficients(hard=True)).tolist()
        == model.rollout(start, 2, hard=True).tolist()
    )


def test_coefficients_are_computed_once_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = automaton(), []
    original = sg.logic.gates.coefficients
    monkeypatch.setattr(sg.logic.gates, "coefficients", lambda logits: calls.append(logits) or original(logits))
    model.rollout(states(1, 3, 3, 3), 4)
    assert len(calls) == 1


def test_the_center_bits_come_first_then_what_was_perceived() -> None:
    model = LogicCA(2, 2, (9, 8, 4), (10, 5, 3, 2), seed=0, fused=False)
    seen = []
    model.update.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    start = bits(1, 3, 3, 2)
    model.step(start, model.coefficients(hard=True))
    features = seen[0].numpy()
    assert features.shape == (1, 3, 3, 2 + 2 * 4 * 2)
    assert features[..., :2].tolist() == start.tolist()
    pairs = features[..., 2:].reshape(1, 3, 3, 2, 4, 2)
    assert pairs[..., 0].tolist() == pairs[..., 1].tolist(), "the kernel is fastest, and kernels start alike"
    a = [layer.wires.numpy()[0] for layer in model.perception.layers]
    cells = a[0][a[1]]
    padded = np.pad(start.numpy(), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for s, cell in enumerate(cells):
        shifted = padded[:, cell // 3 : cell // 3 + 3, cell % 3 : cell % 3 + 3]
        assert pairs[..., s, 0].tolist() == shifted.tolist()


# -- recomputation


@pytest.mark.parametrize("every", [1, 3, 10])
@pytest.mark.parametrize("fire_rate", [None, 0.6])
@pytest.mark.parametrize("fused", [False, True])
def test_recomputed_gradients_are_those_of_caching(every: int, fire_rate: float | None, fused: bool) -> None:
    grads = []
    for checkpoint_every in (None, every):
        model = automaton(fire_rate=fire_rate, fused=fused).to("float64")
        masks = None if fire_rate is None else model.masks(7, 4, 5, key=wiring.prng_key(3))
        start = states(2, 4, 5, 3, dtype="float64").requires_grad_()
        end = model.rollout(start, 7, checkpoint_every=checkpoint_every, masks=masks)
        loss = squared_error(end, states(2, 4, 5, 3, seed=2, dtype="float64"))
        loss.backward()
        assert start.grad is not None
        grads.append([loss.detach().numpy(), grad_of(start).numpy(), *(grad_of(p).numpy() for p in model.parameters())])
    for found, wanted in zip(*grads, strict=True):
        assert_close(found, wanted, 1e-11, 1e-13)


def test_recomputed_gradients_are_those_of_caching_on_webgpu(webgpu: str) -> None:
    grads = []
    for checkpoint_every in (None, 2):
        model = automaton(webgpu, channels=2, perception=(9, 8, 4, 2), update=(4, 2), kernels=1)
        end = model.rollout(states(2, 4, 4, 2, device=webgpu), 5, checkpoint_every=checkpoint_every)
        end.square().sum().backward()
        grads.append(gradients(model))
    for found, wanted in zip(*grads, strict=True):
        assert_close(found, wanted, 1e-5, 1e-6)


def test_recomputation_keeps_the_states_only_and_runs_every_step_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model = automaton(fused=False)
    runs = []
    original = LogicCA._step
    monkeypatch.setattr(LogicCA, "_step", lambda self, *args: runs.append(1) or original(self, *args))
    sizes = {}
    for every in (None, 4):
        end = model.rollout(states(1, 4, 4, 3), 8, checkpoint_every=every)
        sizes[every] = len(graph_of([end]))
    assert len(runs) == 16
    assert sizes[4] < sizes[None] / 5
    end.sum().backward()
    assert len(runs) == 24


def test_a_compiled_step_with_recomputation_trains_as_without() -> None:
    after = []
    for every in (None, 2):
        model = automaton()
        optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

        def step(start: sg.Tensor, model=model, optimizer=optimizer, every=every) -> sg.Tensor:
            optimizer.zero_grad()
            loss = model.rollout(start, 4, checkpoint_every=every).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        run = sg.compile(step)
        losses = [run(states(2, 3, 3, 3, seed=k)).item() for k in range(3)]
        after.append([np.array(losses), *(p.detach().numpy() for p in model.parameters())])
    for found, wanted in zip(*after, strict=True):
        assert_close(found, wanted, 1e-4, 1e-5)


def test_recomputation_without_gradients_is_plain() -> None:
    model = automaton()
    start = states(1, 3, 3, 3)
    with sg.no_grad():
        assert model.rollout(start, 3, checkpoint_every=2).tolist() == model.rollout(start, 3).tolist()
    assert not model.rollout(start, 3, hard=True, checkpoint_every=2).requires_grad


def test_second_derivatives_of_a_recomputed_rollout_are_refused() -> None:
    model = automaton()
    start = states(1, 3, 3, 3).requires_grad_()
    with pytest.raises(AutogradError, match="needs checkpoint_every=None"):
        sg.autograd.grad(model.rollout(start, 2, checkpoint_every=1).sum(), start, create_graph=True)


# -- asynchronous


def test_cells_outside_the_mask_keep_all_their_channels(device: str) -> None:
    model = automaton(device, fire_rate=0.6)
    start = states(2, 4, 5, 3, device=device)
    masks = model.masks(1, 4, 5, key=wiring.prng_key(1))
    mask = masks.numpy()[0, :, :, 0]
    everywhere = model.step(start, mask=sg.tensor(np.ones((4, 5, 1), bool), device=device)).detach().numpy()
    found = model.step(start, mask=masks[0]).detach().numpy()
    assert 0 < mask.sum() < mask.size
    assert found[:, ~mask].tolist() == start.numpy()[:, ~mask].tolist()
    assert found[:, mask].tolist() == everywhere[:, mask].tolist()
    assert (everywhere[:, mask] != start.numpy()[:, mask]).all()


def test_gradients_flow_through_cells_that_keep_their_state() -> None:
    model = automaton(fire_rate=0.6)
    start = states(1, 3, 3, 3).requires_grad_()
    model.rollout(start, 4, masks=sg.tensor(np.zeros((4, 3, 3, 1), bool))).sum().backward()
    assert start.grad is not None
    assert (start.grad.numpy() == 1).all()
    assert all(p.grad is None or not p.grad.numpy().any() for p in model.parameters())


def test_masks_of_a_key_are_uniform_draws_with_keys_split_step_by_step(device: str) -> None:
    model = automaton(device, fire_rate=0.6)
    key, found = wiring.prng_key(9), model.masks(3, 5, 7, key=wiring.prng_key(9))
    for step in range(3):
        key, own = wiring.split(key)
        assert found.numpy()[step].tolist() == (wiring.uniform(own, (5, 7, 1)) <= np.float32(0.6)).tolist()


def test_masks_without_a_key_are_new_at_each_call_and_as_frequent_as_asked(device: str) -> None:
    sg.manual_seed(0)
    model = automaton(device, fire_rate=0.25)
    first, second = (model.masks(10, 20, 20).numpy() for _ in range(2))
    assert first.dtype == bool
    assert first.shape == (10, 20, 20, 1)
    assert (first != second).any()
    assert first.mean() == pytest.approx(0.25, abs=0.03)


def test_an_asynchronous_rollout_draws_its_masks() -> None:
    model = automaton(fire_rate=0.5)
    start = bits(1, 6, 6, 3)
    sg.manual_seed(1)
    first, second = model.rollout(start, 2, hard=True), model.rollout(start, 2, hard=True)
    sg.manual_seed(1)
    again = model.rollout(start, 2, hard=True)
    assert first.tolist() == again.tolist() != second.tolist()


# -- the circuit


@pytest.mark.parametrize("border", ["zeros", "periodic"])
def test_the_hardened_automaton_is_the_hard_rollout(border: str) -> None:
    model = automaton(border=border)
    start = bits(1, 6, 7, 3)
    circuit = model.harden()
    assert circuit.border == border
    assert circuit.fire_rate == 1
    assert len(circuit.circuit) == 3 * 28 + 21
    state = start.numpy()[0].astype(bool)
    for steps in range(1, 4):
        state = circuit.step(state)
        assert state.tolist() == (model.rollout(start, steps, hard=True).numpy()[0] > 0.5).tolist()


def test_the_hardened_automaton_fires_by_the_same_masks() -> None:
    model = automaton(fire_rate=0.6)
    start, masks = bits(1, 6, 7, 3), model.masks(4, 6, 7, key=wiring.prng_key(2))
    circuit = model.harden()
    state = start.numpy()[0].astype(bool)
    for mask in masks.numpy():
        state = circuit.step(state, fire=mask[:, :, 0])
    assert circuit.fire_rate == 0.6
    assert state.tolist() == (model.rollout(start, 4, hard=True, masks=masks).numpy()[0] > 0.5).tolist()


# -- what does not fit


def test_the_state_dict_carries_wires_and_logits() -> None:
    first, other = automaton(seed=1), automaton(seed=2)
    start = states(1, 3, 3, 3)
    assert first.step(start).tolist() != other.step(start).tolist()
    other.load_state_dict(first.state_dict())
    assert first.step(start).tolist() == other.step(start).tolist()
    assert sorted(first.state_dict())[:2] == ["perception.layers.0.logits", "perception.layers.0.wires"]
    assert tuple(first.perception.layers[1].logits.shape) == (2, 4, 16)


PAIRS = ([(np.arange(8), np.full(8, 4)), (np.arange(4), np.arange(4))], [(np.zeros(2, int), np.full(2, 11))])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: automaton(border="mirror"), ArgumentError, "no border 'mirror'; choose of zeros, periodic"),
        (lambda: automaton(fire_rate=0), ArgumentError, "fire rate is 0"),
        (lambda: automaton(update=(12, 6)), ArgumentError, r"ends in \(6,\); it must give the 3 channels"),
        (lambda: automaton(perception=(8, 4)), ArgumentError, "the first must be 9"),
        (lambda: automaton(kernels=0), ArgumentError, "at least 1"),
        (lambda: LogicCA(2, 1, (9, 8, 4), (2,), wires=PAIRS), IndexRangeError, "wire 11, out of range for 10 inputs"),
        (
            lambda: LogicCA(2, 1, (9, 8, 4), (2,), wires=(PAIRS[0][:1], PAIRS[1])),
            ShapeError,
            "1 pairs of wires for sizes",
        ),
        (lambda: LogicCA(2, 1, (9, 8), (2,), wires=(PAIRS[0][1:], PAIRS[1])), ShapeError, r"a pair of arrays \(8,\)"),
        (lambda: automaton().step(sg.zeros(1, 4, 4, 2)), ShapeError, r"not \(batch, height, width, 3\)"),
        (lambda: automaton().step(sg.zeros(4, 4, 3)), ShapeError, r"the state is \(4, 4, 3\)"),
        (lambda: automaton().step(sg.zeros(1, 0, 4, 3)), ShapeError, "none of them 0"),
        (lambda: automaton().step(sg.zeros(1, 4, 4, 3, dtype=sg.int32)), DTypeError, "int32, not floating"),
        (lambda: automaton().step(sg.zeros(1, 4, 4, 3), sg.zeros(48, 4)), ShapeError, r"\(48, 4\), not \(49, 4\)"),
        (lambda: automaton().rollout(sg.zeros(1, 4, 4, 3), -1), ArgumentError, "-1 steps"),
        (lambda: automaton().rollout(sg.zeros(1, 4, 4, 3), 2, checkpoint_every=0), ArgumentError, "checkpoint_every=0"),
        (
            lambda: automaton(fire_rate=0.5).rollout(sg.zeros(1, 4, 4, 3), 2, masks=sg.zeros(2, 4, 5, 1)),
            ShapeError,
            r"masks are \(2, 4, 5, 1\), not \(2, 4, 4, 1\)",
        ),
        (lambda: automaton().masks(1, 2, 2), ArgumentError, "synchronous"),
        (lambda: Perception(2, 1)(sg.zeros(4, 3, 9)), ShapeError, r"must end in \(2, 9\)"),
        (lambda: Update((4, 2))(sg.zeros(3, 5)), ShapeError, "the 4 wires that the gates read"),
        (lambda: Update((4, 2))(sg.zeros(3, 4), sg.zeros(3, 4)), ShapeError, r"\(3, 4\), not \(2, 4\)"),
        (lambda: squared_error(sg.zeros(1, 4, 4, 3), sg.zeros(1, 4, 5, 3)), ShapeError, "the target"),
        (
            lambda: squared_error(sg.zeros(1, 4, 4, 3), sg.zeros(1, 4, 4, 1), 2),
            ShapeError,
            "2 channels are to be compared",
        ),
    ],
)
def test_what_does_not_fit_is_named_before_anything_runs(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_logits_of_another_shape_are_refused() -> None:
    model = automaton()
    values = model.state_dict()
    values["update.layers.0.logits"] = sg.zeros(12, 15)
    with pytest.raises(sg.ShadergradError, match=r"size mismatch|shape"):
        model.load_state_dict(values)


def test_squared_errors_add_up_over_the_first_channels() -> None:
    state, target = states(2, 3, 4, 3), states(2, 3, 4, 2, seed=1)
    expected = ((state.numpy()[..., :2] - target.numpy()) ** 2).sum()
    assert squared_error(state, target, 2).item() == pytest.approx(float(expected), rel=1e-5)
