"""`shadergrad train RECIPE --nproc N`: the curve of one process, errors by rank, Ctrl-C, and going on after a death."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import shadergrad as sg
from ranks import SRC
from shadergrad.checkpoint import load_checkpoint

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals"),
    pytest.mark.slow,
    pytest.mark.timeout(1200),  # of several starts, on a busy machine
]

LIMIT = 300  # seconds, for what hangs
_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    """What a failed test has started ends, too."""
    yield
    for process in _started:
        if process.poll() is None:
            process.terminate()  # which the launcher passes on
            process.communicate()
    _started.clear()


def _begin(*options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "shadergrad", "train", "digits", "--device", "cpu", "--batch-size", "100"]
    env = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
    words = [*command, *map(str, options)]
    _started.append(
        subprocess.Popen(
            words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    )
    return _started[-1]


def _run(*options: object) -> tuple[int, str, str]:
    process = _begin(*options)
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


def _losses(folder: Path) -> list[float]:
    path = folder / "metrics.jsonl"
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""  # the last line may be half written
    rows = [json.loads(line) for line in whole.splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def _children(process: subprocess.Popen[str]) -> list[int]:
    """The processes that the launcher has started and that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            words = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue  # ended meanwhile
        if int(parent) == process.pid and state != "Z" and b"shadergrad" in words:
            found.append(int(path.parent.name))
    return sorted(found)


def test_processes_have_the_curve_of_one(tmp_path: Path) -> None:
    for count in (1, 2, 4):
        code, out, err = _run("--epochs", 2, "--nproc", count, "--out", tmp_path / str(count))
        assert code == 0, err[-3000:]
        assert out.count("test accuracy") == 1
        assert ("--nproc" in out) == (count > 1)  # in the command that goes on
    for count in (2, 4):
        assert _losses(tmp_path / str(count)) == pytest.approx(_losses(tmp_path / "1"), rel=2e-3)


def test_errors_are_a_line_with_the_ranks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, err = _run("--nproc", 3, "--out", out)
    assert code == 2
    # all find the same; the first that ends takes those along that have not said it yet
    assert re.search(r"ranks? \d(, \d)*: a batch of 100 cannot be shared by 3 processes evenly", err), err
    assert len(err.splitlines()) == 1, err
    for options, word in (
        (["--nproc", 0], "at least 1"),
        (["--max-restarts", 1], "give --nproc 2 or more"),
        (["--nproc", 2, "--lr", 0], "--lr is 0.0"),
    ):
        code, _, err = _run(*options, "--out", out)
        assert code == 2
        assert word in err
    assert not out.exists()


def test_ctrl_c_stops_all_with_a_checkpoint(tmp_path: Path) -> None:
    process = _begin("--epochs", 100_000, "--nproc", 2, "--out", tmp_path)
    while not _losses(tmp_path):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    ranks = _children(process)
    assert len(ranks) == 2
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, err
    assert "stopped after epoch" in out
    assert "--resume" in out
    assert not [rank for rank in ranks if Path(f"/proc/{rank}").exists()]
    load_checkpoint(tmp_path)


def test_a_killed_process_is_named(tmp_path: Path) -> None:
    process = _begin("--epochs", 100_000, "--nproc", 2, "--out", tmp_path)
    while not _losses(tmp_path):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.kill(_children(process)[-1], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode != 0
    assert "ended by SIGKILL" in err
    assert "error: rank" in err


@pytest.mark.timeout(7200)  # each kill costs a start of all
@pytest.mark.parametrize(
    ("seed", "kills"), [(0, 3), pytest.param(1, 50, marks=pytest.mark.experiment)], ids=["a few kills", "many kills"]
)
def test_a_training_goes_on_after_kills_at_random_points(tmp_path: Path, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    epochs = 2 * kills + 4
    code, _, err = _run("--epochs", epochs, "--out", tmp_path / "whole", "--nproc", 2)
    assert code == 0, err[-3000:]
    out = tmp_path / "killed"
    process = _begin("--epochs", epochs, "--out", out, "--nproc", 2, "--max-restarts", kills)
    seen: set[int] = set()
    killed = 0
    while killed < kills and process.poll() is None:
        ranks = _children(process)
        if len(ranks) < 2 or seen & set(ranks):
            time.sleep(0.01)
            continue
        if rng.random() < 0.7:  # in training, after the next epoch
            done = len(_losses(out))
            while len(_losses(out)) <= done < epochs and process.poll() is None:
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.2))
        else:  # while they start, find each other and restore
            time.sleep(rng.uniform(0.0, 4.0))
        try:
            os.kill(rng.choice(ranks), signal.SIGKILL)
        except ProcessLookupError:
            continue  # has ended by itself
        seen = set(ranks)
        killed += 1
        if (out / "checkpoint.json").exists():
            load_checkpoint(out)  # whole
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err[-3000:]
    assert killed > 0
    assert _losses(out) == _losses(tmp_path / "whole")
    arrays, expected = load_checkpoint(out)[0], load_checkpoint(tmp_path / "whole")[0]
    assert all((arrays[name] == expected[name]).all() for name in expected)


def test_restarts_leave_an_older_run_alone(tmp_path: Path) -> None:
    """A run that is to be replaced is not gone on with, where a process dies before the first checkpoint of the new one."""
    assert _run("--epochs", 1, "--out", tmp_path, "--seed", 7)[0] == 0
    process = _begin("--epochs", 2, "--out", tmp_path, "--overwrite", "--nproc", 2, "--max-restarts", 1)
    while len(ranks := _children(process)) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(ranks[0], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err[-3000:]
    assert load_checkpoint(tmp_path)[1]["hyperparameters"]["seed"] == 0
