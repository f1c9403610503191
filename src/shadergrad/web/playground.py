"""The playground: a page with an editor, whose Python, with this library, runs in the page. In: a folder. Out: files for any static host.

The folder holds the page and the wheels. Pyodide, some 15 MB with NumPy, comes from a configured host, or is copied into the folder.
"""

from __future__ import annotations

import importlib
import json
import shutil
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from shadergrad.system.browser import IN_BROWSER

from .cell_chart import add_in_cell
from .errors import WebError
from .preview import PREVIEW, preview
from .wheels import write_wheels

PYODIDE = "https://cdn.jsdelivr.net/pyodide/v0.27.7/full/"
SCRIPTS = ("playground.js", "python-worker.js")
PLAYGROUND = ("playground.html", *SCRIPTS)  # files that exported pages do not get
SHELF = "python.json"


def playground(folder: str | Path, pyodide: str | Path = PYODIDE, program: str | None = None) -> Path:
    """Write a page with an editor, whose programs train on the visitor's GPU.

    pyodide: an http(s) address of a folder of Pyodide's, by default at jsDelivr; or a folder on this machine, which is copied: then the
    page requests nothing from other hosts. program: the text that the editor begins with; by default an example.
    Returns the folder. Raises WebError if `pyodide` is no folder of Pyodide's, or a package of the wheels is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in sg.web.playground(folder).iterdir())[:3]
    ['index.html', 'playground.js', 'preview.png']
    """
    site = Path(folder)
    site.mkdir(parents=True, exist_ok=True)
    address = str(pyodide)
    if urlsplit(address).scheme not in ("http", "https"):
        if not (Path(pyodide) / "pyodide.mjs").is_file():
            raise WebError(f"[playground] {pyodide} holds no pyodide.mjs. Hint: unpack a release of Pyodide there.")
        shutil.copytree(pyodide, site / "pyodide", dirs_exist_ok=True, copy_function=shutil.copyfile)
        address = "pyodide/"
    here = resources.files("shadergrad.web")
    for name in ("style.css", "ui.js", *SCRIPTS):
        (site / name).write_bytes((here / "site" / name).read_bytes())
    (site / "index.html").write_bytes((here / "site" / "playground.html").read_bytes())
    (site / "python-gpu.js").write_bytes((resources.files("shadergrad.runtime") / "page.js").read_bytes())
    (site / PREVIEW).write_bytes(preview({}, {}))
    examples = {} if program is None else {"Program": program}
    examples |= {
        title: (here / "programs" / name).read_text(encoding="utf-8")
        for title, name in (("XOR", "xor.py"), ("Digits", "digits.py"))
    }
    wheels = [f"wheels/{name}" for name in write_wheels(site / "wheels")]
    shelf = {"pyodide": address, "wheels": wheels, "packages": ["numpy"], "examples": examples}
    (site / SHELF).write_text(json.dumps(shelf, indent=1) + "\n", encoding="utf-8")
    return site


def plot(**values: float) -> None:
    """Add a point to each curve: in the playground's chart, or below the cell of a notebook. Elsewhere print the numbers.

    >>> sg.web.plot(loss=0.25, accuracy=0.9)
    loss 0.25  accuracy 0.9
    """
    numbers = {name: float(value) for name, value in values.items()}
    page = importlib.import_module("js") if IN_BROWSER else None
    if page is not None and hasattr(page, "shadergradPlot"):
        finite = {name: value if abs(value) < float("inf") else None for name, value in numbers.items()}
        page.shadergradPlot(json.dumps(finite))
    elif not add_in_cell(numbers):
        print(*(f"{name} {value:.4g}" for name, value in numbers.items()), sep="  ")


def origin_of_python(folder: str | Path) -> str:
    """The host of the Pyodide of a page in that folder; "" for none, and for the page's own."""
    try:
        found = json.loads((Path(folder) / SHELF).read_text(encoding="utf-8"))["pyodide"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return origin_of(found)


def origin_of(address: object) -> str:
    """The host of an http(s) address, as a policy names it; "" for other values."""
    try:
        parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
    except ValueError:
        return ""
    safe = parts.scheme in ("http", "https") and parts.netloc and not set(parts.netloc) & set(" ;,'\"\r\n")
    return f"{parts.scheme}://{parts.netloc}" if safe else ""
