"""Temporaries that share memory: never two at a time, never more than there is, and no more of it than needed."""

from __future__ import annotations

import numpy as np
import pytest

from shadergrad.compile.memory import plan_slots
from shadergrad.dtypes import float32
from shadergrad.plan import BufferSpec, Dispatch


def buffer(size: int, role: str = "temporary") -> BufferSpec:
    return BufferSpec(role, (size,), float32)  # type: ignore[arg-type]


def dispatches(*rows: tuple[int, ...]) -> list[Dispatch]:
    return [Dispatch(0, r) for r in rows]


def assert_slots_are_right(table: list[BufferSpec], order: list[Dispatch], slots: tuple[int, ...]) -> None:
    """Every temporary has a slot that is large enough, and no other temporary has it while it is in use."""
    lives: dict[int, range] = {}
    for step, d in enumerate(order):
        for row in d.buffers:
            lives[row] = range(lives[row].start if row in lives else step, step + 1)
    for row, spec in enumerate(table):
        assert (spec.slot is not None) == (spec.role == "temporary")
        if spec.slot is not None:
            assert slots[spec.slot] >= spec.bound, f"row {row} of {spec.bound} bytes is in {slots[spec.slot]}"
    for a in lives:
        for b in lives:
            if a < b and table[a].slot is not None and table[a].slot == table[b].slot:
                assert lives[a].stop <= lives[b].start or lives[b].stop <= lives[a].start, f"rows {a} and {b} meet"


@pytest.mark.parametrize("seed", range(40))
def test_no_two_temporaries_are_in_one_place_at_a_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 12))
    roles = [str(rng.choice(["temporary", "temporary", "argument", "result"])) for _ in range(rows)]
    table = [buffer(int(rng.integers(1, 100)), role) for role in roles]
    steps = int(rng.integers(1, 15))
    order = dispatches(*(tuple(rng.permutation(rows)[: rng.integers(1, 4)].tolist()) for _ in range(steps)))
    found, slots = plan_slots(table, order, {})
    assert_slots_are_right(found, order, slots)
    assert [(b.role, b.shape, b.bound) for b in found] == [(b.role, b.shape, b.bound) for b in table]


def test_a_chain_needs_two_places() -> None:
    table = [buffer(10, "argument"), *(buffer(10) for _ in range(5)), buffer(10, "result")]
    order = dispatches(*((k, k + 1) for k in range(6)))
    found, slots = plan_slots(table, order, {})
    assert_slots_are_right(found, order, slots)
    assert slots == (40, 40)


@pytest.mark.parametrize(("sizes", "slots"), [((10, 20), (80,)), ((20, 10), (80,)), ((10, 20, 5), (80,))])
def test_a_place_grows_with_what_comes_later(sizes: tuple[int, ...], slots: tuple[int, ...]) -> None:
    table = [buffer(n) for n in sizes]
    order = dispatches(*((k,) for k in range(len(sizes))))
    found, given = plan_slots(table, order, {})
    assert_slots_are_right(found, order, given)
    assert given == slots


def test_the_place_that_wastes_least_is_taken() -> None:
    """Two places are free, of 10 and of 100 elements, when one of 9 is wanted and then one of 90."""
    table = [buffer(10), buffer(100), buffer(9), buffer(90)]
    order = dispatches((0, 1), (2, 3))
    found, slots = plan_slots(table, order, {})
    assert_slots_are_right(found, order, slots)
    assert slots == (400, 40)


def test_small_temporaries_take_no_room_that_large_ones_need() -> None:
    """In the order of the dispatches the small one, which lives on, would take the place of the first large one."""
    table = [buffer(100), buffer(1), buffer(100)]
    order = dispatches((0,), (1,), (1, 2), (1,))
    found, slots = plan_slots(table, order, {})
    assert_slots_are_right(found, order, slots)
    assert slots == (400, 4)


def test_what_overwrites_a_temporary_lies_where_that_lay() -> None:
    """And nothing else meanwhile: the last dispatch names row 2 alone, which lies where row 0 is. So with one after it."""
    table = [buffer(10) for _ in range(5)]
    order = dispatches((0,), (1,), (2, 1), (2, 3), (4, 3))
    found, slots = plan_slots(table, order, {2: 0, 4: 2})
    assert_slots_are_right(found, order, slots)
    assert found[0].slot == found[2].slot == found[4].slot
    assert found[0].slot not in (found[1].slot, found[3].slot)
    assert slots == (40, 40)
