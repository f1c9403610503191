"""An operation, a module and an optimizer that scripts/scaffold.py begins work in a copy of the tree, and their tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mutants

ROOT = Path(__file__).parents[2]
BEGUN = {
    "op": ("twofold", "device/test_ops.py::test_cpu_value_equals_pytorch[twofold"),
    "composed": ("wave_of_two", "device/test_ops.py::test_cpu_gradient_equals_pytorch[wave_of_two"),
    "module": ("ScaleOfTwo", "device/test_modules.py::test_a_module_equals_pytorchs_in_float64[ScaleOfTwo"),
    "optimizer": (
        "SignumOfTwo",
        "device/test_optimizers.py::test_cpu_equals_pytorch_in_float64_over_a_hundred_steps[SignumOfTwo",
    ),
}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(folder / part) for part in ("src", "scripts"))
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_what_is_begun_works(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    shutil.copytree(ROOT, folder, ignore=mutants.LEFT_OUT)
    for kind, (name, _) in BEGUN.items():
        begun = run(folder, "scripts/scaffold.py", kind, name)
        assert begun.returncode == 0, begun.stderr
        assert "It works as it is. Now\n  1. replace the sentence with SCAFFOLD, src/shadergrad/" in begun.stdout
    tests = [
        *(test for _, test in BEGUN.values()),
        "device/test_modules.py::test_every_public_module_has_a_case",
        "device/test_optimizers.py::test_every_public_optimizer_has_a_case",
        "null/test_mutants.py::test_a_fault_is_in_one_place_and_changes_it",
        "null/test_docstrings.py::test_a_public_name_has_a_docstring_with_an_example_that_runs[sg.nn.ScaleOfTwo",
        "null/test_docstrings.py::test_a_public_name_has_a_docstring_with_an_example_that_runs[sg.optim.SignumOfTwo",
    ]
    passed = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *mutants.arguments_for(tests))
    assert passed.returncode == 0, passed.stdout[-3000:]
    for command in (
        ["-m", "ruff", "check"],
        ["scripts/stubs.py", "--check"],
        ["scripts/golden.py", "--only", "twofold"],
    ):
        checked = run(folder, *command)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    asked = run(folder, "-m", "pytest", "-q", "tests/null/test_scaffold.py", "-k", "filled_in")
    assert "say there what it is, and remove the word SCAFFOLD: src/shadergrad/nn/scale_of_two.py:" in asked.stdout
