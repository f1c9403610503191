"""A fixed part of the operator table in a real browser: values, gradients and second derivatives as on the cpu device.

All of it is `make conformance`, which writes docs/conformance-browser.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cases
import conformance_browser
from chromium import blank_page, run_case, runtime_folder, served
from helpers import ATOL, RTOL

EVERY = 40
# SwiftShader's exp and log of NaN, and log of negative numbers, are numbers, which WGSL allows; special values show it
OF_NAN = {"exp", "log", "sigmoid", "logit", "xlogy", "logaddexp"}
CHOSEN = cases.CASES[::EVERY]


@pytest.fixture(scope="module")
def page(chromium: Any) -> Any:
    with served(runtime_folder()) as origin:
        yield blank_page(chromium, origin)


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.id)
def test_a_case_gives_in_the_browser_what_it_gives_on_the_cpu(page: Any, case: cases.Case) -> None:
    found, expected = run_case(page, case)
    for kind, arrays in expected.items():
        for there, here in zip(found[kind], arrays, strict=True):
            assert np.allclose(there, here.astype(np.float64), RTOL, ATOL * case.length, equal_nan=True), kind


def test_the_page_lists_every_operator_and_none_is_far() -> None:
    rows = conformance_browser.listed()
    operators = {case.op for case in cases.CASES}
    assert rows.keys() == operators, "the table has changed: python scripts/conformance_browser.py --new"
    numbers = [cell for name, row in rows.items() if name not in OF_NAN for cell in row.split(" | ")[1:]]
    worst = max(float(cell.strip(" |\n")) for cell in numbers if "–" not in cell)
    assert worst <= 1e-4
