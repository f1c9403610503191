"""The first hour with the wheel, which pip has installed, in empty folders: what comes along is there, and nothing of the tree is.

A paragraph a test: installing, after a training, Trainer, pictures, the pages, logic, looking inside. Bars are in test_terminal,
notebooks in test_notebooks.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import urllib.request
from contextlib import closing
from email import message_from_string
from pathlib import Path

import pytest

from wheels import ROOT, Installed

pytestmark = pytest.mark.slow  # pip fetches the builder of wheels, and a process a command

DRAW = """
import shadergrad as sg
from PIL import Image
x = sg.data.load_digits()[2][0].reshape(8, 8)
Image.fromarray((255 * (1 - x)).astype("uint8")).resize((96, 96)).save("a.png")
"""


def kept(installed: Installed, name: str) -> str:
    """The text of a file that pip has put beside the package."""
    (path,) = installed.folder.glob(f"lib/python*/site-packages/shadergrad-*.dist-info/{name}")
    return path.read_text(encoding="utf-8")


# --- installing


def test_it_knows_its_version_and_says_first_what_it_runs_on(installed: Installed, tmp_path: Path) -> None:
    where = installed(tmp_path, "python", "-c", "import shadergrad; print(shadergrad.__file__)").stdout.strip()
    assert Path(where).is_relative_to(installed.folder)
    assert installed.shadergrad(tmp_path, "--version").startswith("shadergrad ")
    verdict = installed.shadergrad(tmp_path, "info").splitlines()[0]
    assert "trainings run on" in verdict
    assert json.loads(installed.shadergrad(tmp_path, "info", "--json"))["verdict"] == verdict
    assert len(installed.shadergrad(tmp_path, "info", "--verbose")) >= len(installed.shadergrad(tmp_path, "info"))
    assert list(tmp_path.iterdir()) == []


def test_its_licences_come_along_and_its_description_links_to_nothing_that_is_not_there(installed: Installed) -> None:
    assert "Apache License" in kept(installed, "licenses/LICENSE")
    assert kept(installed, "licenses/src/shadergrad/data/files/LICENSE.digits.txt")
    described = message_from_string(kept(installed, "METADATA"))
    links = re.findall(r"\]\(([^)]*)\)", str(described.get_payload()))
    assert [link for link in links if not link.startswith("https://")] == []
    assert "pip install" in str(described.get_payload())


# --- after a training

SHORT = {
    "digits": ["--epochs", "1"],
    "digits-logic": ["--epochs", "1", "--batch-size", "1437"],
    "autoencoder": ["--epochs", "1", "--batch-size", "1437"],
    "char-lm": ["--epochs", "1", "--batch-size", "1024"],
    "life": ["--steps", "2"],
    "xor": ["--epochs", "1"],
}
PICTURES = {"xor": "surface.png", "regression": "line.png", "autoencoder": "reconstructions.png", "life": "gates.png"}


@pytest.mark.parametrize("recipe", SHORT)
def test_what_a_recipe_says_to_do_next_can_be_done(recipe: str, installed: Installed, tmp_path: Path) -> None:
    """Every line that begins with next, as it stands but for the user's own part; and the model in Python."""
    installed(tmp_path, "python", "-c", DRAW)
    printed = installed.shadergrad(tmp_path, "train", recipe, "--device", "cpu", *SHORT[recipe])
    assert (tmp_path / "runs" / recipe / PICTURES.get(recipe, "curve.png")).exists()
    commands = re.findall(r"^next: shadergrad (.*)$", printed, re.M)
    assert commands
    for line in commands:
        words = shlex.split(line.replace("IMAGE...", "a.png").replace("TEXT", "The"))
        assert installed.shadergrad(tmp_path, *words)
    (line,) = re.findall(r"in Python: (model = .*)$", printed, re.M)
    program = f"import shadergrad as sg\n{line}\nprint(sum(p.numel() for p in model.parameters()))"
    assert int(installed(tmp_path, "python", "-c", program).stdout) > 0


def test_a_resumed_run_may_have_another_rate_and_keeps_the_best(installed: Installed, tmp_path: Path) -> None:
    words = ["train", "digits", "--device", "cpu", "--batch-size", "1437"]
    installed.shadergrad(tmp_path, *words, "--epochs", "1")
    printed = installed.shadergrad(tmp_path, *words, "--epochs", "2", "--resume", "--override", "--lr", "1e-4")
    assert "lr 0.003 now 0.0001" in printed
    rows = [json.loads(line) for line in (tmp_path / "runs" / "digits" / "metrics.jsonl").read_text().splitlines()]
    assert {"override": {"lr": [0.003, 0.0001]}}.items() <= rows[1].items()
    assert (tmp_path / "runs" / "digits" / "best" / "checkpoint.json").exists()


# --- Trainer, and looking inside

MINE = """
import csv
import numpy as np, shadergrad as sg, shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.train import *

def build(settings, device):
    x = np.ones((32, 2), np.float32)
    model = nn.Linear(2, 1).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=settings.lr)
    callbacks = [
        Checkpoint("kept", every=1), EarlyStopping(patience=1, min_delta=1e9), CSVLog("kept/log.csv"),
        Schedule(sg.optim.lr_scheduler.StepLR(optimizer, 1)), *LOGS,
    ]
    return Trainer(model, optimizer, F.mse_loss, (x, x[:, :1]), validation=(x, x[:, :1]), progress=False, callbacks=callbacks)

LOGS = []
RECIPE = Recipe("mine", build, defaults={"epochs": 2, "batch_size": 8, "lr": 0.1})
if __name__ == "__main__":
    try:
        LOGS = [TensorBoard("kept/board")]
    except ImportError:
        pass
    trainer = build(type("S", (), {"lr": 0.1}), "cpu")
    print(trainer.fit(9))
    trainer.restore("kept/best")
    step = sg.compile(lambda x: (x * 2).sum())
    try:
        step.plan
    except sg.ShadergradError as error:
        print(error)
    step(sg.ones(3))
    print(step.explain())
    print(step.portable(sg.ones(3)).plan)
    step.portable(sg.ones(3))
    print(step.plan._repr_html_(), trainer.model._repr_html_(), sg.ones(2)._repr_html_())
"""


def test_trainer_tables_and_kernels_by_number(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    assert "epoch" in installed.shadergrad(tmp_path, "train", "mine.py", "--device", "cpu")
    shutil.rmtree(tmp_path / "kept")
    done = installed(tmp_path, "python", "mine.py", SHADERGRAD_DEBUG="kernels", MPLBACKEND="no_such_backend")
    for words in (
        "History(2 epochs",
        "NumPy operations",
        "1 submission",
        "<table",
        "3 parameters on cpu",
        "before its first call",
    ):
        assert words in done.stdout
    assert done.stderr.count("// #0 ") == 1
    assert {"last", "best", "epoch-0001", "epoch-0002", "log.csv"} <= {p.name for p in (tmp_path / "kept").iterdir()}


# --- pictures


def test_pictures_are_drawn_whatever_the_backend(installed: Installed, tmp_path: Path) -> None:
    variables = {"MPLBACKEND": "module://no_such_backend"}
    installed(
        tmp_path, "shadergrad", "train", "regression", "--device", "cpu", "--epochs", "2", "--out", "line", **variables
    )
    study = ["logic", "study", "life", "--seeds", "2", "--steps", "2", "--device", "cpu", "--out", "study"]
    assert "0 of 2 seeds converged" in installed(tmp_path, "shadergrad", *study, **variables).stdout
    for name in ("line/line.png", "line/curve.png", "study/study.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG"), name


# --- the pages


def walk(page: str, but: dict[str, str]) -> str:
    """A program that does what a page shows, its Python as it stands, its commands in a shell; `but`: words that differ."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = ["import subprocess", "def shell(words): subprocess.run(words, shell=True, check=True)"]
    for kind, block, indented in re.findall(r"^```(python|sh)\n(.*?)^```|^    (shadergrad [^\n]*)$", text, re.M | re.S):
        if kind == "python":
            lines.append(block)
        for command in (block if kind == "sh" else indented).splitlines() if kind != "python" else ():
            for old, new in but.items():
                command = command.replace(old, new)
            lines.append(f"shell({command!r})")
    return "\n".join(lines)


def test_the_tutorial_is_walked_from_its_first_line_to_its_last(installed: Installed, tmp_path: Path) -> None:
    program = walk("docs/tutorial.md", {"shadergrad serve site": "true"})
    assert program.count("shell('shadergrad") >= 6
    (tmp_path / "walk.py").write_text(program)
    printed = installed(tmp_path, "python", "walk.py").stdout
    assert "drawn.png: 7 (" in printed
    assert (tmp_path / "site" / "index.html").exists()


def test_the_commands_of_the_readme_are_typed(installed: Installed, tmp_path: Path) -> None:
    installed(tmp_path, "python", "-c", DRAW.replace("a.png", "drawn-by-me.png"))
    (tmp_path / "my_pytorch_script.py").write_text("import torch; print('runs', torch.ones(2).sum().item())")
    less = {
        "train digits": "train digits --epochs 3",
        " && shadergrad serve site/": "",
    }
    program = walk("README.md", less).replace('.to("webgpu")', '.to("cpu")')
    assert program.count("shell('shadergrad") == 5
    (tmp_path / "walk.py").write_text(program)
    printed = installed(tmp_path, "python", "walk.py").stdout
    for words in ("trainings run on", "drawn-by-me.png: 7 (", "runs 2.0"):
        assert words in printed
    assert_is_served(installed, tmp_path / "site")


def assert_is_served(installed: Installed, site: Path) -> None:
    """`shadergrad serve` gives the page to a browser of this machine, until Ctrl-C."""
    command = [str(installed.folder / "bin" / "shadergrad"), "serve", str(site), "--port", "0"]
    with subprocess.Popen(
        command, env=installed.environment | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            (address,) = re.findall(r"http://\S+", server.stdout.readline())
            with closing(urllib.request.urlopen(address, timeout=20)) as page:
                assert b"<html" in page.read()
        finally:
            server.terminate()


# --- logic


def test_circuits_are_shown_simplified_run_and_exported(installed: Installed, tmp_path: Path) -> None:
    trained = str(ROOT / "tests" / "data" / "life_trained.json")
    assert "249 gates" in installed.shadergrad(tmp_path, "logic", "show", trained)
    printed = installed.shadergrad(tmp_path, "logic", "simplify", trained, "--out", "small.json")
    assert "proved equal on all 512" in printed
    assert int(re.findall(r"(\d+) simplified", printed)[0]) <= 88
    assert installed.shadergrad(tmp_path, "logic", "run", "small.json", "W.0", "E.0", "N.0") == "next.0 = 1\n"
    assert (
        "W.0"
        in installed.shadergrad(tmp_path, "logic", "export", "small.json", "dot", "--out", "small.dot")
        + (tmp_path / "small.dot").read_text()
    )
    words = {"c": "uint64_t", "verilog": "module", "wgsl": "fn ", "blif": ".model", "aiger": "aag", "svg": "<svg"}
    for form, word in words.items():
        assert word in installed.shadergrad(tmp_path, "logic", "export", "small.json", form)
