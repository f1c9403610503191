"""Boards of cells, packed 64 a word, stepped by NumPy, against plain Python cell by cell."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuit_examples import life, naive_step, random_board, random_cell, random_circuit
from shadergrad.logic.circuit import (
    BoardRunner,
    CellCircuit,
    Circuit,
    CircuitError,
    DeviceBoard,
    NativeBoard,
    cell_to_verilog,
    minimize,
    packed_board,
)
from shadergrad.logic.circuit.bit_packing import pack_board, unpack_board
from shadergrad.logic.circuit.word_mapping import map_circuit

WIDTHS = (1, 2, 5, 63, 64, 65, 127, 128, 130)

borders = pytest.mark.parametrize("border", ["zeros", "periodic"])


def life_step(state: np.ndarray) -> np.ndarray:
    """One step on a torus, by sums of rolled boards."""
    counts = sum(
        np.roll(state, (dy, dx), (0, 1)).astype(int) for dy, dx in itertools.product((-1, 0, 1), repeat=2) if dy or dx
    )
    return (counts == 3) | ((counts == 2) & state)


# -- packing


@pytest.mark.parametrize("width", WIDTHS)
def test_packing_puts_column_64k_plus_j_at_bit_j_of_word_k(width):
    state = random_board(np.random.default_rng(width), 3, width, 2)
    words = pack_board(state)
    assert words.shape == (2, 3, -(-width // 64))
    for y, x, c in np.ndindex(state.shape):
        assert int(words[c, y, x // 64]) >> (x % 64) & 1 == state[y, x, c]
    assert all(int(w) >> ((width - 1) % 64 + 1) == 0 for w in words[..., -1].flat)
    np.testing.assert_array_equal(unpack_board(words, width), state)


# -- mapped circuits


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 60), st.integers(1, 5))
def test_mapped_circuits_compute_the_same(seed, inputs, gates, outputs):
    circuit = random_circuit(np.random.default_rng(seed), inputs, gates, outputs)
    mapped = map_circuit(circuit)
    bits = np.array(list(itertools.product((False, True), repeat=inputs)))
    values: dict[int, np.ndarray] = {i: bits[:, i] for i in range(inputs)}
    for o in mapped.instructions:
        assert o.out >= inputs, "an input is overwritten"
        a, b = values.get(o.a, bits[:, 0]), values.get(o.b, bits[:, 0])
        table = {"and": a & b, "or": a | b, "xor": a ^ b, "not": ~a, "copy": a, "zero": a & ~a, "one": a | ~a}
        values[o.out] = table[o.name]
    result = np.stack([values[inputs + k] for k in range(outputs)], axis=-1)
    np.testing.assert_array_equal(result, circuit.evaluate(bits))


def test_life_needs_few_operations_and_registers():
    mapped = map_circuit(minimize(life().circuit))
    assert len(mapped.instructions) <= 28  # 26 gates, of which one is inverted on one side
    assert mapped.registers - mapped.inputs <= 9


# -- boards of NumPy


@borders
@pytest.mark.parametrize("width", WIDTHS)
def test_a_step_equals_plain_python(border, width):
    rng = np.random.default_rng(width)
    for channels, height in ((1, 1), (1, 6), (3, 2), (2, 5)):
        cell = random_cell(rng, channels, border)
        state = random_board(rng, height, width, channels)
        expected = naive_step(cell, state)
        np.testing.assert_array_equal(cell.step(state), expected)
        np.testing.assert_array_equal(cell.minimized().step(state.astype(np.uint8)), expected)


@borders
@pytest.mark.parametrize("width", [3, 63, 64, 65, 70])
def test_several_steps_equal_plain_python(border, width):
    """Gates that give 1 of nothing but zeros leave no bits behind the width for the next step to see."""
    rng = np.random.default_rng(width)
    for _ in range(4):
        cell = random_cell(rng, 2, border)
        state = random_board(rng, 4, width, 2)
        board = cell.runner(4, width)
        board.load(state)
        for _ in range(4):
            state = naive_step(cell, state)
            board.step()
            np.testing.assert_array_equal(board.read(), state)
            np.testing.assert_array_equal(board.words, pack_board(state))


@borders
def test_blocks_of_rows_fit_together(border, monkeypatch):
    rng = np.random.default_rng(0)
    cell, state = random_cell(rng, 2, border), random_board(rng, 11, 70, 2)
    expected = naive_step(cell, state)
    monkeypatch.setattr(packed_board, "MIN_BLOCK_WORDS", 1)
    for words in (1, 4, 6, 22, 100):
        monkeypatch.setattr(packed_board, "MAX_BLOCK_WORDS", words)
        np.testing.assert_array_equal(cell.step(state), expected)


@borders
def test_circuits_without_gates_are_automata_too(border):
    state = random_board(np.random.default_rng(1), 5, 66)
    for wire in range(9):
        cell = CellCircuit(Circuit(9, [], [wire]), border)
        np.testing.assert_array_equal(cell.step(state), naive_step(cell, state))
    for kind in (0, 15):
        cell = CellCircuit(Circuit(9, [(kind, 0, 0)], [9]), border)
        np.testing.assert_array_equal(cell.run(state, 2), np.full(state.shape, kind == 15))


def test_life_runs_300_steps_like_life():
    state = random_board(np.random.default_rng(2), 128, 128)
    result = life().minimized().run(state, 300)
    for _ in range(300):
        state = life_step(state)
    np.testing.assert_array_equal(result, state)


@borders
def test_cells_that_do_not_fire_keep_all_channels(border):
    rng = np.random.default_rng(3)
    cell, state = random_cell(rng, 3, border, fire_rate=0.6), random_board(rng, 7, 70, 3)
    fire = rng.random((7, 70)) < 0.6
    result = cell.step(state, fire=fire)
    np.testing.assert_array_equal(result, naive_step(cell, state, fire))
    np.testing.assert_array_equal(result[~fire], state[~fire])


def test_the_fire_rate_is_the_share_of_cells_that_fire():
    toggle = CellCircuit(Circuit(9, [(12, 4, 4)], [9]), fire_rate=0.6)
    state = np.zeros((400, 400, 1), bool)
    share = toggle.step(state, rng=0).mean()
    assert abs(share - 0.6) < 5 * (0.24 / 160_000) ** 0.5
    np.testing.assert_array_equal(toggle.run(state, 3, rng=5), toggle.run(state, 3, rng=5))
    assert (toggle.run(state, 3, rng=5) != toggle.run(state, 3, rng=6)).any()
    generator = np.random.default_rng(5)
    stepped = state
    for _ in range(3):
        stepped = toggle.step(stepped, generator)
    np.testing.assert_array_equal(stepped, toggle.run(state, 3, rng=5))


def test_a_board_may_be_damaged_between_steps():
    rng = np.random.default_rng(4)
    cell, state = life(), random_board(rng, 40, 70)
    seen = []

    def damage(i, board):
        board.clear(slice(10, 30), slice(60, 90))
        seen.append((i, board.read()))

    result = cell.run(state, 3, after_step=damage)
    for i, (number, board) in enumerate(seen):
        state = life_step(state)
        state[10:30, 60:90] = False
        assert number == i
        np.testing.assert_array_equal(board, state)
    np.testing.assert_array_equal(result, state)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: life().step(np.zeros((4, 4, 2), bool)),
            r"the state has shape \(4, 4, 2\); this automaton has 1 channels: \(H, W, 1\)",
        ),
        (lambda: life().step(np.zeros((4, 4), bool)), r"shape \(4, 4\)"),
        (lambda: life().run(np.zeros((0, 4, 1), bool), 1), r"shape \(0, 4, 1\)"),
        (lambda: life().run(np.zeros((4, 4, 1)), 1), "bits have dtype float64"),
        (lambda: life(fire_rate=0.5).run(np.zeros((4, 4, 1), bool), 1), "the fire rate is below 1 and rng is missing"),
        (
            lambda: life().step(np.zeros((4, 4, 1), bool), fire=np.ones((3, 4), bool)),
            r"fire has shape \(3, 4\), the board is \(4, 4\)",
        ),
        (lambda: life().runner(4, 4).load(np.zeros((4, 5, 1), bool)), "the state has 4 x 5 cells, the board 4 x 4"),
        (lambda: life().runner(0, 4), "a board of 0 x 4 cells is empty"),
        (lambda: cell_to_verilog(life(), 0, 4), "a board of 0 x 4 cells is empty"),
    ],
)
def test_what_is_no_board_is_refused(call, message):
    with pytest.raises(CircuitError, match=message):
        call()


@pytest.mark.parametrize("board", [BoardRunner, NativeBoard, DeviceBoard])
def test_a_board_of_what_is_no_rule_says_so(board):
    with pytest.raises(CircuitError, match=rf"\[{board.__name__}\] a Circuit.* is no rule of a board"):
        board(Circuit(9, [], [3]), 4, 4)
    with pytest.raises(CircuitError, match="dict is no rule of a board; a CellCircuit is"):
        board({}, 4, 4)
