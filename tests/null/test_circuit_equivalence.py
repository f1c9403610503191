"""What `equivalent` proves, refutes, or leaves unproved and says so."""

from __future__ import annotations

import re

import numpy as np
import pytest

from circuit_examples import random_circuit
from shadergrad.logic.circuit import CellCircuit, Circuit, CircuitClassifier, CircuitError, equivalent


def assignments(inputs: int) -> np.ndarray:
    return (np.arange(1 << inputs)[:, None] >> np.arange(inputs) & 1).astype(bool)


def multiplier(bits: int, swapped: bool = False) -> Circuit:
    """The product of two numbers, by rows of full adders; swapped: the rows belong to the other number."""
    first, second = range(bits), range(bits, 2 * bits)
    if swapped:
        first, second = second, first
    gates: list[tuple[int, int, int]] = []

    def gate(kind: int, a: int, b: int) -> int:
        gates.append((kind, a, b))
        return 2 * bits + len(gates) - 1

    zero = gate(0, 0, 0)
    total = [zero] * (2 * bits)
    for i, row in enumerate(first):
        carry = zero
        for j, column in enumerate(second):
            x, y = total[i + j], gate(1, row, column)
            either = gate(6, x, y)
            total[i + j], carry = gate(6, either, carry), gate(7, gate(1, x, y), gate(1, either, carry))
        total[i + bits] = carry
    return Circuit(2 * bits, gates, total)


def test_the_multiplier_multiplies_and_its_rows_may_be_either_number() -> None:
    one, other = multiplier(4), multiplier(4, True)
    bits = assignments(8)
    weights = 1 << np.arange(8)
    products = (bits[:, :4] @ weights[:4]) * (bits[:, 4:] @ weights[:4])
    np.testing.assert_array_equal(one.evaluate(bits) @ weights, products)
    found = equivalent(one, other)
    assert (found.proved, found.exhaustive, found.checked) == (True, True, 256)
    assert one != other


def test_what_takes_too_many_nodes_stays_unproved_and_says_which_outputs() -> None:
    """Products have no small diagrams; those of their lowest bits are small."""
    found = equivalent(multiplier(16), multiplier(16, True), patches=64)
    assert (found.counterexample, found.proved, found.exhaustive) == (None, False, False)
    said = r"not proved equal: no difference on 64 random assignments, and decision diagrams prove (\d+) of 32 outputs: output (\d+) would exceed"
    told = re.match(said, str(found))
    assert told, str(found)
    assert 4 <= int(told[1]) < 32
    with pytest.warns(UserWarning, match="of 32 outputs"):
        assert found


def test_an_output_of_too_many_inputs_stays_unproved_and_the_others_are_proved() -> None:
    gates = [(6, 0, 1)] + [(6, 298 + k, k) for k in range(2, 300)]  # the parity of all
    wide = Circuit(300, gates, [598, 300, 7])
    found = equivalent(wide, wide, patches=64)
    assert (found.counterexample, found.proved) == (None, False)
    assert "prove 2 of 3 outputs: output 0 reads 300 inputs, and more than 256 are not tried" in str(found)
    with pytest.warns(UserWarning, match="not proved equal"):
        assert found


def lanes(count: int, swapped: bool, wrong: int = -1) -> Circuit:
    """Many outputs that read 24 inputs of their own each: the AND of them all, from either end; `wrong` is false instead."""
    n, width = 24 * count, 24
    gates: list[tuple[int, int, int]] = []
    outputs = []
    for k in range(count):
        wires = list(range(width * k, width * (k + 1)))[:: -1 if swapped else 1]
        wire = wires[0]
        for other in wires[1:]:
            gates.append((0 if k == wrong and other == wires[-1] else 1, wire, other))
            wire = n + len(gates) - 1
        outputs.append(wire)
    return Circuit(n, gates, outputs)


def test_wide_circuits_of_narrow_outputs_are_proved_or_refuted_output_by_output() -> None:
    """More inputs than a diagram may have, but no output reads many; the assignments see no difference."""
    found = equivalent(lanes(20, False), lanes(20, True), patches=64)
    assert (found.proved, found.exhaustive) == (True, False)
    assert str(found) == "proved equal by decision diagrams, after no difference on 64 random assignments"
    one, other = lanes(20, False), lanes(20, True, wrong=17)
    refuted = equivalent(one, other, patches=64)
    assert refuted.counterexample is not None
    inputs = refuted.counterexample.inputs
    for circuit, side in ((one, refuted.counterexample.left), (other, refuted.counterexample.right)):
        assert circuit.evaluate(inputs).tolist() == side.tolist()
    assert np.flatnonzero(refuted.counterexample.left != refuted.counterexample.right).tolist() == [17]
    assert str(refuted).startswith("different, for the inputs ")


@pytest.mark.parametrize("seed", range(8))
def test_one_changed_gate_of_many_inputs_is_refuted_or_proved_as_truth_tables_say(seed: int) -> None:
    """The circuit reads 10 of 24 inputs, so that a table of these decides."""
    rng = np.random.default_rng(seed)
    small = random_circuit(rng, 10, 40, 4)
    gates = [(kind, a if a < 10 else a + 14, b if b < 10 else b + 14) for kind, a, b in small.gates()]
    outputs = [w if w < 10 else w + 14 for w in small.outputs.tolist()]
    other = list(gates)
    k = int(rng.integers(len(gates)))
    kind, a, b = gates[k]
    other[k] = (kind ^ int(1 << rng.integers(4)), a, b)
    one, changed = Circuit(24, gates, outputs), Circuit(24, other, outputs)
    bits = np.zeros((1024, 24), bool)
    bits[:, :10] = assignments(10)
    same = bool((one.evaluate(bits) == changed.evaluate(bits)).all())
    found = equivalent(one, changed, patches=0)
    assert found.proved == same
    if not same:
        assert found.counterexample is not None
        inputs = found.counterexample.inputs
        assert one.evaluate(inputs).tolist() == found.counterexample.left.tolist()
        assert changed.evaluate(inputs).tolist() == found.counterexample.right.tolist()
        assert found.counterexample.left.tolist() != found.counterexample.right.tolist()


def test_what_is_no_pair_of_circuits_is_not_compared() -> None:
    circuit = Circuit(9, [], [3])
    for left, right, message in (
        (CellCircuit(circuit), circuit, r"left is a CellCircuit; .* no state.*\n  Hint: give left\.circuit"),
        (circuit, CircuitClassifier(circuit, 1), r"right is a CircuitClassifier; .*\n  Hint: give right\.circuit"),
        (None, circuit, "left is a NoneType; circuits are compared"),
    ):
        with pytest.raises(CircuitError, match=message):
            equivalent(left, right)  # type: ignore[arg-type]
    for patches in (-1, 1.5):
        with pytest.raises(CircuitError, match=rf"patches is {patches}; .* 0 or more"):
            equivalent(circuit, circuit, patches=patches)  # type: ignore[arg-type]
