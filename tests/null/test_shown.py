"""What objects show of themselves: HTML in notebooks, tables as text, kernels by number."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.compile import pipeline
from shadergrad.logic.circuit import CellCircuit, Circuit, to_svg


class Whole(HTMLParser):
    """HTML of which every tag is closed; `texts` are what one reads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag != "script"
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None: ...

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(value: Any) -> list[str]:
    return Whole(value._repr_html_()).texts


def stepped() -> Any:
    model = nn.Linear(3, 2)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_tensor_shows_its_values_and_what_it_is() -> None:
    x = sg.tensor([[1.0, 2.0]], requires_grad=True)
    assert shown(x) == [repr(x), "float32 (1, 2) on cpu, requires grad"]
    assert shown(x < 2)[1] == "bool (1, 2) on cpu"


def test_a_module_shows_its_tree_and_counts() -> None:
    class Odd(nn.Module):
        def extra_repr(self) -> str:
            return "<b> & more"

    model = nn.Sequential(nn.Linear(3, 2), nn.Sequential(Odd(), nn.Linear(2, 1)))
    model[0].requires_grad_(False)
    texts = shown(model)
    assert texts[:2] == ["module", "parameters"]
    assert texts[-1] == "11 parameters on cpu, 3 trained"
    assert "    (0) Odd(<b> & more)" in texts
    assert shown(nn.ReLU())[-1] == "0 parameters"


def test_a_step_shows_its_table_once_it_has_run() -> None:
    step = stepped()
    assert step._repr_html_() is None
    x = sg.ones(4, 3)
    step(x)
    texts = shown(step)
    assert texts == shown(step.plan) == shown(step.explain())
    portable = step.portable(x).plan
    assert shown(portable)[:8] == ["#", "kernel", "type", "from", "shape", "bytes", "flops", "groups"]
    assert repr(portable.explain()) == str(portable)


def test_the_cpus_table_counts_all_operations() -> None:
    step = stepped()
    step(sg.ones(4, 3))
    lines = step.explain().splitlines()
    counts = [int(line.split()[-2]) for line in lines[2:-1]]
    assert sum(counts) == len(step.plan.dispatches)
    assert lines[-1].startswith(f"{sum(counts)} NumPy operations")
    (dot,) = [line for line in lines if line.startswith("dot ")]
    assert re.search(r"4 x 2 float32|3 x 2 float32|2 x 3 float32", dot)
    nbytes = [int(line.split()[-1].replace(",", "")) for line in lines[2:-1]]
    assert nbytes == sorted(nbytes, reverse=True)


def test_debug_prints_each_kernel_once_by_the_numbers_of_explain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline, "config", replace(pipeline.config, debug=frozenset({"kernels"})))
    monkeypatch.setattr(pipeline, "_printed", set())
    step, x = stepped(), sg.ones(5, 3)
    plan = step.portable(x).plan
    text = capsys.readouterr().err
    named = [(int(n), m[2]) for m in re.finditer(r"^// #([\d, ]+) (\w+),", text, re.M) for n in m[1].split(",")]
    assert sorted(named) == [(int(words[0]), words[1]) for words in map(str.split, str(plan).splitlines()[2:-1])]
    assert text.count("@compute") == len(plan.kernels)
    stepped().portable(x)  # the same kernels in another plan
    again = capsys.readouterr().err
    assert "@compute" not in again


@pytest.mark.parametrize("kind", range(16))
def test_a_circuit_is_drawn_with_all_gates_and_names(kind: int) -> None:
    circuit = Circuit(2, [(kind, 0, 1)], [2], ["a<b", "c"], ["out"])
    drawing = to_svg(circuit)
    reads = {0: 0, 15: 0, 3: 1, 12: 1, 5: 1, 10: 1}.get(kind, 2)
    assert drawing.count("<path") == reads + 1
    assert drawing.count("<circle") == (kind in (2, 4, 11, 13))
    assert "out" in Whole(drawing).texts


def test_cells_are_drawn_by_neighbour_and_large_circuits_are_not() -> None:
    cell = CellCircuit(Circuit(9, [(6, 3, 5)], [9]))
    assert {"W.0", "E.0", "XOR", "next.0"} <= set(shown(cell))
    rng = np.random.default_rng(0)
    large = Circuit(9, [(6, int(rng.integers(9 + k)), 8 + k) for k in range(500)], [508])
    assert "more than 400 gates are not drawn" in "".join(shown(large))
