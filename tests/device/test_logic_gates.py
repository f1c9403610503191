"""The four-coefficient form against the sixteen gates written out, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_close, grad_of
from shadergrad.errors import ShapeError
from shadergrad.logic import gates

NAIVE: Sequence[Callable] = (
    lambda a, b: 0 * a * b,
    lambda a, b: a * b,
    lambda a, b: a * (1 - b),
    lambda a, b: a + 0 * b,
    lambda a, b: (1 - a) * b,
    lambda a, b: b + 0 * a,
    lambda a, b: a * (1 - b) + (1 - a) * b,
    lambda a, b: 1 - (1 - a) * (1 - b),
    lambda a, b: (1 - a) * (1 - b),
    lambda a, b: a * b + (1 - a) * (1 - b),
    lambda a, b: 1 - b + 0 * a,
    lambda a, b: 1 - (1 - a) * b,
    lambda a, b: 1 - a + 0 * b,
    lambda a, b: 1 - a * (1 - b),
    lambda a, b: 1 - a * b,
    lambda a, b: 1 + 0 * a * b,
)

LOGIC: Sequence[Callable[[bool, bool], bool]] = (
    lambda a, b: False,
    lambda a, b: a and b,
    lambda a, b: a and not b,
    lambda a, b: a,
    lambda a, b: not a and b,
    lambda a, b: b,
    lambda a, b: a != b,
    lambda a, b: a or b,
    lambda a, b: not (a or b),
    lambda a, b: a == b,
    lambda a, b: not b,
    lambda a, b: a or not b,
    lambda a, b: not a,
    lambda a, b: not a or b,
    lambda a, b: not (a and b),
    lambda a, b: True,
)

GRID = np.linspace(0, 1, 5, dtype=np.float32)
PAIRS_A, PAIRS_B = (x.ravel() for x in np.meshgrid(GRID, GRID, indexing="ij"))


def naive_mixture(logits: sg.Tensor, a: sg.Tensor, b: sg.Tensor) -> sg.Tensor:
    """Sixteen gates, weighted and summed: what the coefficients replace."""
    p = logits.softmax(-1)
    total = p[..., 0] * NAIVE[0](a, b)
    for k in range(1, 16):
        total = total + p[..., k] * NAIVE[k](a, b)
    return total


WORDS = {"A": "a", "B": "b", "AND": "and", "OR": "or", "NOT": "not", "TRUE": "True", "FALSE": "False"}
ONE_WORD = {
    "AND": "a and b",
    "OR": "a or b",
    "XOR": "a != b",
    "NOR": "not (a or b)",
    "XNOR": "a == b",
    "NAND": "not (a and b)",
}


@pytest.mark.parametrize("gate", range(16), ids=gates.NAMES)
def test_a_name_says_what_the_gate_does(gate: int) -> None:
    name = gates.NAMES[gate]
    expression = ONE_WORD.get(name) or " ".join(WORDS[word] for word in name.split())
    table = [eval(expression, {"a": a, "b": b}) for a in (False, True) for b in (False, True)]
    assert gates.TABLES[gate].tolist() == table


@pytest.mark.parametrize("gate", range(16), ids=gates.NAMES)
def test_a_gate_has_the_truth_table_of_its_number(gate: int) -> None:
    table = [LOGIC[gate](a, b) for a in (False, True) for b in (False, True)]
    assert int("".join(str(int(bit)) for bit in table), 2) == gate
    assert gates.TABLES[gate].tolist() == table


@pytest.mark.parametrize("gate", range(16), ids=gates.NAMES)
def test_a_gate_and_its_gradients_are_those_of_the_gate_written_out(device: str, gate: int) -> None:
    logits = np.full((1, 16), -1e4, np.float32)
    logits[0, gate] = 0
    found, wanted = [], []
    for form, result in ((gates.evaluate, found), (None, wanted)):
        a, b = (sg.tensor(x, device=device).requires_grad_() for x in (PAIRS_A, PAIRS_B))
        weights = gates.hard_coefficients(sg.tensor(logits, device=device))
        value = NAIVE[gate](a, b) if form is None else form(weights, a, b)
        result += [value, *sg.autograd.grad(value, (a, b), sg.ones_like(value), retain_graph=True)]
    for name, x, y in zip(("value", "d/da", "d/db"), found, wanted, strict=True):
        assert_close(x.detach().numpy(), y.detach().numpy(), 0, 1e-6, f"{name} of {gates.NAMES[gate]}")


def test_a_mixture_and_its_gradients_are_those_of_sixteen_gates(device: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((6, 16)), rng.random((5, 6)), rng.random((5, 6))]
    weights = sg.tensor(rng.standard_normal((5, 6)).astype(np.float32), device=device)
    results = []
    for form in (naive_mixture, lambda logits, a, b: gates.evaluate(gates.coefficients(logits), a, b)):
        leaves = [sg.tensor(x.astype(np.float32), device=device).requires_grad_() for x in arrays]
        value = form(*leaves)
        (value * weights).sum().backward()
        results.append([value.detach().numpy(), *(grad_of(x).numpy() for x in leaves)])
    for name, x, y in zip(("value", "logits", "a", "b"), *results, strict=True):
        assert_close(y, x, 1e-4, 1e-5, name)


def test_the_gradients_of_a_mixture_are_finite_differences() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((3, 16)), rng.random((4, 3)), rng.random((4, 3))]

    def loss(*values: np.ndarray) -> float:
        logits, a, b = (sg.tensor(x, dtype="float64") for x in values)
        return gates.evaluate(gates.coefficients(logits), a, b).sin().sum().item()

    leaves = [sg.tensor(x, dtype="float64").requires_grad_() for x in arrays]
    gates.evaluate(gates.coefficients(leaves[0]), *leaves[1:]).sin().sum().backward()
    for k, leaf in enumerate(leaves):
        numeric = np.zeros_like(arrays[k])
        for at in np.ndindex(numeric.shape):
            moved = [x.copy() for x in arrays]
            moved[k][at] += 1e-6
            up = loss(*moved)
            moved[k][at] -= 2e-6
            numeric[at] = (up - loss(*moved)) / 2e-6
        assert leaf.grad is not None
        assert_close(leaf.grad.numpy(), numeric, 1e-5, 1e-8, f"operand {k}")


def test_hard_coefficients_take_the_first_of_equal_logits(device: str) -> None:
    logits = np.zeros((3, 16), np.float32)
    logits[1, [6, 9]] = 2
    logits[2, 15] = 1
    found = gates.hard_coefficients(sg.tensor(logits, device=device)).numpy()
    assert found.tolist() == gates.COEFFICIENTS[[0, 6, 15]].tolist()


def test_hard_coefficients_have_no_gradient(device: str) -> None:
    assert not gates.hard_coefficients(sg.zeros(2, 16, device=device).requires_grad_()).requires_grad


def test_straight_through_is_hard_with_the_gradient_of_the_mixture(device: str) -> None:
    values = np.random.default_rng(2).standard_normal((4, 16)).astype(np.float32)
    gradients = []
    for form in (gates.straight_through, gates.coefficients):
        logits = sg.tensor(values, device=device).requires_grad_()
        result = form(logits)
        (result * sg.tensor([1.0, 2.0, 3.0, 4.0], device=device)).sum().backward()
        gradients.append(grad_of(logits).numpy())
        if form is gates.straight_through:
            assert result.detach().numpy().tolist() == gates.COEFFICIENTS[values.argmax(1)].tolist()
    assert_close(gradients[0], gradients[1], 1e-5, 1e-6)


def test_wrong_shapes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"logits are \(3, 15\); the last axis must have 16"):
        gates.coefficients(sg.zeros(3, 15))
    with pytest.raises(ShapeError, match="the last axis must have 16"):
        gates.hard_coefficients(sg.zeros(3, 4))
    with pytest.raises(ShapeError, match="the last axis must have 4"):
        gates.evaluate(sg.zeros(3, 16), sg.zeros(3), sg.zeros(3))
