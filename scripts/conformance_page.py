r"""The section of docs/conformance.md on PyTorch's own table: counts, differences, wrong and missing entries.

In: the reports of scripts/conformance_ops.py, as JSON, one file a device. Out: the text of the section.

    python scripts/conformance_ops.py --json cpu.json
    python scripts/conformance_ops.py --device webgpu --most 2 --json webgpu.json
    python scripts/conformance_modules.py > modules.txt
    python scripts/conformance_page.py cpu=cpu.json "webgpu, 2 samples of a dtype=webgpu.json" --modules modules.txt \
        --where "2026-11-21, machine"
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance.md"
TITLE = "PyTorch's own table"
sys.path[:0] = [str(ROOT / "tests" / "conformance")]

Reports = list[dict[str, Any]]


def text(columns: dict[str, Reports], where: str, modules: str = "") -> str:
    """The section: a table of counts, and the names of what does not pass. modules: the output of conformance_modules.py."""
    import ops_known
    import ops_names

    first = next(iter(columns.values()))
    left = Counter(why for op in ops_names.op_db if (why := ops_names.left_out(op)) is not None)
    parts = [
        f"## {TITLE}\n\n",
        f"`python scripts/conformance_ops.py` runs {len(first)} entries of op_db, the table of operators in "
        f"`torch.testing._internal`, on PyTorch's own samples ({where}). The dtypes are float32, float64, int64, int32 and bool, "
        "float64 on the cpu only. It compares values, dtypes and shapes; gradients and second derivatives for random cotangents; the "
        "method, the in-place form and `out=`; and it checks that error inputs raise. int32 may replace int64, and the order of "
        "equal elements may differ. Left out: " + ", ".join(f"{why} ({n})" for why, n in left.items()) + ".\n\n",
        counts_table(columns),
    ]
    parts.append("\nIntended differences:\n\n")
    everywhere = [(name, checks, why) for name, (checks, why) in ops_known.DIFFERENT.items()]
    on_gpus = [(f"{name}, on webgpu", checks, why) for name, (_, checks, why) in ops_known.DIFFERENT_ON_GPUS.items()]
    parts += [f"- {name} ({', '.join(checks)}): {why}\n" for name, checks, why in everywhere + on_gpus]
    for name, reports in columns.items():
        wrong = [
            f"`{r['name']}` ({', '.join(c for c, n in r['failed'].items() if n)})"
            for r in reports
            if state(r, name) == "wrong"
        ]
        parts.append(f"\nWrong, {name}: {', '.join(wrong) or 'none'}.\n")
    missing = ", ".join(f"`{r['name']}`" for r in first if r["missing"])
    parts.append(f"\nMissing: {missing or 'none'}.\n")
    found = [line for line in modules.splitlines() if line.startswith(("modules: ", "optimizers: "))]
    if found:
        parts.append(
            "\n`python scripts/conformance_modules.py` runs module_db and optim_db, PyTorch's tables of modules and optimizers, in "
            "float64 on the cpu (SparseAdam is for sparse gradients):\n\n" + "".join(f"- {line}\n" for line in found)
        )
    return "".join(parts)


def state(report: dict[str, Any], column: str) -> str:
    """pass, different (on purpose), wrong or missing; a column other than cpu is of a GPU."""
    import ops_known

    if report["missing"]:
        return "missing"
    failed = {check for check, n in report["failed"].items() if n}
    if failed - ops_known.allowed(report["name"], "cpu" if column.startswith("cpu") else "webgpu"):
        return "wrong"
    return "different" if failed else "pass"


def is_right(report: dict[str, Any]) -> bool:
    """Right in values, dtypes, shapes and gradients."""
    return not report["missing"] and not any(report["failed"].get(c) for c in ("value", "gradient", "second"))


def counts_table(columns: dict[str, Reports]) -> str:
    checks = ("value", "gradient", "second", "method", "in place", "out", "errors")
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]

    def line(what: str, value: Any) -> None:
        lines.append(f"| {what} | " + " | ".join(str(value(name)) for name in columns) + " |")

    def entries(what: str, holds: Any) -> None:
        line(what, lambda name: sum(holds(r, name) for r in columns[name]))

    entries("pass every check", lambda r, name: state(r, name) == "pass")
    entries("intended differences", lambda r, name: state(r, name) == "different")
    entries("wrong", lambda r, name: state(r, name) == "wrong")
    entries("missing", lambda r, name: state(r, name) == "missing")
    entries("right in values, dtypes, shapes and gradients", lambda r, name: is_right(r))
    for check in checks:
        line(f"{check}: passed of run", lambda name, c=check: _passed(columns[name], c))
    return "\n".join(lines) + "\n"


def _passed(reports: Reports, check: str) -> str:
    made, failed = (sum(r[k].get(check, 0) for r in reports) for k in ("made", "failed"))
    return f"{made - failed:,} of {made:,}"


def page_with(section: str) -> str:
    """The page with the section in the place of an earlier one, or before the first table."""
    page = PAGE.read_text(encoding="utf-8")
    head, *rest = page.split("\n## ")
    kept = [part for part in rest if not part.startswith(TITLE)]
    return "\n## ".join([head, section.removeprefix("## "), *kept])


def main(
    reports: Annotated[list[str], typer.Argument(help="NAME=FILE for each column")],
    where: Annotated[str, typer.Option(help="date and machine")] = "",
    modules: Annotated[str, typer.Option(help="a file with the output of scripts/conformance_modules.py")] = "",
) -> None:
    """Write the section into the page."""
    pairs = [r.rpartition("=") for r in reports]
    columns = {
        name: [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        for name, _, path in pairs
    }
    PAGE.write_text(
        page_with(text(columns, where, Path(modules).read_text(encoding="utf-8") if modules else "")), encoding="utf-8"
    )


if __name__ == "__main__":
    typer.run(main)
