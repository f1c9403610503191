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


def python(site: Path, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with the installed package, started in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "120", "TERM": "dumb", **variables}
    command = [sys.executable, "-P", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run(site: Path, folder: Path, *words: str) -> str:
    """What the installed command prints."""
    return python(site, folder, "-m", "shadergrad", *words).stdout


def test_the_wheel_trains_the_digits_and_draws(site: Path, tmp_path: Path) -> None:
    assert str(site) in python(site, tmp_path, "-c", "import shadergrad; print(shadergrad.__file__)").stdout
    run(site, tmp_path, "train", "digits", "--device", "cpu", "--epochs", "1")
    assert {"curve.png", "metrics.jsonl", "best"} <= {path.name for path in (tmp_path / "runs" / "digits").iterdir()}
    draw = "import shadergrad as sg; from PIL import Image; x = sg.data.load_digits()[2][0].reshape(8, 8)"
    python(site, tmp_path, "-c", f"{draw}; Image.fromarray((255 * x).astype('uint8')).save('a.png')")
    assert "a.png: " in run(site, tmp_path, "predict", "digits", "runs/digits", "a.png")
    assert "Linear" in python(site, tmp_path, "-c", f"{draw}; print(sg.recipes.load('runs/digits'))").stdout
    words = ["train", "digits", "--device", "cpu", "--epochs", "2", "--resume", "--override", "--lr", "1e-4"]
    assert "lr 0.003 now 0.0001" in run(site, tmp_path, *words)


def test_the_wheel_knows_its_version_and_says_what_it_runs_on(site: Path, tmp_path: Path) -> None:
    assert run(site, tmp_path, "--version").startswith("shadergrad ")
    assert "trainings run on" in run(site, tmp_path, "info").splitlines()[0]


def test_licences_come_with_the_wheel(site: Path) -> None:
    assert (site / "shadergrad" / "data" / "files" / "LICENSE.digits.txt").exists()
    assert list(site.glob("*.dist-info/licenses/**/LICENSE"))


MINE = """
import numpy as np, shadergrad as sg, shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.train import Recipe, Trainer

def build(settings, device):
    x = np.ones((32, 2), np.float32)
    model = nn.Linear(2, 1).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=settings.lr)
    return Trainer(model, optimizer, F.mse_loss, (x, x[:, :1]), validation=(x, x[:, :1]), progress=False)

RECIPE = Recipe("mine", build, defaults={"epochs": 2, "batch_size": 8, "lr": 0.1})
if __name__ == "__main__":
    trainer = build(type("S", (), {"lr": 0.1}), "cpu")
    print(trainer.fit(2))
    step = sg.compile(lambda x: (x * 2).sum())
    step(sg.ones(3))
    print(step.explain())
    print(step.portable(sg.ones(3)).plan)
    print(step.plan._repr_html_(), trainer.model._repr_html_(), sg.ones(2)._repr_html_())
"""


def test_the_wheel_has_the_trainer_tables_and_kernels_by_number(site: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    assert "epoch" in run(site, tmp_path, "train", "mine.py", "--device", "cpu")
    done = python(site, tmp_path, "mine.py", SHADERGRAD_DEBUG="kernels", MPLBACKEND="no_such_backend")
    for words in ("History(2 epochs", "NumPy operations", "1 submission", "<table", "3 parameters on cpu"):
        assert words in done.stdout
    assert "// #0 " in done.stderr


def test_the_wheel_has_the_commands_of_circuits(site: Path, tmp_path: Path) -> None:
    circuit = str(ROOT / "tests" / "data" / "life_cell.json")
    assert "26 gates" in run(site, tmp_path, "logic", "show", circuit)
    assert "proved equal on all 512" in run(site, tmp_path, "logic", "simplify", circuit, "--out", "small.json")
    assert run(site, tmp_path, "logic", "run", "small.json", "W.0", "E.0", "N.0") == "next.0 = 1\n"
    for form, word in (("c", "uint64_t"), ("verilog", "module"), ("wgsl", "fn "), ("svg", "<svg"), ("aiger", "aag")):
        assert word in run(site, tmp_path, "logic", "export", "small.json", form)
