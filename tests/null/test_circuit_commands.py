"""Circuits on the command line; the merge of equal gates; BLIF and AIGER, read back by readers of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shadergrad import cli
from shadergrad.logic.circuit import Circuit, equivalent, load, minimize, to_aiger, to_blif
from shadergrad.logic.circuit.decision_diagrams import Diagrams

LIFE = str(Path(__file__).parents[1] / "data" / "life_cell.json")
TRAINED = Path(LIFE).with_name("life_trained.json")  # the active gates that a training of `life` leaves (seed 23, cpu)


def random_circuit(seed: int, inputs: int = 5, gates: int = 40) -> Circuit:
    rng = np.random.default_rng(seed)
    table = [
        (int(rng.integers(16)), int(rng.integers(inputs + k)), int(rng.integers(inputs + k))) for k in range(gates)
    ]
    return Circuit(inputs, table, [int(w) for w in rng.integers(0, inputs + gates, 4)])


def assignments(inputs: int) -> np.ndarray:
    return (np.arange(1 << inputs)[:, None] >> np.arange(inputs) & 1).astype(bool)


def read_blif(text: str, bits: np.ndarray) -> np.ndarray:
    """The outputs of a model for rows of bits."""
    values: dict[str, np.ndarray] = {}
    outputs: list[str] = []
    target, reads = "", []
    for line in text.splitlines():
        match line.split():
            case [".inputs", *names]:
                values = {name: bits[:, i] for i, name in enumerate(names)}
            case [".outputs", *outputs]:
                pass
            case [".names", *reads, target]:
                values[target] = np.zeros(len(bits), bool)
            case [pattern, "1"]:
                row = [values[name] == (bit == "1") for name, bit in zip(reads, pattern, strict=True)]
                values[target] = values[target] | np.logical_and.reduce(row)
            case [word, *_]:
                assert word in (".model", ".end")
    return np.stack([values[name] for name in outputs], 1)


def read_aiger(text: str, bits: np.ndarray) -> np.ndarray:
    lines = text.splitlines()
    kind, largest, inputs, latches, outputs, ands = lines[0].split()
    assert (kind, latches, int(largest)) == ("aag", "0", int(inputs) + int(ands))
    n, m = int(inputs), int(outputs)
    values = {0: np.zeros(len(bits), bool)} | {int(lines[1 + i]) >> 1: bits[:, i] for i in range(n)}

    def literal(word: str) -> np.ndarray:
        return values[int(word) >> 1] ^ bool(int(word) & 1)

    for line in lines[1 + n + m : 1 + n + m + int(ands)]:
        out, a, b = line.split()
        assert int(out) > max(int(a), int(b))
        values[int(out) >> 1] = literal(a) & literal(b)
    return np.stack([literal(word) for word in lines[1 + n : 1 + n + m]], 1)


@pytest.mark.parametrize("seed", range(20))
def test_blif_and_aiger_mean_the_circuit(seed: int) -> None:
    circuit = random_circuit(seed)
    bits = assignments(circuit.inputs)
    np.testing.assert_array_equal(read_blif(to_blif(circuit), bits), circuit.evaluate(bits))
    np.testing.assert_array_equal(read_aiger(to_aiger(circuit), bits), circuit.evaluate(bits))


def test_names_that_would_clash_in_blif_do_not() -> None:
    circuit = Circuit(2, [(6, 0, 1), (1, 0, 2)], [3, 2], ["g0", "a b"], ["g0", "y"])
    bits = assignments(2)
    np.testing.assert_array_equal(read_blif(to_blif(circuit), bits), circuit.evaluate(bits))


def twice(spare: int) -> Circuit:
    """The parity of three inputs built in two orders, once inverted; with inputs that nothing reads."""
    n = 3 + spare
    return Circuit(n, [(6, 0, 1), (6, n, 2), (6, 1, 2), (9, 0, n + 2)], [n + 1, n + 3])


@pytest.mark.parametrize("spare", [0, 1, 20])
def test_one_function_built_in_two_ways_is_one_gate(spare: int) -> None:
    circuit = twice(spare)
    small = minimize(circuit)
    assert equivalent(circuit, small)
    assert len(small) == 3  # two for the parity, one for its inverse


@pytest.mark.parametrize("inputs", [3, 5, 6, 7, 14, 15, 24])
def test_random_circuits_stay_the_same_functions_with_few_and_many_inputs(inputs: int) -> None:
    for seed in range(6):
        circuit = random_circuit(seed, inputs, 80)
        small = minimize(circuit)
        assert equivalent(circuit, small, patches=1 << 14)
        assert len(small) <= len(circuit)
        assert minimize(small) == small


def test_the_trained_life_becomes_small_and_is_proved_equal() -> None:
    """144 gates without the merge of equal functions, 88 with it alone."""
    circuit = load(TRAINED).circuit  # type: ignore[union-attr]
    small = minimize(circuit)
    assert len(small) <= 88 < len(circuit)
    same = equivalent(circuit, small)
    assert (same.counterexample, same.proved) == (None, True)


def test_what_is_equal_but_for_one_assignment_is_not_merged() -> None:
    """AND of 24 inputs is false on all random assignments, and no constant."""
    gates = [(1, 0, 1)] + [(1, 24 + k - 2, k) for k in range(2, 24)]
    circuit = Circuit(24, gates, [24 + 22])
    assert len(minimize(circuit)) == 23


def test_diagrams_are_one_where_functions_are() -> None:
    """Of random gates over four inputs: equal, or inverse, exactly where the truth tables are."""
    rng = np.random.default_rng(0)
    diagrams, bits = Diagrams(1 << 20), assignments(4)
    functions, tables = [diagrams.input(i) for i in range(4)], [bits[:, i].astype(int) for i in range(4)]
    for _ in range(60):
        kind, a, b = (int(x) for x in rng.integers((0, 0, 0), (16, len(functions), len(functions))))
        functions.append(diagrams.gate(kind, functions[a], functions[b]))
        tables.append(kind >> (3 - 2 * tables[a] - tables[b]) & 1)
    for f, t in zip(functions, tables, strict=True):
        for g, u in zip(functions, tables, strict=True):
            assert (f == g, f == g ^ 1) == ((t == u).all(), (t != u).all())


def chain(order: list[int], inputs: int = 40) -> list[tuple[int, int, int]]:
    """A parity of inputs, taken in some order, then ORed with the AND of the first two; the gates."""
    gates = [(6, order[0], order[1])] + [(6, inputs + k, w) for k, w in enumerate(order[2:])]
    return [*gates, (1, 0, 1), (7, inputs + len(gates) - 1, inputs + len(gates))]


def test_functions_of_many_inputs_are_merged_by_proof() -> None:
    """The parity of 30 inputs, added up from either end: no table of its own holds it."""
    there, back = chain(list(range(30))), chain(list(range(30))[::-1])

    def past(wire: int) -> int:
        return wire + len(there) if wire >= 40 else wire

    moved = [(kind, past(a), past(b)) for kind, a, b in back]
    circuit = Circuit(40, there + moved, [40 + len(there) - 1, 40 + 2 * len(there) - 1])
    small = minimize(circuit)
    assert len(small) == len(there)
    found = equivalent(circuit, small, patches=64)
    assert (found.proved, found.exhaustive) == (True, False)


def test_a_difference_that_no_random_assignment_shows_is_found_by_proof() -> None:
    """AND of 60 inputs, and false."""
    gates = [(1, 0, 1)] + [(1, 60 + k - 2, k) for k in range(2, 60)]
    wide, never = Circuit(60, gates, [60 + 58]), Circuit(60, [(0, 0, 0)], [60])
    found = equivalent(wide, never, patches=1 << 12)
    assert found.counterexample is not None
    assert found.counterexample.inputs.all()
    assert found.counterexample.left.tolist() == [True]


def test_a_gate_is_what_it_likes_where_no_output_can_tell() -> None:
    """(a AND b) OR (a AND NOT b AND c): inside, NOT b does not matter."""
    circuit = Circuit(3, [(1, 0, 1), (2, 0, 1), (1, 4, 2), (7, 3, 5)], [6])
    small = minimize(circuit)
    assert equivalent(circuit, small).proved
    assert len(small) == 3


# --- commands


def test_show_names_inputs_by_neighbour_and_channel(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["logic", "show", LIFE]) == 0
    text = capsys.readouterr().out
    assert "9 inputs: NW.0 N.0 NE.0 W.0 C.0 E.0 SW.0 S.0 SE.0" in text
    assert "26 gates" in text
    assert "x48" not in text


@pytest.mark.parametrize(
    ("alive", "after"), [(["W.0", "E.0", "N.0"], 1), (["C.0"], 0), (["C.0", "N.0", "S.0"], 1), (["010101000"], 1)]
)
def test_run_is_a_step_of_life(alive: list[str], after: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["logic", "run", LIFE, *alive]) == 0
    assert capsys.readouterr().out == f"next.0 = {after}\n"


def test_simplify_writes_fewer_gates_and_says_that_they_are_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from shadergrad.logic.circuit import save

    save(twice(0), tmp_path / "a.json")
    assert cli.run(["logic", "simplify", str(tmp_path / "a.json"), "--out", str(tmp_path / "b.json")]) == 0
    assert "4 gates, 3 simplified; proved equal on all 8 assignments" in capsys.readouterr().out
    small: Any = load(tmp_path / "b.json")
    assert len(small) == 3


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("c", "uint64_t"),
        ("verilog", "module"),
        ("wgsl", "fn "),
        ("dot", "NW.0"),
        ("blif", ".inputs NW.0 N.0"),
        ("aiger", "i3 W.0"),
    ],
)
def test_export_writes_each_format(form: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["logic", "export", LIFE, form]) == 0
    printed = capsys.readouterr().out
    assert word in printed
    assert cli.run(["logic", "export", LIFE, form, "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text().rstrip("\n") == printed.rstrip("\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", LIFE, "vhdl"], "no format 'vhdl'"),
        (["run", LIFE, "X.9"], "no input 'X.9'"),
        (["run", LIFE, "0101"], "has 4 bits; there are 9"),
        (["show", "no/such.json"], "no/such.json"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["logic", *words]) == 2
    assert said in capsys.readouterr().err
