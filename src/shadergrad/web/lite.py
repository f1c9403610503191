"""A JupyterLite site: notebooks whose Python, with this library, runs in the page. In: a folder. Out: files for any static host.

JupyterLite's own builder writes it (the extra `lite`); this module adds the wheels, the notebooks and Pyodide.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata, resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .errors import WebError
from .playground import PYODIDE, origin_of
from .wheels import write_wheels

BUILDER = ("jupyterlite_core", "jupyterlite_pyodide_kernel", "jupyter_server", "comm")
KERNEL = "@jupyterlite/pyodide-kernel-extension:kernel"
INSTALL = "%pip install -q shadergrad"
OF_THE_KERNEL = ("comm",)  # packages that its Python installs beside Pyodide's, from PyPI if the site lacks them
MOST_SAID = 600  # characters of a builder's error


def lite(folder: str | Path, pyodide: str | Path | None = None) -> Path:
    """Write a JupyterLite site with three notebooks: first steps, an automaton to paint on, a small GPT to fine-tune.

    pyodide: an http(s) address of a folder of Pyodide's, by default the one that JupyterLite takes, at jsDelivr; or a folder on this
    machine, which is copied: then the site requests nothing from other hosts. It must be the version that the installed
    jupyterlite-pyodide-kernel is made for, 0.27 for 0.6.
    Returns the folder. Raises WebError if the extra `lite` is not installed, `pyodide` is no folder of Pyodide's, or the builder fails.

    >>> try:
    ...     sg.web.lite("site", pyodide="no-such-folder")
    ... except sg.web.WebError as error:
    ...     print("[lite]" in str(error))
    True
    """
    missing = [name for name in BUILDER if importlib.util.find_spec(name) is None]
    if missing:
        raise WebError(f'[lite] {" and ".join(missing)} are not installed. Hint: pip install "shadergrad[lite]"')
    site = Path(folder).resolve()
    is_address = pyodide is not None and urlsplit(str(pyodide)).scheme in ("http", "https")
    if pyodide is not None and not is_address and not (Path(pyodide) / "pyodide.js").is_file():
        raise WebError(f"[lite] {pyodide} holds no pyodide.js. Hint: unpack a release of Pyodide there.")
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        write_notebooks(work / "notebooks")
        wheels = [str(work / "wheels" / name) for name in write_wheels(work / "wheels", OF_THE_KERNEL)]
        config: dict[str, Any] = {"appName": "shadergrad"}
        if is_address:
            config["litePluginSettings"] = {KERNEL: {"pyodideUrl": f"{str(pyodide).rstrip('/')}/pyodide.js"}}
        elif pyodide is not None:
            shutil.copytree(pyodide, work / "static" / "pyodide", copy_function=shutil.copyfile)
        document = {"jupyter-lite-schema-version": 0, "jupyter-config-data": config}
        (work / "jupyter-lite.json").write_text(json.dumps(document), encoding="utf-8")
        (work / "jupyter_lite_config.json").write_text(json.dumps(builder_config()), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "jupyterlite_core",
            "build",
            "--lite-dir",
            str(work),
            "--output-dir",
            str(site),
        ]
        command += ["--contents", str(work / "notebooks")]
        command += [part for wheel in wheels for part in ("--piplite-wheels", wheel)]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WebError(f"[lite] JupyterLite's builder failed:\n{(done.stdout + done.stderr)[-MOST_SAID:]}")
    return site


def builder_config() -> dict[str, Any]:
    """The builder's configuration: only the kernel's JupyterLab extension. By default the builder includes all installed extensions, and one
    that was made for another JupyterLab prevents the site from starting.
    """
    files = metadata.files("jupyterlite-pyodide-kernel") or []
    kernels = [
        str(Path(str(f.locate())).resolve().parent)
        for f in files
        if f.as_posix().endswith("/pyodide-kernel-extension/package.json")
    ]
    if not kernels:
        raise WebError(
            '[lite] jupyterlite-pyodide-kernel is installed without its kernel. Hint: pip install "shadergrad[lite]"'
        )
    return {"LiteBuildConfig": {"ignore_sys_prefix": ["federated_extensions"], "federated_extensions": kernels}}


def origin_of_notebooks(folder: str | Path) -> str:
    """The host of the Pyodide of a JupyterLite site in that folder; "" if there is no such site."""
    try:
        found = json.loads((Path(folder) / "jupyter-lite.json").read_text(encoding="utf-8"))["jupyter-config-data"]
        address = found.get("litePluginSettings", {}).get(KERNEL, {}).get("pyodideUrl", PYODIDE)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    return origin_of(address) or "'self'"


def write_notebooks(folder: Path) -> list[Path]:
    """The notebooks, each with a cell that installs the library first."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for text in sorted((resources.files("shadergrad.web") / "notebooks").iterdir(), key=lambda file: file.name):
        if text.name.endswith(".py"):
            found.append(folder / f"{text.name.removesuffix('.py')}.ipynb")
            found[-1].write_text(
                json.dumps(notebook(text.read_text(encoding="utf-8")), indent=1) + "\n", encoding="utf-8"
            )
    return found


def notebook(text: str) -> dict[str, Any]:
    """A notebook of a program whose cells begin with `# %%`, text with `# %% [markdown]`."""
    cells = []
    for k, part in enumerate(text.split("# %%")[1:]):
        kind, _, body = part.partition("\n")
        is_text = kind.strip() == "[markdown]"
        body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines()) if is_text else body
        cells.append(_cell(body.strip(), f"cell-{k}", is_text))
    cells.insert(1, _cell(INSTALL, "install", False))
    kernel = {"kernelspec": {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": cells}


def _cell(body: str, name: str, is_text: bool) -> dict[str, Any]:
    source = body.splitlines(keepends=True)
    if is_text:
        return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}
    return {"cell_type": "code", "id": name, "metadata": {}, "source": source, "outputs": [], "execution_count": None}
