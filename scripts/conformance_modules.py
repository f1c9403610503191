"""Runs PyTorch's own tables of modules and optimizers against ours, and prints what differs (part of `make conformance`).

python scripts/conformance_modules.py                 # all: minutes
python scripts/conformance_modules.py --only Conv     # what has this in its name
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "conformance")]

import modules  # noqa: E402
import optimizers  # noqa: E402


def main(only: str = "") -> None:
    """Prints the names that differ with the first difference, what is missing, and the count."""
    for what, table in (("modules", modules), ("optimizers", optimizers)):
        names = [name for name in table.there() if only in name]
        wrong = 0
        for name in names:
            found = table.differences(name)
            wrong += bool(found)
            for line in found[:3]:
                print(line)
        print(
            f"{what}: {len(names) - wrong} of {len(table.table())} as PyTorch's, {wrong} differ; missing: {table.missing()}"
        )


if __name__ == "__main__":
    typer.run(main)
