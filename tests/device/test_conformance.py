"""The page of measured errors: it lists every operator of the tables, and the program measures what it says."""

# pyright: reportMissingImports=false
from __future__ import annotations

import re

import numpy as np
import pytest

import conformance


def listed() -> dict[str, dict[str, list[str]]]:
    """The cells of the page, by section and operator."""
    sections: dict[str, dict[str, list[str]]] = {}
    for part in conformance.PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        rows = re.findall(r"^\| `(.+?)` \| (.*) \|$", text, re.MULTILINE)
        sections[title] = {name.replace(r"\|", "|"): cells.split(" | ") for name, cells in rows}
    return sections


def test_the_page_lists_every_operator() -> None:
    on_page = {section: list(rows) for section, rows in listed().items()}
    assert on_page == conformance.operators(), "the tables of cases have changed: run make conformance"


def test_no_operator_is_far_from_its_reference() -> None:
    for rows in listed().values():
        for operator, cells in rows.items():
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
