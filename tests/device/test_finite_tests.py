"""Tests of many arrays for infinities and NaN, on a GPU: where one lies, and of which dtype."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import Tensor

SIZES = (
    1,
    2,
    3,
    8,
    1000,
    1001,
    140_000,
    140_003,
)  # of loads of four or eight and of one; some reach beyond one round of all threads


@functools.cache
def step_of(device: str, dtype: Any) -> Any:
    """The flag of eight arrays, by one kernel."""

    def flag(*arrays: Tensor) -> Tensor:
        flags = [(~x.float().isfinite()).any().float() for x in arrays]
        return functools.reduce(Tensor.maximum, flags)

    return sg.compile(flag)


@pytest.mark.parametrize("dtype", [sg.float32, sg.float16, sg.bfloat16], ids=str)
def test_every_place_is_seen(dtype: Any, webgpu: str) -> None:
    """The largest numbers, the smallest, and zeros of both signs are finite."""
    rng = np.random.default_rng(0)
    largest = float(sg.finfo(dtype).max)
    finite = np.array([0.0, -0.0, 1.0, largest, -largest, sg.finfo(dtype).tiny, -1e-7], np.float32)
    arrays = [rng.choice(finite, n) for n in SIZES]
    step = step_of(webgpu, dtype)

    def found() -> float:
        return step(*(sg.tensor(a, device=webgpu).to(dtype) for a in arrays)).item()

    assert found() == 0.0
    assert step.plan.kernels[0].archetype == "call"
    for k, array in enumerate(arrays):
        for place in {0, array.size // 2, array.size - 1}:
            kept = array[place]
            for value in (np.inf, -np.inf, np.nan):
                array[place] = value
                assert found() == 1.0, (k, place, value)
            array[place] = kept
    assert found() == 0.0
