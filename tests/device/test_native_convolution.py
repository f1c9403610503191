"""Convolutions by machine code: values beside the reference's in float64, borders, what is not finite, threads, and planted faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from helpers import assert_same_bits
from shadergrad.compile.native import convolution
from shadergrad.compile.native.registers import LARGE, SMALL, Tile
from shadergrad.primitives.window import Conv
from shadergrad.runtime import llvm, native_convolution
from shadergrad.runtime.native_convolution import Plan, convolved
from shadergrad.runtime.native_operations import operation_of
from shadergrad.runtime.threads import pool

pytestmark = pytest.mark.skipif(
    llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'
)

CASES = 120


@pytest.fixture(autouse=True)
def every_shape(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Also those that BLAS is faster for; several threads share few products."""
    monkeypatch.setattr(native_convolution, "LEAST_SHARE", 0)
    monkeypatch.setattr(native_convolution, "FEWEST_VECTORS", 0)
    monkeypatch.setattr(native_convolution, "FEWEST", 1)
    native_convolution._plan.cache_clear()
    yield
    native_convolution._plan.cache_clear()
    native_convolution._function.cache_clear()


def draw(seed: int) -> tuple[Conv, np.ndarray, np.ndarray]:
    """A convolution along one to three axes, of few elements; every second one has large windows."""
    while True:
        rng = np.random.default_rng(seed)
        seed += CASES
        rank = int(rng.integers(1, 4))
        words = ((1, 4), (1, 4), (-1, 4), (-1, 4), (1, 3))
        conv = Conv(*(tuple(int(v) for v in rng.integers(*ends, rank)) for ends in words))
        size, window = rng.integers(1, 12, rank), rng.integers(1, 12 if seed % 2 else 4, rank)
        groups, batch, channels, outs = (int(n) for n in rng.integers(1, 10, 4))
        if min(conv.lengths(tuple(size))) >= 1 and min(conv.counts(tuple(size), tuple(window))) >= 1:
            x = rng.standard_normal((groups, batch, channels, *size)).astype(np.float32)
            return conv, x, rng.standard_normal((groups, outs, channels, *window)).astype(np.float32)


def error(conv: Conv, x: np.ndarray, w: np.ndarray) -> float:
    """The largest, beside the largest value."""
    found, exact = convolved(conv, x, w), conv.numpy(x.astype(np.float64), w.astype(np.float64))
    assert found is not None
    assert found.shape == exact.shape
    return float(np.abs(found - exact).max() / max(np.abs(exact).max(), 1.0))


@pytest.mark.parametrize("seed", range(CASES))
def test_convolutions_are_exact_to_rounding(seed: int) -> None:
    assert error(*draw(seed)) < 1e-6


def test_the_bits_are_the_same_for_any_number_of_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(0, CASES, 6):
        found = []
        for tile in (LARGE, SMALL):
            monkeypatch.setattr(llvm.code(), "tile", tile)
            native_convolution._plan.cache_clear()
            found.append(convolved(*draw(seed)))
        assert_same_bits(*found)


@pytest.mark.parametrize("tile", [LARGE, SMALL], ids=["large", "small"])
def test_they_compile_for_other_processors(tile: Tile) -> None:
    for text in (convolution.over_counts(tile), convolution.over_windows(tile)):
        for triple, features in (("x86_64-linux-gnu", "+avx2,+fma"), ("wasm32-unknown-unknown", "+simd128")):
            assert len(llvm.code().object_for(text, triple, features)) > 500


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("window", [2, 9])
def test_what_is_not_finite_reaches_what_it_is_part_of(window: int, value: float) -> None:
    """No result of another row, whose elements a vector has between two rows."""
    conv = Conv((1, 1), (1, 1), (1, 0), (0, 1))
    for place in ((0, 0), (0, 10), (5, 10), (10, 0), (10, 10)):
        x, w = np.ones((1, 2, 3, 11, 11), np.float32), np.ones((1, 4, 3, window, window), np.float32)
        x[(0, 1, 2, *place)] = value
        other = np.ones_like(w)
        other[0, 3, 1, -1, 0] = value
        for arrays in ((x, w), (np.ones_like(x), other)):
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(convolved(conv, *arrays), conv.numpy(*arrays))


def test_the_bits_are_the_same_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(0, CASES, 10):
        conv, x, w = draw(seed)
        found = []
        for count in (1, 2, 3):
            monkeypatch.setattr(pool, "_wanted", count)
            found.append(convolved(conv, x, w))
        for other in found[1:]:
            assert_same_bits(other, found[0])


def test_long_sums_are_more_exact_than_one_chain() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((1, 1, 700, 6, 6), np.float32)
    w = rng.random((1, 1, 700, 3, 3), np.float32)
    assert error(Conv((1, 1), (1, 1)), x, w) < 3e-7


def test_arrays_of_any_strides_and_dtypes_are_taken() -> None:
    conv, x, w = draw(0)
    backwards = x[..., ::-1].copy()[..., ::-1]
    assert_same_bits(convolved(conv, backwards, w.copy(order="F")), convolved(conv, x, w))
    wide = operation_of(conv).numpy(x.astype(np.float64), w.astype(np.float64))
    np.testing.assert_array_equal(wide, conv.numpy(x.astype(np.float64), w.astype(np.float64)))
    assert convolved(conv, x[:, :0], w) is None


def test_few_results_of_a_vector_stay_with_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    plain = Conv((1, 1), (1, 1))
    assert Plan(plain, (1, 8, 32, 28, 28), (1, 64, 32, 3, 3), LARGE).pays
    assert Plan(plain, (1, 32, 128, 28, 28), (1, 64, 128, 26, 26), LARGE).pays
    assert not Plan(plain, (1, 8, 32, 3, 3), (1, 64, 32, 3, 3), LARGE).pays  # one result of a channel
    assert not Plan(plain, (1, 32, 128, 10, 10), (1, 64, 128, 8, 8), LARGE).pays


def _but_the_first(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    bits, starts = _masks(plan)
    return bits & 0xFFFE, starts


def _without_zeros(target: np.ndarray, x: np.ndarray, low: Any) -> None:
    target[...] = 1
    target[(..., *(slice(a, a + n) for a, n in zip(low, x.shape[3:], strict=True)))] = x


_masks = Plan._masks
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "the first element of a vector is masked": (Plan, "_masks", _but_the_first),
    "there are no zeros around x": (native_convolution, "_put", _without_zeros),
    "each place of a window is the first": (Plan, "_offsets", lambda plan: np.zeros(plan.taps, np.int64).reshape(-1)),
    "chains overlap": (convolution, "_again", lambda *words: _again(*("1" if w == "128" else w for w in words))),
}
_again = convolution._again


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    conv = Conv((1, 1), (1, 1), (1, 1), (1, 1))
    x = rng.standard_normal((1, 3, 20, 11, 11)).astype(np.float32)
    several = [(conv, x, rng.standard_normal((1, 4, 20, *window)).astype(np.float32)) for window in ((3, 3), (9, 9))]
    assert all(error(*case) < 1e-6 for case in several), "without a fault"
    native_convolution._plan.cache_clear()
    native_convolution._function.cache_clear()
    monkeypatch.setattr(*FAULTS[fault])
    assert any(error(*case) > 1e-3 for case in several)
