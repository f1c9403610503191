"""Random numbers are JAX's, bit for bit, and wires are those of the reference experiments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shadergrad.errors import IndexRangeError, ShapeError
from shadergrad.logic import LogicNetwork, wiring
from shadergrad.logic.experiments import EXPERIMENTS, SEED
from shadergrad.nn.errors import ArgumentError

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "difflogic_golden.json").read_text())["experiments"]


# -- random numbers: values of JAX 0.4.33


def test_splitting_and_uniform_draws_are_those_of_jax() -> None:
    key = wiring.prng_key(0)
    assert wiring.split(key).tolist() == [[4146024105, 967050713], [2718843009, 1272950319]]
    assert wiring.uniform(key, (1,)).tolist() == [np.float32(0.41845703)]


def test_a_seed_above_32_bits_uses_both_words() -> None:
    assert wiring.prng_key((5 << 32) + 7).tolist() == [5, 7]


def test_an_odd_number_of_words_is_padded_with_one_zero_counter() -> None:
    key = wiring.prng_key(3)
    x0, x1 = wiring.threefry2x32(key, np.array([0, 1], np.uint32), np.array([2, 0], np.uint32))
    assert wiring.bits(key, 3).tolist() == [*x0.tolist(), x1.tolist()[0]]


def test_uniform_draws_lie_on_the_unit_interval_and_fill_it() -> None:
    drawn = wiring.uniform(wiring.prng_key(1), (100, 100))
    assert drawn.dtype == np.float32
    assert 0 <= drawn.min() < 1e-3
    assert 1 - 1e-3 < drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.01


def test_random_bits_are_the_lowest_bits_of_the_second_key() -> None:
    key = wiring.prng_key(4)
    assert wiring.randint(key, (31,), 0, 2).tolist() == (wiring.bits(wiring.split(key)[1], 31) & 1).tolist()


@pytest.mark.parametrize(("low", "high"), [(0, 512), (-3, 4), (0, 1 << 31), (0, 1)])
def test_random_integers_stay_in_their_range(low: int, high: int) -> None:
    drawn = wiring.randint(wiring.prng_key(5), (1000,), low, high)
    assert drawn.dtype == np.int32
    assert low <= drawn.min() <= drawn.max() < high


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"range 3 to 3 is empty"):
        wiring.randint(wiring.prng_key(0), (1,), 3, 3)


@pytest.mark.parametrize("count", [1, 2, 9, 1625, 2000])
def test_a_permutation_has_every_number_once(count: int) -> None:
    order = wiring.permutation(wiring.prng_key(6), count)
    assert sorted(order.tolist()) == list(range(count))
    assert count < 3 or order.tolist() != list(range(count))


# -- wirings


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_wires_of_an_experiment_are_those_of_the_reference(name: str) -> None:
    e = EXPERIMENTS[name]
    _, key = wiring.split(wiring.prng_key(SEED))
    perception, update = wiring.automaton(e.perception, (e.n_features, *e.update), key)
    found = [[a.tolist(), b.tolist()] for a, b in perception]
    assert found == GOLDEN[name]["perceive_wires"]
    assert wiring.digest([*perception, *update]) == GOLDEN[name]["wires_sha256"]


@pytest.mark.parametrize(("n_in", "n_out"), [(2, 1), (9, 8), (17, 128), (5, 10), (264, 256), (7, 4), (1024, 512)])
def test_unique_pairs_are_different_and_reach_every_input(n_in: int, n_out: int) -> None:
    a, b = wiring.unique(n_in, n_out, wiring.prng_key(7))
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    assert len(pairs) == n_out
    assert all(0 <= x < y < n_in for x, y in pairs)
    reached = {x for pair in pairs for x in pair}
    last_is_left_out = n_in % 2 == 1 and n_out < n_in - 1
    assert reached == set(range(n_in - last_is_left_out))


def test_unique_takes_neighbours_first_then_pairs_further_apart() -> None:
    a, b = wiring.unique(5, 7, wiring.prng_key(0))
    assert sorted(zip(a.tolist(), b.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]


def test_random_reads_inputs_equally_often() -> None:
    a, b = wiring.random(10, 25, wiring.prng_key(8))
    assert np.bincount(np.concatenate([a, b])).tolist() == [5] * 10


def test_keys_make_the_difference() -> None:
    first, again, other = (wiring.unique(64, 64, wiring.prng_key(seed)) for seed in (1, 1, 2))
    assert wiring.digest([first]) == wiring.digest([again]) != wiring.digest([other])


@pytest.mark.parametrize(
    ("n_in", "n_out", "message"),
    [
        (5, 11, "5 inputs make 10 different pairs, fewer than 11 gates"),
        (9, 4, "4 gates read at most 8 of 9 inputs.*at least 5 gates"),
        (1, 1, "1 inputs make 0 different pairs"),
        (0, 1, "at least one input and one gate"),
    ],
)
def test_unique_refuses_what_cannot_be(n_in: int, n_out: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        wiring.unique(n_in, n_out, wiring.prng_key(0))


def test_given_wires_are_checked() -> None:
    assert [x.dtype for x in wiring.check(3, 2, ([0, 1], np.array([2, 0])))] == [np.int32, np.int32]
    with pytest.raises(IndexRangeError, match="input b of gate 1 is wire 3, out of range for 3 inputs"):
        wiring.check(3, 2, ([0, 1], [2, 3]))
    with pytest.raises(IndexRangeError, match="input a of gate 0 is wire -1"):
        wiring.check(3, 2, ([-1, 1], [2, 0]))
    with pytest.raises(ShapeError, match=r"a pair of arrays \(2,\) is wanted"):
        wiring.check(3, 2, ([0, 1, 2], [2, 0]))
    with pytest.raises(ArgumentError, match="positions a are float64, not integers"):
        wiring.check(3, 2, ([0.0, 1.0], [2, 0]))


def test_unknown_names_and_sizes_are_refused() -> None:
    key = wiring.prng_key(0)
    with pytest.raises(ArgumentError, match="no wiring 'rnd'; choose of unique, random, moore"):
        wiring.draw("rnd", 4, 4, key)
    with pytest.raises(ArgumentError, match="9 to 8, not 9 to 4"):
        wiring.draw("moore", 9, 4, key)
    with pytest.raises(ArgumentError, match="at least one layer"):
        wiring.network((4,), key)


def test_an_unknown_wiring_names_all_that_a_layer_knows() -> None:
    with pytest.raises(
        ArgumentError, match=r"no wiring 'butterfly'; choose of unique, .*balanced, in a layer also learned"
    ):
        LogicNetwork((4, 8), wiring="butterfly")
