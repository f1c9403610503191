"""The loop iterations of a kernel are counted in its source, and no kernel of the compiler makes more than a device allows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.compile.loop_iterations import MOST_ITERATIONS, check, iterations_of
from shadergrad.compile.pipeline import compile_graph
from shadergrad.errors import CompileError
from shadergrad.graph.capture import Capture
from shadergrad.target import PORTABLE, ROWS, Target

TARGETS = {
    "portable": PORTABLE,
    **{row: Target("wgsl", 64, 1024, 49152, traits=ROWS[row]) for row in ("native", "discrete", "narrow software")},
    "software": Target("wgsl", 64, 1024, 49152, traits=ROWS["software"], subgroups=(4, 128)),
}


def main(body: str, before: str = "") -> str:
    return f"{before}@compute @workgroup_size(64)\nfn main(@builtin(local_invocation_index) lid: u32) {{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("body", "iterations"),
    [
        ("let x = 1;", 0),
        ("for (var r = 0; r < 100; r++) { x += 1; }", 101),
        ("for (var r = place; r < 1000; r += 8) { x += 1; }", 126),
        ("for (var r = 0u; r < 1000u; r += 8u) { x += 1; }", 126),
        ("for (var a = 0; a < 10; a++) { for (var b = 0; b < 10; b++) { x += 1; } }", 11 * 12),
        ("for (var a = 0; a < 10; a++) { } for (var b = 0; b < 10; b++) { }", 22),
        (
            "for (var b = place; b < 6400; b += 320) { for (var r = b; r < min(b + 320, 6400); r += 10) { x += 1; } }",
            21 * 34,
        ),
        (
            "let first = i32(lid) * 9; let last = min(first + 90, 7000); for (var k = first; k < last; k++) { x += 1; }",
            91,
        ),
        (
            "let first = i32(lid) * 8; let last = min(first + 80, 70); for (var k = first / 4; k < last / 4; k++) { }",
            21,
        ),
        ("for (var w = 4; w < 256; w *= 2) { x += 1; }", 9),
        ("while (low < high) { x += 1; }", 34),
        ("for (var k = 0; k < from_memory; k++) { x += 1; }", 2),
        ("// for (var k = 0; k < 100; k++) { }", 0),
    ],
)
def test_iterations_are_counted_from_the_text(body: str, iterations: int) -> None:
    assert iterations_of(main(body)) == iterations


def test_iterations_of_functions_count_where_they_are_called() -> None:
    function = "fn f(x: f32) -> f32 {\n  for (var k = 0; k < 9; k++) { }\n  return x;\n}\n"
    assert iterations_of(main("let a = f(1.0);", function)) == 10
    assert iterations_of(main("for (var r = 0; r < 100; r++) { let a = f(1.0); }", function)) == 101 * 11


def test_a_kernel_that_would_be_cut_short_is_refused_in_words() -> None:
    with pytest.raises(CompileError, match=r"\[sum\] .* 70,001 iterations.*silently stops after 65,535"):
        check(main("for (var r = 0; r < 70000; r++) { x += 1; }"), "sum")


def large(*shape: int, dtype: Any = np.float32) -> sg.Tensor:
    """A tensor of that shape that takes the memory of one element along its first axis."""
    return sg.tensor(np.ones((1, *shape[1:]), dtype)).expand(*shape) + sg.tensor(np.ones((), dtype))


LONG: dict[str, Callable[[], sg.Tensor]] = {
    "sum of all": lambda: large(200_000, 1001).sum(),
    "mean of all, odd": lambda: large(33_000_001, 1).mean(),
    "mean of products": lambda: (large(20_000, 1) * large(1, 20_000)).mean(),
    "long rows": lambda: large(600, 70_001).sum(1),
    "long rows, four by four": lambda: large(600, 262_144).sum(1),
    "many long rows": lambda: large(5000, 100_001).sum(1),
    "long columns": lambda: large(600_000, 5000).sum(0),
    "columns of one": lambda: large(70_001, 600).amax(0),
    "softmax": lambda: large(600, 70_001).softmax(1),
    "normalised": lambda: sg.nn.functional.layer_norm(large(400, 70_001), (70_001,)),
    "variances": lambda: large(400, 70_001).var(1),
    "loops within": lambda: sg.gcd(large(200, 8000, dtype=np.int32), large(200, 8000, dtype=np.int32)).sum(1),
    "remainders": lambda: large(200, 16_000).fmod(large(200, 16_000)).sum(1),
    "a long contraction": lambda: large(2, 1_000_003) @ large(1_000_003, 3),
    "a long contraction of tiles": lambda: large(64, 3_000_000) @ large(3_000_000, 64),
    "running sums": lambda: large(1, 5_000_001).cumsum(1),
    "sorted": lambda: large(1, 500_001).sort(1)[0],
    "the largest few": lambda: large(2, 300_001).topk(4, 1)[0],
    "a place of the largest": lambda: large(600, 70_001).argmax(1),
    "very many into one place": lambda: sg.zeros(300).index_add(
        0, large(60_000_001, dtype=np.int32) * 0, large(60_000_001)
    ),
    "gathered": lambda: sg.zeros(10).index_add(0, large(700_001, dtype=np.int32) * 0, large(700_001)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LONG)
def test_no_kernel_makes_more_iterations_than_a_device_in_software_allows(name: str, target: str) -> None:
    plan, _ = compile_graph(Capture([LONG[name]()._node]).graph(), TARGETS[target])
    assert {k.name: n for k in plan.kernels if (n := iterations_of(k.source)) > MOST_ITERATIONS} == {}


def test_very_many_elements_of_one_place_are_added_several_a_round() -> None:
    plan, _ = compile_graph(Capture([LONG["very many into one place"]()._node]).graph(), TARGETS["software"])
    loop = next(k.source for k in plan.kernels if "var j = first" in k.source)
    step = int(re.search(r"j < end; j \+= (\d+)", loop)[1])  # type: ignore[index]
    assert 60_000_001 / step <= 32768


def test_a_sum_over_more_places_than_an_i32_counts_goes_axis_by_axis() -> None:
    total = (large(50_000, 1) * large(1, 50_000)).sum()
    for target in TARGETS.values():
        plan, _ = compile_graph(Capture([total._node]).graph(), target)
        numbers = [int(n) for k in plan.kernels for n in re.findall(r"\b\d+\b", k.source.split("\n", 1)[1])]
        assert max(numbers) < 2**31


def test_a_position_that_no_i32_holds_is_refused_in_words() -> None:
    total = (large(50_000, 1) * large(1, 50_000)).reshape(-1).sum()
    with pytest.raises(CompileError, match="positions have 31 bits"):
        compile_graph(Capture([total._node]).graph(), PORTABLE)
