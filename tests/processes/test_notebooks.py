"""The notebooks run to their end without a word on stderr; what they show is what the pages show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wheels import Installed

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"

pytestmark = pytest.mark.slow  # a kernel starts for each


# imported by the tests that run: two seconds, which each worker would spend on collecting them


@pytest.fixture
def nbformat() -> Any:
    pytest.importorskip("ipykernel", reason="the extra `notebook` is not installed")
    return pytest.importorskip("nbformat")


@pytest.fixture
def notebooks() -> Any:
    return pytest.importorskip("notebooks", reason="nbclient is not installed")


def shown(notebook: Any) -> dict[str, list[str]]:
    """The kinds of output of each cell, by its first line."""
    return {
        cell.source.splitlines()[0]: [
            kind for output in cell.outputs for kind in sorted(output.get("data", {"stdout": 0}))
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


@pytest.mark.parametrize("name", ["first-steps", "automaton", "from-pytorch"])
def test_a_notebook_runs_and_shows_what_is_kept(name: str, nbformat: Any, notebooks: Any) -> None:
    if name == "from-pytorch":
        pytest.importorskip("torch")
    path = FOLDER / f"{name}.ipynb"
    assert shown(notebooks.execute(path)) == shown(nbformat.read(path, 4))


def test_a_training_draws_in_a_notebook_whatever_the_backend_and_warns_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nbformat: Any, notebooks: Any
) -> None:
    """The bar and the curve, once each and then updated; no widget, and no window system asked for."""
    cells = [
        "import numpy as np, shadergrad as sg, shadergrad.nn.functional as F\nfrom shadergrad import nn",
        "model = nn.Linear(2, 1)\n"
        "x = np.ones((8, 2), np.float32)\n"
        "t = sg.train.Trainer(model, sg.optim.SGD(model.parameters(), lr=0.1), F.mse_loss, (x, x[:, :1]), batch_size=4)\n"
        "t.fit(3);",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(notebook, tmp_path / "a.ipynb")
    monkeypatch.setenv("MPLBACKEND", "module://no_such_backend")
    done = notebooks.execute(tmp_path / "a.ipynb")
    bar, picture = done.cells[1].outputs
    assert "epoch 3/3" in bar["data"]["text/html"]
    assert " · cpu</code>" in bar["data"]["text/html"]
    assert "image/png" in picture["data"]


def test_the_first_notebook_runs_with_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Installed, nbformat: Any, notebooks: Any
) -> None:
    """As above, with a kernel of the environment where pip has installed it."""
    kernel = tmp_path / "kernels" / "wheel"
    kernel.mkdir(parents=True)
    argv = [installed.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "wheel", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    notebook = nbformat.read(FOLDER / "first-steps.ipynb", 4)
    notebook.cells.append(nbformat.v4.new_code_cell("import shadergrad\nprint(shadergrad.__file__)"))
    nbformat.write(notebook, tmp_path / "first-steps.ipynb")
    done = notebooks.execute(tmp_path / "first-steps.ipynb", "wheel", MPLBACKEND="module://no_such_backend")
    where = done.cells.pop().outputs[0]["text"]
    assert Path(where.strip()).is_relative_to(installed.folder)
    assert shown(done) == shown(nbformat.read(FOLDER / "first-steps.ipynb", 4))
