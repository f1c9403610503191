"""The pages as a visitor sees them: they train by themselves, take strokes, files and other rates, and harden what they learn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.cli import run
from shadergrad.logic import circuit
from shadergrad.logic.experiments import checkerboard
from shadergrad.recipes.logic.page import automaton_page

from .conftest import WATCH_TASKS
from .steps import BATCH, automaton, digits, sequences

MODULE = "const {%s} = await import(new URL('%s', location.href));"


def wait_for_steps(page: Any, steps: int) -> None:
    page.wait_for_function(f"() => Number(figure('steps').replaceAll(',', '')) >= {steps}", polling=50)


def figure(page: Any, name: str) -> str:
    return page.evaluate("(name) => figure(name)", name)


FIGURE = """window.figure = (name) => {
  const found = [...document.querySelectorAll('dt')].find((dt) => dt.textContent === name);
  return found ? found.nextSibling.textContent : '0';
};"""


def opened(visit: Any, folder: Path, **options: Any) -> Any:
    page = visit(folder, script=WATCH_TASKS + FIGURE, **options)
    page.wait_for_selector("body[data-ready]")
    return page


@pytest.fixture(scope="module")
def digits_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    assert run(["export", "digits", str(folder)]) == 0
    return folder


def test_the_digits_page_learns_by_itself_in_a_worker(visit: Any, digits_site: Path) -> None:
    page = opened(visit, digits_site)
    wait_for_steps(page, 250)
    page.click("text=Pause")
    page.wait_for_function("() => document.querySelector('button.main').textContent === 'Start'")
    page.wait_for_function("() => parseFloat(figure('test accuracy')) > 95", polling=50)
    assert "dispatches" in page.inner_text("dl")
    assert page.evaluate("() => window.longTasks.filter((ms) => ms > 50 && ms < 1e5).length") <= 2  # while it loads
    assert page.inner_text("#status") == ""
    assert "run=0" in page.url


def test_the_digits_page_takes_strokes_steps_rates_and_files(visit: Any, digits_site: Path, tmp_path: Path) -> None:
    page = opened(visit, digits_site, path="index.html#run=0&lr=0.01", has_touch=True)
    page.wait_for_function("() => document.querySelector('output').textContent === '0.010'")
    assert figure(page, "steps") == "0"
    page.click("text=One step")
    wait_for_steps(page, 1)
    page.click("text=Clear")
    page.locator("canvas.pad").scroll_into_view_if_needed()
    pad = page.locator("canvas.pad").bounding_box()
    page.mouse.move(pad["x"] + pad["width"] / 2, pad["y"] + 30)
    page.mouse.down()
    page.mouse.move(pad["x"] + pad["width"] / 2, pad["y"] + pad["height"] - 30, steps=8)
    page.mouse.up()
    page.wait_for_function("() => /This is a \\d: \\d+ % sure/.test(document.querySelector('.answer').textContent)")
    with page.expect_download() as waiting:
        page.click("text=Download state")
    state = tmp_path / "state.safetensors"
    waiting.value.save_as(state)
    page.keyboard.press("Tab")
    page.click("text=Reset")
    page.wait_for_function("() => figure('steps') === '0'")
    page.set_input_files("input[type=file]", state)
    page.wait_for_function("() => document.querySelector('#status').textContent === 'Goes on from state.safetensors.'")
    page.set_input_files("input[type=file]", digits_site / "data.safetensors")
    page.wait_for_function("() => document.querySelector('#status').className === 'error'")
    assert "[loadState] the file has no " in page.inner_text("#status")


def test_the_compare_page_agrees(visit: Any, digits_site: Path) -> None:
    page = opened(visit, digits_site / "compare")
    page.wait_for_function(
        "() => !document.querySelector('button.main').disabled && /over 300/.test(document.body.innerText)"
    )
    found = re.search(
        r"The [CG]PU is [\d.]+ times as fast. Their losses differ by (\S+) at most", page.inner_text(".answer")
    )
    assert found is not None
    assert float(found[1]) < 1e-3


def test_a_step_that_javascript_cannot_say_is_refused(tmp_path: Path) -> None:
    step = sg.compile(lambda x: x.sort().values)
    with pytest.raises(sg.web.WebError, match=r"\[compare\] .* cannot be written in JavaScript yet"):
        sg.web.export(step, tmp_path, sg.ones(3), page="compare")


@pytest.mark.parametrize("kind", [pytest.param("lstm", marks=pytest.mark.slow), "attention"])
def test_the_page_of_any_step_trains_it(visit: Any, tmp_path: Path, kind: str) -> None:
    step, batches = sequences(kind)
    data = {"x": np.concatenate([x for x, _ in batches]), "y": np.concatenate([y for _, y in batches])}
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]), data=data, title="My own", text="Because.")
    page = opened(visit, tmp_path)
    assert page.title() == "My own"
    assert "float32 (16, 10, 4)" in page.inner_text("main")
    wait_for_steps(page, 20)
    assert float(figure(page, "loss")) < 1.0
    assert "accuracy" in page.inner_text(".legend")


def test_a_page_without_webgpu_says_so(visit: Any, tmp_path: Path) -> None:
    step, _, _ = digits()
    sg.web.export(step, tmp_path, sg.zeros(BATCH, 64), sg.zeros(BATCH, dtype="int32"))
    worker = (tmp_path / "worker.js").read_text()
    (tmp_path / "worker.js").write_text("Object.defineProperty(navigator, 'gpu', {value: undefined});\n" + worker)
    page = visit(tmp_path)
    page.wait_for_selector("#status.error")
    assert "this browser offers no WebGPU here" in page.inner_text("#status")


@pytest.mark.slow
def test_a_page_works_below_any_path(visit: Any, tmp_path: Path) -> None:
    step, _ = sequences("lstm")
    sg.web.export(step, tmp_path / "a" / "b", sg.zeros(16, 10, 4), sg.zeros(16, dtype="int32"))
    (tmp_path / "index.html").write_text("")
    page = visit(tmp_path, path="a/b/index.html", script=FIGURE)
    page.wait_for_selector("body[data-ready]")
    wait_for_steps(page, 3)


def test_the_automaton_page_trains_as_python_does(visit: Any, tmp_path: Path) -> None:
    training = automaton()
    automaton_page("checkerboard", training, tmp_path)
    page = opened(visit, tmp_path, path="index.html#run=0")
    there = page.evaluate(
        f"""async () => {{
          {MODULE % ("Program, readTensors", "runtime.js")}
          const data = readTensors(await (await fetch('data.safetensors')).arrayBuffer());
          const [start, target] = ['start', 'target'].map((name) => data.get(name).data);
          const step = await Program.load('step.json');
          const found = [];
          for (let k = 0; k < 20; k++) found.push(await step.run({{
            start: start.subarray(512 * k, 512 * (k + 1)), target: target.subarray(128 * k, 128 * (k + 1))}}));
          return found.map((row) => [row['soft loss'], row['hard loss']]);
        }}"""
    )
    update = sg.compile(training.update)
    here = [[v.item() for v in update(*training.batch())] for _ in range(20)]
    assert np.abs(np.subtract(there, here)).max() < 1e-3 * 30  # losses are sums of 128 squares


def test_the_page_hardens_to_pythons_circuit_which_heals_a_damaged_board(visit: Any, tmp_path: Path) -> None:
    training = automaton(500)
    automaton_page("checkerboard", training, tmp_path)
    page = opened(visit, tmp_path, path="index.html#run=0")
    page.click("button:has-text('Harden')")
    page.wait_for_function("() => /step [3-9]\\d/.test(document.querySelector('canvas.pad + p').textContent)")
    with page.expect_download() as waiting:
        page.click("text=Download the circuit")
    waiting.value.save_as(tmp_path / "cell.json")
    cell = training.model.harden()
    assert circuit.from_json((tmp_path / "cell.json").read_text()) == cell

    document = json.loads((tmp_path / "cell.json").read_text())
    rng = np.random.default_rng(0)
    wide = rng.random((40, 50, 4)) < 0.5
    assert (stepped(page, document, wide, 1) == cell.step(wide)).all()
    board = stepped(page, document, rng.random((8, 8, 4)) < 0.5, 16)
    assert (board[..., 0] == checkerboard(8, 8)).all()
    board[2:6, 2:6] = 0
    assert (stepped(page, document, board, 16)[..., 0] == checkerboard(8, 8)).all()


def stepped(page: Any, document: Any, board: np.ndarray, steps: int) -> np.ndarray:
    """A board (height, width, channels) after some steps of the page's own runner, by a circuit as JSON."""
    found = page.evaluate(
        f"""async ([document, start, steps, [height, width, channels]]) => {{
          {MODULE % ("Board, minimized, NAMES", "circuit.js")}
          const {{gates, outputs, inputs}} = document.circuit;
          const wire = (name) => Number(name.slice(1)) + (name[0] === 'g' ? inputs.length : 0);
          const cell = {{channels, inputs: inputs.length, a: gates.map((g) => wire(g[2])), b: gates.map((g) => wire(g[3])),
            outputs: outputs.map((o) => wire(o[1])), border: document.border, fireRate: 1}};
          const rule = minimized(cell, gates.map((g) => NAMES.indexOf(g[1])));
          const board = new Board(cell, rule, height, width);
          const found = [];
          const each = (visit) => {{
            for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) for (let c = 0; c < channels; c++) visit(y, x, c);
          }};
          each((y, x, c) => board.set(y, x, c, start[y][x][c]));
          for (let k = 0; k < steps; k++) board.step();
          each((y, x, c) => found.push(board.get(y, x, c)));
          return found;
        }}""",
        [document, board.tolist(), steps, list(board.shape)],
    )
    return np.array(found).reshape(board.shape)
