"""What the README and the examples show is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_xor_is_learned(device: str) -> None:
    text = run("examples/xor.py", device)
    outputs = [float(value) for value in re.findall(r"xor \d = (\S+)", text)]
    assert outputs == pytest.approx([0, 1, 1, 0], abs=0.1)


@pytest.mark.slow
def test_digits_are_read(device: str) -> None:
    text = run("examples/digits.py", device)
    accuracies = [float(value) for value in re.findall(r"test accuracy (\S+) %", text)]
    assert accuracies[-1] >= 97
    assert "dispatches, 1 submission" in text if device == "webgpu" else "NumPy operations" in text


def test_the_readme_example_runs_and_learns(device: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.split("\n\n", 1)[-1].splitlines()) <= 8
    text = run("-c", example.replace('"webgpu"', f'"{device}"'))
    assert float(text.split()[0]) < 0.05


def test_the_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
