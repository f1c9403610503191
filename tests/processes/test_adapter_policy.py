"""Without an adapter the webgpu half of the suite is skipped loudly, or fails where the environment says that it must run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SUITE = """
import shadergrad.runtime.adapters
shadergrad.runtime.adapters.adapters = list  # this machine has none

def test_a(device): pass
def test_b(webgpu): pass
"""


def run_suite(folder: Path, require: str, within: str = ".") -> subprocess.CompletedProcess[str]:
    tests = Path(__file__).parents[1]
    shutil.copy(tests / "conftest.py", folder)
    (folder / within).mkdir(parents=True, exist_ok=True)
    (folder / within / "test_suite.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = webgpu\n")
    paths = [str(tests), str(tests.parent / "scripts"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "SHADERGRAD_REQUIRE_WEBGPU": require, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_no_adapter_means_a_skip_and_one_loud_line(tmp_path: Path) -> None:
    done = run_suite(tmp_path, require="0")
    assert done.returncode == 0, done.stdout
    assert "1 passed, 2 skipped" in done.stdout
    assert done.stdout.count("WEBGPU NOT TESTED: 2 tests skipped") == 1


def test_no_adapter_is_a_failure_where_webgpu_is_required(tmp_path: Path) -> None:
    done = run_suite(tmp_path, require="1")
    assert done.returncode == 1
    assert "1 passed, 2 errors" in done.stdout


def test_a_test_that_needs_an_adapter_has_no_place_among_those_that_need_none(tmp_path: Path) -> None:
    done = run_suite(tmp_path, require="0", within="tests/null")
    assert done.returncode == 4, done.stdout
    assert "tests/null/test_suite.py::test_a[webgpu] needs an adapter" in done.stderr
