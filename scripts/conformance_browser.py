"""Runs every case of the operator table in a real browser, exported as a plan, and writes docs/conformance-browser.md.

In: the table of cases, and Chromium. Out: a row per operator with the largest errors of value, gradient and second derivative
against the cpu device in float32. Part of `make conformance`.

    python scripts/conformance_browser.py                 # everything, into the page: minutes on a software adapter
    python scripts/conformance_browser.py --new           # operators that the page does not list yet; other rows stay
    python scripts/conformance_browser.py --only softmax  # operators with this text in their name, to the terminal
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Container
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance-browser.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "device"), str(ROOT / "scripts")]

import cases  # noqa: E402
from chromium import blank_page, chromium, run_case, runtime_folder, served  # noqa: E402
from conformance import cell, error, machine  # noqa: E402

KINDS = ("values", "gradients", "second derivatives")
HEAD = """# Conformance of the browser

`make conformance` writes this page. {count} cases of {operators} operators, exported as plans within WebGPU's default
limits and run by runtime.js in {browser}, on {date} ({machine}).

A number is the largest error against the cpu device in float32, as in [conformance.md](conformance.md). The tests allow 1e-4. `inf` marks
operators that differ in special values only: SwiftShader's exp and log of NaN and its log of negative numbers are finite, as WGSL allows.
Their other values are as accurate as the rest.

| operator | value | gradient | second |
|---|---|---|---|
"""


def listed() -> dict[str, str]:
    """The rows of the page, by operator."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    rows = [line for line in lines if line.startswith("| `")]
    return {row.partition("` | ")[0].removeprefix("| `").replace(r"\|", "|"): row + "\n" for row in rows}


def measure(only: str, known: Container[str] = ()) -> tuple[dict[str, dict[str, float]], str]:
    """The largest errors by operator and kind, and the name of the browser."""
    errors: dict[str, dict[str, float]] = defaultdict(dict)
    chosen = [case for case in cases.CASES if only in case.op and case.op not in known]
    with chromium() as browser, served(runtime_folder()) as origin:
        page = blank_page(browser, origin)
        for done, case in enumerate(chosen):
            if sys.stderr.isatty():
                print(f"\r{done}/{len(chosen)} {case.id:<70.70}", end="", file=sys.stderr)
            try:
                found, expected = run_case(page, case)
            except Exception as failure:
                failure.add_note(f"in {case.id}")
                raise
            largest = errors[case.op]
            for kind in expected:
                pairs = zip(found[kind], expected[kind], strict=True)
                largest[kind] = max([largest.get(kind, 0.0), *(error(a, b) for a, b in pairs)])
        name = f"Chromium {browser.version} with SwiftShader"
    return errors, name


def main(
    only: Annotated[str, typer.Option(help="measure operators with this text in their name, and print them")] = "",
    new: Annotated[
        bool, typer.Option("--new", help="measure operators that the page does not list, and add them")
    ] = False,
) -> None:
    """Measure the errors of all operators in Chromium and write docs/conformance-browser.md."""
    before = listed() if new else {}
    errors, browser = measure(only, before)
    rows = before | {
        name: f"| `{name.replace('|', chr(92) + '|')}` | {' | '.join(cell(found.get(kind)) for kind in KINDS)} |\n"
        for name, found in errors.items()
    }
    if only:
        print(*rows.values(), sep="", end="")
        return
    names = list(dict.fromkeys(case.op for case in cases.CASES))
    facts = {"count": len(cases.CASES), "operators": len(names), "browser": browser}
    head = HEAD.format(**facts, date=date.today(), machine=machine())
    PAGE.write_text(head + "".join(rows[name] for name in names), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
