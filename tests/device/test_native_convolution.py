"""Convolutions by machine code: values beside the reference's in float64, borders, what is not finite, threads, and planted faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from helpers import assert_same_bits
from shadergrad.compile.native import convolution, padded_copy
from shadergrad.compile.native.panel_product import Panel
from shadergrad.compile.native.registers import LARGE, SMALL
from shadergrad.primitives.window import Conv
from shadergrad.runtime import llvm, native_convolution
from shadergrad.runtime.native_convolution import Plan, Strided, Target, convolved
from shadergrad.runtime.native_operations import operation_of
from shadergrad.runtime.threads import pool

pytestmark = pytest.mark.skipif(
    llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'
)

CASES = 240
CACHES = (native_convolution._copy, native_convolution._product)


@pytest.fixture(autouse=True)
def few_elements_are_shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several threads share few elements."""
    monkeypatch.setattr(native_convolution, "FEWEST", 1)
    monkeypatch.setattr(native_convolution, "FEWEST_COPIED", 1)
    clear()
    yield
    clear()


def clear() -> None:
    native_convolution._plans.clear()
    native_convolution._wholes.clear()
    for cache in CACHES:
        cache.cache_clear()


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
    rng = np.random.default_rng(0)
    several = [draw(seed) for seed in range(0, CASES, 12)]
    for conv, *shapes in KINDS.values():
        x, w = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        several.append((conv, x, w))
    for case in several:
        found = []
        for tile in (LARGE, SMALL):
            monkeypatch.setattr(llvm.code(), "tile", tile)
            clear()
            found.append(convolved(*case))
        assert_same_bits(*found)


@pytest.mark.parametrize("storing", get_args(convolution.Storing))
@pytest.mark.parametrize("packing", get_args(convolution.Packing))
def test_they_compile_for_other_processors(packing: convolution.Packing, storing: convolution.Storing) -> None:
    for text in (convolution.text_for(Panel(3, 1), packing, storing), padded_copy.text()):
        for triple, features in (("x86_64-linux-gnu", "+avx2,+fma"), ("x86_64-linux-gnu", "+avx512f,+avx512bw")):
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


def test_images_may_lie_far_apart() -> None:
    """As in an array of more than 128 MiB, of which only these elements are touched."""
    conv, rng = Conv((1, 2), (1, 1), (1, 1), (1, 1)), np.random.default_rng(0)
    x = np.zeros((1, 2, 2, 1 << 12, 1 << 12), np.float32)[..., :9, :9]
    x[...] = rng.standard_normal(x.shape)
    assert error(conv, x, rng.standard_normal((1, 3, 2, 3, 3)).astype(np.float32)) < 1e-6


def test_a_gather_that_32_bits_do_not_address_is_left_to_numpy() -> None:
    conv, x, w = Conv((1,), (1,)), np.zeros((1, 1, 1, 4), np.float32), np.zeros((1, 1, 1, 2), np.float32)
    served = []
    for far in (1 << 20, 1 << 29, -(1 << 29)):
        served.append(native_convolution._is_served(conv, as_strided(x, strides=(0, 0, 0, far)), w))
        served.append(native_convolution._is_served(conv, x, as_strided(w, strides=(0, 0, 0, far))))
    assert served == [True, True, False, False, False, False]


@pytest.mark.parametrize("window", [(1, 40), (1, 1)], ids=["one window", "many windows"])
def test_steps_longer_than_an_axis_take_no_memory(window: tuple[int, int]) -> None:
    long, rng = 1 << 20, np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 3, 3, 41), (1, 2, 3, *window)))
    for conv in (Conv((long, 1), (long, 1)), Conv((long, 1), (1, 1)), Conv((1, 1), (long, 1))):
        assert error(conv, x, w) < 1e-6
    plan = plan_of(Conv((long, 1), (long, 1)), x.shape, w.shape)
    assert plan.plane < 2 * x[0, 0, 0].size


def plan_of(conv: Conv, x: tuple[int, ...], w: tuple[int, ...]) -> Plan:
    """Of row-major arrays."""
    of_x, of_w = (Strided.of(np.empty(shape, np.float32)) for shape in (x, w))
    shape = (*x[:2], w[1], *conv.counts(x[3:], w[3:]))
    return Plan(conv, of_x, of_w, Target(shape, (0,) * len(shape[3:]), (1,) * len(shape[3:])))


PADDED = Conv((1, 1), (1, 1), (1, 1), (1, 1))
KINDS: dict[tuple[str, str, bool], tuple[Conv, tuple[int, ...], tuple[int, ...]]] = {
    ("copy", "run", True): (PADDED, (1, 2, 8, 32, 32), (1, 8, 8, 3, 3)),
    ("copy", "run", False): (Conv((1, 1), (1, 1)), (1, 2, 8, 32, 32), (1, 8, 8, 1, 1)),  # in place
    ("copy", "compress", True): (PADDED, (1, 2, 8, 28, 28), (1, 8, 8, 3, 3)),
    ("gather", "run", True): (PADDED, (1, 2, 64, 4, 4), (1, 256, 64, 3, 3)),
    ("gather", "scatter", True): (PADDED, (1, 3, 64, 7, 7), (1, 256, 64, 3, 3)),
    ("turn", "scatter", True): (PADDED, (1, 8, 2, 32, 32), (1, 8, 2, 32, 32)),
    ("gather", "scatter", False): (Conv((1, 1), (1, 1)), (1, 8, 2, 30, 30), (1, 8, 2, 28, 28)),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]}, {kind[1]}, {'copied' if kind[2] else 'in place'}")
def test_each_kind_of_kernel_is_exact_to_rounding(kind: tuple[str, str, bool]) -> None:
    conv, x, w = KINDS[kind]
    plan = plan_of(conv, x, w)
    assert (plan.packing, plan.storing, plan.is_copied) == kind
    rng = np.random.default_rng(0)
    assert error(conv, *(rng.standard_normal(shape).astype(np.float32) for shape in (x, w))) < 1e-6


EXCHANGED = {
    "the gradient of a transposed convolution's weights": (
        Conv((1, 1), (1, 1), (2, 1), (2, 3), (2, 2)),
        (1, 12, 5, 6, 7),
        (1, 3, 5, 12, 14),
    ),
    "an image of one element": (Conv((1, 1), (1, 1), (3, 2), (3, 2)), (2, 5, 4, 1, 1), (2, 6, 4, 4, 3)),
    "the weights' gradient of that": (Conv((1, 1), (1, 1), (3, 2), (3, 2)), (1, 7, 5, 1, 1), (1, 6, 5, 4, 3)),
    "dilated windows": (Conv((1,), (3,), (1,), (2,), (2,)), (1, 12, 5, 9), (1, 2, 5, 6)),
}


@pytest.mark.parametrize("which", EXCHANGED)
def test_x_and_weights_are_exchanged_where_that_takes_less_time(which: str) -> None:
    conv, x_shape, w_shape = EXCHANGED[which]
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(x_shape).astype(np.float32), rng.standard_normal(w_shape).astype(np.float32)
    assert error(conv, x, w) < 1e-6
    assert any(whole.exchanged for whole in native_convolution._wholes.values())


def test_infinity_in_an_image_reaches_the_windows_that_have_it_alone() -> None:
    conv, x = Conv((1,), (1,), (2,), (2,), (2,)), np.ones((1, 64, 5, 6), np.float32)
    x[0, :, 0, 0] = np.inf
    w = np.ones((1, 1, 5, 4), np.float32)
    found = convolved(conv, x, w)
    assert found is not None
    assert np.isinf(found[..., :3]).all()
    assert np.isfinite(found[..., 4:]).all()


def test_few_columns_share_a_long_contraction() -> None:
    assert plan_of(PADDED, (1, 3, 16, 32, 32), (1, 64, 16, 32, 32)).parts > 1
    assert plan_of(PADDED, (1, 16, 64, 32, 32), (1, 64, 64, 3, 3)).parts == 1


def test_images_of_many_windows_share_their_tables() -> None:
    one, many = (plan_of(PADDED, (1, n, 8, 64, 64), (1, 8, 8, 3, 3)) for n in (1, 16))
    assert [table.size for table in one.multiplied] == [table.size for table in many.multiplied]


def test_plans_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def convolve(channels: int) -> None:
        convolved(PADDED, np.ones((1, 1, channels, 8, 8), np.float32), np.ones((1, 4, channels, 3, 3), np.float32))

    convolve(1)
    (first,) = native_convolution._plans.values()
    convolve(1)
    assert list(native_convolution._plans.values()) == [first]
    monkeypatch.setattr(native_convolution, "MOST_BYTES", 3 * first.nbytes)
    for channels in range(1, 40):
        convolve(channels)
        held = [plan.nbytes for plan in native_convolution._plans.values()]
        assert sum(held) <= 3 * first.nbytes or len(held) == 1


def test_weights_in_order_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_convolution, "_in_order", None)
    _, x, w = draw(0)
    conv = Conv((1,) * (x.ndim - 3), (1,) * (x.ndim - 3))
    assert error(conv, x, w[:, ::2]) < 1e-6
    with pytest.raises(TypeError):
        convolved(conv, x, w[..., ::-1])


def _but_the_first(x: np.ndarray, fill: int) -> np.ndarray:
    found = _vectors(x, fill)
    return np.where(np.arange(found.shape[1]) == 0, fill, found) if fill == -1 else found


def _one_too_early(*words: Any) -> tuple[np.ndarray, ...]:
    description, offsets, begins, ends = words
    return description, offsets, np.maximum(begins - 1, 0), ends


class _Plan(Plan):
    """Elements before the first of a row are taken for elements of x."""

    def _plan_copy(self, x: Strided) -> None:
        super()._plan_copy(x)
        self.copied = _one_too_early(*self.copied)


_vectors = native_convolution._vectors
_again = convolution.again
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "the first column of a vector is not stored": (native_convolution, "_vectors", _but_the_first),
    "there are no zeros before x": (native_convolution, "Plan", _Plan),
    "each element of a window is the first": (Plan, "_offsets", lambda plan, counts, steps: np.zeros(counts, np.int64)),
    "one row too few": (convolution, "again", lambda *words: _again(*("2" if w == "1" else w for w in words))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    conv = Conv((1, 1), (1, 1), (1, 1), (1, 1))
    x = rng.standard_normal((1, 3, 20, 11, 11)).astype(np.float32)
    several = [(conv, x, rng.standard_normal((1, 4, 20, *window)).astype(np.float32)) for window in ((3, 3), (9, 9))]
    assert all(error(*case) < 1e-6 for case in several), "without a fault"
    clear()
    monkeypatch.setattr(*FAULTS[fault])
    assert any(not error(*case) < 1e-3 for case in several)
