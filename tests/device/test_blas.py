"""Products by own kernels and by BLAS: near NumPy's, with the same bits for any number of threads and from the first run to the last; BLAS has its
threads back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.compile.native import panel_product
from shadergrad.compile.native.registers import LARGE, SMALL
from shadergrad.drive.execute import programs
from shadergrad.runtime import blas, cpu, llvm, products
from shadergrad.runtime.threads import pool

SHAPES = [
    (1, 700, 90, 300),
    (1, 90, 700, 300),
    (40, 64, 65, 200),
    (3, 300, 200, 300),
    (1, 65, 64, 9000),
    (1, 700, 500, 400),
    (1, 20, 40, 2000),
]
VECTORS = [(1, 1, 5000, 400), (1, 5000, 1, 400), (3, 1, 40, 50), (2, 700, 1, 60), (1, 1, 1, 7)]
# few rows, narrow results, contractions of several stretches, blocks of a left operand that do not fill, sizes around a panel's
PANELS = [
    (1, 2, 16, 16),
    (1, 3, 30, 17),
    (2, 7, 70, 100),
    (1, 5, 64, 33),
    (1, 48, 64, 50),
    (1, 49, 64, 1025),
    (2, 13, 48, 3000),
    (1, 50, 80, 2500),
    (1, 97, 32, 2049),
    (1, 64, 257, 256),
    (130, 6, 16, 16),
    (1, 1031, 48, 40),
    (1, 1300, 80, 1100),
]

pytestmark = pytest.mark.skipif(
    not blas._libraries() or not llvm.installed(), reason="threadpoolctl knows no BLAS here, or llvmlite is absent"
)


@pytest.fixture
def threads() -> Iterator[Any]:
    before = pool.count
    yield pool.limit
    pool.limit(before)


def operands(
    shape: tuple[int, int, int, int], dtype: Any, turned: bool, left_turned: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    batch, m, n, k = shape
    rng = np.random.default_rng(0)
    a = rng.standard_normal((batch, k, m) if left_turned else (batch, m, k)).astype(dtype)
    b = rng.standard_normal((batch, n, k) if turned else (batch, k, n)).astype(dtype)
    return a.swapaxes(1, 2) if left_turned else a, b.swapaxes(1, 2) if turned else b


def of_threads(a: np.ndarray, b: np.ndarray, threads: Any) -> np.ndarray:
    """The product, which has the same bits for one to three threads."""
    found = []
    for count in (1, 2, 3):
        threads(count)
        found.append(products.multiply(a, b, np.full((*a.shape[:2], b.shape[2]), np.nan, a.dtype)))
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    return found[0]


def check(found: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-6 * a.shape[2])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [*SHAPES, *VECTORS], ids=str)
def test_products_have_the_same_bits_for_any_threads(
    shape: tuple[int, int, int, int], dtype: Any, turned: bool, threads: Any
) -> None:
    a, b = operands(shape, dtype, turned)
    check(of_threads(a, b, threads), a, b)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [s for s in SHAPES if len(blas.cuts(*s)) > 1], ids=str)
def test_blas_multiplies_in_blocks_with_the_same_bits_for_any_threads(
    shape: tuple[int, int, int, int], turned: bool, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_by_panels", lambda *given: None)
    products._described.cache_clear()
    try:
        a, b = operands(shape, np.float32, turned)
        product = products.product_of(a, b, np.empty((*a.shape[:2], b.shape[2]), np.float32))
        assert product is not None
        assert product.needs_library
        assert product.units > shape[0]
        check(of_threads(a, b, threads), a, b)
    finally:
        products._described.cache_clear()


@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", PANELS, ids=str)
def test_panels_give_what_numpy_gives_and_write_nothing_else(
    shape: tuple[int, int, int, int], turned: bool, left_turned: bool, threads: Any
) -> None:
    a, b = operands(shape, np.float32, turned, left_turned)
    room = np.full((shape[0] + 2, shape[1], shape[2]), np.nan, np.float32)
    product = products.product_of(a, b, room[1:-1])
    assert product is not None
    assert len(product.words) == len(panel_product.WORDS)
    check(of_threads(a, b, threads), a, b)
    products.multiply(a, b, room[1:-1])
    assert np.isnan(room[0]).all()
    assert np.isnan(room[-1]).all()


@pytest.mark.parametrize("tile", [LARGE, SMALL], ids=["of 32 registers", "of 16 registers"])
def test_panels_fill_registers_and_fit_where_they_may_not_reach_back(tile: Any) -> None:
    for m in (2, 5, 48, 100):
        for n in (16, 31, 80, 300):
            for k in (16, 1024, 1025, 5000):
                panel = panel_product.panel_for(m, n, k, False, tile)
                if panel is None:
                    assert k > panel_product.A_STRETCH
                    assert n % 16
                    continue
                assert panel.tall <= m
                assert panel.width <= n
                assert panel.tall * panel.wide <= 24
                assert k <= panel_product.A_STRETCH or n % panel.width == 0


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("tile", [LARGE, SMALL], ids=["of 32 registers", "of 16 registers"])
def test_ranges_of_rows_hold_whole_tiles(tile: Any, is_packed: bool) -> None:
    for m in (64, 1023, 1024, 1031, 5000, 100_000):
        for panels in (1, 2, 7, 16):
            panel = panel_product.panel_for(m, 64, 16, is_packed, tile)
            assert panel is not None
            ranges, rows = panel_product.ranges_of(m, panels, is_packed, panel)
            assert ranges == 1 or panels * ranges <= panel_product.UNITS
            assert m - ranges * rows >= 0
            assert ranges == 1 or rows % (panel_product.A_BLOCK if is_packed else panel.tall) == 0
    assert panel_product.ranges_of(2048, 1, False, panel)[0] == 4


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", [70, 1100])  # a contraction of one stretch, and of two
def test_products_by_one_right_operand_pack_it_once(size: int, turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu="native"))
    programs.clear()
    rng = np.random.default_rng(0)
    w = sg.tensor(rng.standard_normal((80, size + 2) if turned else (size + 2, 80)).astype(np.float32))
    x = [sg.tensor(rng.standard_normal((7 + k, size)).astype(np.float32)) for k in range(4)]

    def products_of(w: Any, *x: Any) -> list[Any]:
        right = w[:, 1:-1].T if turned else w[1:-1]
        return [a @ right for a in x]

    expected = [y.numpy().tobytes() for y in products_of(w, *x)]
    step = sg.compile(products_of)
    for _ in range(40):
        assert [y.numpy().tobytes() for y in step(w, *x)] == expected
    with sg.profile() as found:
        step(w, *x)
    (packing,) = [row for row in found.kernels() if row.archetype == "native pack"]
    assert packing.calls == 1
    programs.clear()


def test_a_sum_of_a_panel_is_added_from_its_first_element_to_its_last(threads: Any) -> None:
    """So an element's bits do not depend on the sizes of the whole."""
    a, b = operands((1, 40, 112, 1500), np.float32, False)
    whole = products.multiply(a, b, np.empty((1, 40, 112), np.float32))
    part = products.multiply(a[:, 3:10], b[:, :, :64], np.empty((1, 7, 64), np.float32))
    assert part.tobytes() == whole[:, 3:10, :64].tobytes()


@pytest.mark.parametrize("shape", [*SHAPES, *VECTORS, (1, 1 << 20, 1, 64), (7, 3, 1 << 16, 9), (1, 5, 5, 5)], ids=str)
def test_blocks_cover_each_element_once(shape: tuple[int, int, int, int]) -> None:
    seen = np.zeros(shape[1:3], np.int8)
    for rows, columns in blas.cuts(*shape):
        seen[rows, columns] += 1
    assert seen.min() == seen.max() == 1


def test_blas_has_its_threads_back_also_after_an_error(threads: Any) -> None:
    threads(2)
    (library, *_) = blas._libraries()
    before = library.get_num_threads()
    library.set_num_threads(2)
    a, b = operands(SHAPES[0], np.float64, False)
    try:
        products.multiply(a, b, np.empty((1, 700, 90)))
        assert library.get_num_threads() == 2
        with pytest.raises(ValueError, match="matmul"):
            products.multiply(a, b, np.empty((1, 700, 91)))
        assert library.get_num_threads() == 2
    finally:
        library.set_num_threads(before)


def test_infinities_warn_in_no_thread(threads: Any) -> None:
    threads(2)
    a, b = operands(SHAPES[0], np.float32, False)
    with np.errstate(all="ignore"):
        found = products.multiply(a * np.float32(3e38), b, np.empty((1, 700, 90), np.float32))
    assert not np.isfinite(found).all()


def test_without_threadpoolctl_numpy_multiplies_what_panels_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_libraries", list)
    blas._function.cache_clear()
    products._described.cache_clear()
    try:
        a, b = operands(SHAPES[0], np.float64, False)
        found = products.multiply(a, b, np.empty((1, 700, 90)))
        assert found.tobytes() == np.matmul(a, b).tobytes()
    finally:
        blas._function.cache_clear()
        products._described.cache_clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 50, 1, 1), (3, 1, 50, 1), (3, 700, 1, 1), (1, 1, 1, 1)], ids=str)
def test_a_vector_of_one_element_may_have_any_stride(shape: tuple[int, int, int, int], dtype: Any) -> None:
    batch, m, n, k = shape
    a, b = (np.full((1, 1, 1), value, dtype) for value in (1.5, 2.0))
    left, right = np.broadcast_to(a, (batch, m, k)), np.broadcast_to(b, (batch, k, n))
    found = products.multiply(left, right, np.full((batch, m, n), np.nan, dtype))
    assert (found == 3.0).all()


def test_gradients_of_dot_products_of_a_batch() -> None:
    x, y = sg.randn(3, 1, 50, requires_grad=True), sg.randn(3, 50, 1, requires_grad=True)
    (x @ y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.numpy() == y.detach().numpy().swapaxes(1, 2)).all()
    assert (y.grad.numpy() == x.detach().numpy().swapaxes(1, 2)).all()


@pytest.mark.parametrize("turned", [False, True])
def test_long_contractions_are_as_exact_as_blas(turned: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((1, 8, 100_000), np.float32), rng.random((1, 100_000, 32), np.float32)
    left = np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2) if turned else a
    found = products.multiply(left, b, np.empty((1, 8, 32), np.float32))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(found / exact - 1).max() < 3e-6


@pytest.mark.parametrize("strides", [(0, 4), (4, 0), (-400, 4), (8, 400)], ids=str)
def test_strides_that_nobody_takes_are_numpys(strides: tuple[int, int]) -> None:
    base = np.random.default_rng(0).standard_normal(100 * 300).astype(np.float32)
    a = np.lib.stride_tricks.as_strided(base[20000:], (1, 20, 30), (0, *strides))
    b = base[:900].reshape(1, 30, 30)
    check(products.multiply(a, b, np.empty((1, 20, 30), np.float32)), a, b)


def test_a_large_product_has_the_same_bits_in_each_run_of_a_step() -> None:
    rng = np.random.default_rng(0)
    a, b = (sg.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((700, 300), (90, 300)))
    step = sg.compile(lambda a, b: (a @ b.T).relu())
    runs = [step(a, b).numpy().tobytes() for _ in range(4)]
    assert len({*runs, (a @ b.T).relu().numpy().tobytes()}) == 1


def test_blas_has_its_threads_back_when_the_last_of_several_users_is_done() -> None:
    """Two threads of a program multiply at the same time, and the first is done first."""
    (library, *_) = blas._libraries()
    before = library.get_num_threads()
    library.set_num_threads(2)
    try:
        first, second = blas.alone(), blas.alone()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert library.get_num_threads() == 1
        second.__exit__(None, None, None)
        assert library.get_num_threads() == 2
        with blas.alone():
            assert library.get_num_threads() == 1
    finally:
        library.set_num_threads(before)


def test_products_of_slices_begin_where_the_slices_do() -> None:
    rng = np.random.default_rng(0)
    a, b = (sg.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((300, 170), (200, 160)))
    step = sg.compile(
        lambda a, b: ((a * 2)[16:, 5:] @ (b + 1)[3:168, 8:]).tanh().sum(0) + (a[7:, :160] @ b[9:169]).sum()
    )
    runs = [step(a, b).numpy() for _ in range(4)]
    x, y = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
    exact = np.tanh((x * 2)[16:, 5:] @ (y + 1)[3:168, 8:]).sum(0) + (x[7:, :160] @ y[9:169]).sum()
    for found in runs:
        np.testing.assert_allclose(found, exact, rtol=1e-3, atol=0.05)
