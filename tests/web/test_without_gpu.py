"""Pages in browsers that give them no GPU: they train on the CPU, in WebAssembly or plain JavaScript, say so, and lose no figure by it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data import load_digits
from shadergrad.runtime import llvm
from shadergrad.system.safe_tensors import load_file

from .steps import BATCH, automaton, digit_batches, digits, sequences
from .test_pages import automaton_page, figure, opened, wait_for_steps

NO_WEBGPU = "Object.defineProperty(navigator, 'gpu', {value: undefined});\n"
NO_ADAPTER = "navigator.gpu.requestAdapter = async () => null;\n"
RUNS = """async (batches) => {
  const {CpuProgram} = await import(new URL('cpu.js', location.href));
  const step = await CpuProgram.load('step.json');
  const losses = [];
  for (const batch of batches) losses.push((await step.run(Object.fromEntries(step.arguments.map(({name}, k) => [name, batch[k]])))));
  window.step = step;
  return losses.map((found) => found.loss ?? found.result);
}"""


def without(folder: Path, what: str = NO_WEBGPU) -> None:
    """Take the GPU from the pages' worker, where the script that a test gives a page does not come."""
    worker = folder / "worker.js"
    worker.write_text(what + worker.read_text())


def cnn() -> tuple[Any, list[tuple[np.ndarray, np.ndarray]]]:
    sg.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 10)),
    )
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    images, labels, *_ = load_digits()
    return step, [(images[k : k + 16].reshape(16, 1, 8, 8), labels[k : k + 16]) for k in range(0, 320, 16)]


def xor() -> tuple[Any, list[tuple[np.ndarray, np.ndarray]]]:
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([[0], [1], [1], [0]], np.float32)
    return step, [(x, y)] * 100


def integers() -> tuple[Any, list[tuple[np.ndarray, np.ndarray]]]:
    """int64 labels, as NumPy and PyTorch have them; a count in int64 and a mask as state."""
    sg.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 8), nn.Tanh(), nn.Linear(8, 7))
    optimizer = sg.optim.SGD(model.parameters(), lr=0.5)
    right, seen = sg.zeros((), dtype=sg.int64), sg.zeros(7, dtype=sg.bool)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        right.add_((logits.argmax(1) == y).sum())
        seen.logical_or_(F.one_hot(x, 7).bool().any(0))
        return loss + right * 0.01 + seen.sum()

    rng = np.random.default_rng(0)
    return step, [(x, (3 * x + 1) % 7) for x in rng.integers(0, 7, (20, 5))]


STEPS = {
    "integers": integers,
    "mlp": lambda: (digits()[0], digit_batches(30)),
    "cnn": cnn,
    "xor": xor,
    "lstm": lambda: sequences("lstm"),
    "attention": lambda: sequences("attention"),
}


def in_plain_javascript(folder: Path) -> None:
    """As in a browser without WebAssembly's vectors."""
    script = folder / "cpu.js"
    script.write_text(script.read_text().replace("WebAssembly.validate(code)", "false"))


@pytest.mark.parametrize("language", ["WebAssembly", "plain JavaScript"])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_on_the_pages_cpu_gives_the_losses_of_the_cpu_device(
    visit: Any, tmp_path: Path, name: str, language: str
) -> None:
    step, batches = STEPS[name]()
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]))
    if language == "plain JavaScript":
        in_plain_javascript(tmp_path)
    assert json.loads((tmp_path / "page.json").read_text())["cpu"] == ""
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    page = visit(tmp_path, "blank.html")
    there = page.evaluate(RUNS, [[part.ravel().tolist() for part in batch] for batch in batches])
    assert page.evaluate("window.step.language") == language
    found = [step(*map(sg.tensor, batch)) for batch in batches]
    here = [(x["loss"] if isinstance(x, dict) else x).item() for x in found]
    assert np.abs(np.subtract(there, here)).max() < 1e-4
    state = page.evaluate("async () => [...await window.step.saveState()]")
    (tmp_path / "later").write_bytes(bytes(state))
    sg.web.save_state(step, tmp_path / "own", *map(sg.tensor, batches[0]))
    ours, theirs = (load_file(tmp_path / name) for name in ("own", "later"))
    for key, value in ours.items():
        if value.dtype.kind != "f":
            assert (theirs[key].dtype, theirs[key].tolist()) == (value.dtype, value.tolist()), key
    sg.web.load_state(step, tmp_path / "later", *map(sg.tensor, batches[0]))  # what it saves is Python's, too


@pytest.mark.parametrize("languages", [("WebAssembly", "WebAssembly"), ("plain JavaScript", "WebAssembly")])
def test_programs_on_the_cpu_share_their_state_whatever_runs_them(
    visit: Any, tmp_path: Path, languages: tuple[str, str]
) -> None:
    """What one changes the other reads, also after another state was loaded: the memory of the first program is its home."""
    step, predict, _ = digits()
    batches = [tuple(map(sg.tensor, batch)) for batch in digit_batches(3)]
    sg.web.export(step, tmp_path, *batches[0], programs={"predict": (predict, batches[0][0])})
    for name, language in zip(("step", "predict"), languages, strict=True):
        if language == "plain JavaScript":
            document = json.loads((tmp_path / f"{name}.json").read_text())
            del document["wasm"]
            (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    page = visit(tmp_path, "blank.html")
    given = [[part.numpy().ravel().tolist() for part in batch] for batch in batches]
    found = page.evaluate(
        """async (batches) => {
          const {CpuProgram} = await import(new URL('cpu.js', location.href));
          const step = await CpuProgram.load('step.json');
          const before = await step.saveState();
          const predict = await CpuProgram.load('predict.json', {share: step});
          const logits = async () => [...Object.values(await predict.run({images: batches[0][0]}))[0]];
          const first = await logits();
          for (const [images, labels] of batches) await step.run({images, labels});
          const trained = await logits();
          await step.loadState(before);
          return {languages: [step.language, predict.language], first, trained, again: await logits()};
        }""",
        given,
    )
    assert found["languages"] == list(languages)
    assert found["again"] == found["first"]
    for batch in batches:
        step(*batch)
    np.testing.assert_allclose(found["trained"], predict(batches[0][0]).numpy().ravel(), rtol=1e-3, atol=1e-4)


def test_a_program_changes_what_lies_in_anothers_memory(visit: Any, tmp_path: Path) -> None:
    w = sg.zeros(3)
    step, double = sg.compile(lambda x: w.add_(x).sum()), sg.compile(lambda: w.mul_(2).sum())
    sg.web.export(step, tmp_path, sg.ones(3), programs={"double": (double,)})
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    found = visit(tmp_path, "blank.html").evaluate(
        """async () => {
          const {CpuProgram} = await import(new URL('cpu.js', location.href));
          const step = await CpuProgram.load('step.json');
          const double = await CpuProgram.load('double.json', {share: step});
          const add = () => step.run({x: [1, 2, 3]});
          return [await add(), await double.run({}), await add(), await double.run({})].map((found) => found.result);
        }"""
    )
    assert found == [6, 12, 18, 36]


def test_a_folder_without_llvmlite_has_plain_javascript_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, batches = xor()
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]))
    assert (tmp_path / "step.wasm").is_file()

    def absent() -> None:
        raise llvm.NativeCodeError("there is none")

    monkeypatch.setattr(llvm, "code", absent)
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]))
    assert not [path.name for path in tmp_path.iterdir() if "wasm" in path.name and path.name.startswith("step")]
    assert "wasm" not in json.loads((tmp_path / "step.json").read_text())
    assert json.loads((tmp_path / "page.json").read_text())["wasm"] == "[wasm] there is none"


def test_results_that_lie_in_an_input_are_those_of_before_the_step(visit: Any, tmp_path: Path) -> None:
    """An exchange of two tensors, the old value as a result, a view of it, and a label out of range, which changes nothing."""
    a, b = sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0])

    @sg.compile
    def step(k: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        before, other = a.clone(), b.clone()
        row = F.one_hot(k, 3)
        a.copy_(other)
        b.copy_(before)
        return before, row

    sg.web.export(step, tmp_path, sg.tensor([0]))
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    page = visit(tmp_path, "blank.html")
    found = page.evaluate(
        """async () => {
          const {CpuProgram} = await import(new URL('cpu.js', location.href));
          const step = await CpuProgram.load('step.json');
          const text = async (k) => {
            try { const found = await step.run({k: [k]}); return [[...found[0]], [...found[1]]]; }
            catch (error) { return error.message; }
          };
          return [await text(1), await text(3), await text(2)];
        }"""
    )
    assert found[0] == [[1, 2], [0, 1, 0]]
    assert "class 3 is out of range: there are 3 classes, 0 to 2" in found[1]
    assert found[2] == [[3, 4], [0, 0, 1]]


@pytest.mark.parametrize("reason", [NO_WEBGPU, NO_ADAPTER], ids=["no WebGPU", "no adapter"])
def test_a_page_without_a_gpu_trains_on_the_cpu_and_says_so(visit: Any, tmp_path: Path, reason: str) -> None:
    step, predict, _ = digits()
    images, labels, *_ = load_digits()
    sg.web.export(
        step,
        tmp_path,
        *map(sg.tensor, digit_batches(1)[0]),
        data={"images": images, "labels": labels},
        programs={"predict": (predict, sg.zeros(BATCH, 64))},
        settings={"steps": 1_000_000_000},  # the training does not end while the test acts on it
    )
    without(tmp_path, reason)
    page = opened(visit, tmp_path)
    wait_for_steps(page, 100)
    assert float(figure(page, "loss")) < 1.0
    # the step begins at once, and the page asks for a GPU meanwhile
    why = "The step runs on the CPU, in WebAssembly: "
    page.wait_for_function("(why) => document.querySelector('.note').textContent.startsWith(why)", arg=why)
    said = page.inner_text(".note")
    assert re.search("offers no WebGPU here" if reason == NO_WEBGPU else "the browser gives no GPU", said)
    page.click("text=Pause")
    page.wait_for_function("() => document.querySelector('button.main').textContent === 'Start'")
    page.click("button:text-is('Run')")
    page.wait_for_selector("text=/with the weights after [\\d,]+ step/")
    with page.expect_download() as waiting:
        page.click("text=Download state")
    waiting.value.save_as(tmp_path / "later.safetensors")
    steps = figure(page, "steps")
    page.click("text=Reset")
    page.wait_for_function("() => figure('steps') === '0'")
    page.set_input_files("input[type=file] >> nth=0", tmp_path / "later.safetensors")
    page.wait_for_function("(steps) => figure('steps') === steps", arg=steps)


def test_a_page_whose_step_javascript_cannot_say_tells_both_reasons(visit: Any, tmp_path: Path) -> None:
    sg.web.export(sg.compile(lambda x: sg.digamma(x).sum()), tmp_path, sg.ones(3))
    without(tmp_path)
    page = visit(tmp_path)
    page.wait_for_selector("#status.error")
    said = page.inner_text("#status")
    assert "offers no WebGPU here" in said
    assert re.search(r"cannot train on the CPU either: .*Digamma.* cannot be written in JavaScript yet", said)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checkerboard", "lizard"])
def test_an_automaton_trains_on_the_pages_cpu_as_on_the_cpu_device(visit: Any, tmp_path: Path, name: str) -> None:
    """Its own kernels have JavaScript, too: periodic and with zeros around, with and without masks, the soft and the hard rule."""
    training = automaton(name=name)
    automaton_page(name, training, tmp_path)
    assert json.loads((tmp_path / "page.json").read_text())["cpu"] == ""
    without(tmp_path)
    page = opened(visit, tmp_path, path="index.html#run=0")
    there = page.evaluate(
        """async () => {
          const {CpuProgram} = await import(new URL('cpu.js', location.href));
          const {readTensors} = await import(new URL('runtime.js', location.href));
          const {Batches} = await import(new URL('batches.js', location.href));
          const data = readTensors(await (await fetch('data.safetensors')).arrayBuffer());
          const step = await CpuProgram.load('step.json');
          const batches = new Batches(step.arguments, data, true);
          const found = [];
          for (let k = 0; k < 8; k++) found.push(await step.run(batches.next()));
          return found.map((row) => [row['soft loss'], row['hard loss']]);
        }"""
    )
    update = sg.compile(training.update)
    here = np.array([[v.item() for v in update(*training.batch())] for _ in range(8)])
    np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-4)
    page.wait_for_function("() => /step [1-9]/.test(document.querySelector('canvas + .legend').textContent)")


def test_an_operation_of_ones_own_may_have_javascript(visit: Any, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Tripled(sg.extend.Operation):
        arguments = ("x",)

        def infer(self, x: sg.extend.Spec) -> sg.extend.Spec:
            return x

        def numpy(self, x: np.ndarray) -> np.ndarray:
            return 3 * x

        def shader(self, limits: Any, x: sg.extend.Spec) -> sg.extend.Shader:
            body = f"let t = wg * 64 + i32(lid);\nif (t < {x.size}) {{ result[t] = 3.0 * x[t]; }}"
            return sg.extend.Shader(body, threads=64, workgroups=-(-x.size // 64))

        def javascript(self, x: sg.extend.Spec) -> sg.extend.Javascript:
            text = "(o, x) => { for (let k = 0; k < x.length; k++) o[k] = three() * x[k]; }"
            return sg.extend.Javascript(text, "const three = () => 3;")

    step = sg.compile(lambda x: Tripled()(x.T).sum(1))
    sg.web.export(step, tmp_path, sg.ones(2, 3))
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    found = visit(tmp_path, "blank.html").evaluate(
        """async () => {
          const {CpuProgram} = await import(new URL('cpu.js', location.href));
          return [...(await (await CpuProgram.load('step.json')).run({x: [1, 2, 3, 4, 5, 6]})).result];
        }"""
    )
    assert found == [15, 21, 27]
