"""The pages as a visitor sees them: they train by themselves, take strokes, files and other rates, and harden what they learn."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from chromium import runtime_folder, served
from circuit_examples import random_cell
from shadergrad import nn
from shadergrad.cli import run
from shadergrad.logic import circuit
from shadergrad.logic.circuit import native_board
from shadergrad.logic.circuit.bit_packing import pack_board, unpack_board
from shadergrad.logic.circuit.export_statements import template
from shadergrad.logic.experiments import checkerboard
from shadergrad.recipes.logic.page import automaton_page

from .conftest import missing
from .steps import BATCH, automaton, digits, sequences

MODULE = "const {%s} = await import(new URL('%s', location.href));"


def wait_for_steps(page: Any, steps: int) -> None:
    page.wait_for_function(f"() => Number(figure('steps').replaceAll(',', '')) >= {steps}", polling=50)


def figure(page: Any, name: str) -> str:
    return page.evaluate("(name) => figure(name)", name)


CELL = """({circuit: {gates, outputs, inputs}, channels, border}, names) => {
  const wire = (name) => Number(name.slice(1)) + (name[0] === 'g' ? inputs.length : 0);
  const cell = {channels, inputs: inputs.length, a: gates.map((g) => wire(g[2])), b: gates.map((g) => wire(g[3])),
    outputs: outputs.map((o) => wire(o[1])), border, fireRate: 1};
  return {cell, kinds: gates.map((g) => names.indexOf(g[1]))};
}"""
FIGURE = """window.figure = (name) => {
  const found = [...document.querySelectorAll('dt')].find((dt) => dt.textContent === name);
  return found ? found.nextSibling.textContent : '0';
};"""


def opened(visit: Any, folder: Path, script: str = "", **options: Any) -> Any:
    page = visit(folder, script=FIGURE + script, **options)
    page.wait_for_selector("body[data-ready]")
    return page


@pytest.fixture(scope="module")
def digits_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    assert run(["export", "digits", str(folder)]) == 0
    return folder


COUNT_WORKERS = """window.workers = 0; window.devices = 0;
window.Worker = class extends Worker { constructor(...args) { super(...args); window.workers += 1; } };
const requestDevice = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = function (...args) { window.devices += 1; return requestDevice.apply(this, args); };"""


@pytest.mark.slow
def test_the_digits_page_learns_by_itself_in_a_worker(visit: Any, digits_site: Path) -> None:
    page = opened(visit, digits_site, COUNT_WORKERS, path="index.html#on=GPU")
    wait_for_steps(page, 250)
    page.click("text=Pause")
    page.wait_for_function("() => document.querySelector('button.main').textContent === 'Start'")
    page.wait_for_function("() => parseFloat(figure('test accuracy')) > 95", polling=50)
    assert "dispatches" in page.inner_text("dl")
    assert page.evaluate("() => [window.workers, window.devices]") == [
        1,
        0,
    ]  # the page itself opens no device, and stays responsive
    assert page.inner_text("#status") == ""
    assert "run=0" in page.url


LISTEN = """window.said = []; window.progress = [];
new MutationObserver(() => window.said.push(document.querySelector('#status')?.textContent))
  .observe(document, {childList: true, subtree: true});
window.Worker = class extends Worker {
  constructor(...args) {
    super(...args);
    this.addEventListener('message', ({data}) => data.event === 'progress' && progress.push([data.steps, data.rows.length]));
  }
};"""


def test_a_page_tells_of_every_kernel_that_is_compiled_and_of_every_step(visit: Any, tmp_path: Path) -> None:
    """So something moves before the first step, and curves are drawn where their steps are, however many are under way."""
    step, _, _ = digits()
    sg.web.export(step, tmp_path, sg.zeros(BATCH, 64), sg.zeros(BATCH, dtype="int32"))
    kernels = len(json.loads((tmp_path / "step.json").read_text())["plan"]["kernels"])
    page = opened(visit, tmp_path, script=LISTEN, path="index.html#on=GPU")
    wait_for_steps(page, 40)
    told = [found[1] for text in page.evaluate("said") if (found := re.search(r"(\d+) of (\d+) kernels", text or ""))]
    assert list(dict.fromkeys(told)) == [str(k + 1) for k in range(kernels)]
    progress = page.evaluate("progress")
    assert [steps for steps, _ in progress] == np.cumsum([rows for _, rows in progress]).tolist()


def test_pages_weigh_at_most_300_kb_without_their_data(digits_site: Path, tmp_path: Path) -> None:
    assert run(["export", "checkerboard", str(tmp_path)]) == 0
    for folder in (digits_site, tmp_path):
        files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".safetensors"]
        sizes = {path.name: path.stat().st_size for path in files}
        plain = sum(size for name, size in sizes.items() if name.endswith(".cpu.js"))
        in_wasm = sum(size for name, size in sizes.items() if name.endswith((".wasm", ".wasm.js")))
        assert plain
        assert in_wasm
        rest = sum(sizes.values()) - plain - in_wasm
        assert rest - sizes["cpu.js"] <= 300_000  # it and one of the two are asked for without a GPU
        assert rest + max(plain, in_wasm) <= 400_000


def test_a_folder_is_served_to_this_machine_alone_with_types_and_asked_for_anew(tmp_path: Path) -> None:
    types = {"index.html": "text/html", "a.js": "text/javascript", "a.json": "application/json"}
    types |= {"a.css": "text/css", "a.safetensors": "application/octet-stream"}
    for name in types:
        (tmp_path / name).write_text("")
    with served(tmp_path) as origin:
        assert origin.startswith("http://127.0.0.1:")
        for name, kind in types.items():
            with urlopen(f"{origin}/{name}") as answer:
                assert answer.headers["Content-Type"].partition(";")[0] == kind
                assert answer.headers["Cache-Control"] == "no-cache"


@pytest.mark.slow
def test_the_digits_page_takes_strokes_steps_rates_and_files(visit: Any, digits_site: Path, tmp_path: Path) -> None:
    page = opened(visit, digits_site, path="index.html#run=0&lr=0.01", has_touch=True)
    page.wait_for_function("() => document.querySelector('output').textContent === '0.01'")
    assert figure(page, "steps") == "0"
    page.click("text=One step")
    wait_for_steps(page, 1)
    page.click("text=Clear")
    page.wait_for_function("() => /^Draw with/.test(document.querySelector('.answer').textContent)")
    page.focus("canvas.pad")
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    page.wait_for_function("() => /This is a /.test(document.querySelector('.answer').textContent)")
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
    page.wait_for_function(
        "() => document.querySelector('#status').textContent === 'Goes on from state.safetensors, step 1.'"
    )
    assert figure(page, "steps") == "1"
    assert figure(page, "loss") == "–"  # of other weights
    page.set_input_files("input[type=file]", digits_site / "data.safetensors")
    page.wait_for_function("() => document.querySelector('#status').className === 'error'")
    assert page.inner_text("#status").startswith("The file has no ")


@pytest.mark.slow
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
    step = sg.compile(sg.digamma)
    with pytest.raises(sg.web.WebError, match=r"\[compare\] .* cannot be written in JavaScript yet"):
        sg.web.export(step, tmp_path, sg.ones(3), page="compare")


def test_plain_javascript_trains_as_python_does(visit: Any, tmp_path: Path) -> None:
    """Convolutions with steps, groups and pooling, attention by blocks (heads joined, apart, without a gradient), dropout, embeddings, a recurrent layer."""
    sg.manual_seed(0)
    convolved = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, padding=2, dilation=2, groups=4),
        nn.Flatten(),
    )
    lstm, embedding, into, out = nn.LSTM(4, 8), nn.Embedding(9, 8), nn.Linear(8, 96), nn.Linear(48 + 8 + 64, 1)
    parameters = [p for m in (convolved, lstm, embedding, into, out) for p in m.parameters()]
    optimizer = sg.optim.Adam(parameters, lr=1e-2)

    @sg.compile
    def step(images: sg.Tensor, words: sg.Tensor) -> dict[str, sg.Tensor]:
        optimizer.zero_grad()
        q, k, v = into(embedding(words)).reshape(6, 9, 2, 48).transpose(1, 2).chunk(3, -1)
        attended = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True)[:, 0, 5]
        attended = attended + F.scaled_dot_product_attention(*(x * 2 for x in (q, k, v)))[:, 1, 4]
        alone = F.scaled_dot_product_attention(images, images, images * 2)[:, 0, 3].mean(1)
        recurrent = lstm(images[:, 0, :, :4].transpose(0, 1))[0][-1]
        found = (
            out(sg.cat([F.pad(attended, (0, 32)), recurrent, convolved(images).reshape(6, -1)], 1)).squeeze(1) + alone
        )
        loss = F.binary_cross_entropy_with_logits(found, (images.mean((1, 2, 3)) > 0).to(sg.float32))
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    rng = np.random.default_rng(0)
    batches = [
        (rng.standard_normal((6, 1, 8, 8)).astype(np.float32), rng.integers(0, 9, (6, 9)).astype(np.int32))
        for _ in range(5)
    ]
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]), page="compare")
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    page = visit(tmp_path, path="blank.html")
    there = page.evaluate(
        f"""async (batches) => {{
          {MODULE % ("readTensors", "runtime.js")}
          const {{load}} = await import(new URL('step.cpu.js', location.href));
          const step = load(readTensors(await (await fetch('state.safetensors')).arrayBuffer()));
          return batches.map(([images, words]) => step.run({{images, words}}).loss);
        }}""",
        [[x.ravel().tolist(), y.ravel().tolist()] for x, y in batches],
    )
    here = [step(sg.tensor(x), sg.tensor(y))["loss"].item() for x, y in batches]
    assert np.abs(np.subtract(there, here)).max() < 1e-5
    assert len(set(here)) == len(here)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "attention"])
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


NUMBERS = {
    20.1: "20",
    50.3: "50",
    0.53: "0.53",
    0: "0",
    431.4: "431",
    2580: "2,580",
    1.1e-9: "1.1e-9",
    1e-9: "1e-9",
    -0.25: "-0.25",
}


def line_page(visit: Any, folder: Path, steps: int) -> Any:
    """The page of a step that fits a line, untrained."""
    w = sg.zeros(3, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=0.1)

    def fit_a_line(x: sg.Tensor) -> dict[str, sg.Tensor]:
        loss = ((x * w).sum(1) - x.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    predict = sg.compile(lambda x: x * w.detach())
    programs = {"predict": (predict, sg.ones(2, 3))}
    sg.web.export(sg.compile(fit_a_line), folder, sg.ones(4, 3), programs=programs, settings={"steps": steps})
    return opened(visit, folder, LISTEN, path="index.html#run=0&on=GPU")


def wait_until_idle(page: Any) -> None:
    page.wait_for_function("() => document.querySelector('button.main').textContent === 'Start'")


def test_the_page_of_any_step_until_it_finishes(visit: Any, tmp_path: Path) -> None:
    """Untrained, one step, its other programs, finished, reset; its numbers and colours."""
    page = line_page(visit, tmp_path, steps=800)
    assert page.title() == "Fit a line"
    assert page.inner_text(".legend") == ""
    page.click("text=One step")
    wait_for_steps(page, 1)
    loss = figure(page, "loss")
    page.click("button:text-is('Run')")
    page.wait_for_selector("text=random x, with the weights after 1 step.")
    assert "(2, 3)" in page.inner_text("section:has(button:text-is('Run'))")
    page.click("button:text-is('Start')")
    page.wait_for_function(
        "() => /^Finished after 800 steps: loss .* Start goes on.$/.test(document.querySelector('#status').textContent)"
    )
    assert figure(page, "loss") != loss
    page.click("text=Reset")
    page.wait_for_function("() => figure('steps') === '0'")
    assert [figure(page, name) for name in ("loss", "steps a second")] == ["–", "–"]
    found = page.evaluate(
        f"""async (values) => {{
          {MODULE % ("Chart, short", "ui.js")}
          const chart = new Chart("");
          for (const [name, unit] of [["accuracy", "%"], ["loss", ""]]) chart.add(name, 1, 0.5, unit);
          return [values.map((value) => short(value, 2)), [...chart.curves.values()].map((curve) => curve.colour)];
        }}""",
        list(NUMBERS),
    )
    assert found == [list(NUMBERS.values()), ["--good", "--first"]]


def test_the_page_of_any_step_paused_and_continued(visit: Any, tmp_path: Path) -> None:
    """Running, paused, a step of a running training, reset under way, a state from a file. No training here is short enough to end by itself."""
    page = line_page(visit, tmp_path, steps=1_000_000_000)
    page.click("button:text-is('Start')")
    wait_for_steps(page, 2)
    page.click("text=One step")  # of a running training: it ends, then one more
    wait_until_idle(page)
    page.wait_for_timeout(300)
    steps = figure(page, "steps")
    page.wait_for_timeout(300)
    assert figure(page, "steps") == steps
    with page.expect_download() as waiting:
        page.click("text=Download state")
    waiting.value.save_as(tmp_path / "later.safetensors")
    page.click("text=Reset")
    page.click("button:text-is('Start')")  # while the reset is under way
    page.click("button:text-is('Pause')")
    wait_until_idle(page)
    page.click("button:text-is('Start')")
    page.set_input_files("input[type=file]", tmp_path / "later.safetensors")  # the training goes on from there
    page.wait_for_function(
        "(text) => window.said.some((said) => said?.startsWith(text))",
        arg=f"Goes on from later.safetensors, step {steps}.",
    )
    wait_for_steps(page, int(steps.replace(",", "")) + 1)
    page.click("button:text-is('Pause')")
    wait_until_idle(page)


@pytest.mark.slow
def test_a_page_works_below_any_path(visit: Any, tmp_path: Path) -> None:
    step, _ = sequences("lstm")
    sg.web.export(step, tmp_path / "a" / "b", sg.zeros(16, 10, 4), sg.zeros(16, dtype="int32"))
    (tmp_path / "index.html").write_text("")
    page = visit(tmp_path, path="a/b/index.html", script=FIGURE)
    page.wait_for_selector("body[data-ready]")
    wait_for_steps(page, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["checkerboard", "lizard", "letter-g"],
)
def test_the_automaton_page_trains_as_python_does(visit: Any, tmp_path: Path, name: str) -> None:
    training = automaton(name=name)
    automaton_page(name, training, tmp_path)
    page = opened(visit, tmp_path, path="index.html#run=0")
    there = page.evaluate(
        f"""async () => {{
          {MODULE % ("Program, readTensors", "runtime.js")}
          {MODULE % ("Batches", "batches.js")}
          const data = readTensors(await (await fetch('data.safetensors')).arrayBuffer());
          const step = await Program.load('step.json');
          const batches = new Batches(step.arguments, data, true);
          const found = [];
          for (let k = 0; k < 20; k++) found.push(await step.run(batches.next()));
          return found.map((row) => [row['soft loss'], row['hard loss']]);
        }}"""
    )
    update = sg.compile(training.update)
    here = [[v.item() for v in update(*training.batch())] for _ in range(20)]
    assert np.abs(np.subtract(there, here)).max() < 1e-3 * 30  # losses are sums of hundreds of squares
    page.wait_for_function("() => /step [1-9]/.test(document.querySelector('canvas + .legend').textContent)")


@pytest.mark.slow
def test_the_page_hardens_to_pythons_circuit_which_heals_a_damaged_board(visit: Any, tmp_path: Path) -> None:
    training = automaton(500)
    automaton_page("checkerboard", training, tmp_path)
    page = opened(visit, tmp_path, path="index.html#run=0")
    page.click("button:has-text('Harden')")
    page.wait_for_function("() => /step [3-9]\\d/.test(document.querySelector('canvas.pad + p').textContent)")
    with page.expect_download() as waiting:
        page.click("button:text-is('JSON')")
    waiting.value.save_as(tmp_path / "cell.json")
    for language, first in (("C", "/* "), ("Verilog", "// ")):
        with page.expect_download() as waiting:
            page.click(f"button:text-is('{language}')")
        assert Path(waiting.value.path()).read_text().startswith(first)
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
          const {{cell, kinds}} = ({CELL})(document, NAMES);
          const rule = minimized(cell, kinds);
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


@pytest.mark.parametrize(("border", "gates"), [("zeros", 400), ("periodic", 60)])
def test_the_pages_circuit_steps_as_pythons(visit: Any, tmp_path: Path, border: str, gates: int) -> None:
    """All kinds of gates, inputs and constants as results, several chunks of rows."""
    cell = random_cell(np.random.default_rng(1), channels=3, gates=gates, border=border)
    shutil.copytree(runtime_folder(), tmp_path, dirs_exist_ok=True)
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    page = visit(tmp_path, path="blank.html")
    document = json.loads(circuit.to_json(cell))
    board = np.random.default_rng(0).random((26, 700, 3)) < 0.5
    assert (stepped(page, document, board, 2) == cell.step(cell.step(board))).all()


@pytest.mark.slow
def test_the_page_writes_circuits_in_c_and_verilog(visit: Any, tmp_path: Path) -> None:
    """Run by a C compiler and a Verilog simulator, against Python's board."""
    compiler = native_board.find_compiler()
    if compiler is None or shutil.which("iverilog") is None:
        missing("not on the PATH", "no C compiler, or no Icarus Verilog", "apt-get install gcc iverilog")
    rng = np.random.default_rng(0)
    cell = random_cell(rng, channels=3, gates=60, border="periodic")
    shutil.copytree(runtime_folder(), tmp_path, dirs_exist_ok=True)
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    page = visit(tmp_path, path="blank.html")
    texts = page.evaluate(
        f"""async ([document, c, v]) => {{
          {MODULE % ("toC, toVerilog", "circuit-text.js")}
          {MODULE % ("minimized, NAMES", "circuit.js")}
          const {{cell, kinds}} = ({CELL})(document, NAMES);
          const rule = minimized(cell, kinds);
          return [toC(cell, rule, c), toVerilog(cell, rule, v, 5, 70)];
        }}""",
        [json.loads(circuit.to_json(cell)), template("step.c"), template("grid.v")],
    )
    board = rng.random((5, 70, 3)) < 0.5
    expected = cell.step(board)

    (tmp_path / "cell.c").write_text(texts[0])
    library = tmp_path / "cell.so"
    subprocess.run(
        [compiler, "-std=c99", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, tmp_path / "cell.c"], check=True
    )
    planes = pack_board(board)
    stepped = np.zeros_like(planes)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (planes, stepped)]
    ctypes.CDLL(str(library)).automaton_step(pointers[0], None, pointers[1], ctypes.c_size_t(5), ctypes.c_size_t(70))
    assert (unpack_board(stepped, 70) == expected).all()

    bits = "".join("01"[int(b)] for b in board.reshape(-1)[::-1])
    bench = f"""
module bench;
    reg clk, load; wire [{board.size - 1}:0] state; reg [{board.size - 1}:0] start; reg [{board.size // 3 - 1}:0] fire;
    automaton_grid dut(.clk(clk), .load(load), .initial_state(start), .fire(fire), .state(state));
    initial begin
        clk = 0; load = 1; fire = ~0; start = {board.size}'b{bits};
        #1 clk = 1; #1 clk = 0; load = 0; #1 clk = 1; #1 $display("%b", state); $finish;
    end
endmodule
"""
    (tmp_path / "cell.v").write_text(texts[1] + bench)
    subprocess.run(
        ["iverilog", "-g2001", "-Wall", "-s", "bench", "-o", tmp_path / "run", tmp_path / "cell.v"], check=True
    )
    found = subprocess.run(["vvp", "-n", tmp_path / "run"], check=True, capture_output=True, text=True).stdout.strip()
    assert found == "".join("01"[int(b)] for b in expected.reshape(-1)[::-1])


def test_a_page_of_ones_own_runs_its_scripts_workers_and_wasm_and_no_strangers(visit: Any, tmp_path: Path) -> None:
    """The policy that serve sends lets a page do what its author wrote into it; what gets into it later does not run."""
    wasm = "new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])"
    (tmp_path / "own.js").write_text(f"new WebAssembly.Module({wasm}); postMessage('own');")
    (tmp_path / "index.html").write_text(
        f"""<!doctype html><link rel=icon href="data:,"><style>p {{ color: red }}</style><p id=said></p>
<script>document.title = 'inline'</script>
<script type="module">
  new WebAssembly.Module({wasm});
  const said = () => ({{ data }}) => (document.querySelector('#said').textContent += data);
  new Worker('own.js').addEventListener('message', said());
  const blob = URL.createObjectURL(new Blob(["postMessage('blob')"]));
  new Worker(blob).addEventListener('message', said());
  document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="window.stranger = 1">');
  const late = document.createElement('script');
  late.textContent = 'window.stranger = 2';
  document.body.append(late);
</script>"""
    )
    page = visit(tmp_path, refused="Content Security Policy")
    # A function, since Playwright evaluates an expression anew at each look, which the policy forbids to all but the first.
    page.wait_for_function("() => document.querySelector('#said').textContent.length === 7")
    assert page.title() == "inline"
    assert page.evaluate("window.stranger") is None
