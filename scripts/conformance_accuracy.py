"""The section of docs/conformance.md on elementwise functions: their largest errors over all exponents of float32, in ulp.

tests/accuracy.py says what is compared. A device with another adapter gives a column by way of a file:

    python scripts/conformance_accuracy.py                                     measure webgpu and cpu here, and write the section
    python scripts/conformance_accuracy.py --json h100.json --mantissas 2048   measure webgpu, and write a file instead
    python scripts/conformance_accuracy.py --beside "H100=h100.json"           the section with that column, too
"""

from __future__ import annotations

import json
import math
import sys
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from shadergrad.runtime.device import get_device

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

import accuracy as measured  # noqa: E402
from conformance import IN_ULP as TITLE  # noqa: E402
from conformance import machine  # noqa: E402

Column = dict[str, dict[str, Any]]


def column_of(device: str, mantissas: int, only: set[str] | None = None) -> Column:
    """What each function is off by, at which operands, and for which share of them by more than 8 ulp. only: their names, by default all."""
    found = {}
    for function in measured.functions():
        if only and function.name not in only:
            continue
        worst = measured.worst(function, device, mantissas)
        found[function.name] = {"ulp": worst.ulp, "at": worst.at, "beyond": worst.beyond}
        print(f"{device} {function.name}: {worst.ulp:.3g} ulp at {worst.at}", file=sys.stderr, flush=True)
    return found


def text(columns: dict[str, Column], where: str, mantissas: int) -> str:
    """The section."""
    heads = list(columns)
    lines = [
        f"## {TITLE}\n",
        f"`python scripts/conformance_accuracy.py` compares every elementwise record of floats, and compositions of them, with float64 ({where}): all "
        f"exponents of float32, {mantissas:,} random significands and both signs of each, neighbours of 1 and of multiples of pi / 2. A "
        "number is the largest distance in units in the last place of the exact result, and where it is. *WGSL* is what the "
        "language's specification demands of its own function of that name, in ulp if it names no other unit. Subnormal operands "
        "and results may be 0.\n",
        "| function | WGSL | " + " | ".join(f"{head} | at" for head in heads) + " | note |",
        "|---|---|" + "--:|---|" * len(heads) + "---|",
    ]
    for function in measured.functions():
        cells = [f"{_number(c[function.name]['ulp'])} | {_place(c[function.name])}" for c in columns.values()]
        lines.append(
            f"| {function.name} | {function.wgsl} | {' | '.join(cells)} | {function.reason} |".replace("|x|", "\\|x\\|")
        )
    return "\n".join(lines) + "\n"


def _number(ulp: float) -> str:
    return "0" if ulp == 0 else f"{ulp:.2g}" if math.isfinite(ulp) else "inf"


def _place(found: dict[str, Any]) -> str:
    return ", ".join(f"{x:.9g}" for x in found["at"]) if found["ulp"] else ""


def page_with(section: str) -> str:
    """The page with the section in the place of an earlier one, or behind PyTorch's own table."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    kept = [part for part in parts if not part.startswith(TITLE)]
    place = next((k + 1 for k, part in enumerate(kept) if part.startswith("PyTorch's own table")), 1)
    return "\n## ".join([*kept[:place], section.removeprefix("## "), *kept[place:]])


def main(
    mantissas: Annotated[int, typer.Option(help="of each exponent and sign")] = 1024,
    into: Annotated[str, typer.Option("--json", help="measure webgpu alone, and write a file")] = "",
    beside: Annotated[list[str] | None, typer.Option(help="NAME=FILE for each further column")] = None,
    only: Annotated[str, typer.Option(help="functions to measure anew in the file of --json, by name: Atan2,I1e")] = "",
) -> None:
    """Measure the errors of functions, and write their section of docs/conformance.md."""
    if into:
        path = Path(into)
        known: Column = json.loads(path.read_text(encoding="utf-8")) if only and path.exists() else {}
        path.write_text(
            json.dumps(known | column_of("webgpu", mantissas, set(filter(None, only.split(","))))), encoding="utf-8"
        )
        return
    if only:
        raise typer.BadParameter("it needs --json")
    adapter = get_device("webgpu").describe()
    columns = {"webgpu": column_of("webgpu", mantissas)}
    for name, _, path in (column.rpartition("=") for column in beside or ()):
        columns[name] = json.loads(Path(path).read_text(encoding="utf-8"))
    columns["cpu"] = column_of("cpu", mantissas)
    PAGE.write_text(page_with(text(columns, f"{date.today()}, {machine()}, {adapter}", mantissas)), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
