"""What ends a training from outside: it saves, says how to go on, and leaves; errors of the disk have an exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shadergrad import cli
from shadergrad.checkpoint import load_checkpoint

PATIENCE = 120.0  # seconds

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
either_signal = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


def begun(out: Path, file: str, *options: str) -> subprocess.Popen[str]:
    """A training in a process of its own, that has written `file` into its folder `out`."""
    command = [sys.executable, "-m", "shadergrad", *options, "--device", "cpu", "--out", str(out)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE
    while not (out / file).exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (out / file).exists(), f"{options} wrote no {file}"
    return child


def ended(child: subprocess.Popen[str], number: int) -> str:
    """What a process said after a signal, to which it left with the exit code for interrupted runs."""
    child.send_signal(number)
    text, _ = child.communicate(timeout=PATIENCE)
    assert child.returncode == cli.INTERRUPTED, text
    return text


@posix
@either_signal
def test_a_training_saves_and_leaves(tmp_path: Path, number: int) -> None:
    child = begun(tmp_path, "checkpoint.json", "train", "xor", "--epochs", "100000000")
    text = ended(child, number)
    assert "shadergrad train xor --resume --epochs 100000000" in text
    reached = load_checkpoint(tmp_path)[1]["position"]["epoch"]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert reached == len(rows) >= 1
    out = ["--device", "cpu", "--out", str(tmp_path)]
    assert cli.run(["train", "xor", "--resume", "--epochs", str(reached + 1), *out]) == 0
    assert load_checkpoint(tmp_path)[1]["position"]["epoch"] == reached + 1


@pytest.mark.slow
@posix
@either_signal
def test_a_training_of_an_automaton_saves_and_leaves(tmp_path: Path, number: int) -> None:
    """It is stopped long before its first checkpoint in the course of things."""
    child = begun(tmp_path, "metrics.jsonl", "train", "checkerboard", "--steps", "1000000")
    text = ended(child, number)
    assert "shadergrad train checkerboard --resume --steps 1000000" in text
    arrays, meta = load_checkpoint(tmp_path)
    assert len(arrays["losses"]) == meta["position"]["step"] >= 1


@pytest.mark.slow
@posix
@either_signal
def test_a_study_saves_and_leaves(tmp_path: Path, number: int) -> None:
    options = ["logic", "study", "checkerboard", "--seeds", "2", "--first-seed", "5", "--steps", "1000000"]
    child = begun(tmp_path, "seed-5/metrics.jsonl", *options)
    text = ended(child, number)
    assert "shadergrad logic study checkerboard --seeds 2" in text
    assert load_checkpoint(tmp_path / "seed-5")[1]["position"]["step"] >= 1
    assert not (tmp_path / "seed-6").exists()


def test_an_error_of_the_disk_is_a_line_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    assert cli.run(["train", "xor", "--epochs", "1", "--device", "cpu", "--out", str(tmp_path)]) == cli.BAD_INPUT
    error = capsys.readouterr().err
    assert error == f"error: {tmp_path / 'metrics.jsonl'}: Is a directory\n"
