"""The operator table and random graphs as ONNX: onnxruntime gives what the cpu device gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from cases import CASES, Case
from shadergrad.onnx import export
from shadergrad.run.trees import tensors_in
from test_random_graphs import RandomGraph, for_random_graphs

pytest.importorskip("onnxruntime", reason='ONNX NOT TESTED: pip install "shadergrad[onnx]" onnxruntime')

CLOSE = 1e-5
PARTS = 12
# operations without ONNX operators, and those whose result has a size that values decide
REFUSED = {
    "erfinv", "lgamma", "digamma", "special.erfcx", "special.i0e", "special.i1e", "special.gammainc", "special.gammaincc", "special.zeta", "bitcast", "threefry", "frexp", "gcd", "lcm",
    "nextafter", "nonzero", "repeat_interleave", "bincount", "unique", "unique_consecutive", "masked_select",
}  # fmt: skip
NAN = {"amax", "amin", "max", "min", "argmax", "argmin"}  # of rows with NaN, which runtimes pass over


def is_exported(case: Case) -> bool:
    return case.op not in REFUSED and not (case.op in NAN and "NaN" in case.of)


def leaves(case: Case) -> list[sg.Tensor]:
    return [sg.tensor(a.astype(np.float32) if a.dtype == np.float64 else a) for a in case.arrays()]


def assert_as_close_as_sums(found: sg.Tensor, wanted: sg.Tensor, what: str = "") -> None:
    """Where terms of a sum cancel, its error is that of the large results beside it: each processor joins them in an order of its own."""
    values = wanted.numpy()
    largest = max(1.0, float(np.abs(values[np.isfinite(values)]).max(initial=0.0)))
    np.testing.assert_allclose(found.numpy(), values, rtol=CLOSE, atol=CLOSE * largest, err_msg=what)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_operator_table_in_onnxruntime(part: int) -> None:
    """Many cases are one model, so that there are few sessions."""
    cases = [case for case in CASES if is_exported(case)][part::PARTS]
    given = [leaves(case) for case in cases]

    def model(*inputs: list[sg.Tensor]) -> list[Any]:
        rows = zip(cases, inputs, strict=True)
        return [
            c.ours(*(i.layout(x) if i.layout else x for i, x in zip(c.inputs, row, strict=True))) for c, row in rows
        ]

    program = export(model, tuple(given))
    found = iter(program(*(x for row in given for x in row)))
    for case, wanted in zip(cases, model(*given), strict=True):
        for _, t in tensors_in(wanted):
            assert_as_close_as_sums(next(found), t.detach(), case.id)


def check_graph(graph: RandomGraph) -> None:
    """The values that nobody else reads."""
    rng = np.random.default_rng(1)
    given = [sg.tensor(rng.standard_normal(s).astype(np.float32)) for s in graph.leaves]
    used = {k for s in graph.steps for k in s.operands}

    def model(*leaves: sg.Tensor) -> list[sg.Tensor]:
        values = [*leaves]
        for step in graph.steps:
            values.append(step.apply(*(values[k] for k in step.operands)))
        return [v for k, v in enumerate(values) if k not in used]

    program = export(model, tuple(given))
    for found, wanted in zip(program(*given), model(*given), strict=True):
        assert_as_close_as_sums(found, wanted)


def test_random_graphs_in_onnxruntime() -> None:
    for_random_graphs(0, check_graph)
