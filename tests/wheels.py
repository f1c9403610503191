"""The wheel of the tree in an environment of its own, where pip has installed it. In: a folder. Out: its commands."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from shadergrad.config import config

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and nothing of the tree."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which its commands are found, and no other copy of the package."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
        return kept | {"PATH": path, "COLUMNS": "120", "TERM": "dumb"}

    def __call__(self, folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command that is run in a folder and succeeds."""
        environment = self.environment | variables
        program = str(self.folder / "bin" / words[0])
        done = subprocess.run(
            [program, *words[1:]], capture_output=True, text=True, check=False, cwd=folder, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def shadergrad(self, folder: Path, *words: str) -> str:
        """What the installed command prints."""
        return self(folder, "shadergrad", *words).stdout


def install(environment: Installed, wheels: Path) -> None:
    """Build the wheel, and install it. Where no builder can be fetched the test is skipped, or fails where all are required."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], capture_output=True, text=True, check=False
    )
    if "No matching distribution found for hatchling" in done.stderr and not config.require_webgpu:
        pytest.skip(f"no builder of wheels can be fetched: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment.folder)], check=True)
    (site,) = environment.folder.glob("lib/python*/site-packages")
    # what the wheel needs comes from where the tests run; a line of a .pth adds the folder, and not its editable packages
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run([*pip, "--python", environment.python, "install", "--no-deps", str(wheel)], check=True)
