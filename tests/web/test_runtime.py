"""Exported steps in a real browser: the same numbers as in Python, state that goes both ways, losses of the device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.data import load_digits
from shadergrad.web.join import joined

from .steps import BATCH, digit_batches, digits, in_halves, sequences

RUN = """async ({batches, ...options}) => {
  const {Program} = await import(new URL('runtime.js', location.href));
  const step = window.step ??= await Program.load('step.json', options);
  const losses = [];
  for (const [images, labels] of batches) losses.push(step.run({images, labels}).then(({result}) => result));
  return await Promise.all(losses);
}"""


def exported(folder: Path, seed: int = 0) -> tuple[Any, Any, Any, tuple[sg.Tensor, sg.Tensor]]:
    step, predict, model = digits(seed)
    given = (sg.zeros(BATCH, 64), sg.zeros(BATCH, dtype="int32"))
    sg.web.export(step, folder, *given, programs={"predict": (predict, sg.zeros(360, 64))})
    return step, predict, model, given


def as_lists(batches: list[tuple[np.ndarray, np.ndarray]]) -> list[Any]:
    return [[images.ravel().tolist(), labels.tolist()] for images, labels in batches]


def blank(visit: Any, folder: Path, **options: Any) -> Any:
    """A page beside the exported files with nothing on it: index.html would load the step and compile its kernels as well."""
    (folder / "blank.html").write_text('<link rel="icon" href="data:,">')
    return visit(folder, "blank.html", **options)


def trained(step: Any, batches: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    return [step(sg.tensor(images), sg.tensor(labels)).item() for images, labels in batches]


@pytest.mark.slow
def test_digits_train_as_in_python_and_the_state_goes_both_ways(visit: Any, tmp_path: Path) -> None:
    step, _, _, given = exported(tmp_path / "site")
    batches = digit_batches(230)
    page = blank(visit, tmp_path / "site")
    there = page.evaluate(RUN, {"batches": as_lists(batches[:200])})
    here = trained(step, batches[:200])
    assert np.abs(np.subtract(there, here)).max() < 1e-3
    *_, test_images, test_labels = load_digits()
    logits = np.array(
        page.evaluate(
            """async (images) => {
              const {Program} = await import(new URL('runtime.js', location.href));
              window.predict = await Program.load('predict.json', {share: window.step});
              return [...(await window.predict.run({images})).result];
            }""",
            test_images.ravel().tolist(),
        )
    ).reshape(360, 10)
    assert (logits.argmax(1) == test_labels).mean() >= 0.95

    # the weights, in Python
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(bytes(page.evaluate("async () => [...await window.step.saveWeights()]")))
    _, fresh_predict, fresh, _ = exported(tmp_path / "other", seed=7)
    sg.interop.load_state_dict(fresh, weights)
    assert np.abs(fresh_predict(sg.tensor(test_images)).numpy() - logits).max() < 1e-4

    # everything, in Python, where the training goes on as in the browser: optimizer and random state too
    state = tmp_path / "state.safetensors"
    state.write_bytes(bytes(page.evaluate("async () => [...await window.step.saveState()]")))
    there = page.evaluate(RUN, {"batches": as_lists(batches[200:])})
    held = sg.load(state)
    np.testing.assert_array_equal(held["parameter/0.weight"].numpy(), fresh[0].weight.detach().numpy())
    other, _, _, _ = exported(tmp_path / "third", seed=9)
    sg.web.load_state(other, state, *given)
    here = trained(other, batches[200:])
    assert np.abs(np.subtract(there, here)).max() < 1e-4

    # and back
    sg.web.save_state(other, state, *given)
    there = page.evaluate(
        f"""async ({{file, batches}}) => {{
          await window.step.loadState(new Uint8Array(file));
          return await ({RUN})({{batches}});
        }}""",
        {"file": list(state.read_bytes()), "batches": as_lists(batches[:20])},
    )
    assert np.abs(np.subtract(there, trained(other, batches[:20]))).max() < 1e-4


HALVES = """async (batches) => {
  const {Program} = await import(new URL('runtime.js', location.href));
  const step = await Program.load('step.json');
  const {readTensors} = await import(new URL('runtime.js', location.href));
  const {load} = await import(new URL('step.cpu.js', location.href));
  const plain = load(readTensors(await (await fetch('state.safetensors')).arrayBuffer()));
  const found = [];
  for (const [images, labels] of batches) found.push([(await step.run({images, labels})).result, plain.run({images, labels}).result]);
  return found;
}"""


@pytest.mark.parametrize("dtype", [sg.float16, pytest.param(sg.bfloat16, marks=pytest.mark.slow)])
def test_half_precision_trains_as_in_python_on_the_gpu_and_in_plain_javascript(
    visit: Any, tmp_path: Path, dtype: Any
) -> None:
    step, batches = in_halves(dtype)
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]), targets=())
    there = blank(visit, tmp_path).evaluate(HALVES, [[x.ravel().tolist(), y.tolist()] for x, y in batches])
    here = [step(sg.tensor(x), sg.tensor(y)).item() for x, y in batches]
    assert here[-1] < 0.85 * here[0]
    for way in np.transpose(there):
        assert np.abs(way - here).max() < 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "attention"])
def test_recurrent_and_attention_steps_train_as_in_python(visit: Any, tmp_path: Path, kind: str) -> None:
    step, batches = sequences(kind)
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]))
    page = blank(visit, tmp_path)
    there = page.evaluate(
        """async (batches) => {
          const {Program} = await import(new URL('runtime.js', location.href));
          const step = await Program.load('step.json');
          const found = [];
          for (const [x, y] of batches) found.push(await step.run({x, y}));
          return found.map(({loss, accuracy}) => [loss, accuracy]);
        }""",
        [[x.ravel().tolist(), y.tolist()] for x, y in batches],
    )
    here = [[v.item() for v in step(sg.tensor(x), sg.tensor(y)).values()] for x, y in batches]
    assert np.abs(np.subtract(there, here)).max() < 1e-3


@pytest.mark.slow
def test_a_lost_device_is_opened_again_and_the_training_goes_on(visit: Any, tmp_path: Path) -> None:
    exported(tmp_path)
    page = blank(visit, tmp_path)
    found = page.evaluate(
        """async (batches) => {
          const {Program} = await import(new URL('runtime.js', location.href));
          const losses = [], told = [];
          const step = await Program.load('step.json', {keepEvery: 0, onlost: (loss) => told.push(loss)});
          for (let k = 0; k < 60; k++) {
            if (k === 30) step.device.destroy();
            const [images, labels] = batches[k];
            losses.push((await step.run({images, labels})).result);
          }
          return {losses, told, steps: step.steps};
        }""",
        as_lists(digit_batches(60)),
    )
    assert len(found["told"]) == 1
    assert found["told"][0]["stepsLost"] <= 3
    assert found["steps"] >= 56
    assert np.mean(found["losses"][31:36]) < np.mean(found["losses"][:5]) - 0.3  # it has not begun again
    assert np.mean(found["losses"][-5:]) < np.mean(found["losses"][25:30])


@pytest.mark.slow
def test_a_worker_trains_and_few_steps_are_under_way_at_once(visit: Any, tmp_path: Path) -> None:
    exported(tmp_path)
    (tmp_path / "own.js").write_text(
        """import {Program} from './runtime.js';
        onmessage = async ({data: [images, labels]}) => {
          const step = await Program.load(new URL('step.json', location.href), {inFlight: 2});
          const losses = await Promise.all(Array.from({length: 10}, () => step.run({images, labels})));
          postMessage(losses.map(({result}) => result));
        };"""
    )
    page = blank(visit, tmp_path)
    losses = page.evaluate(
        """(batch) => new Promise((resolve) => {
          const worker = new Worker('own.js', {type: 'module'});
          worker.onmessage = ({data}) => resolve(data);
          worker.postMessage(batch);
        })""",
        as_lists(digit_batches(1))[0],
    )
    assert losses[-1] < losses[0]
    step, *_ = digits()
    assert np.abs(np.subtract(losses, trained(step, digit_batches(1) * 10))).max() < 1e-4


BATCHES = """async ([images, labels, other]) => {
  let writes = 0;
  const write = GPUQueue.prototype.writeBuffer;
  GPUQueue.prototype.writeBuffer = function (...given) { writes++; return write.apply(this, given); };
  const {Program} = await import('./runtime.js');
  const {CpuProgram} = await import('./cpu.js');
  const told = {};
  for (const [name, kind] of [['gpu', Program], ['cpu', CpuProgram]]) {
    const step = await kind.load('step.json');
    const given = Float32Array.from(images);
    const batch = step.batch({images: given, labels});
    given.fill(9);
    const before = writes;
    const run = async (inputs) => (await step.run(inputs)).result;
    const losses = [await run(batch), await run(batch), await run({images: other, labels}), await run(batch), await run(batch)];
    told[name] = {losses, writes: writes - before};
  }
  return told;
}"""


def test_a_batch_is_uploaded_once_while_no_other_comes_between(visit: Any, tmp_path: Path) -> None:
    exported(tmp_path)
    (first, labels), (other, _) = digit_batches(2)
    flat = [a.ravel().tolist() for a in (first, labels, other)]
    found = blank(visit, tmp_path).evaluate(BATCHES, flat)
    step, *_ = digits()
    expected = trained(step, [(images, labels) for images in (first, first, other, first, first)])
    assert found["gpu"]["writes"] == 6  # of two arguments, three times
    for place in found.values():
        assert np.abs(np.subtract(place["losses"], expected)).max() < 1e-4


ERRORS = {
    "run({images, labels, more: 1})": r"[run] there is no argument more; there are: images, labels.",
    "run({images})": "[run] the argument labels is missing.",
    "run({images: [1, 2], labels})": "[run] images takes 2048 numbers, of shape (32,64), not 2.",
    "run({images, labels: labels.map(() => 0.5)})": "[run] labels is int32; element 0 is 0.5, which it cannot be.",
    "run({images, labels: labels.map(() => 12)})": "[cross_entropy] target 12 is out of bounds: there are 10 classes, 0 to 9.",
    "run({images, labels}, {results: ['los']})": "[run] there is no result los; there are: result.",
    "read('3.wait')": "[read] there is no 3.wait; there are: ",
    "write('grad.3.weight', [1])": "[write] grad.3.weight is state, which each run overwrites",
    "loadState(new ArrayBuffer(3))": "[readTensors] this is no safetensors file",
}


LARGEST = float(np.finfo(np.float32).max)
OF_NUMBERS = """async (x) => {
  const {Program} = await import(new URL('runtime.js', location.href));
  const step = await Program.load('step.json');
  const found = (await step.run({x: x.map((v) => v === 'nan' ? NaN : v)})).result;
  return Array.from(new Uint32Array(Float32Array.from(found).buffer));
}"""


def test_constants_at_the_ends_of_float32_load_and_are_exact(visit: Any, tmp_path: Path) -> None:
    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        filled = sg.where(x > 1, sg.tensor(-0.0), x).masked_fill(x < 0, -LARGEST)
        return sg.cat([x.nan_to_num(), filled.nan_to_num(), x.nan_to_num(nan=2.0).clamp(max=LARGEST)])

    sg.web.export(step, tmp_path, sg.zeros(4))
    given = [0.5, 2.0, -1.0, np.nan]
    bits = blank(visit, tmp_path).evaluate(OF_NUMBERS, [x if np.isfinite(x) else "nan" for x in given])
    np.testing.assert_array_equal(np.array(bits, np.uint32), step(sg.tensor(given)).numpy().view(np.uint32))


@pytest.mark.slow
def test_errors_say_what_was_asked_and_what_to_do(visit: Any, tmp_path: Path) -> None:
    exported(tmp_path)
    page = blank(visit, tmp_path)
    for call, text in ERRORS.items():
        found = page.evaluate(
            f"""async () => {{
              const {{Program}} = await import(new URL('runtime.js', location.href));
              const step = window.step ??= await Program.load('step.json');
              const images = Array(2048).fill(0), labels = Array(32).fill(0);
              try {{ await step.{call}; }} catch (error) {{ return [error.name, error.message]; }}
            }}"""
        )
        assert found is not None, call
        assert found[0] == "ShadergradError"
        assert text in found[1], found
    after = page.evaluate(
        "() => window.step.run({images: Array(2048).fill(0), labels: Array(32).fill(0)}).then((r) => r.result)"
    )
    assert np.isfinite(after)


def load_error(page: Any, name: str = "step.json") -> str:
    return page.evaluate(
        f"""async () => {{
          const {{Program}} = await import(new URL('runtime.js', location.href));
          try {{ await Program.load('{name}'); }} catch (error) {{ return error.message; }}
        }}"""
    )


def test_what_cannot_be_loaded_is_told(visit: Any, tmp_path: Path) -> None:
    exported(tmp_path)
    text = (tmp_path / "step.json").read_text()
    document = json.loads(text)
    (tmp_path / "old.json").write_text(json.dumps({**document, "format": 0}))
    document["plan"]["kernels"][2]["source"] = document["plan"]["kernels"][2]["source"].replace("let ", "lett ", 1)
    (tmp_path / "wrong.json").write_text(json.dumps(document))
    document = json.loads(text)
    document["plan"]["target"]["max_workgroup_storage"] = 1 << 20
    (tmp_path / "large.json").write_text(json.dumps(document))
    page = blank(visit, tmp_path)
    assert "is no plan of format 1" in load_error(page, "old.json")
    wrong = load_error(page, "wrong.json")
    assert f"[load] the kernel {document['plan']['kernels'][2]['name']} (" in wrong
    assert "does not compile, line " in wrong
    assert "lett " in wrong
    assert "maxComputeWorkgroupStorageSize is 32768, the plan needs 1048576 (1015808 more)" in load_error(
        page, "large.json"
    )


def test_a_browser_without_webgpu_is_told(visit: Any, tmp_path: Path) -> None:
    exported(tmp_path)
    none = blank(visit, tmp_path, script="Object.defineProperty(Navigator.prototype, 'gpu', {get: () => undefined})")
    assert "this browser offers no WebGPU here" in load_error(none)
    no_adapter = blank(visit, tmp_path, script="navigator.gpu.requestAdapter = async () => null")
    assert "the browser gives no GPU" in load_error(no_adapter)


@pytest.mark.slow
def test_the_javascript_of_the_documentation_runs(visit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the folder that the page's own programs write."""
    text = (Path(__file__).parents[2] / "docs" / "browser.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for program in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(program, names)
    (snippet,) = re.findall(r"^```js\n(.*?)^```", text, re.M | re.S)
    (tmp_path / "site" / "own.js").write_text(f"{snippet}\nexport {{ loss, weights, file, result }};")
    page = blank(visit, tmp_path / "site")
    loss, weights, file, result = page.evaluate(
        """async () => {
          window.x = new Float32Array(128).map((_, k) => Math.sin(k));
          window.y = new Int32Array(64);
          const {loss, weights, file, result} = await import(new URL('own.js', location.href));
          return [loss, weights.length, file.length, result.length];
        }"""
    )
    assert 0 < loss < 3
    assert (weights, result) == (32, 1024)
    assert file > 1000


@pytest.mark.slow
def test_a_learning_rate_changes_while_it_trains_and_python_learns_of_it(visit: Any, tmp_path: Path) -> None:
    _, _, _, given = exported(tmp_path)
    page = blank(visit, tmp_path)
    state = bytes(
        page.evaluate(
            """async (batches) => {
              const {Program} = await import(new URL('runtime.js', location.href));
              const step = await Program.load('step.json');
              step.write('lr', 0);
              const before = await step.read('3.weight');
              for (const [images, labels] of batches) await step.run({images, labels});
              const after = await step.read('3.weight');
              if (before.some((x, k) => x !== after[k])) throw Error('weights moved at rate 0');
              step.write('lr', 0.25);
              return [...await step.saveState()];
            }""",
            as_lists(digit_batches(3)),
        )
    )
    (tmp_path / "state").write_bytes(state)
    step, _, model = digits()
    sg.web.load_state(step, tmp_path / "state", *given)
    before = model[3].weight.detach().numpy().copy()
    step(*map(sg.tensor, digit_batches(1)[0]))
    assert np.abs(model[3].weight.detach().numpy() - before).max() > 0.1


def test_the_runtime_is_small_and_has_no_dependencies() -> None:
    source = joined(Path(sg.web.__file__).parent / "site" / "runtime.js")
    assert "import " not in source.replace('await import("', "")
    without_comments = re.sub(
        r"(^|[;{},()])\s*//.*$", r"\1", re.sub(r"/\*\*.*?\*/", "", source, flags=re.DOTALL), flags=re.MULTILINE
    )
    assert len(re.sub(r"\s+", " ", without_comments)) < 30_000  # 20 KB minified: esbuild shortens names too
