"""The five published experiments start as the reference does, number by number."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import shadergrad as sg
from helpers import grad_of
from shadergrad.logic import experiments, wiring
from shadergrad.logic.experiments import EXPERIMENTS, build
from shadergrad.nn.errors import ArgumentError

DOCUMENT = json.loads((Path(__file__).parents[1] / "data" / "difflogic_golden.json").read_text())
GOLDEN = DOCUMENT["experiments"]
TOLERANCE = 1e-3  # of losses around 100 to 230 that the document gives with four decimals


def assert_first_losses(name: str, device: str, steps: int) -> None:
    """The soft losses within TOLERANCE, the hard ones exactly, before each of the first optimizer steps."""
    training = build(name, device=device)
    expected = GOLDEN[name]["first_losses"]
    for k in range(steps):
        if k < steps - 1:
            soft, hard = training.step()
        else:
            start, target = training.batch()
            with sg.no_grad():
                soft, hard = training.losses(start, target, training.masks())
        assert abs(soft.item() - expected["soft"][k]) <= TOLERANCE, f"soft loss {soft.item()} before step {k}"
        assert hard.item() == expected["hard"][k], f"hard loss before step {k}"


def test_the_first_losses_of_life_are_those_of_the_reference(device: str) -> None:
    assert_first_losses("life", device, 8 if device == "cpu" else 3)


def test_the_first_losses_of_the_checkerboard_are_those_of_the_reference() -> None:
    assert_first_losses("checkerboard", "cpu", 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checkerboard", "checkerboard-async", "lizard", "letter-g"])
def test_first_losses_are_those_of_the_reference(name: str) -> None:
    assert_first_losses(name, "cpu", 4)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_first_losses_of_the_checkerboard_on_webgpu(webgpu: str) -> None:
    assert_first_losses("checkerboard", webgpu, 1)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_sizes_of_an_experiment_are_those_of_the_table(name: str) -> None:
    gates = {
        "life": (240, 2303),
        "checkerboard": (224, 2816),
        "checkerboard-async": (224, 3840),
        "lizard": (60, 4480),
        "letter-g": (56, 4544),
    }
    e, training = EXPERIMENTS[name], build(name)
    model = training.model
    assert (model.perception.n_gates, model.update.n_gates) == gates[name]
    start, target = training.batch()
    masks = training.masks()
    assert tuple(start.shape) == (e.batch, *e.grid, e.channels)
    assert tuple(target.shape) == (e.batch, *e.grid, e.loss_channels)
    assert (masks is None) == (e.fire_rate is None)
    assert masks is None or tuple(masks.shape) == (e.ca_steps, *e.grid, 1)
    again, _ = training.batch()
    assert (again.tolist() != start.tolist()) == e.fresh


def test_another_seed_gives_other_wires_and_data() -> None:
    first, again, other = build("checkerboard"), build("checkerboard"), build("checkerboard", seed=24)
    wires = [t.model.update.layers[0].wires.tolist() for t in (first, again, other)]
    starts = [t.batch()[0].tolist() for t in (first, again, other)]
    assert wires[0] == wires[1] != wires[2]
    assert starts[0] == starts[1] != starts[2]


def test_targets_are_those_of_the_document() -> None:
    rows = np.array([int(row, 16) for row in DOCUMENT["lizard_target_rows_hex"]])
    assert experiments.lizard().tolist() == (rows[:, None] >> np.arange(19, -1, -1) & 1).tolist()
    letters = DOCUMENT["letter_g_target"]
    found = experiments.letter_g()
    assert found[..., 0].tolist() == [[float(c in "RY") for c in row] for row in letters]
    assert found[..., 1].tolist() == [[float(c in "GY") for c in row] for row in letters]
    assert found[..., 2].tolist() == [[float(c == "B") for c in row] for row in letters]
    assert experiments.checkerboard(4, 6).tolist() == [[0, 0, 1, 1, 0, 0]] * 2 + [[1, 1, 0, 0, 1, 1]] * 2


def test_life_boards_count_up_in_binary_and_follow_conway() -> None:
    boards = experiments.life_boards()
    assert boards[0b100000011].tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]
    blinker = np.zeros((5, 5), int)
    blinker[2, 1:4] = 1
    assert experiments.life_step(blinker).tolist() == blinker.T.tolist()
    glider = np.zeros((6, 6), int)
    glider[0, 1] = glider[1, 2] = glider[2, :3] = 1
    later = glider
    for _ in range(4):
        later = experiments.life_step(later)
    assert later.tolist() == np.roll(glider, (1, 1), (0, 1)).tolist()


def test_a_step_clips_each_gradient_and_decays_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "CLIP", 1e-4)
    training = build("life")
    before = [p.detach().numpy() for p in training.model.parameters()]
    training.step()
    largest = max(np.abs(grad_of(p).numpy()).max() for p in training.model.parameters())
    assert largest == np.float32(1e-4)
    for p, old in zip(training.model.parameters(), before, strict=True):
        g = grad_of(p).numpy().astype(float)
        expected = old * (1 - 0.05 * 1e-2) - 0.05 * g / (
            np.abs(g) + 1e-8
        )  # the first step of Adam is the gradient's sign
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_compiled_update_trains_as_the_plain_one() -> None:
    plain, compiled = build("life"), build("life")
    update = sg.compile(compiled.update)
    for _ in range(3):
        wanted = plain.step()
        found = update(*compiled.batch())
        assert [x.item() for x in found] == pytest.approx([x.item() for x in wanted], abs=1e-4)


def test_masks_come_from_a_key_of_their_own() -> None:
    training = build("checkerboard-async")
    key, _ = wiring.split(wiring.prng_key(experiments.SEED))
    for _ in range(2):
        key, own = wiring.split(key)
        masks = training.masks()
        assert masks is not None
        assert masks.tolist() == training.model.masks(50, 14, 14, key=own).tolist()


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no experiment 'lizzard'; choose of life, checkerboard"):
        build("lizzard")
