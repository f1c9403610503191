"""The Python of the documents' pages runs as it stands, block after block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name: str) -> dict[str, Any]:
    """The names that the blocks of a page leave."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks, f"{name} has no Python"
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{name}, block {number}", "exec", dont_inherit=True), names)
    return names


def test_extend(webgpu: str) -> None:
    names = run_page("extend.md")
    recurrence = names["Recurrence"]()
    inputs = [sg.tensor(np.linspace(k, 1.5, 6).reshape(3, 2), requires_grad=True) for k in (0.1, 0.7)]
    assert sg.autograd.gradgradcheck(recurrence, inputs), "the gradient has a gradient, as the page says"


def test_logic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("logic.md")
    assert names["adder"].evaluate(np.array([[1, 0, 1]])).tolist() == [[False, True]]
    assert names["after"].shape == names["state"].shape
