"""The JupyterLite site: its notebooks run in a real browser, on the page's GPU, and ask no other host for anything."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shadergrad as sg
from browser_python import NoPyodide, pyodide_folder
from shadergrad.web.lite import BUILDER, INSTALL, notebook, origin_of_notebooks, write_notebooks

from .conftest import missing

NOTEBOOKS = ("automaton", "first-steps", "small-gpt")
FEWER = {"steps = 200": "steps = 60", "steps = 300": "steps = 4", "steps = 400": "steps = 3", "count=120": "count=2"}
OUTPUTS = "[...document.querySelectorAll('.jp-OutputArea-output')].map((e) => e.innerText).join('\\n')"
PROMPTS = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map((e) => e.innerText)"


def test_notebooks_are_made_of_programs_with_cells(tmp_path: Path) -> None:
    found = notebook("# %% [markdown]\n# # Title\n#\n# Text\n\n# %%\nx = 1\nprint(x)\n")
    assert [(c["cell_type"], "".join(c["source"])) for c in found["cells"]] == [
        ("markdown", "# Title\n\nText"),
        ("code", INSTALL),
        ("code", "x = 1\nprint(x)"),
    ]
    assert sorted(path.stem for path in write_notebooks(tmp_path)) == sorted(NOTEBOOKS)
    for path in tmp_path.glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        for cell in cells:
            if cell["cell_type"] == "code" and not cell["source"][0].startswith("%"):
                compile("".join(cell["source"]), path.name, "exec")
        assert len({cell["id"] for cell in cells}) == len(cells)


def test_the_policy_of_a_folder_of_notebooks_names_its_python(tmp_path: Path) -> None:
    assert origin_of_notebooks(tmp_path) == ""
    document = {"jupyter-config-data": {}}
    (tmp_path / "jupyter-lite.json").write_text(json.dumps(document))
    assert origin_of_notebooks(tmp_path) == "https://cdn.jsdelivr.net"
    key = "@jupyterlite/pyodide-kernel-extension:kernel"
    document["jupyter-config-data"] = {"litePluginSettings": {key: {"pyodideUrl": "./static/pyodide/pyodide.js"}}}
    (tmp_path / "jupyter-lite.json").write_text(json.dumps(document))
    assert origin_of_notebooks(tmp_path) == "'self'"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, with fewer steps."""
    absent = [name for name in BUILDER if importlib.util.find_spec(name) is None]
    if absent:
        missing(", ".join(absent), "no builder of JupyterLite", 'pip install "shadergrad[lite]"')
    try:
        folder = sg.web.lite(tmp_path_factory.mktemp("lite"), pyodide_folder())
    except NoPyodide as error:
        missing(str(error), "no Pyodide", "let pip reach PyPI")
    assert [p.name for p in (folder / "extensions").glob("*/*")] == [
        "pyodide-kernel-extension"
    ]  # of all that are installed
    for name in NOTEBOOKS:
        path = folder / "files" / f"{name}.ipynb"
        text = path.read_text()
        for many, few in FEWER.items():
            text = text.replace(many, few)
        path.write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_to_its_end_in_the_page(visit: Callable[..., Any], site: Path, name: str) -> None:
    page = visit(site, f"lab/index.html?path={name}.ipynb", refused="Failed to load resource")
    page.set_default_timeout(240_000)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")
    page.click(".jp-Notebook .jp-CodeCell .cm-content")
    page.click(".lm-MenuBar-item:has-text('Run')")
    page.click("text=Run All Cells")
    page.wait_for_function(f"() => {PROMPTS}.every((text) => /\\d/.test(text))")
    said = page.evaluate(OUTPUTS)
    assert "Error" not in said, said
    assert "loss " in said
    if name == "first-steps":
        assert "webgpu google swiftshader" in said
        assert page.locator(".jp-OutputArea-output svg polyline").count() == 1
    if name == "automaton":
        page.wait_for_function(
            """() => { const board = document.querySelector('canvas[id^=board]');
              return board && board.getContext('2d').getImageData(0, 0, 1, 1).data[3] === 255; }"""
        )
