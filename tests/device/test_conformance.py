"""The page of measured errors: it lists every operator of the tables, and the program measures what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import conformance


def test_the_page_lists_every_operator() -> None:
    on_page = {section: list(rows) for section, rows in conformance.listed().items()}
    assert on_page == conformance.operators(), (
        "the tables of cases have changed: run python scripts/conformance.py --new"
    )


def test_no_operator_is_far_from_its_reference() -> None:
    for rows in conformance.listed().values():
        for operator, text in rows.items():
            cells = text.split(" | ")
            cpu, webgpu = cells[: len(cells) // 3], cells[len(cells) // 3 :]
            numbers = [0.0 if c == "–" else float(c) for c in (*cpu, *webgpu)]
            assert max(numbers[: len(cpu)]) <= 1e-7, operator
            assert max(numbers) <= 1e-4, operator


@pytest.mark.parametrize(
    ("actual", "reference", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([0.25], [0.0], 0.25),
        ([5.0, 0.0], [4.0, 0.0], 0.25),
        ([np.nan, np.inf], [np.nan, np.inf], 0.0),
        ([np.nan], [1.0], np.inf),
        ([1.0], [np.nan], np.inf),
        ([np.inf], [-np.inf], np.inf),
        ([True, False], [True, True], 1.0),
        ([], [], 0.0),
        ([1.0], 1.0, np.inf),
    ],
)
def test_an_error_is_relative_above_one_and_absolute_below(
    actual: list[float], reference: list[float], expected: float
) -> None:
    assert conformance.error(np.array(actual), np.array(reference)) == expected


def test_the_cpu_is_measured_against_pytorch() -> None:
    found = conformance.measure("cpu", "logsumexp")
    assert set(found) == {"Operators"}
    assert set(found["Operators"]["logsumexp"]) == {"value", "gradient", "second"}
    assert 0 < max(found["Operators"]["logsumexp"].values()) < 1e-12


def test_webgpu_is_measured_against_the_cpu(webgpu: str) -> None:
    found = conformance.measure(webgpu, "sigmoid")["Operators"]["sigmoid"]
    assert 0 < found["value"] < 1e-5
    assert 0 < found["second"] < 1e-4


def test_new_lines_are_added_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = conformance.PAGE.read_text(encoding="utf-8")
    without = "".join(line for line in whole.splitlines(True) if not line.startswith("| `logsumexp` |"))
    gone = without.replace("| `exp` |", "| `gone` | 0 |\n| `exp` |", 1)
    monkeypatch.setattr(conformance, "PAGE", tmp_path / "conformance.md")
    conformance.PAGE.write_text(gone, encoding="utf-8")
    found = conformance.measure("cpu", new=True)
    assert {section: list(rows) for section, rows in found.items()} == {"Operators": ["logsumexp"]}
    page = conformance.page_with_new([found, found, found], "a day, a machine")
    assert "\n- Measured later (a day, a machine): `logsumexp`.\n\n## " in page
    conformance.PAGE.write_text(page, encoding="utf-8")
    lines, before = page.splitlines(), whole.splitlines()
    changed = [n for n in lines if n not in before and "`logsumexp`" not in n]
    assert all(" cases of " in n for n in changed), "lines that were there stay as they were"
    assert {s: list(rows) for s, rows in conformance.listed().items()} == conformance.operators()
