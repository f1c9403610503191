"""Kernels that compute four elements at once: what they read may begin anywhere, at any step, and end anywhere."""

from __future__ import annotations

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_same_bits


def numbers(size: int, device: str) -> sg.Tensor:
    return sg.arange(size, dtype=sg.float32, device=device).clone()


@pytest.mark.parametrize("size", [61, 64])
@pytest.mark.parametrize("start", [0, 1, 2, 3, 4, 6, 63, 64, 65, 128, 257, 4096, 9001])
def test_a_slice_may_begin_anywhere(start: int, size: int, webgpu: str) -> None:
    """Far behind the beginning of a buffer, a kernel binds only what it reads."""
    x = numbers(10_000, webgpu)
    sg.sync()
    expected = np.arange(start, start + size, dtype=np.float32) * 2
    assert_same_bits(x[start : start + size] * 2, expected)
    assert_same_bits(sg.compile(lambda: x[start : start + size] * 2)(), expected)  # there the start is a constant


@pytest.mark.parametrize("step", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("start", [0, 1, 100])
def test_a_slice_may_have_any_step(start: int, step: int, webgpu: str) -> None:
    x = numbers(1000, webgpu)
    sg.sync()
    assert_same_bits(x[start::step][:64] + 1, np.arange(1000, dtype=np.float32)[start::step][:64] + 1)


@pytest.mark.parametrize("start", [0, 3, 4, 64, 300])
def test_several_parts_of_one_buffer_are_read_at_once(start: int, webgpu: str) -> None:
    x, a = numbers(1000, webgpu), np.arange(1000, dtype=np.float32)
    sg.sync()
    found = x[start : start + 64] * x[start + 64 : start + 128] + x[999 - start : 1000 - start]
    assert_same_bits(found, a[start : start + 64] * a[start + 64 : start + 128] + a[999 - start])
    turned = x[start : start + 64].flip(0) - x[start : start + 64]
    assert_same_bits(turned, a[start : start + 64][::-1] - a[start : start + 64])


@pytest.mark.parametrize("columns", [3, 4, 7, 8])
@pytest.mark.parametrize("row", [0, 1, 70])
def test_a_row_of_a_matrix_may_be_any(row: int, columns: int, webgpu: str) -> None:
    x = numbers(100 * columns, webgpu).reshape(100, columns)
    sg.sync()
    a = np.arange(100 * columns, dtype=np.float32).reshape(100, columns)
    assert_same_bits(x[row] * 2, a[row] * 2)
    assert_same_bits(x[row : row + 16].sum(1), a[row : row + 16].sum(1))
    assert_same_bits(x[row : row + 8].t() @ x[row : row + 8], (a[row : row + 8].T @ a[row : row + 8]))
