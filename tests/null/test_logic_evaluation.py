"""What circuits are measured by: rules whose behaviour is known get the findings that follow. And studies of seeds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circuit_examples import life, life_circuit
from shadergrad.errors import CheckpointError
from shadergrad.logic import convergence_study, evaluation, experiments
from shadergrad.logic.circuit import Board, BoardRunner, CellCircuit, Circuit
from shadergrad.logic.convergence_study import Outcome
from shadergrad.logic.evaluation import Finding, Sizes, evaluate, published, rollout, zero_from
from shadergrad.nn.errors import ArgumentError

TINY = Sizes((16, 20), (32, 20), (32, 40), (32, 60, 30), 10, 2)
FALSE = 0


def identity(channels: int, border: str = "zeros") -> CellCircuit:
    """Every cell stays as it is."""
    return CellCircuit(Circuit(9 * channels, [], [4 * channels + c for c in range(channels)]), border)


def blank(fire_rate: float = 1.0) -> CellCircuit:
    """Eight channels that become 0."""
    return CellCircuit(Circuit(72, [(FALSE, 0, 0)], [72] * 8), fire_rate=fire_rate)


def assert_wrong(findings: list[Finding], *wrong: float) -> None:
    assert [f.wrong for f in findings] == list(wrong), "\n".join(map(str, findings))


# -- Life


def test_the_true_rule_of_life_has_nothing_wrong() -> None:
    assert_wrong(evaluate("life", life(), TINY), 0, 0)


def test_a_rule_of_life_with_one_other_gate_is_found_out() -> None:
    circuit = life_circuit()
    gates = list(circuit.gates())
    gates[-2] = (6, *gates[-2][1:])  # XOR for OR: the cell dies with three living neighbours
    neighbourhoods, board = evaluate("life", CellCircuit(Circuit(9, gates, circuit.outputs), "periodic"), TINY)
    assert neighbourhoods.wrong == 56  # 8 choose 3, alive
    assert board.wrong > 10


def test_a_board_that_leaves_life_and_comes_back_counts_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "life_differences", lambda *_: [0, 5, 0])
    assert_wrong(evaluate("life", life(), TINY), 0, 5)


def test_each_step_is_compared_with_true_life() -> None:
    differences = evaluation.life_differences(identity(1, "periodic"), 8, 3)
    assert len(differences) == 3
    assert min(differences) > 0


# -- checkerboards


def test_blank_boards_are_half_wrong_in_all_evaluations() -> None:
    outside = (32 * 32 - 20 * 20) // 2
    assert_wrong(evaluate("checkerboard", blank(), TINY), 2 * 128, 512, outside, 512, 512)
    assert_wrong(evaluate("checkerboard-async", blank(0.6), TINY), 2 * 96, 512, outside, 512, 512)


def test_damage_clears_the_middle_only_as_long_as_it_is_told() -> None:
    cell, seen = identity(8), []
    start = np.ones((32, 40, 8), np.uint8)
    after = evaluation.damaged_until(2, 32)

    def after_step(k: int, board: BoardRunner) -> None:
        after(k, board)
        seen.append(board.read())

    cell.run(start, 4, None, after_step)
    hole = np.ones((32, 40), bool)
    hole[6:26, 6:26] = False
    for state in seen:
        assert (state == hole[..., None]).all()
    board = evaluation.loaded(cell, start)
    evaluation.damaged_until(2, 32)(2, board)
    assert board.read().all()


def test_wrong_squares_counts_outside_of_a_square() -> None:
    state = np.repeat(experiments.checkerboard(12, 12)[..., None], 2, -1)
    assert evaluation.wrong_squares(state) == 0
    state[5, 5] = 1 - state[5, 5]
    state[0, 3, 0] = 1 - state[0, 3, 0]
    assert evaluation.wrong_squares(state) == 2
    assert evaluation.wrong_squares(state, slice(4, 8)) == 1


def test_wounds_are_squares_at_uniform_places_cut_off_at_the_border(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[tuple[slice, slice]] = []
    monkeypatch.setattr(Board, "clear", lambda self, *where: places.append(where))
    evaluation.robustness(blank(), 64, 3000, 10)
    starts = np.array([[s.start for s in where] for where in places])
    stops = np.array([[min(s.stop, 64) for s in where] for where in places])
    assert starts.shape == (3000, 2)
    assert ((stops - starts).max(0) == 10).all()
    assert ((stops - starts).min(0) == 1).all()
    for axis in (0, 1):
        eighths = np.bincount(starts[:, axis] // 8)
        assert len(eighths) == 8
        assert eighths.min() > 3000 / 8 * 0.75
    assert abs(np.corrcoef(starts.T)[0, 1]) < 0.1


def test_robustness_is_the_mean_after_the_first_steps_and_beside_the_articles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "robustness", lambda *_: [4000] * 500 + [100] * 3500)
    for cell, expected in ((identity(8), 1101), (blank(0.6), 683)):
        finding = evaluation._robust(cell, Sizes(), "synchronous" if cell.fire_rate == 1 else "asynchronous")
        assert (finding.wrong, finding.cells, finding.published) == (100, 4096, expected)


# -- patterns


def test_a_lone_cell_lacks_the_rest_of_the_lizard_on_both_boards() -> None:
    lizard = experiments.lizard()
    lacking = lizard.sum() - 1 if lizard[10, 10] else lizard.sum() + 1
    assert_wrong(evaluate("lizard", identity(128, "periodic")), lacking, lacking)


def test_an_empty_board_lacks_all_bits_of_the_letter() -> None:
    assert_wrong(evaluate("letter-g", identity(64)), experiments.letter_g().sum())


@pytest.mark.parametrize(
    ("name", "channels", "shape"),
    [
        ("life", 1, (101, 64, 64, 1)),
        ("checkerboard", 8, (81, 64, 64, 1)),
        ("checkerboard-async", 8, (201, 56, 56, 1)),
        ("lizard", 128, (13, 40, 40, 1)),
        ("letter-g", 64, (16, 16, 16, 3)),
    ],
)
def test_rollouts_show_what_there_is_to_see(name: str, channels: int, shape: tuple[int, ...]) -> None:
    states = rollout(name, identity(channels))
    assert states.shape == shape
    if name == "lizard":
        assert states[0].sum() == 1
        assert states[0, 20, 20, 0]
    if name.startswith("checkerboard"):
        assert states[0].any()
        middle = (shape[1] - 20) // 2
        assert not states[1, middle : middle + 20, middle : middle + 20].any()
        assert states[1, :middle].any()


def test_cells_of_another_experiment_are_refused() -> None:
    with pytest.raises(ArgumentError, match="the cell has 8 channels; those of lizard have 128"):
        evaluate("lizard", identity(8))
    with pytest.raises(ArgumentError, match="no experiment 'snake'; choose of life"):
        rollout("snake", identity(8))


# -- convergence


@pytest.mark.parametrize(
    ("hard", "expected"), [([3, 0, 2, 0, 0], 3), ([0, 0], 0), ([1, 0, 1], None), ([], None), ([2], None), ([1, 0], 1)]
)
def test_zero_from_is_the_step_after_the_last_wrong_bit(hard: list[float], expected: int | None) -> None:
    assert zero_from(hard) == expected


def test_published_curves_become_zero_where_the_article_says() -> None:
    known = published()["experiments"]
    assert {name: (e["zero_from"], e["active_gates"]) for name, e in known.items()} == {
        "life": (1441, 336),
        "checkerboard": (244, 22),
        "lizard": (1384, 577),
        "letter-g": (1871, 927),
    }
    for name, e in known.items():
        golden = {"life": 108, "checkerboard": 256, "lizard": 121, "letter-g": 109}[name]
        assert e["hard"][0] == [0, golden]
        assert all(loss == 0 for step, loss in e["hard"] if step >= e["zero_from"])
        steps = [step for step, _ in e["soft"]]
        assert steps == sorted(set(steps))


def outcome(seed: int, when: int | None) -> Outcome:
    return Outcome(seed, 500, when, 0.25, 0.0 if when else 3.0, 22, 10, 1.5)


def test_a_study_is_summed_up_and_survives_its_file(tmp_path: Path) -> None:
    outcomes = [outcome(23, 244), outcome(24, None), outcome(25, 300), outcome(26, 310)]
    found = convergence_study.summary(outcomes)
    assert (found.seeds, found.converged, found.earliest, found.median, found.latest) == (4, 3, 244, 300, 310)
    assert convergence_study.summary(outcomes[1:2]).median is None
    path = tmp_path / "study.json"
    convergence_study.write(path, {"experiment": "checkerboard", "steps": 500}, outcomes)
    assert convergence_study.read(path, {"experiment": "checkerboard", "steps": 500}) == outcomes
    assert json.loads(path.read_text())["summary"]["converged"] == 3
    assert convergence_study.read(tmp_path / "none.json", {}) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": {}}', '{"settings": {}, "outcomes": [{"seed": 1}]}'])
def test_a_damaged_study_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "study.json"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=r"study\.json is no study's file, or is damaged"):
        convergence_study.read(path, {})


def test_a_study_of_other_settings_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    convergence_study.write(path, {"experiment": "life", "steps": 30}, [])
    with pytest.raises(CheckpointError, match=r"it has experiment life \(now lizard\), steps 30 \(now 40\)"):
        convergence_study.read(path, {"experiment": "lizard", "steps": 40})
