"""The wheel, installed into an empty folder and run from another: what comes along is there, and nothing of the tree is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow  # pip fetches the builder of wheels, and has to copy the package


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel of the tree and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and ("hatchling" in done.stderr or "connection" in done.stderr.lower()):
        pytest.skip(f"no wheel can be built here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(site: Path, folder: Path, *words: str) -> str:
    """What the installed command prints, started in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "120", "TERM": "dumb"}
    command = [sys.executable, "-P", "-m", "shadergrad", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_trains_the_digits_and_draws(site: Path, tmp_path: Path) -> None:
    where = "import shadergrad; print(shadergrad.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    found = subprocess.run([sys.executable, "-c", where], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert str(site) in found.stdout
    run(site, tmp_path, "train", "digits", "--device", "cpu", "--epochs", "1")
    assert {"curve.png", "metrics.jsonl"} <= {path.name for path in (tmp_path / "runs" / "digits").iterdir()}


def test_the_wheel_knows_its_version_and_says_what_it_runs_on(site: Path, tmp_path: Path) -> None:
    assert run(site, tmp_path, "--version").startswith("shadergrad ")
    assert "trainings run on" in run(site, tmp_path, "info").splitlines()[0]


def test_licences_come_with_the_wheel(site: Path) -> None:
    assert (site / "shadergrad" / "data" / "files" / "LICENSE.digits.txt").exists()
    assert list(site.glob("*.dist-info/licenses/**/LICENSE"))
