"""The bar of a run in real terminals of several widths: what it shows, and that nothing wraps."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from wheels import Installed

pexpect = pytest.importorskip("pexpect")


def in_terminal(width: int, *words: str, wheel: Installed | None = None) -> str:
    """What a command writes to a terminal of so many columns, without the sequences that move the cursor."""
    of, python = (os.environ, sys.executable) if wheel is None else (wheel.environment, wheel.python)
    kept = {name: value for name, value in of.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    kept["TERM"] = "xterm"
    command = ["-P", "-m", "shadergrad", *words]
    child = pexpect.spawn(python, command, env=kept, dimensions=(24, width), encoding="utf-8", timeout=60)
    text = child.read()
    child.close()
    assert child.exitstatus == 0, text
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


BARS = [(40, "life", "soft ", "hard "), (80, "xor", "loss ", " %"), (120, "xor", "loss ", " %")]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "recipe", "loss", "other"), BARS)
def test_a_bar_of_the_wheel_fits_its_terminal(
    width: int, recipe: str, loss: str, other: str, tmp_path: Path, installed: Installed
) -> None:
    assert_a_bar_fits(width, recipe, loss, other, tmp_path, installed)


@pytest.mark.parametrize(("width", "recipe", "loss", "other"), BARS)
def test_a_bar_fits_its_terminal(width: int, recipe: str, loss: str, other: str, tmp_path: Path) -> None:
    assert_a_bar_fits(width, recipe, loss, other, tmp_path)


def assert_a_bar_fits(
    width: int, recipe: str, loss: str, other: str, tmp_path: Path, wheel: Installed | None = None
) -> None:
    length = ["--steps", "12"] if recipe == "life" else ["--epochs", "2"]
    text = in_terminal(width, "train", recipe, "--device", "cpu", *length, "--out", str(tmp_path), wheel=wheel)
    lines = re.split(r"[\r\n]+", text)
    bars = [k for k, line in enumerate(lines) if "━" in line]
    assert {lines[k].count("━") + lines[k].count("╸") + lines[k].count("╺") for k in bars} == {max(8, width // 8)}
    last = lines[bars[-1]] + (lines[bars[-1] + 1] if width == 40 else "")
    for word in ("2/2" if recipe == "xor" else "12/12", loss, other, "cpu", "0:0"):
        assert word in last
    if recipe == "xor":  # the accuracy is the last epoch's, and not that of the one before
        *_, row = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
        assert f" {100 * row['test_accuracy']:.1f} %" in last
    assert ("/s" in last) == (width == 120)
    assert "…" not in last
    shown = [line for k in bars for line in lines[k : k + 1 + (width == 40)]]
    assert all(len(line) <= width for line in shown)
