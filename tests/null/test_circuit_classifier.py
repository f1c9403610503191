"""Hardened classifiers: one object that says what the network says, by NumPy, compiled C, tensors and Verilog."""

from __future__ import annotations

import copy
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import shadergrad as sg
import verilog_simulation
from circuit_examples import random_circuit
from shadergrad import nn
from shadergrad.logic import GroupSum, LogicLayer, LogicNetwork, Thermometer, harden
from shadergrad.logic.circuit import (
    Circuit,
    CircuitClassifier,
    CircuitError,
    DeviceClassifier,
    NativeClassifier,
    classifier_to_verilog,
    device_classifier,
    from_json,
    load,
    save,
    to_json,
)
from shadergrad.logic.circuit.level_schedule import schedule
from shadergrad.logic.circuit.native_board import find_compiler
from shadergrad.nn.errors import ArgumentError

RUNNERS = ["native", "device"]


def runner(kind: str, classifier: CircuitClassifier) -> NativeClassifier | DeviceClassifier:
    if kind == "device":
        return DeviceClassifier(classifier, "cpu")
    if find_compiler() is None:
        pytest.skip("no C compiler: apt-get install gcc")
    return NativeClassifier(classifier)


def trained(numbers: int = 5, bits: int = 3, classes: int = 4, seed: int = 0) -> nn.Sequential:
    sg.manual_seed(seed)
    sizes = (numbers * bits, 40, 30, classes * 6)
    encode = Thermometer(numbers, bits, mode="straight-through")
    return nn.Sequential(
        nn.Flatten(), encode, LogicNetwork(sizes, "random", "gaussian", seed=seed), GroupSum(classes, 2.5)
    )


def images(count: int, numbers: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, numbers), np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_a_classifier_says_what_the_network_says_in_eval(seed: int) -> None:
    model = trained(seed=seed)
    classifier = harden(model)
    x = images(200)
    scores = model.eval()(sg.tensor(x)).detach().numpy()
    np.testing.assert_allclose(classifier.scores(x), scores, atol=1e-6)
    assert classifier.predict(x).tolist() == scores.argmax(-1).tolist()
    assert (classifier.numbers, classifier.classes, classifier.group, classifier.tau) == (5, 4, 6, 2.5)


def test_more_images_than_positions_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = harden(trained())
    monkeypatch.setattr(device_classifier, "POSITIONS", 2 * 24 * 32 + 1)  # of two words for each of 24 gates
    fast, x = runner("device", classifier), images(7 * 32 + 5)
    assert fast.votes(x).tolist() == classifier.votes(x).tolist()
    assert fast.predict(x).tolist() == classifier.predict(x).tolist()


@pytest.mark.parametrize("kind", RUNNERS)
@pytest.mark.parametrize("count", [0, 1, 7, 31, 32, 33, 511, 512, 513, 1100])
def test_runners_count_the_same_votes_for_any_number_of_images(kind: str, count: int) -> None:
    classifier = harden(trained(seed=count))
    fast = runner(kind, classifier)
    x = images(count)
    assert fast.votes(x).tolist() == classifier.votes(x).tolist()
    assert fast.predict(x).tolist() == classifier.predict(x).tolist()
    assert fast.scores(x).tolist() == classifier.scores(x).tolist()


@pytest.mark.parametrize("kind", RUNNERS)
def test_runners_go_to_other_processes(kind: str) -> None:
    classifier = harden(trained())
    one = runner(kind, classifier)
    for copied in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert copied.predict(images(33)).tolist() == classifier.predict(images(33)).tolist()


@pytest.mark.parametrize("kind", RUNNERS)
@pytest.mark.parametrize("seed", range(25))
def test_runners_evaluate_random_circuits_of_all_kinds(kind: str, seed: int) -> None:
    """Constants, wires, inverted outputs, one output twice, gates that nothing reads; groups of 1 to 70 votes."""
    rng = np.random.default_rng(seed)
    classes, group, inputs = int(rng.integers(1, 18)), int(rng.integers(1, 70)), int(rng.integers(1, 12))
    circuit = random_circuit(rng, inputs, int(rng.integers(0, 120)), classes * group)
    classifier = CircuitClassifier(circuit, classes)
    bits = rng.random((70, inputs)) < 0.5
    expected = circuit.evaluate(bits).reshape(70, classes, group).sum(-1)
    fast = runner(kind, classifier)
    assert fast.votes(bits).tolist() == expected.tolist()
    assert fast.predict(bits).tolist() == expected.argmax(-1).tolist()


@pytest.mark.parametrize("kind", RUNNERS)
@pytest.mark.parametrize("low", [-30.0, 0.0, 254.5])
def test_bytes_are_compared_with_thresholds_as_numbers(kind: str, low: float) -> None:
    limits = np.array([[low, 0.0, 99.5, 254.0], [255.0, 254.99, 1.0, 300.0]], np.float32)
    outputs = Circuit(8, [], range(8))
    classifier = CircuitClassifier(outputs, 8, limits)
    x = np.stack(np.meshgrid([0, 1, 99, 100, 254, 255], [0, 1, 2, 254, 255]), -1).reshape(-1, 2).astype(np.uint8)
    expected = (x[:, :, None].astype(float) > limits).reshape(len(x), 8).astype(int)
    assert runner(kind, classifier).votes(x).tolist() == classifier.votes(x).tolist() == expected.tolist()


def test_numbers_at_a_threshold_and_no_numbers_are_not_above_it() -> None:
    classifier = CircuitClassifier(Circuit(1, [(12, 0, 0)], [0, 1]), 2, np.array([[0.1]]))
    x = np.array([[0.1], [np.nextafter(np.float32(0.1), np.float32(1))], [np.nan], [np.inf], [-np.inf]], np.float32)
    for fast in (classifier, runner("native", classifier)):
        assert fast.predict(x).tolist() == [1, 0, 1, 0, 1]


def test_slots_are_used_again_and_never_while_they_are_read() -> None:
    rng = np.random.default_rng(0)
    layers = [random_layer(rng, 64) for _ in range(30)]
    circuit = Circuit(
        64, [gate for k, layer in enumerate(layers) for gate in shifted(layer, 64 * k)], range(64 * 30, 64 * 31)
    )
    tables = schedule(circuit)
    assert tables.slots <= 3 * 64 + 64
    values = np.zeros(tables.slots, bool)
    bits = rng.random(64) < 0.5
    live = tables.inputs >= 0
    values[tables.inputs[live]] = bits[live]
    rows, at = tables.gates.tolist(), 0
    for kind, count in tables.runs.tolist():
        for a, b, out in rows[at : at + count]:
            values[out] = kind >> (3 - 2 * int(values[a]) - int(values[b])) & 1
        at += count
    assert values[tables.outputs].tolist() == circuit.evaluate(bits).tolist()


def random_layer(rng: np.random.Generator, width: int) -> list[tuple[int, int, int]]:
    kinds, wires = rng.choice([1, 2, 4, 6, 7, 8, 9, 14], width).tolist(), rng.integers(0, width, (width, 2)).tolist()
    return [(kind, a, b) for kind, (a, b) in zip(kinds, wires, strict=True)]


def shifted(layer: list[tuple[int, int, int]], by: int) -> list[tuple[int, int, int]]:
    return [(kind, a + by, b + by) for kind, a, b in layer]


def test_files_hold_the_whole_classifier(tmp_path: Path) -> None:
    for classifier in (harden(trained()), CircuitClassifier(Circuit(2, [(6, 0, 1)], [2, 0]), 2)):
        save(classifier, tmp_path / "c.json")
        found = load(tmp_path / "c.json")
        assert isinstance(found, CircuitClassifier)
        assert (found.circuit.kinds.tolist(), found.classes, found.tau) == (
            classifier.circuit.kinds.tolist(),
            classifier.classes,
            classifier.tau,
        )
        x = images(50) if classifier.thresholds is not None else np.array([[0, 1], [1, 1]])
        assert found.votes(x).tolist() == classifier.votes(x).tolist()
    text = to_json(harden(trained()))
    for old, new, message in (
        ('"classes": 4', '"classes": "4"', "numbers as classes and tau"),
        ('"classes": 4', '"classes": 5', "do not part into 5"),
        ('"tau": 2.5', '"tau": -1', "must be positive"),
        ('"thresholds": [', '"thresholds": ["x", ', "thresholds are"),
    ):
        assert old in text
        with pytest.raises(CircuitError, match=message):
            from_json(text.replace(old, new, 1))


def test_the_minimized_classifier_counts_the_same_votes() -> None:
    classifier = harden(trained())
    small = classifier.minimized()
    assert len(small.circuit) < len(classifier.circuit)
    x = images(300)
    assert small.votes(x).tolist() == classifier.votes(x).tolist()


def test_verilog_counts_and_picks_as_the_classifier(tmp_path: Path) -> None:
    if not (shutil.which("iverilog") and shutil.which("vvp")):
        pytest.skip("VERILOG NOT TESTED, no Icarus Verilog: apt-get install iverilog")
    classifier = harden(trained(classes=10))
    bits = classifier.encode(images(200))
    width = classifier.group.bit_length()
    lines = ["".join("01"[int(b)] for b in row[::-1]) for row in bits]
    (tmp_path / "bits.txt").write_text("\n".join(lines))
    bench = f"""
module bench;
    reg [{bits.shape[1] - 1}:0] rows [0:{len(bits) - 1}];
    reg [{bits.shape[1] - 1}:0] x;
    wire [3:0] label;
    wire [{10 * width - 1}:0] votes;
    digits dut(.x(x), .label(label), .votes(votes));
    integer k;
    initial begin
        $readmemb("{tmp_path / "bits.txt"}", rows);
        for (k = 0; k < {len(bits)}; k = k + 1) begin
            x = rows[k]; #1 $display("%d %b", label, votes);
        end
        $finish;
    end
endmodule
"""
    (tmp_path / "bench.v").write_text(classifier_to_verilog(classifier.minimized(), "digits") + bench)
    subprocess.run(
        ["iverilog", "-g2001", "-Wall", "-s", "bench", "-o", tmp_path / "bench", tmp_path / "bench.v"],
        check=True,
        capture_output=True,
    )
    told = subprocess.run(["vvp", "-n", tmp_path / "bench"], check=True, capture_output=True, text=True).stdout.split()
    votes = [[int(word[::-1][k * width : (k + 1) * width][::-1], 2) for k in range(10)] for word in told[1::2]]
    assert votes == classifier.votes(images(200)).tolist()
    assert [int(word) for word in told[::2]] == classifier.predict(images(200)).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_verilog_of_random_circuits_of_all_kinds_names_the_same_classes(seed: int, tmp_path: Path) -> None:
    """Constants, wires, inverted outputs, chains deeper than an expression, one output twice, inputs of one word and of more."""
    if not (shutil.which("iverilog") and shutil.which("vvp")):
        pytest.skip("VERILOG NOT TESTED, no Icarus Verilog: apt-get install iverilog")
    rng = np.random.default_rng(seed)
    inputs, group, classes = ((1, 1, 1), (31, 2, 3), (32, 3, 2), (33, 1, 5), (64, 9, 4), (100, 16, 17))[seed]
    circuit = random_circuit(rng, inputs, int(rng.integers(0, 400)), classes * group, window=8)
    classifier = CircuitClassifier(circuit, classes)
    bits = rng.random((64, inputs)) < 0.5
    classes_found, _ = verilog_simulation.simulated(classifier, bits, tmp_path)
    assert classes_found.tolist() == classifier.predict(bits).tolist()


@pytest.mark.parametrize("kind", [0, 15])
def test_verilog_of_constants_needs_no_change_of_an_input(kind: int, tmp_path: Path) -> None:
    if not (shutil.which("iverilog") and shutil.which("vvp")):
        pytest.skip("VERILOG NOT TESTED, no Icarus Verilog: apt-get install iverilog")
    constant = CircuitClassifier(Circuit(1, [(15 - kind, 0, 0), (kind, 0, 0)], [1, 2]), 2)
    found, _ = verilog_simulation.simulated(constant, np.array([[0], [1]]), tmp_path)
    assert found.tolist() == constant.predict(np.array([[0], [1]])).tolist() == [int(kind == 15)] * 2


@pytest.mark.slow
def test_verilog_of_a_classifier_of_real_size_names_the_class_of_every_image(tmp_path: Path) -> None:
    """3,000 gates on 784 pixels: benchmarks/verilog_simulation.py runs all 10,000 images of a trained one."""
    if not (shutil.which("iverilog") and shutil.which("vvp")):
        pytest.skip("VERILOG NOT TESTED, no Icarus Verilog: apt-get install iverilog")
    classifier = verilog_simulation.random_classifier(1000, 3)
    x = images(4000, 784)
    expected = classifier.predict(x)
    assert len(set(expected.tolist())) == 10
    found, _ = verilog_simulation.simulated(classifier, x, tmp_path)
    assert found.tolist() == expected.tolist()


def test_what_is_no_part_of_a_circuit_is_named() -> None:
    layer, sums = LogicLayer(4, 4), GroupSum(2)
    for model, message in (
        (nn.Sequential(nn.Linear(4, 4), layer, sums), "module 0, Linear, is no part of a circuit"),
        (nn.Sequential(layer, nn.Sequential(nn.ReLU()), sums), "module 1.0, ReLU,"),
        (nn.Sequential(layer), "lacks a GroupSum"),
        (nn.Sequential(sums), "lacks a LogicNetwork"),
        (nn.Sequential(layer, Thermometer(2, 2), sums), "Thermometer, does not come first"),
        (nn.Sequential(layer, sums, layer), "comes after the GroupSum"),
        (nn.Sequential(layer, LogicLayer(5, 4), sums), r"reads 5 wires; what comes before has \(4,\)"),
        (nn.Sequential(Thermometer(2, 3), layer, sums), r"reads 4 wires; what comes before has \(6,\)"),
        (layer, "a LogicLayer is no Sequential"),
    ):
        with pytest.raises(ArgumentError, match=message):
            harden(model)
    tau = nn.Parameter(sg.tensor(1.0))
    model = nn.Sequential(layer, GroupSum(2, tau))
    with sg.no_grad():
        tau.fill_(-1.0)
    with pytest.raises(ArgumentError, match=r"the learned tau is -1.0"):
        harden(model)


def test_images_that_do_not_fit_are_refused_in_words() -> None:
    classifier = harden(trained())
    for x, message in (
        (np.zeros((3, 6)), "5 numbers an image"),
        (np.zeros(5), r"one image is images\[None\]"),
        (np.array([["a"] * 5]), "numbers are needed"),
    ):
        for each in (classifier, runner("native", classifier)):
            with pytest.raises(CircuitError, match=message):
                each.predict(x)
    with pytest.raises(CircuitError, match="other values than 0 and 1, and this classifier has no thresholds"):
        CircuitClassifier(Circuit(2, [], [0]), 1).predict([[0.5, 1.0]])
    with pytest.raises(CircuitError, match=r"classes is 2\.0; a number of classes is needed"):
        CircuitClassifier(Circuit(2, [], [0, 1]), 2.0)  # type: ignore[arg-type]
    with pytest.raises(CircuitError, match="do not part into 3 equal groups"):
        CircuitClassifier(Circuit(2, [], [0, 1]), 3)


TAKE_CIRCUITS = (
    "count_gates",
    "histogram",
    "minimize",
    "to_aiger",
    "to_blif",
    "to_c",
    "to_dot",
    "to_svg",
    "to_verilog",
    "to_wasm",
    "to_wgsl",
)
TAKE_CLASSIFIERS = ("NativeClassifier", "DeviceClassifier", "classifier_to_javascript", "classifier_to_verilog")
TAKE_CELLS = ("cell_to_c", "cell_to_verilog", "cell_to_wgsl")


@pytest.mark.parametrize("name", [*TAKE_CIRCUITS, *TAKE_CLASSIFIERS, *TAKE_CELLS])
def test_another_object_is_refused_with_the_way_to_a_right_one(name: str) -> None:
    circuit = random_circuit(np.random.default_rng(0), 6, 12, 4)
    classifier = CircuitClassifier(circuit, 2)
    network = LogicNetwork((6, 8), wiring="random")
    board = (4, 4) if name in ("cell_to_verilog", "cell_to_wgsl") else ()
    right, given, way = (
        ("Circuit", classifier, "network.harden()")
        if name in TAKE_CIRCUITS
        else ("CircuitClassifier", circuit, "sg.logic.harden(model)")
        if name in TAKE_CLASSIFIERS
        else ("CellCircuit", circuit, "CellCircuit(circuit)")
    )
    for wrong in (given, network):
        with pytest.raises(CircuitError) as caught:
            getattr(sg.logic.circuit, name)(wrong, *board)
        assert str(caught.value).startswith(f"[{name}] {type(wrong).__name__} is given, and {right} needed.")
        assert way in str(caught.value)
