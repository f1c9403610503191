"""Bounds of integers from their operations: values stay within them, and positions within an axis are neither read nor checked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.tensor.bounds import Bounds, bounds_of
from shadergrad.tensor.composed import composed

MOST = 2**31 - 1
KNOWN: dict[str, tuple[Callable[[str], sg.Tensor], Bounds]] = {
    "a range": (lambda d: sg.arange(7, device=d), (0, 6)),
    "a range from a number on": (lambda d: sg.arange(3, 7, device=d), (3, 6)),
    "a range in another order": (lambda d: sg.arange(6, device=d).reshape(2, 3).t().flip(0), (0, 5)),
    "random numbers": (lambda d: sg.randint(0, 5, (64,), device=d), (0, 4)),
    "random numbers from a number on": (lambda d: sg.randint(-3, 5, (64,), device=d), (-3, 4)),
    "random numbers as int64": (lambda d: sg.randint(2, 5, (64,), device=d).to(dtype=sg.int64), (2, 4)),
    "a remainder": (lambda d: (sg.arange(9, device=d) + 5) % 4, (0, 3)),
    "a remainder of negative numbers": (lambda d: (sg.arange(9, device=d) * -5) % 4, (0, 3)),
    "a remainder of the least numbers": (lambda d: (sg.arange(9, device=d) - MOST - 1) % 3, (0, 2)),
    "an order": (lambda d: sg.rand(9, device=d).argsort(), (0, 8)),
}
UNKNOWN: dict[str, Callable[[], sg.Tensor]] = {
    "values": lambda: sg.tensor([1, 2]),
    "a remainder by a negative number": lambda: sg.arange(9) % -4,
    "a remainder by values": lambda: sg.arange(2) % sg.tensor([3, 4]),
    "the difference to another product": lambda: sg.arange(9) - ((sg.arange(9) + 1) // 4) * 4,
    "a sum that wraps": lambda: sg.arange(2) + MOST,
    "a cast that wraps": lambda: sg.arange(300).to(dtype=sg.uint8),
}


@pytest.mark.parametrize("name", KNOWN)
def test_values_are_within_their_bounds(device: str, name: str) -> None:
    make, bounds = KNOWN[name]
    x = make(device)
    assert bounds_of(x._node) == bounds
    values = x.numpy()
    assert (values.min(), values.max()) == bounds, "all of them occur"


@pytest.mark.parametrize("name", UNKNOWN)
def test_others_have_none(name: str) -> None:
    assert bounds_of(UNKNOWN[name]()._node) is None


def test_random_positions_are_not_computed_before_what_they_choose(device: str) -> None:
    x = sg.arange(5, device=device) * 10
    rows = sg.randint(0, 5, (32,), device=device)
    chosen, embedded = x[rows], sg.nn.functional.embedding(rows, sg.eye(5, device=device))
    assert rows._node.storage is None
    np.testing.assert_array_equal(chosen.numpy(), 10 * rows.numpy())
    np.testing.assert_array_equal(embedded.argmax(1).numpy(), rows.numpy())


@pytest.mark.parametrize(("low", "high"), [(0, 6), (-6, 5)])
def test_random_positions_that_may_be_outside_are_refused(device: str, low: int, high: int) -> None:
    with pytest.raises(sg.IndexRangeError, match=f"index {5 if high == 6 else -6} is out of range"):
        sg.arange(5, device=device)[sg.randint(low, high, (200,), device=device)].numpy()


def test_negative_positions_count_from_the_end_after_others_that_do_not(device: str) -> None:
    x = sg.arange(5, device=device) * 10
    for positions in ([1, 2], [-1, -5], [0, -2], [4, 0]):
        assert x[sg.tensor(positions, device=device)].tolist() == [x.tolist()[p] for p in positions]
    rows = sg.randint(-5, 0, (9,), device=device)
    assert x[rows].tolist() == [x.tolist()[p] for p in rows.tolist()]


def test_what_is_recorded_relies_on_no_operation_before_it() -> None:
    """A compiled step, and the operations of a layer, come again with other positions."""
    step = sg.compile(lambda x, rows: x[rows])
    x = sg.arange(5) * 10
    assert step(x, sg.arange(2)).tolist() == [0, 10]
    assert step(x, sg.tensor([-1, 3])).tolist() == [40, 30]
    with pytest.raises(sg.IndexRangeError, match="index 5 is out of range"):
        step(x, sg.tensor([0, 5])).tolist()
    recorded = composed(lambda x, rows: x[rows] + 0)
    for rows in (sg.rand(5).argsort()[:2], sg.randint(0, 5, (2,)), sg.arange(2), sg.tensor([-1, 3])):
        chosen = recorded(sg.arange(5) * 10, rows).tolist()
        assert chosen == [10 * (p % 5) for p in rows.tolist()]
    with pytest.raises(sg.IndexRangeError, match="index 5 is out of range"):
        recorded(sg.arange(5) * 10, sg.tensor([0, 5])).tolist()


def test_a_compiled_step_does_not_check_what_it_draws() -> None:
    step = sg.compile(lambda x: x[sg.randint(0, 5, (8,))])
    x = sg.arange(5) * 10
    drawn = np.stack([step(x).numpy() for _ in range(8)])
    assert set(drawn.ravel()) == {0, 10, 20, 30, 40}
    assert "inrange" not in {line.split(" ")[0] for line in step.explain().splitlines()}
    checked = sg.compile(lambda x, rows: x[rows])
    checked(x, sg.tensor([1, 2]))
    assert "inrange" in {line.split(" ")[0] for line in checked.explain().splitlines()}, "the test sees one"
