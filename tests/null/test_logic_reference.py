"""The NumPy cell computes in blocks and threads; what comes out depends on neither more than rounding does."""

from __future__ import annotations

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_close, assert_same_bits
from shadergrad.logic import LogicCA
from shadergrad.logic.fused import reference


def results() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    model = LogicCA(3, 2, (9, 8, 4, 2), (16, 8, 4, 3), border="periodic", fire_rate=0.6, seed=2, device="cpu")
    with sg.no_grad():
        for p in model.parameters():
            p.copy_(sg.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32)))
    start = sg.tensor(rng.random((2, 5, 7, 3)).astype(np.float32), requires_grad=True)
    end = model.rollout(start, 3, masks=sg.tensor(rng.random((3, 5, 7, 1)) < 0.6))
    (end * end).sum().backward()
    return [end.detach().numpy(), *(p.grad.numpy() for p in (start, *model.parameters()) if p.grad is not None)]


def test_blocks_of_cells_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """70 cells in one block, in two and more that differ in size, and one by one."""
    whole = results()
    assert len(whole) > 7
    for size in (40, 30, 16, 1):
        monkeypatch.setattr(reference, "BLOCK", size)
        for found, expected in zip(results(), whole, strict=True):
            assert_close(found, expected, 1e-5, 1e-6 * max(1.0, float(np.abs(expected).max())))


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "BLOCK", 10)
    monkeypatch.setattr(reference, "_cores", lambda: 1)
    expected = results()
    monkeypatch.setattr(reference, "_cores", lambda: 3)
    for _ in range(3):
        for found, wanted in zip(results(), expected, strict=True):
            assert_same_bits(found, wanted)
