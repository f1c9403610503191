"""Runs PyTorch's own table of operators (torch.testing, op_db) against ours, and says what passes.

python scripts/conformance_ops.py                          # all of it, on cpu: the counts, and what is wrong
python scripts/conformance_ops.py --only cumsum --verbose  # entries with this in their name, every failure kept
python scripts/conformance_ops.py --device webgpu --most 4 # four samples of each dtype, on webgpu
python scripts/conformance_ops.py --json out.json          # the reports, a line each as they come, for the page

A run that was stopped goes on where it was: entries that --json holds are not run again.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "conformance")]

warnings.simplefilter("ignore")

import ops_names  # noqa: E402
import ops_run  # noqa: E402


def _one(job: tuple[str, str, int | None]) -> ops_run.Report:
    name, device, most = job
    import torch

    torch.set_num_threads(1)
    op = next(o for o in ops_names.op_db if o.formatted_name == name)
    try:
        return ops_run.run(op, device, most)
    except Exception as error:  # the harness itself
        report = ops_run.Report(name)
        report.fail("value", f"the run itself: {type(error).__name__}: {error}")
        return report


def reports(
    names: Iterable[str], device: str = "cpu", most: int | None = None, jobs: int = 2
) -> Iterator[ops_run.Report]:
    """The report of each entry, as they come."""
    work = [(name, device, most) for name in names]
    if jobs == 1:
        yield from map(_one, work)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_one, work)


def read(path: Path) -> list[ops_run.Report]:
    """The reports in a file, one a line."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [ops_run.Report(**{**r, "made": Counter(r["made"]), "failed": Counter(r["failed"])}) for r in found]


def counts(found: list[ops_run.Report]) -> dict[str, Any]:
    """How many pass, are wrong and are missing, and the same of every check."""
    made: Counter[str] = sum((r.made for r in found), Counter())
    failed: Counter[str] = sum((r.failed for r in found), Counter())
    return {
        "entries": len(found),
        "there": sum(not r.missing for r in found),
        "right in value and gradients": sum(r.right for r in found),
        "pass": sum(r.state == "pass" for r in found),
        "wrong": sum(r.state == "wrong" for r in found),
        "missing": sum(r.state == "missing" for r in found),
        "checks": {c: [made[c] - failed[c], made[c]] for c in ops_run.CHECKS},
        "operators right by check": {
            c: [sum(not r.failed[c] for r in found if r.made[c]), sum(r.made[c] > 0 for r in found)]
            for c in ops_run.CHECKS
        },
    }


def main(
    only: Annotated[str, typer.Option(help="entries with this in their name; several by commas")] = "",
    device: str = "cpu",
    most: Annotated[int, typer.Option(help="samples of a dtype at most; 0 for all")] = 0,
    jobs: int = 2,
    verbose: bool = False,
    to_json: Annotated[str, typer.Option("--json", help="write the reports there")] = "",
) -> None:
    """Run the table."""
    if verbose:
        ops_run.KEPT = 1000
    wanted = only.split(",")
    names = [o.formatted_name for o in ops_names.counted() if any(w in o.formatted_name for w in wanted)]
    file = Path(to_json) if to_json else None
    found = read(file) if file and file.exists() else []
    known = {r.name for r in found}
    for report in reports([n for n in names if n not in known], device, most or None, jobs):
        found.append(report)
        if file:
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(vars(report)) + "\n")
    for report in found:
        if report.state != "pass":
            checks = ", ".join(f"{c} {n}/{report.made[c]}" for c, n in report.failed.items() if n)
            print(f"{report.state:8}{report.name}: {report.missing or checks}")
            for failure in report.failures:
                print(f"            {failure}")
    for key, value in counts(found).items():
        print(f"{key}: {value}")


if __name__ == "__main__":
    typer.run(main)
