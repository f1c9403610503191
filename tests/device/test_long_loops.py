"""Loops with more iterations than llvmpipe allows an invocation: it silently drops the rest (compile/loop_iterations.py)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shadergrad as sg

Numbers = np.ndarray


def of(*shape: int, scale: float = 1.0) -> Callable[[np.random.Generator], Numbers]:
    """Numbers above 0 and up to scale, drawn in the test: each worker collects all tests, and together they are half a gigabyte."""
    return lambda rng: (1 - rng.random(shape, np.float32)) * np.float32(scale)


CASES: dict[
    str, tuple[list[Callable[[np.random.Generator], Numbers]], Callable[..., sg.Tensor], Callable[..., Numbers]]
] = {
    "mean of all": ([of(32_000_001)], lambda x: x.mean(), lambda x: x.mean()),
    "largest of all": ([of(32_000_001)], lambda x: x.max(), lambda x: x.max()),
    "rows": ([of(300, 70_001)], lambda x: x.sum(1), lambda x: x.sum(1)),
    "columns": ([of(70_001, 300)], lambda x: x.sum(0), lambda x: x.sum(0)),
    "softmax of rows": (
        [of(130, 70_001)],
        lambda x: x.softmax(1)[:, -1],
        lambda x: np.exp(x[:, -1]) / np.exp(x).sum(1),
    ),
    "products never stored": ([of(9000)], lambda x: (x[:, None] * x[None]).mean(), lambda x: x.mean() ** 2),
    "contraction": ([of(2, 1_000_003), of(1_000_003, 3)], lambda x, y: x @ y, lambda x, y: x @ y),
    "remainders": (
        [of(200, 8000, scale=1e30), of(200, 8000)],
        lambda x, y: x.fmod(y).sum(1),
        lambda x, y: np.fmod(x, y).sum(1),
    ),
    "running sums": ([of(1, 3_000_001)], lambda x: x.cumsum(1)[0, -9:], lambda x: x.cumsum(1)[0, -9:]),
    "one place of all": (
        [of(3_000_001)],
        lambda x: sg.zeros(9, device=x.device).index_add(0, sg.zeros(3_000_001, dtype=sg.int32, device=x.device), x),
        lambda x: np.append(x.sum(), np.zeros(8)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_long_loop_loses_nothing(name: str, device: str) -> None:
    draws, ours, theirs = CASES[name]
    rng = np.random.default_rng(5)
    arrays = [draw(rng) for draw in draws]
    found = ours(*(sg.tensor(a, device=device) for a in arrays)).numpy()
    np.testing.assert_allclose(found, theirs(*(a.astype(np.float64) for a in arrays)), rtol=1e-4)


def test_gcds_within_a_long_sum(device: str) -> None:
    a, b = np.random.default_rng(5).integers(1, 10**9, (2, 200, 8000)).astype(np.int32)
    found = sg.gcd(sg.tensor(a, device=device), sg.tensor(b, device=device)).sum(1)
    np.testing.assert_array_equal(found.numpy(), np.gcd(a, b).sum(1))
