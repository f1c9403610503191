"""What benchmarks/scaling.py measures, in which order, and what it expects."""

from __future__ import annotations

import importlib

import pytest

scaling = importlib.import_module("scaling")


def test_one_process_of_each_library_comes_first_whatever_is_asked() -> None:
    plan = scaling.planned(["resnet"], ["ddp", "torch-gloo", "torch-nccl"], [8, 4], None)
    assert plan == [
        ("resnet", "alone", 1),
        ("resnet", "torch-gloo", 1),
        *(("resnet", way, n) for way in ("ddp", "torch-gloo", "torch-nccl") for n in (4, 8)),
    ]


def test_the_cpu_leaves_out_nccl_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    plan = scaling.planned(["mlp"], list(scaling.WAYS), [1, 2], "cpu")
    assert not [step for step in plan if step[1] == "torch-nccl"]
    assert ("mlp", "torch-gloo", 1) in plan
    assert "left out" in capsys.readouterr().out


@pytest.mark.parametrize("processes", [2, 4, 8])
def test_each_figure_has_its_expectation_and_its_peers(processes: int, capsys: pytest.CaptureFixture[str]) -> None:
    def told(ms: float) -> dict[str, float]:
        return {"ms": ms, "loss": 1.0, "parameters": 11.7e6}

    found = {
        ("resnet", "alone", 1): told(8.0),
        ("resnet", "torch-nccl", 1): told(16.0),
        ("resnet", "ddp", processes): told(10.0),
        ("resnet", "torch-nccl", processes): told(20.0),
    }
    (measured,) = scaling.report(found)
    assert measured.value == pytest.approx(0.8 * processes)
    expected = scaling.expected(11.7e6, 8e-3, "ddp", processes)
    assert measured.peers == {"PyTorch DDP over NCCL": pytest.approx(0.8 * processes), "expected": expected}
    assert 1.0 < expected <= processes
    assert "expected" in capsys.readouterr().out
