"""Circuits and classifiers as WebAssembly: Node computes what Circuit.evaluate and the classifier do."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from circuit_examples import random_circuit
from shadergrad import cli, nn
from shadergrad.logic import GroupSum, LogicNetwork, Thermometer, harden
from shadergrad.logic.circuit import (
    Circuit,
    CircuitClassifier,
    CircuitError,
    classifier_to_javascript,
    export_wasm,
    save,
    to_wasm,
)
from shadergrad.logic.circuit.counting import counted

RUN = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
(async () => {
    const found = [];
    for (const { module, inputs, outputs, given } of cases) {
        const { instance } = await WebAssembly.instantiate(Buffer.from(module, "base64"));
        const memory = new Uint8Array(instance.exports.memory.buffer);
        memory.set(Buffer.from(given, "base64"));
        instance.exports.run();
        instance.exports.run();  // the inputs are still there
        found.push(Buffer.from(memory.slice(16 * inputs, 16 * (inputs + outputs))).toString("base64"));
    }
    console.log(JSON.stringify(found));
})();
"""


def node(*words: str, given: str = "") -> Any:
    """What a program of Node prints, read as JSON."""
    if shutil.which("node") is None:
        pytest.skip("WEBASSEMBLY NOT TESTED, no Node: apt-get install nodejs")
    done = subprocess.run(["node", *words], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def classifier_of(seed: int = 0, bits: int = 3) -> CircuitClassifier:
    sg.manual_seed(seed)
    sizes = (5 * bits, 40, 30, 28)
    model = nn.Sequential(Thermometer(5, bits), LogicNetwork(sizes, "random", "gaussian", seed=seed), GroupSum(4, 2.5))
    return harden(model)


def test_circuits_of_all_kinds_of_gates_are_evaluated_in_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants, wires, inverted outputs, one output twice; 128 assignments a call; functions of a few gates each."""
    monkeypatch.setattr(export_wasm, "IN_FUNCTION", 7)
    rng = np.random.default_rng(0)
    circuits = [Circuit(2, [(kind, 0, 1)], [2, 0]) for kind in range(16)]
    circuits += [random_circuit(rng, int(rng.integers(1, 12)), int(rng.integers(0, 300)), 9) for _ in range(20)]
    cases, expected = [], []
    for circuit in circuits:
        bits = rng.random((128, circuit.inputs)) < 0.5
        given = np.packbits(bits.T, axis=1, bitorder="little")
        module = base64.b64encode(to_wasm(circuit)).decode()
        words = base64.b64encode(given.tobytes()).decode()
        cases.append({"module": module, "inputs": circuit.inputs, "outputs": len(circuit.outputs), "given": words})
        expected.append(circuit.evaluate(bits).T)
    for circuit, text, wanted in zip(circuits, node("-e", RUN, given=json.dumps(cases)), expected, strict=True):
        found = np.unpackbits(
            np.frombuffer(base64.b64decode(text), np.uint8).reshape(-1, 16), axis=1, bitorder="little"
        )
        assert found.tolist() == wanted.astype(int).tolist(), circuit


@pytest.mark.parametrize("seed", range(12))
def test_counts_and_classes_as_gates_are_those_of_the_classifier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, group, inputs = int(rng.integers(1, 18)), int(rng.integers(1, 70)), int(rng.integers(1, 12))
    classifier = CircuitClassifier(random_circuit(rng, inputs, 60, classes * group), classes)
    bits = rng.random((200, inputs)) < 0.5
    digits, planes = max(1, (classes - 1).bit_length()), max(1, group.bit_length())
    found = counted(classifier).evaluate(bits)
    assert found.shape[1] == digits + classes * planes
    assert (found[:, :digits] @ (1 << np.arange(digits))).tolist() == classifier.predict(bits).tolist()
    votes = found[:, digits:].reshape(-1, classes, planes) @ (1 << np.arange(planes))
    assert votes.tolist() == classifier.votes(bits).tolist()


def test_a_classifier_in_javascript_says_what_it_says_in_python(tmp_path: Path) -> None:
    """Floats at, above and below thresholds, bytes, nested arrays, no image, and more than a vector of them."""
    classifier = classifier_of()
    assert classifier.thresholds is not None
    rng = np.random.default_rng(1)
    images = rng.random((300, 5)).astype(np.float32)
    images[:5] = classifier.thresholds[:, :1].T
    images[5:9, 0] = [np.nan, np.inf, -np.inf, 0.1]
    bytes_ = CircuitClassifier(classifier.circuit, 4, classifier.thresholds * 255)
    pixels = rng.integers(0, 256, (131, 5), np.uint8)
    plain = CircuitClassifier(Circuit(3, [(6, 0, 1)], [0, 3, 2, 1]), 2)
    bits = rng.integers(0, 2, (200, 3))
    for name, one in (("floats", classifier), ("bytes", bytes_), ("plain", plain)):
        save(one, tmp_path / f"{name}.json")
        words = ["logic", "export", str(tmp_path / f"{name}.json"), "javascript"]
        assert cli.run([*words, "--out", str(tmp_path / f"{name}.mjs")]) == 0
    images.tofile(tmp_path / "floats.bin")
    pixels.tofile(tmp_path / "bytes.bin")
    program = f"""
import {{ readFileSync }} from "fs";
const floats = await import("{(tmp_path / "floats.mjs").as_uri()}");
const bytes = await import("{(tmp_path / "bytes.mjs").as_uri()}");
const plain = await import("{(tmp_path / "plain.mjs").as_uri()}");
const raw = readFileSync("{tmp_path / "floats.bin"}");
const own = new Float32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length));
const y = new Uint8Array(readFileSync("{tmp_path / "bytes.bin"}"));
const bits = {json.dumps(bits.tolist())};
const errors = [];
for (const wrong of [() => plain.predict([0, 0.5, 1]), () => floats.predict([1, 2, 3]), () => floats.predict(null),
                     () => floats.predict([[1, 2, 3, 4, 5], [1]])])
    try {{ wrong(); errors.push(""); }} catch (e) {{ errors.push(e.message); }}
console.log(JSON.stringify({{
    floats: [[...floats.predict(own)], [...floats.votes(own)]],
    bytes: [[...bytes.predict(y)], [...bytes.votes(y)]],
    plain: [[...plain.predict(bits)], [...plain.votes(bits.flat())]],
    none: [...floats.predict([])],
    sizes: [floats.numbers, floats.classes, floats.group, floats.tau],
    errors,
}}));
"""
    (tmp_path / "program.mjs").write_text(program)
    found = node(str(tmp_path / "program.mjs"))
    for name, one, given in (("floats", classifier, images), ("bytes", bytes_, pixels), ("plain", plain, bits)):
        assert found[name][0] == one.predict(given).tolist()
        assert found[name][1] == one.votes(given).reshape(-1).tolist()
    assert found["none"] == []
    assert found["sizes"] == [5, 4, 7, 2.5]
    for error, words in zip(
        found["errors"],
        ("image 0 holds 0.5", "3 numbers do not part into images of 5", "array", "image 1 has 1"),
        strict=True,
    ):
        assert words in error


def test_files_that_are_no_classifier_have_no_javascript(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Circuit(2, [(6, 0, 1)], [2]), tmp_path / "c.json")
    assert cli.run(["logic", "export", str(tmp_path / "c.json"), "javascript"]) == 2
    assert "the format of classifiers" in capsys.readouterr().err


def test_an_export_that_lacks_a_part_of_the_classifier_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(CircuitClassifier(Circuit(2, [(6, 0, 1)], [2, 0]), 2), tmp_path / "c.json")
    for form, whole in (("c", False), ("verilog", True), ("javascript", True)):
        assert cli.run(["logic", "export", str(tmp_path / "c.json"), form, "--out", str(tmp_path / "out")]) == 0
        assert ("without the classifier's thresholds and counts" in capsys.readouterr().out) != whole


def test_circuits_beyond_the_memory_of_a_module_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_wasm, "MOST_PAGES", 0)
    with pytest.raises(CircuitError, match="a module has at most 0"):
        to_wasm(Circuit(1, [], [0]))
    with pytest.raises(CircuitError, match="a module has at most 0"):
        classifier_to_javascript(classifier_of())
