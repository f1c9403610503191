"""Packed boards on a device against boards of NumPy, and the masks that are drawn there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import shadergrad as sg
from circuit_examples import life, naive_step, random_cell, random_circuit
from helpers import Counted, assert_compiles_nothing
from shadergrad.extend import PORTABLE, Spec
from shadergrad.logic.circuit import (
    CellCircuit,
    Circuit,
    CircuitClassifier,
    CircuitError,
    DeviceBoard,
    DeviceClassifier,
    device_board,
)
from shadergrad.logic.circuit.board_kernel import Blocking, blocking
from shadergrad.logic.circuit.fire_masks import DrawFire
from shadergrad.logic.circuit.gate_order import evaluation_order

borders = pytest.mark.parametrize("border", ["zeros", "periodic"])


def random_board(rng: np.random.Generator, height: int, width: int, channels: int = 1) -> np.ndarray:
    return rng.random((height, width, channels)) < 0.5


def large_cell(rng: np.random.Generator) -> CellCircuit:
    return CellCircuit(random_circuit(rng, 9 * 64, 1500, 64, window=700), "periodic")


def loaded(board: DeviceBoard, state: np.ndarray) -> DeviceBoard:
    board.load(state)
    return board


@borders
@pytest.mark.parametrize("width", [1, 31, 33, 63, 64, 127, 128, 129, 256, 300])
def test_a_step_equals_that_of_numpy(device: str, border: str, width: int) -> None:
    rng = np.random.default_rng(width)
    for channels, height in ((1, 1), (1, 7), (8, 3)):
        cell = random_cell(rng, channels, border).minimized()
        state = random_board(rng, height, width, channels)
        board = loaded(DeviceBoard(cell, height, width, device), state)
        np.testing.assert_array_equal(board.read(), state)
        board.run(3)
        expected = cell.run(state, 3)
        np.testing.assert_array_equal(board.read(), expected)
        assert board.words[..., -1].max() >> np.uint64((width - 1) % 64) <= 1, "bits past the width"
    np.testing.assert_array_equal(cell.step(state), naive_step(cell, state))


@borders
@pytest.mark.parametrize("width", [30, 128, 200])
@pytest.mark.parametrize("height", [1, 3, 8, 9])
@pytest.mark.parametrize("share", [(1, 1), (1, 3), (4, 1), (4, 2), (4, 8)])
def test_every_share_of_a_board_gives_the_same(
    webgpu: str, border: str, width: int, height: int, share: tuple[int, int]
) -> None:
    """Also where the rows of the last threads leave the board, and boards with fewer rows than a thread."""
    rng = np.random.default_rng(width + height)
    cell, state = life(border).minimized(), random_board(rng, height, width)
    board = loaded(DeviceBoard(cell, height, width, webgpu, lanes=share[0], rows=share[1]), state)
    fire = rng.random((height, width)) < 0.6
    board.step()
    board.step(fire)
    np.testing.assert_array_equal(board.read(), cell.step(cell.step(state), fire=fire))


@borders
def test_cells_that_do_not_fire_keep_all_channels(device: str, border: str) -> None:
    rng = np.random.default_rng(3)
    cell = random_cell(rng, 3, border, fire_rate=0.6).minimized()
    state, fire = random_board(rng, 7, 70, 3), rng.random((5, 7, 70)) < 0.6
    board = loaded(DeviceBoard(cell, 7, 70, device), state)
    board.run(5, fire)
    for mask in fire:
        state = cell.step(state, fire=mask)
    np.testing.assert_array_equal(board.read(), state)


@borders
def test_circuits_without_gates_are_automata_too(device: str, border: str) -> None:
    state = random_board(np.random.default_rng(1), 5, 66)
    for circuit in (*(Circuit(9, [], [wire]) for wire in (0, 4, 8)), *(Circuit(9, [(k, 0, 0)], [9]) for k in (0, 15))):
        cell = CellCircuit(circuit, border)
        board = loaded(DeviceBoard(cell, 5, 66, device), state)
        board.run(2)
        np.testing.assert_array_equal(board.read(), cell.run(state, 2))


def test_a_large_circuit_of_many_channels_runs(webgpu: str) -> None:
    rng = np.random.default_rng(5)
    cell = large_cell(rng)
    assert len(evaluation_order(cell.circuit)) > 400
    state = random_board(rng, 6, 40, 64)
    board = loaded(DeviceBoard(cell, 6, 40, webgpu), state)
    board.run(2)
    np.testing.assert_array_equal(board.read(), cell.run(state, 2))


def test_a_board_may_be_damaged_between_steps(device: str) -> None:
    rng = np.random.default_rng(4)
    cell, state = life().minimized(), random_board(rng, 40, 170)
    board, expected = loaded(DeviceBoard(cell, 40, 170, device), state), cell.runner(40, 170)
    expected.load(state)
    for rows, columns in ((slice(10, 30), slice(60, 90)), (slice(35, 99), slice(0, 1)), (slice(0, 0), slice(3, 9))):
        for b in (board, expected):
            b.step()
            b.clear(rows, columns)
        np.testing.assert_array_equal(board.words, expected.words)


def test_words_may_be_set_and_read(device: str) -> None:
    words = np.random.default_rng(0).integers(0, 1 << 64, (1, 5, 3), np.uint64)
    board = DeviceBoard(life(), 5, 192, device)
    board.words = words
    np.testing.assert_array_equal(board.words, words)
    with pytest.raises(CircuitError, match=r"words are uint64 \(1, 5, 2\); uint64 \(1, 5, 3\) is wanted"):
        board.words = words[..., :2]


@pytest.mark.parametrize("width", [128, 130])
def test_earlier_states_stay_as_they_were(device: str, width: int) -> None:
    board = loaded(DeviceBoard(life(), 16, width, device), random_board(np.random.default_rng(4), 16, width))
    states, values = [], []
    for steps in (0, 1, 1, 3, 2):
        board.run(steps)
        states.append(board.state)
        values.append(board.state.numpy())
    for state, value in zip(states, values, strict=True):
        np.testing.assert_array_equal(state.numpy(), value)


# -- many steps


def test_many_steps_are_few_submissions_and_plans(webgpu: str) -> None:
    cell, state = life().minimized(), random_board(np.random.default_rng(2), 64, 64)
    board = loaded(DeviceBoard(cell, 64, 64, webgpu), state)
    board.run(300)
    board.words  # waits
    counted = Counted(webgpu)
    assert_compiles_nothing(lambda: board.run(300))
    assert counted.dispatches == 300
    assert counted.submits <= 300 // device_board.LONGEST_RUN + 2  # and 12 steps: 8 and 4
    np.testing.assert_array_equal(board.read(), cell.run(state, 600))


def test_masks_wait_on_the_device_in_pieces_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    board = DeviceBoard(life(fire_rate=0.6), 16, 128, "cpu")
    assert list(board._pieces(45, masked=True)) == [32, 8, 4, 1]
    monkeypatch.setattr(device_board, "FIRE_BYTES", 3 * 16 * 16)
    assert list(board._pieces(5, masked=True)) == [2, 2, 1]
    assert list(board._pieces(5, masked=False)) == [4, 1]
    monkeypatch.setattr(device_board, "FIRE_BYTES", 1)
    assert list(board._pieces(2, masked=True)) == [1, 1]


# -- masks drawn on the device


@pytest.mark.parametrize("rate", [0.6, 1 / 3, 2.0**-24, 1 - 2.0**-24])
def test_masks_are_the_same_bits_on_every_device(rate: float, webgpu: str) -> None:
    key = np.array([3, 2**32 - 5], np.uint32)
    draw = DrawFire(round(rate * 2**24), 33, 8)
    ours, expected = (draw(sg.tensor(key, device=d)).numpy() for d in (webgpu, "cpu"))
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("rate", [0.6, 0.5, 0.1])
def test_the_fire_rate_is_the_share_of_cells_that_fire(rate: float) -> None:
    """Of all cells, of those in one column of words, and independently from step to step."""
    toggle = CellCircuit(Circuit(9, [(12, 4, 4)], [9]), fire_rate=rate)
    board = DeviceBoard(toggle, 512, 512, "cpu", sg.Generator("cpu", seed=1))
    board.run(1)
    first = board.read()[..., 0]
    assert abs(first.mean() - rate) < 5 * (rate * (1 - rate) / first.size) ** 0.5
    by_column = first.mean(0)
    assert np.abs(by_column - rate).max() < 5 * (rate * (1 - rate) / 512) ** 0.5
    board.run(1)
    both = first & ~board.read()[..., 0]  # fired twice
    assert abs(both.mean() - rate**2) < 5 * (rate**2 * (1 - rate**2) / first.size) ** 0.5


def test_drawn_masks_follow_the_seed(device: str) -> None:
    cell, state = life(fire_rate=0.6).minimized(), random_board(np.random.default_rng(6), 20, 100)

    def run(seed: int, pieces: tuple[int, ...]) -> np.ndarray:
        board = loaded(DeviceBoard(cell, 20, 100, device, sg.Generator(device, seed)), state)
        for steps in pieces:
            board.run(steps)
        return board.read()

    np.testing.assert_array_equal(run(5, (6,)), run(5, (4, 2)))
    assert (run(5, (6,)) != run(6, (6,))).any()
    assert (run(5, (6,)) != replace(cell, fire_rate=1.0).run(state, 6)).any()


# -- what is chosen, and what is refused


def test_large_boards_have_more_rows_a_thread_and_large_circuits_fewer_words() -> None:
    small, rng = life().minimized(), np.random.default_rng(0)
    assert blocking(small, 64, 64) == Blocking(4, 1)
    assert blocking(small, 16384, 16384) == Blocking(4, 8)
    assert blocking(large_cell(rng), 16384, 16384) == Blocking(1, 1)


def test_what_is_no_board_is_refused() -> None:
    board = DeviceBoard(life(), 4, 4, "cpu")
    for call, message in (
        (lambda: DeviceBoard(life(), 0, 4, "cpu"), "a board of 0 x 4 cells is empty"),
        (lambda: DeviceBoard(life(), 4, 4, "cpu", lanes=3), "lanes are 1 or 4"),
        (lambda: board.load(np.zeros((4, 5, 1), bool)), "the state has 4 x 5 cells, the board 4 x 4"),
        (lambda: board.run(-1), "-1 steps"),
        (lambda: board.run(2, np.ones((1, 4, 4), bool)), "fire has 1 masks for 2 steps"),
        (lambda: board.step(np.ones((3, 4), bool)), r"fire has shape \(3, 4\), the board is \(4, 4\)"),
    ):
        with pytest.raises(CircuitError, match=message):
            call()


def test_a_board_beyond_what_a_kernel_may_see_is_refused() -> None:
    step = DeviceBoard(life(), 32769, 32768, "cpu")._step
    with pytest.raises(CircuitError, match="the device lets a kernel see 134217728 of a buffer"):
        step.shader(PORTABLE, Spec((1, 32769, 1024), sg.uint32))


def test_a_classifier_on_a_device_stores_words_not_bits(webgpu: str) -> None:
    """The bits of the outputs, an integer each, are 32 times as large as their words."""
    rng = np.random.default_rng(0)
    gates = np.concatenate([rng.choice([1, 6, 7, 8], (840, 1)), rng.integers(0, 16, (840, 2))], 1)
    classifier = CircuitClassifier(Circuit(16, gates, np.arange(16, 856)), 10)
    runner = DeviceClassifier(classifier, webgpu)
    images = rng.integers(0, 2, (256, 16))
    assert runner.predict(images).tolist() == classifier.predict(images).tolist()
    for step in (runner._gates, runner._classify):
        assert all(spec.nbytes <= 840 * 256 / 8 * 4 for spec in step._ran_last("plan")[1].program.plan.buffers)
