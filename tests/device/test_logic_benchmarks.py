"""The benchmarks of logic automata and of circuits run, and JAX's twin has the sixteen gates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circuits
import logic
import logic_peers
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


def test_logic_networks_train_beside_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes that one pixel tells apart, which ours learns; the peer here counts that pixel, and is right without training."""

    def peer(sizes: tuple[int, ...], seed: int) -> logic_peers.Run:
        steps.append(sizes)
        return logic_peers.Run(
            lambda bits, labels: steps.append(len(labels)),
            lambda bits: np.eye(2)[bits[:, 0].astype(int)],
            np.asarray,
            int,
        )

    steps: list[Any] = []
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300, np.int32)
    images = np.repeat(labels[:, None], logic_peers.PIXELS, 1).astype(np.float32)
    data = logic_peers.Data(images, labels, images, labels, np.arange(300).reshape(6, 50))
    monkeypatch.setattr(logic_peers, "ADAM", 0.3)
    monkeypatch.setattr(logic_peers, "TAU", 1.0)
    monkeypatch.setattr(logic_peers.Data, "read", lambda *_: data)
    monkeypatch.setattr(logic_peers, "PEERS", {"a peer": ("numpy", peer), "none": ("no_such_module", peer)})
    logic_peers.main("cpu", tmp_path, width=40, layers=2, batch_size=50, steps=40, results=tmp_path)
    speed, accuracy = json.loads((tmp_path / "logic_peers.json").read_text())[::-1]
    assert steps == [(logic_peers.PIXELS, 40, 40), *[50] * 40]
    assert accuracy["value"] > 0.9
    assert accuracy["peers"] == {"a peer": 1.0}
    assert speed["unit"] == "ms"
