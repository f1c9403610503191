"""The library in Pyodide in a real browser: the same Python trains on the page's GPU as here on the cpu device."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from browser_python import NoPyodide, pyodide_folder
from chromium import served
from shadergrad import nn

from .conftest import missing
from .page_programs import PROGRAMS, program

pytestmark = pytest.mark.slow

START = """async (without) => {
  window.lines = []; window.finished = null; window.error = null;
  window.python = new Worker(without ? "worker-without.js" : "python-worker.js", { type: "module" });
  return new Promise((resolve, reject) => {
    python.onerror = (event) => reject(new Error(event.message));
    python.onmessage = ({ data }) => {
      if (data.ready) resolve(data.ready);
      if (data.failed) reject(new Error(data.failed));
      if (data.out !== undefined) lines.push(data.out);
      if (data.error !== undefined) lines.push(data.error);
      if (data.done !== undefined) { window.error = data.done; window.finished(); }
    };
    fetch("python.json").then((answer) => answer.json()).then((load) => python.postMessage({ load }));
  });
}"""
RUN = """async (text) => {
  window.lines = [];
  await new Promise((resolve) => { window.finished = resolve; python.postMessage({ run: text }); });
  return [window.lines.join("\\n"), window.error];
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A playground, with Pyodide in its folder, and a page with nothing on it."""
    try:
        folder = sg.web.playground(tmp_path_factory.mktemp("python"), pyodide_folder())
    except NoPyodide as error:
        missing(str(error), "no Pyodide", "let pip reach PyPI")
    (folder / "blank.html").write_text("<!doctype html><title>Python</title><link rel=icon href=data:,>")
    return folder


class Python:
    """A page's Python. `run` gives what a program prints, and raises AssertionError with its traceback."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def run(self, text: str) -> str:
        printed, error = self.page.evaluate(RUN, text)
        assert not error, error
        return printed

    def fails(self, text: str) -> str:
        """The traceback of a program that must fail."""
        _, error = self.page.evaluate(RUN, text)
        assert error
        return error


@pytest.fixture(scope="module")
def start(chromium: Any, site: Path) -> Iterator[Callable[..., Python]]:
    """start(without="") → a Python whose worker has run that script first."""
    folder = site
    contexts = []
    with served(folder) as origin:

        def begin(without: str = "") -> Python:
            (folder / "without.js").write_text(without)
            (folder / "worker-without.js").write_text("import './without.js';\nimport './python-worker.js';\n")
            context = chromium.new_context()
            contexts.append(context)
            page = context.new_page()
            page.set_default_timeout(90_000)
            page.goto(f"{origin}/blank.html")
            page.evaluate(START, without)
            return Python(page)

        yield begin
        for context in contexts:
            context.close()


@pytest.fixture(scope="module")
def python(start: Callable[..., Python]) -> Python:
    return start()


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_in_the_page_are_those_of_the_cpu_device(python: Python, name: str) -> None:
    there = json.loads(python.run(program(name, "webgpu") + "\nimport json; print(json.dumps(losses))"))
    here: dict[str, Any] = {}
    exec(program(name, "cpu"), here)
    np.testing.assert_allclose(there, here["losses"], rtol=1e-3, atol=1e-3)


AS_A_GPU = """
for (const [of, name, value] of [[GPUAdapter, "info", { vendor: "a", architecture: "b", description: "A GPU" }], [GPUAdapter, "isFallbackAdapter", false]])
  Object.defineProperty(of.prototype, name, { get: () => value });
"""


def test_kernels_for_a_desktops_gpu_give_the_same_losses(start: Callable[..., Python]) -> None:
    python = start(AS_A_GPU)
    told = "import shadergrad as sg; a, = sg.devices.adapters(); print(a.type, a.target.traits.name)"
    assert python.run(told) == "hardware desktop"
    for name in ("digits", "cnn"):
        test_losses_in_the_page_are_those_of_the_cpu_device(python, name)


def test_numpy_alone_was_loaded(python: Python) -> None:
    assert (
        python.run("import sys; print('scipy' in sys.modules, 'wgpu' in sys.modules, 'typer' in sys.modules)")
        == "False False False"
    )


def test_scipy_is_loaded_by_the_first_function_that_needs_it(python: Python) -> None:
    found = float(python.run("import shadergrad as sg; print(sg.tensor([3.0], device='cpu').digamma().item())"))
    assert abs(found - float(sg.tensor([3.0]).digamma().item())) < 1e-6


STATE = """
import base64, io
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to("webgpu")
sg.save(model.state_dict(), "model.safetensors")
x = sg.tensor([[0.5, -1.0]], device="webgpu")
print(base64.b64encode(open("model.safetensors", "rb").read()).decode())
print(model(x).item())
"""


def test_what_the_page_saves_is_read_here_and_back(python: Python, tmp_path: Path) -> None:
    text, value = python.run(program("xor", "webgpu") + STATE).splitlines()
    path = tmp_path / "model.safetensors"
    path.write_bytes(base64.b64decode(text))
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    model.load_state_dict(sg.load(path))
    assert model(sg.tensor([[0.5, -1.0]])).item() == pytest.approx(float(value), abs=1e-5)
    with sg.no_grad():
        model[2].bias.add_(1.0)
    sg.save(model.state_dict(), path)
    again = f"""
open("back.safetensors", "wb").write(base64.b64decode({base64.b64encode(path.read_bytes()).decode()!r}))
model.load_state_dict(sg.load("back.safetensors"))
print(model(x).item())
"""
    moved = python.run(program("xor", "webgpu") + STATE + again).splitlines()[-1]
    assert float(moved) == pytest.approx(float(value) + 1.0, abs=1e-5)


def test_memory_stays_the_same_over_hundreds_of_steps(python: Python) -> None:
    steps = """
from pyodide.code import run_js
from shadergrad.runtime.device import get_device
gpu = get_device("webgpu")
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to("webgpu")
optimizer = sg.optim.AdamW(model.parameters(), lr=0.01)
x, y = sg.ones(4, 2, device="webgpu"), sg.ones(4, 1, device="webgpu")

@sg.compile
def step(x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

def counts():
    import gc, sys
    gc.collect()
    s = gpu.statistics()
    return s.buffers_allocated, s.bind_groups_created, s.pipelines, len(gc.get_objects()) // 500

for k in range(40):
    loss = step(x, y)
    k % 10 or loss.item()
before = counts()
for k in range(300):
    loss = step(x, y)
    k % 10 or loss.item()
print(before, counts(), sep="\\n")
"""
    before, after = python.run(program("eager", "webgpu") + steps).splitlines()
    assert before == after


def test_a_kernel_that_does_not_compile_is_named_with_its_line(python: Python) -> None:
    said = python.run("""
from shadergrad.errors import CompileError
from shadergrad.plan import Kernel
from shadergrad.runtime.device import get_device
text = "@group(0) @binding(0) var<storage, read_write> a: array<f32>;\\n@compute @workgroup_size(1)\\nfn main() { a[0] = oops; }"
try:
    get_device("webgpu").get_pipelines([Kernel("wrong", "map", ("read_write",), text)])
except CompileError as error:
    print(error)
import asyncio
import shadergrad as sg
await asyncio.sleep(0.2)  # until the browser has reported all errors
print((sg.ones(3, device="webgpu") * 2).tolist())
""")
    assert "'wrong' does not compile, line 3" in said
    assert "oops" in said
    assert said.endswith("[2.0, 2.0, 2.0]"), "the next call has no part in the error"


def test_too_large_a_tensor_is_refused_in_words(python: Python) -> None:
    said = python.run("""
import shadergrad as sg
try:
    x = sg.rand(1 << 30, device="webgpu")  # zeros need no memory
    sg.sync()
except sg.ShadergradError as error:
    print(type(error).__name__, error)
""")
    assert "Error [webgpu]" in said


TASKS = """
import asyncio
async def train(k):
    step = steps[k]
    for _ in range(5):
        losses.append(step(x, y).item())
        await asyncio.sleep(0)

device = "webgpu"
x, y = sg.ones(4, 2, device=device), sg.ones(4, 1, device=device)

def make():
    model = nn.Linear(2, 1).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

    @sg.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step

losses, steps = [], [make(), make()]
"""


def test_two_tasks_at_once_are_refused_in_words_and_the_first_goes_on(python: Python) -> None:
    both = "print(*await asyncio.gather(train(0), train(1), return_exceptions=True), sep='\\n')\nprint(len(losses))"
    first, second, count = python.run(program("eager", "webgpu") + TASKS + both).split("\n", 2)[:3]
    assert first == "None"
    assert "two cannot use the library at once" in second
    assert count.splitlines()[-1] in ("5", "6")
    turns = """
turn = asyncio.Lock()
async def in_turn(k):
    for _ in range(5):
        async with turn:
            losses.append(steps[k](x, y).item())
await asyncio.gather(in_turn(0), in_turn(1))
print(len(losses))
"""
    assert python.run(program("eager", "webgpu") + TASKS + turns) == "10"


def test_a_lost_device_is_opened_again(python: Python) -> None:
    said = python.run("""
import asyncio
import shadergrad as sg
from shadergrad.runtime.device import get_device
x = sg.ones(1 << 16, device="webgpu") + 1
x.sum().item()
get_device("webgpu").native.raw.destroy()
await asyncio.sleep(0.1)
try:
    x.sum().item()
except sg.DeviceLostError as error:
    print("lost:", str(error).splitlines()[0])
print(*sg.devices.reset("webgpu"), (sg.ones(3, device="webgpu") * 2).tolist())
""")
    assert said.startswith("lost: [webgpu]")
    assert said.endswith("webgpu [2.0, 2.0, 2.0]")


def test_without_webgpu_the_error_says_so_and_the_cpu_device_trains(start: Callable[..., Python]) -> None:
    python = start("Object.defineProperty(Object.getPrototypeOf(navigator), 'gpu', { value: undefined });")
    error = python.fails("import shadergrad as sg; sg.ones(2, device='webgpu').tolist()")
    assert "this browser shows no GPU to the page's WebGPU" in error
    assert python.run(program("xor", "cpu") + "\nprint(len(losses))") == "60"


AWAITED = """
adapters = await sg.devices.request_async()
x = sg.tensor([[0.0, 1.0]], device="webgpu")
model = nn.Linear(2, 1).to("webgpu")
optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

@sg.compile
def step(x):
    optimizer.zero_grad()
    loss = (model(x) ** 2).sum()
    loss.backward()
    optimizer.step()
    return loss

first = await step(x).item_async()
for _ in range(20):
    loss = step(x)
print(await loss.item_async() < 0.1 * first, (await (x * 2).numpy_async()).tolist())
"""


def test_without_promise_integration_values_are_awaited(start: Callable[..., Python]) -> None:
    python = start("delete WebAssembly.Suspending; delete WebAssembly.promising;")
    error = python.fails("import shadergrad as sg; sg.ones(2, device='webgpu').tolist()")
    assert "JavaScript Promise Integration" in error
    assert "request_async" in error
    head = "import shadergrad as sg\nfrom shadergrad import nn\n"
    assert python.run(head + AWAITED) == "True [[0.0, 2.0]]"
    assert "item_async" in python.fails("import shadergrad as sg; sg.ones(2, device='webgpu').mul(2).tolist()")


def test_the_playground_runs_plots_shares_and_stops(visit: Callable[..., Any], site: Path) -> None:
    page = visit(site)
    page.set_default_timeout(120_000)
    page.wait_for_selector("body[data-ready]")
    page.click("#run")
    page.wait_for_function("() => document.getElementById('status').textContent.startsWith('Finished')")
    assert "webgpu google swiftshader" in page.inner_text("#output")
    assert re.fullmatch(r"loss [\d.e-]+ after [\d,]+ points", page.inner_text("#chart .legend"))
    assert page.is_visible("#chart canvas")
    page.fill("#program", "print('shared')\nraise ValueError('wrong')")
    page.click("#share")
    page.wait_for_function("() => location.hash.startsWith('#program=')")
    page.click("#run")
    page.wait_for_function("() => document.getElementById('status').textContent.includes('failed')")
    assert "ValueError: wrong" in page.inner_text("#output")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.input_value("#program").startswith("print('shared')")
    page.fill("#program", "while True:\n    pass")
    page.keyboard.press("Control+Enter")
    page.click("#stop")
    page.wait_for_function("() => document.getElementById('status').textContent.startsWith('Ready')")
