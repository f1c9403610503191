"""What make installs into the system it names before, and only where it may."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "ensure-packages.sh"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


def run(
    folder: Path,
    user: int = 0,
    lacking: tuple[str, ...] = ("adapter", "iverilog", "chromium", "mpirun", "cc"),
    **variables: str,
) -> str:
    """What the script says, and what it asks apt-get for, on a machine that lacks these."""
    programs = {
        "apt-get": "echo apt-get $1; [ $1 != install ] || shift; echo for $* >&2",
        "id": f"echo {user}",
        "sudo": "exit 1",
        "python": f"exit {int('adapter' in lacking)}",
        **{name: "exit 0" for name in ("iverilog", "chromium", "mpirun", "cc") if name not in lacking},
    }
    for name, body in programs.items():
        (folder / name).write_text(f"#!{shutil.which('bash')}\n{body}\n")
        (folder / name).chmod(0o755)
    for name in ("env", "true"):
        (folder / name).symlink_to(shutil.which(name) or "")
    environment = {"PATH": str(folder), **variables}
    command = [shutil.which("bash") or "", str(SCRIPT), str(folder / "python")]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_packages_are_named_before_they_are_installed(tmp_path: Path) -> None:
    said, found, *_ = run(tmp_path).partition("apt-get update")
    assert found
    assert "mesa-vulkan-drivers iverilog chromium openmpi-bin gcc libc6-dev" in said
    assert "INSTALL=no" in said


def test_only_what_is_missing_is_installed(tmp_path: Path) -> None:
    said = run(tmp_path, lacking=("iverilog",))
    assert "for -y -qq --no-install-recommends iverilog\n" in said
    assert "mesa" not in said


def test_nothing_missing_says_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, lacking=()) == ""


@pytest.mark.parametrize(
    ("user", "variables", "reason"),
    [(0, {"INSTALL": "no"}, "INSTALL=no"), (1000, {}, "that needs root, or sudo without a password")],
    ids=["told not to", "no root"],
)
def test_nothing_is_installed_where_it_may_not(
    tmp_path: Path, user: int, variables: dict[str, Any], reason: str
) -> None:
    said = run(tmp_path, user, **variables)
    assert "apt-get" not in said
    assert f"NOT INSTALLED: mesa-vulkan-drivers iverilog chromium openmpi-bin gcc libc6-dev: {reason}" in said
