"""Products in blocks: near NumPy's, with the same bits for any number of threads and from the first run to the last; BLAS has its threads back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.runtime import blas
from shadergrad.runtime.threads import Pool, pool

SHAPES = [
    (1, 700, 90, 300),
    (1, 90, 700, 300),
    (40, 64, 65, 200),
    (3, 300, 200, 300),
    (1, 65, 64, 9000),
    (1, 1, 5000, 4000),
]

pytestmark = pytest.mark.skipif(not blas._libraries(), reason="threadpoolctl knows no BLAS here")


@pytest.fixture
def threads() -> Iterator[Any]:
    before = pool.count
    yield pool.limit
    pool.limit(before)


def operands(shape: tuple[int, int, int, int], dtype: Any, turned: bool) -> tuple[np.ndarray, np.ndarray]:
    batch, m, n, k = shape
    rng = np.random.default_rng(0)
    a = rng.standard_normal((batch, m, k)).astype(dtype)
    b = rng.standard_normal((batch, n, k) if turned else (batch, k, n)).astype(dtype)
    return a, b.swapaxes(1, 2) if turned else b


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_make_the_product_with_the_same_bits_for_any_threads(
    shape: tuple[int, int, int, int], dtype: Any, turned: bool, threads: Any
) -> None:
    a, b = operands(shape, dtype, turned)
    assert len(blas.blocks(*shape)) > 1
    found = []
    for count in (1, 2, 3):
        threads(count)
        found.append(blas.multiply(a, b, np.full((*a.shape[:2], b.shape[2]), np.nan, dtype)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(found[0], exact, rtol=1e-4, atol=1e-6 * shape[3])
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize("shape", [*SHAPES, (1, 1 << 20, 1, 64), (7, 3, 1 << 16, 9), (1, 5, 5, 5)], ids=str)
def test_blocks_cover_each_element_once(shape: tuple[int, int, int, int]) -> None:
    seen = np.zeros(shape[:3], np.int8)
    for each, rows, columns in blas.blocks(*shape):
        seen[each, rows, columns] += 1
    assert seen.min() == seen.max() == 1


def test_blas_has_its_threads_back_also_after_an_error(threads: Any) -> None:
    threads(2)
    (library, *_) = blas._libraries()
    before = library.get_num_threads()
    library.set_num_threads(2)
    a, b = operands(SHAPES[0], np.float32, False)
    try:
        blas.multiply(a, b, np.empty((1, 700, 90), np.float32))
        assert library.get_num_threads() == 2
        with pytest.raises(ValueError, match="matmul"):
            blas.multiply(a, b, np.empty((1, 700, 91), np.float32))
        assert library.get_num_threads() == 2
    finally:
        library.set_num_threads(before)


def test_infinities_warn_in_no_thread(threads: Any) -> None:
    threads(2)
    a, b = operands(SHAPES[0], np.float32, False)
    with np.errstate(all="ignore"):
        found = blas.multiply(a * np.float32(3e38), b, np.empty((1, 700, 90), np.float32))
    assert not np.isfinite(found).all()


def test_an_error_in_a_worker_is_raised_and_the_pool_goes_on() -> None:
    own = Pool()
    own.limit(3)

    def fails_in(*places: int) -> Any:
        def fails(_: int, begin: int, end: int) -> None:
            if begin in places:
                raise ValueError(f"the range at {begin}")

        return fails

    for places in ((0,), (6,), (0, 3, 6)):
        with pytest.raises(ValueError, match="the range at"):
            own.run(fails_in(*places), 0, 9, 1)
    done: list[int] = []
    own.run(lambda _, begin, end: done.extend(range(begin, end)), 0, 9, 1)
    assert sorted(done) == [*range(9)]


def test_without_threadpoolctl_numpy_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_libraries", list)
    a, b = operands(SHAPES[0], np.float32, False)
    found = blas.multiply(a, b, np.empty((1, 700, 90), np.float32))
    assert found.tobytes() == np.matmul(a, b).tobytes()


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
