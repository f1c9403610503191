"""Run the notebooks of docs/notebooks, and keep what they show: python scripts/notebooks.py [NAME ...]; `make notebooks`.

Each runs in a process and a folder of its own. An error, or a warning, ends it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
SECONDS = 120


class Complaint(Exception):
    """A cell wrote to stderr, where warnings go."""


def execute(path: Path, kernel: str = "", **variables: str) -> Any:
    """The notebook with what its cells show. Raises CellExecutionError where one fails, Complaint where one warns.

    kernel: the name of another than the notebook's own. variables: of the environment.
    """
    notebook: Any = nbformat.read(path, 4)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONWARNINGS": "default::UserWarning,default::DeprecationWarning:__main__"}
        environment |= variables
        options: dict[str, Any] = {"kernel_name": kernel} if kernel else {}
        # how often a kernel sends what was printed is a matter of time, so it is put together again
        client = NotebookClient(
            notebook, timeout=SECONDS, resources={"metadata": {"path": folder}}, coalesce_streams=True, **options
        )
        client.execute(env=environment)
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("execution", None)  # times, which differ from run to run
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise Complaint(f"{path.name}, cell {number}: {output['text']}")
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(names: list[str]) -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(execute(path), path)
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
