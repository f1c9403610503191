"""Circuits as data: validation, files, counting, minimization and the comparison that vouches for it."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuit_examples import life, life_circuit, naive_circuit, naive_gate, random_circuit
from shadergrad.errors import ShadergradError
from shadergrad.logic.circuit import (
    CellCircuit,
    Circuit,
    CircuitError,
    Counterexample,
    Equivalence,
    count_gates,
    equivalent,
    from_json,
    histogram,
    load,
    minimize,
    save,
    to_json,
)
from shadergrad.logic.circuit.gate_kinds import KIND_OF, NAMES, apply, flip_a, flip_b, reads_a, reads_b, swap, value_of

DATA = Path(__file__).parents[1] / "data"
BITS = (0, 1)
FALSE, AND, A, B, XOR, OR, NOT_A, NAND, TRUE = 0, 1, 3, 5, 6, 7, 12, 14, 15

seeds = st.integers(0, 2**32 - 1)


def truth_table(circuit: Circuit) -> list[list[int]]:
    return [naive_circuit(circuit, list(bits)) for bits in itertools.product(BITS, repeat=circuit.inputs)]


def counterexample(result: Equivalence) -> Counterexample:
    assert not result
    assert result.counterexample is not None
    return result.counterexample


# -- gates


def test_a_kind_is_its_truth_table():
    for kind, a, b in itertools.product(range(16), BITS, BITS):
        expected = naive_gate(kind, a, b)
        assert value_of(kind, a, b) == expected
        assert value_of(flip_a(kind), 1 - a, b) == expected
        assert value_of(flip_b(kind), a, 1 - b) == expected
        assert value_of(swap(kind), b, a) == expected


def test_names_mean_what_they_say():
    meaning = {
        "FALSE": lambda a, b: 0,
        "AND": lambda a, b: a and b,
        "OR": lambda a, b: a or b,
        "A": lambda a, b: a,
        "B": lambda a, b: b,
        "NOR": lambda a, b: not (a or b),
        "XNOR": lambda a, b: a == b,
        "NAND": lambda a, b: not (a and b),
        "XOR": lambda a, b: a != b,
        "TRUE": lambda a, b: 1,
    }
    for kind, name in enumerate(NAMES):
        # the rest, such as "a and not b", is Python
        function = meaning.get(name) or eval(f"lambda a, b: {name.lower()}")
        assert [int(function(a, b)) for a in BITS for b in BITS] == [
            naive_gate(kind, a, b) for a in BITS for b in BITS
        ], name


def test_gates_on_words_agree_with_gates_on_bits():
    a, b = np.array([0b0011], np.uint64), np.array([0b0101], np.uint64)
    for kind in range(16):
        word = int(apply(kind, a, b)[0])
        assert [word >> (3 - i) & 1 for i in range(4)] == [
            naive_gate(kind, *pair) for pair in itertools.product(BITS, BITS)
        ]


def test_a_gate_reads_what_changes_it():
    assert [NAMES[k] for k in range(16) if not reads_a(k)] == ["FALSE", "B", "NOT B", "TRUE"]
    assert [NAMES[k] for k in range(16) if not reads_b(k)] == ["FALSE", "A", "NOT A", "TRUE"]


# -- circuits


def test_evaluate_agrees_with_the_naive_evaluation():
    rng = np.random.default_rng(0)
    circuit = random_circuit(rng, 7, 60, 4)
    bits = rng.random((3, 50, 7)) < 0.5
    result = circuit.evaluate(bits)
    assert result.shape == (3, 50, 4)
    assert result.dtype == bool
    for row, got in zip(bits.reshape(-1, 7), result.reshape(-1, 4), strict=True):
        assert got.tolist() == [bool(v) for v in naive_circuit(circuit, row.tolist())]


def test_life_is_life_in_all_512_neighbourhoods():
    patches = np.array(list(itertools.product(BITS, repeat=9)))
    neighbours = patches.sum(1) - patches[:, 4]
    expected = (neighbours == 3) | ((neighbours == 2) & (patches[:, 4] == 1))
    for circuit in (life_circuit(), minimize(life_circuit())):
        np.testing.assert_array_equal(circuit.evaluate(patches)[:, 0], expected)


def test_circuits_do_not_change():
    circuit = life_circuit()
    with pytest.raises(ValueError, match="read-only"):
        circuit.kinds[0] = 1
    with pytest.raises(AttributeError):
        circuit.inputs = 3  # type: ignore[misc]
    assert circuit == life_circuit()
    assert hash(circuit) == hash(life_circuit())
    assert circuit != Circuit(9, list(circuit.gates()), [9])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [], [0]), "at least one input"),
        ((2, [(16, 0, 1)], [2]), r"gate 0 is of kind 16; kinds are 0 \(FALSE\) to 15 \(TRUE\)"),
        ((2, [(1, 0, -1)], [2]), "gate 0 reads wire -1 as b; wires are 0 to 2"),
        ((2, [(1, 7, 1)], [2]), "gate 0 reads wire 7 as a; wires are 0 to 2"),
        ((2, [(1, 0, 3), (1, 0, 1)], [2]), r"gate 0 \(wire 2\) reads wire 3 as b, which does not come before it"),
        ((2, [(1, 0, 2)], [2]), "does not come before it"),
        ((2, [(1, 0)], [2]), r"each gate is \(kind, a, b\)"),
        ((2, [(1, 0, 1), (1, 0)], [2]), "gates differ in length"),
        ((2, np.zeros((1, 3)), [2]), "integers with 2 axes"),
        ((2, [], [2]), "output 0 is wire 2; wires are 0 to 1"),
        ((2, [], []), "at least one output"),
        ((2, [], [0], ("a",)), "input_names needs 2 different texts"),
        ((2, [], [0, 1], None, ("a", "a")), "output_names needs 2 different texts"),
    ],
)
def test_what_is_no_circuit_is_refused(arguments, message):
    with pytest.raises(CircuitError, match=message) as caught:
        Circuit(*arguments)
    assert isinstance(caught.value, ShadergradError)


def test_evaluate_refuses_other_shapes_and_values():
    with pytest.raises(CircuitError, match="the last axis holds the 9 inputs"):
        life_circuit().evaluate(np.zeros((4, 8), bool))
    with pytest.raises(CircuitError, match="only 0 and 1 are bits"):
        life_circuit().evaluate(np.full((4, 9), 2))
    with pytest.raises(CircuitError, match="float64"):
        life_circuit().evaluate(np.zeros((4, 9)))


def test_cells_need_nine_inputs_a_channel():
    with pytest.raises(CircuitError, match=r"9 inputs and 2 outputs; a cell of 2 channels reads 9 \* 2 = 18 bits"):
        CellCircuit(Circuit(9, [], [0, 1]))
    with pytest.raises(CircuitError, match="18 inputs and 1 outputs"):
        CellCircuit(Circuit(18, [], [0]))
    with pytest.raises(CircuitError, match="border is 'wrap'"):
        CellCircuit(life_circuit(), "wrap")
    with pytest.raises(CircuitError, match="fire_rate is 0"):
        CellCircuit(life_circuit(), fire_rate=0)


# -- files


def test_files_give_back_what_was_saved(tmp_path):
    rng = np.random.default_rng(1)
    for value in (life_circuit(), life("zeros", 0.6), random_circuit(rng, 5, 40, 3), Circuit(1, [], [0])):
        save(value, tmp_path / "value.json")
        assert load(tmp_path / "value.json") == value


def test_a_circuit_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    save(life(), tmp_path / "value.json")

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(CircuitError, match=r"cannot write .*value\.json: No space left on device"):
        save(Circuit(1, [], [0]), tmp_path / "value.json")
    assert load(tmp_path / "value.json") == life()
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]


def test_the_format_is_stable():
    assert to_json(life()) == (DATA / "life_cell.json").read_text(encoding="utf-8")
    assert load(DATA / "life_cell.json") == life()


def test_gate_names_avoid_input_names():
    circuit = Circuit(2, [(AND, 0, 1)], [2], ("g0", "g_1"))
    assert from_json(to_json(circuit)) == circuit


def document(**changes) -> str:
    fields = {
        "format": "shadergrad.circuit",
        "version": 1,
        "inputs": ["p", "q"],
        "gates": [["last", "AND", "first", "q"], ["first", 6, "p", "q"]],
        "outputs": [["result", "last"]],
    }
    return json.dumps({k: v for k, v in {**fields, **changes}.items() if v is not None})


def test_gates_may_come_in_any_order():
    expected = Circuit(2, [(XOR, 0, 1), (AND, 2, 1)], [3], ("p", "q"), ("result",))
    assert from_json(document()) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is no JSON"),
        ("[]", "the format is 'list'"),
        (document(format="blif"), "the format is 'blif'"),
        (document(version=2), "the version is 2; this library reads version 1"),
        (document(outputs=None), "lacks 'outputs'"),
        (
            document(gates=[["a", "AND", "b", "p"], ["b", "OR", "a", "p"]], outputs=[["y", "a"]]),
            "a -> b -> a form a cycle",
        ),
        (document(gates=[["last", "AND", "last", "p"]]), "last -> last form a cycle"),
        (document(gates=[["last", "MUX", "p", "q"]]), "gate 'last' is of kind 'MUX'"),
        (document(gates=[["last", 16, "p", "q"]]), "gate 'last' is of kind 16"),
        (document(gates=[["last", True, "p", "q"]]), "gate 'last' is of kind True"),
        (document(gates=[["last", "AND", "p", "z"]]), "gate 'last' reads 'z', which is neither an input nor a gate"),
        (document(outputs=[["y", "z"]]), "output 'y' reads 'z'"),
        (document(gates=[["last", "AND", "p", "q"]] * 2), "the wire 'last' is defined twice"),
        (document(inputs=["last", "first"]), "is defined twice"),
        (document(gates=[["last", "AND", "p"]]), r"gates is a list of \[name, kind, wire, wire\]; entry 0"),
        (document(inputs=3), "inputs is a list of a name"),
        (document(format="shadergrad.cell"), "shadergrad.cell lacks 'circuit', 'channels', 'border', 'fire_rate'"),
        (to_json(life()).replace('"channels": 1', '"channels": 2'), "the cell says 2 channels; its circuit has 1"),
    ],
)
def test_what_is_no_file_is_refused(text, message):
    with pytest.raises(CircuitError, match=message):
        from_json(text)


def test_errors_of_files_name_the_file(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{}")
    with pytest.raises(CircuitError, match=r"broken\.json: \[from_json\]"):
        load(path)


# -- minimization


@settings(max_examples=150)
@given(seeds, st.integers(1, 7), st.integers(0, 60), st.integers(1, 5))
def test_minimize_keeps_the_function_and_never_adds_gates(seed, inputs, gates, outputs):
    circuit = random_circuit(np.random.default_rng(seed), inputs, gates, outputs)
    smaller = minimize(circuit)
    assert truth_table(smaller) == truth_table(circuit)
    assert len(smaller) <= len(circuit)
    assert minimize(smaller) == smaller


def two_gates(first: tuple[int, int, int], second: tuple[int, int, int]) -> Circuit:
    return Circuit(2, [first, second], [3])


@pytest.mark.parametrize(
    ("circuit", "gates"),
    [
        (Circuit(2, [(A, 0, 1), (B, 0, 2), (AND, 2, 3)], [4]), []),  # wires; x AND x
        (two_gates((NOT_A, 0, 0), (NOT_A, 2, 2)), []),  # a double inversion
        (two_gates((NOT_A, 0, 1), (AND, 2, 1)), [(4, 0, 1)]),  # an inverter goes into its reader
        (two_gates((XOR, 0, 0), (OR, 2, 1)), []),  # a constant, propagated
        (two_gates((TRUE, 0, 0), (AND, 2, 1)), []),
        (two_gates((NOT_A, 0, 0), (OR, 0, 2)), [(TRUE, 0, 0)]),  # complementary inputs
        (two_gates((AND, 0, 1), (OR, 2, 0)), []),  # absorption: x OR x AND y
        (two_gates((OR, 0, 1), (XOR, 2, 0)), [(4, 0, 1)]),
        (Circuit(2, [(OR, 0, 1), (7, 1, 0), (XOR, 2, 3)], [4]), [(FALSE, 0, 0)]),  # equal but for the order of inputs
        (Circuit(2, [(2, 0, 1), (13, 0, 1)], [2, 3]), [(2, 0, 1), (NOT_A, 2, 2)]),  # inverses of each other
        (Circuit(3, [(XOR, 0, 1), (XOR, 1, 2), (XOR, 3, 4)], [5]), [(XOR, 0, 2)]),  # a variable that cancels
        (Circuit(2, [(AND, 0, 1), (NAND, 0, 1)], [3]), [(NAND, 0, 1)]),  # dead gates
        (Circuit(2, [(NOT_A, 0, 0)], [2]), [(NOT_A, 0, 0)]),
    ],
)
def test_what_minimize_knows(circuit, gates):
    assert list(minimize(circuit).gates()) == gates


@pytest.mark.parametrize("inverted", ["a", "b", "both"])
@pytest.mark.parametrize("kind", range(16), ids=NAMES)
def test_inverters_go_into_gates_of_every_kind(kind, inverted):
    """Input 0 is read as a and input 1 as b; wires 2 and 3 are their inverses."""
    a, b = 2 if inverted != "b" else 0, 3 if inverted != "a" else 1
    circuit = Circuit(2, [(NOT_A, 0, 0), (NOT_A, 1, 1), (kind, a, b)], [4])
    table = [[naive_gate(kind, x ^ (a == 2), y ^ (b == 3))] for x in BITS for y in BITS]
    assert truth_table(circuit) == table
    smaller = minimize(circuit)
    assert truth_table(smaller) == table
    assert len(smaller) <= 1, "no inverter is left"


@pytest.mark.parametrize("inverted", ["a", "b", "both"])
@pytest.mark.parametrize("kind", [k for k in range(16) if reads_a(k) and reads_b(k)], ids=lambda k: NAMES[k])
def test_gates_of_which_only_the_inverse_comes_out_are_read_as_they_are(kind, inverted):
    """Inputs 0 and 1 make the gate read as a, inputs 2 and 3 that read as b; an output wants NAND, and so the gate is one."""
    first, second = NAND if inverted != "b" else AND, NAND if inverted != "a" else AND
    circuit = Circuit(4, [(first, 0, 1), (second, 2, 3), (kind, 4, 5)], [4, 5, 6])
    table = [
        [
            naive_gate(first, p, q),
            naive_gate(second, r, s),
            naive_gate(kind, naive_gate(first, p, q), naive_gate(second, r, s)),
        ]
        for p, q, r, s in itertools.product(BITS, repeat=4)
    ]
    smaller = minimize(circuit)
    assert truth_table(smaller) == table
    assert sorted(smaller.kinds[:2].tolist()) == sorted([first, second])
    assert list(smaller.gates())[2] == (kind, 4, 5)


def test_minimize_keeps_names():
    circuit = minimize(Circuit(2, [(AND, 0, 0)], [2], ("p", "q"), ("r",)))
    assert (circuit.input_names, circuit.output_names) == (("p", "q"), ("r",))
    assert len(circuit) == 0


@pytest.mark.slow
def test_minimize_handles_the_size_of_a_trained_network():
    circuit = random_circuit(np.random.default_rng(2), 1152, 4480, 128, window=600)
    smaller = minimize(circuit)
    assert len(smaller) < len(circuit) / 4
    assert equivalent(circuit, smaller, patches=100_000).counterexample is None  # too large for a proof


# -- equivalence


def test_equivalence_is_proved_up_to_twenty_inputs():
    wide = [(AND, k if k == 0 else 19 + k, k + 1) for k in range(19)]  # all twenty inputs are 1
    yes = equivalent(Circuit(20, wide, [38]), Circuit(20, wide, [38]))
    assert (bool(yes), yes.exhaustive, yes.checked) == (True, True, 1 << 20)
    no = equivalent(Circuit(20, wide, [38]), Circuit(20, [(FALSE, 0, 0)], [20]))
    example = counterexample(no)
    assert example.inputs.all()
    assert (example.left.tolist(), example.right.tolist()) == ([True], [False])


def test_one_wrong_gate_is_found_with_a_counterexample():
    rng = np.random.default_rng(3)
    for inputs in (3, 6, 9, 40):
        circuit = random_circuit(rng, inputs, 0, inputs)
        one = Circuit(inputs, [(AND, 0, 1)], [inputs, *circuit.outputs])
        other = Circuit(inputs, [(NAND, 0, 1), (A, inputs, 0)], [inputs + 1, *circuit.outputs])
        example = counterexample(equivalent(one, other))
        assert example.left.tolist() == [bool(v) for v in naive_circuit(one, example.inputs.tolist())]
        assert example.right.tolist() == [bool(v) for v in naive_circuit(other, example.inputs.tolist())]
        assert example.left.tolist() != example.right.tolist()


def test_random_patches_are_many_seeded_and_not_all_fair():
    # the AND of 24 inputs among 30: one assignment in 16 million fair ones, but frequent among those with many ones
    wide = [(AND, k if k == 0 else 29 + k, k + 1) for k in range(23)]
    never = Circuit(30, [(FALSE, 0, 0)], [30])
    found, again = (equivalent(Circuit(30, wide, [52]), never) for _ in range(2))
    assert not found.exhaustive
    np.testing.assert_array_equal(counterexample(found).inputs, counterexample(again).inputs)
    assert equivalent(never, never).checked == 1_000_000


def test_the_bits_past_the_last_patch_do_not_count():
    assert equivalent(Circuit(1, [(XOR, 0, 0)], [1]), Circuit(1, [(FALSE, 0, 0)], [1])).checked == 2
    assert equivalent(Circuit(30, [], [0]), Circuit(30, [], [0]), patches=10).checked == 10


def test_circuits_of_other_sizes_are_not_compared():
    with pytest.raises(CircuitError, match="9 inputs and 1 outputs, and 2 and 1"):
        equivalent(life_circuit(), Circuit(2, [], [0]))


# -- counting


def test_counts_by_each_way_of_counting():
    gates = [(AND, 0, 1), (A, 2, 0), (B, 0, 3), (XOR, 0, 1), (NOT_A, 4, 5)]
    counts = count_gates(Circuit(2, gates, [6]))
    assert (counts.all, counts.active, counts.reachable, counts.reachable_active, counts.minimized) == (5, 3, 4, 2, 1)


def test_the_histogram_counts_kinds_by_name():
    counted = histogram(life_circuit())
    assert list(counted) == list(NAMES)
    assert {name: n for name, n in counted.items() if n} == {"AND": 10, "A AND NOT B": 1, "XOR": 10, "OR": 5}
    assert sum(counted.values()) == len(life_circuit())
    assert KIND_OF["A AND NOT B"] == 2
