"""The bar of a run in real terminals of several widths: what it shows, and that nothing wraps."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")


def in_terminal(width: int, *words: str) -> str:
    """What a command writes to a terminal of so many columns, without the sequences that move the cursor."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = ["-m", "shadergrad", *words]
    child = pexpect.spawn(
        sys.executable, command, env={**kept, "TERM": "xterm"}, dimensions=(24, width), encoding="utf-8", timeout=60
    )
    text = child.read()
    child.close()
    assert child.exitstatus == 0, text
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize(
    ("width", "recipe", "loss", "other"),
    [(40, "life", "soft ", "hard "), (80, "xor", "loss ", " %"), (120, "xor", "loss ", " %")],
)
def test_a_bar_fits_its_terminal(width: int, recipe: str, loss: str, other: str, tmp_path: Path) -> None:
    length = ["--steps", "12"] if recipe == "life" else ["--epochs", "2"]
    text = in_terminal(width, "train", recipe, "--device", "cpu", *length, "--out", str(tmp_path))
    lines = re.split(r"[\r\n]+", text)
    bars = [k for k, line in enumerate(lines) if "━" in line]
    assert {lines[k].count("━") + lines[k].count("╸") + lines[k].count("╺") for k in bars} == {max(8, width // 8)}
    last = lines[bars[-1]] + (lines[bars[-1] + 1] if width == 40 else "")
    for word in ("2/2" if recipe == "xor" else "12/12", loss, other, "cpu", "0:0"):
        assert word in last
    assert ("/s" in last) == (width == 120)
    assert "…" not in last
    shown = [line for k in bars for line in lines[k : k + 1 + (width == 40)]]
    assert all(len(line) <= width for line in shown)
