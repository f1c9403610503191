"""Measures how far every operator is from its reference, and writes docs/conformance.md (`make conformance`).

In: the tests' tables of cases. Out: a page with a line an operator: its largest error over its cases, for the value, the
gradient and the second derivative, on the cpu against PyTorch, on webgpu against the cpu, and the same in the portable
profile. A profile is chosen when a process starts, so each webgpu column is measured by a process of its own.

    python scripts/conformance.py                   # everything, into the page: many minutes on a software adapter
    python scripts/conformance.py --new             # what the page does not list yet; the other lines stay
    python scripts/conformance.py --only softmax    # what has this in its name, to the terminal
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance.md"
IN_ULP = "Functions of one element, in ulp"  # the title of what scripts/conformance_accuracy.py writes
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "device")]

import torch  # noqa: E402

import cases  # noqa: E402
import conformance_page  # noqa: E402
import shadergrad as sg  # noqa: E402
import test_conv  # noqa: E402
import test_losses  # noqa: E402
import test_modules  # noqa: E402
from helpers import as_array, leaves_of, results_of, torch_leaves_of  # noqa: E402
from shadergrad.runtime.device import get_device  # noqa: E402

KINDS = ("value", "gradient", "second")
Results = dict[str, list[Any]]  # by kind
Errors = dict[str, dict[str, dict[str, float]]]  # by section, operator and kind


@dataclass(frozen=True)
class Subject:
    """One case of an operator. reference: what PyTorch gives in float64. ours: on a device, in a dtype."""

    section: str
    operator: str
    what: str
    reference: Callable[[], Results]
    ours: Callable[[str, Any], Results]
    on_webgpu: bool = True


# -- the tables of the tests


def subjects() -> Iterator[Subject]:
    """All cases."""
    for case in cases.CASES:
        yield Subject(
            "Operators",
            case.op,
            case.id,
            lambda c=case: renamed(results_of(c, torch, torch_leaves_of(c, c.arrays()), second=True)),
            lambda device, dtype, c=case: renamed(
                results_of(c, sg, leaves_of(c, c.arrays(), device, dtype), second=True)
            ),
        )
    for case in test_conv.CASES:
        yield Subject(
            "Windows",
            case[0].split(",")[0].split()[0],
            case[0],
            lambda c=case: by_kind(test_conv.results(c, torch, "cpu", np.float64)),
            lambda device, dtype, c=case: by_kind(test_conv.results(c, sg, device, dtype.numpy)),
        )
    for case in test_losses.CASES:
        yield Subject(
            "Losses",
            case.name,
            str(case),
            lambda c=case: by_kind(test_losses.torch_results(c)),
            lambda device, dtype, c=case: by_kind(test_losses.our_results(c, device, dtype)),
        )
    for case in test_modules.CASES:
        yield Subject(
            "Modules",
            case.name.split()[0],
            case.name,
            lambda c=case: by_kind(test_modules.torch_results(c)),
            lambda device, dtype, c=case: by_kind(test_modules.our_results(c, device, dtype)),
            case.on_webgpu,
        )


def renamed(results: Results) -> Results:
    return dict(zip(KINDS, results.values(), strict=False))


def by_kind(results: dict[str, Any]) -> Results:
    """The tables of modules, losses and windows name each result."""
    kinds: Results = defaultdict(list)
    for name, result in results.items():
        kinds["gradient" if name.startswith("gradient") else "value"].append(result)
    return kinds


def operators() -> dict[str, list[str]]:
    """The names of what is measured, by section."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for subject in subjects():
        names[subject.section][subject.operator] = None
    return {section: list(found) for section, found in names.items()}


Listed = dict[str, dict[str, str]]  # the cells of the page, as text, by section and operator


def listed() -> Listed:
    """What the page says now."""
    found: Listed = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        rows = re.findall(r"^\| `(.+?)` \| (.*) \|$", text, re.MULTILINE)
        if rows:
            found[title] = {name.replace(r"\|", "|"): cells for name, cells in rows}
    return found


def pytorchs_part() -> str:
    """What the page says of PyTorch's own table and of functions in ulp, which scripts/conformance_page.py and conformance_accuracy.py
    write."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    return "".join(f"\n## {part}" for part in parts if part.startswith((conformance_page.TITLE, IN_ULP)))


# -- measuring


def error(actual: Any, reference: Any) -> float:
    """The largest of |actual - reference| / max(|reference|, 1); infinite where shapes or special values differ."""
    a, b = (as_array(x).astype(np.float64) for x in (actual, reference))
    if a.shape != b.shape:
        return np.inf
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        errors = np.where(same, 0.0, np.abs(a - b) / np.maximum(np.abs(b), 1.0))
    return float(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).max(initial=0.0))


def measure(device: str, only: str = "", new: bool = False) -> Errors:
    """The largest errors: of the cpu in float64 against PyTorch, or of another device in float32 against the cpu.

    only: of operators that have this in their name. new: of those that the page does not list.
    """
    errors: Errors = defaultdict(lambda: defaultdict(dict))
    known = listed() if new else {}
    chosen = [
        s
        for s in subjects()
        if only in s.operator and s.operator not in known.get(s.section, {}) and (device == "cpu" or s.on_webgpu)
    ]
    for done, s in enumerate(chosen):
        if sys.stderr.isatty():
            print(f"\r{device} {done}/{len(chosen)} {s.what:<70.70}", end="", file=sys.stderr)
        try:
            found, expected = compared(s, device)
        except Exception as failure:
            failure.add_note(f"in {s.section}, {s.what}")
            raise
        largest = errors[s.section][s.operator]
        for kind, pairs in ((kind, zip(found[kind], expected[kind], strict=True)) for kind in expected):
            largest[kind] = max([largest.get(kind, 0.0), *(error(a, b) for a, b in pairs)])
    print(file=sys.stderr)
    return errors


def compared(s: Subject, device: str) -> tuple[Results, Results]:
    if device == "cpu":
        return s.ours("cpu", sg.float64), s.reference()
    found = s.ours(device, sg.float32)
    sg.sync(device)  # value, gradient and second derivative are one plan, as in a training step
    return found, s.ours("cpu", sg.float32)


def measured_apart(profile: str, only: str, new: bool) -> tuple[str, Errors]:
    """What a process with that SHADERGRAD_PROFILE finds on webgpu: the device's description, and the errors."""
    command = [sys.executable, __file__, "--measure-webgpu", "--only", only, *["--new"] * new]
    child = subprocess.run(
        command, env={**os.environ, "SHADERGRAD_PROFILE": profile}, stdout=subprocess.PIPE, check=True, text=True
    )
    answer = json.loads(child.stdout)
    return answer["device"], answer["errors"]


# -- the page

HEAD = """# Conformance

`make conformance` writes this page. {count} cases of {operators} operators, on {date}.

| | |
|---|---|
| machine | {machine} |
| webgpu | {webgpu} |
| portable | {portable} |
| versions | {versions} |

- **Columns.** *cpu* compares the cpu device in float64 with PyTorch in float64. *webgpu* compares a GPU in float32 with the cpu device in
  float32. *portable* is the same with SHADERGRAD_PROFILE=portable, within WebGPU's default limits.
- **Numbers.** A number is the largest |result − reference| / max(|reference|, 1) over all elements of all cases of the operator. This is the
  relative error of values above 1 and the absolute error of values below. 0 is exact. NaN and infinities must agree, or the number is inf.
- **Gradients** use random cotangents. Second derivatives differentiate the gradients with respect to inputs and cotangents.
- **A dash** marks a missing comparison: the operator has no such derivative, or (webgpu) the case is a composition of measured ones.
- **Resolution.** float64 resolves 2e-16, float32 1e-07. Both libraries compute functions of integers in float32, also on the cpu (exp has such
  a case). PyTorch's constant in Hardsigmoid is float32, too.
- **Tolerances.** The tests allow 1e-09 on the cpu. On webgpu they allow a relative error of 1e-04 and an absolute error of 1e-05 times the
  length of the longest sum.
"""


def page(columns: list[Errors], facts: dict[str, Any]) -> str:
    """The page: `facts` fill the head; a table a section."""
    names = operators()
    head = HEAD.format(count=sum(1 for _ in subjects()), operators=sum(map(len, names.values())), **facts)
    parts = [head, pytorchs_part()]
    for section, found in names.items():
        parts.append(f"\n## {section}\n\n{table(section, found, columns)}")
    return "".join(parts)


def page_with_new(columns: list[Errors], where: str) -> str:
    """The page with lines for the operators that it lacked, which its head names with where they were measured, and without
    those that are gone. The facts in its head are those of the lines that stay."""
    text, before = PAGE.read_text(encoding="utf-8"), listed()
    names = operators()
    count = f"{sum(1 for _ in subjects())} cases of {sum(map(len, names.values()))} operators"
    head = re.sub(r"\d+ cases of \d+ operators", count, text.partition("\n## ")[0].rstrip("\n"))
    added = [f"`{name}`" for section, found in names.items() for name in found if name not in before.get(section, {})]
    parts = [f"{head}\n", f"- Measured later ({where}): {', '.join(added)}.\n" if added else "", pytorchs_part()]
    for section, found in names.items():
        parts.append(f"\n## {section}\n\n{table(section, found, columns, before.get(section, {}))}")
    return "".join(parts)


KINDS_OF = {"Operators": KINDS}  # others have no second derivatives


def table(section: str, names: Iterable[str], columns: list[Errors], before: dict[str, str] | None = None) -> str:
    """A line for each operator: its cells of `before`, else what was measured."""
    kinds = KINDS_OF.get(section, KINDS[:2])
    heads = [f"{device} {kind}" for device in ("cpu", "webgpu", "portable") for kind in kinds]
    lines = [f"| operator | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in names:
        cells = [cell(c.get(section, {}).get(name, {}).get(kind)) for c in columns for kind in kinds]
        lines.append(f"| `{name.replace('|', chr(92) + '|')}` | {(before or {}).get(name, ' | '.join(cells))} |")
    return "\n".join(lines) + "\n"


def cell(value: float | None) -> str:
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:.0e}"


def machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
        model = next((value.strip() for key, _, value in lines if key.strip() == "model name"), model)
    return f"{model}, {platform.system()} {platform.release()}"


def main(
    only: Annotated[str, typer.Option(help="measure operators with this text in their name, and print them")] = "",
    new: Annotated[
        bool, typer.Option("--new", help="measure operators that the page does not list, and add them")
    ] = False,
    measure_webgpu: Annotated[bool, typer.Option("--measure-webgpu", hidden=True)] = False,
) -> None:
    """Measure the errors of all operators and write docs/conformance.md."""
    warnings.simplefilter("ignore")  # PyTorch's, about degrees of freedom and the like
    if measure_webgpu:
        errors = measure("webgpu", only, new)
        device = get_device("webgpu")
        print(json.dumps({"device": f"{device.describe()}, profile {device.profile}", "errors": errors}))  # type: ignore[attr-defined]
        return
    cpu = measure("cpu", only, new)
    (webgpu, full), (portable, least) = (measured_apart(profile, only, new) for profile in ("", "portable"))
    columns = [cpu, full, least]
    if only:
        for section in cpu:
            print(section, table(section, cpu[section], columns), sep="\n")
        return
    if new:
        PAGE.write_text(page_with_new(columns, f"{date.today()}, {machine()}, {webgpu}"), encoding="utf-8")
        return
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch", "wgpu"))
    facts = {"date": date.today(), "machine": machine(), "webgpu": webgpu, "portable": portable}
    PAGE.write_text(page(columns, {**facts, "versions": f"shadergrad {sg.__version__}, {versions}"}), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
