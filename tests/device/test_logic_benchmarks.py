"""The benchmarks of logic automata and of circuits run, and JAX's twin has the sixteen gates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import circuits
import logic
from shadergrad.logic import gates
from shadergrad.logic.experiments import EXPERIMENTS

SMALL = replace(EXPERIMENTS["checkerboard-async"], grid=(4, 5), ca_steps=2, update=(264, 132, 66, 33, 17, 9, 8))


def test_the_sixteen_operations_are_the_gates() -> None:
    a, b = np.meshgrid([0.0, 0.3, 1.0], [0.0, 0.6, 1.0])
    for kind in range(gates.GATES):
        p = np.eye(gates.GATES)[kind]
        c = gates.COEFFICIENTS[kind]
        np.testing.assert_allclose(logic.sixteen(p, a, b), c[0] + c[1] * a + c[2] * b + c[3] * a * b, atol=1e-12)


def test_training_is_measured(device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logic, "copy_bandwidth", lambda device: 1e9)
    monkeypatch.setitem(logic.EXPERIMENTS, "small", SMALL)
    logic.main(["small"], device, steps=1, rounds=1)
    printed = capsys.readouterr().out
    for words in ("first soft loss", "ms/step", "peak device memory:"):
        assert words in printed
    assert ("of a copy's" in printed) == (device == "webgpu")


def test_boards_are_measured(webgpu: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "COPIED", 1 << 12)
    monkeypatch.setattr(circuits, "steps_a_second", lambda board, seconds=0.5: 1.0)
    monkeypatch.setattr(circuits, "ROUND", 0.01)
    circuits.main(size=[64], rounds=1, device=webgpu, fire_rate=0.6)
    printed = capsys.readouterr().out
    assert printed.count("gates/s") == 3
    assert "bytes/s" in printed
    assert "% of" in printed
