"""A trained classifier as hardware: the gates that Yosys makes of its Verilog say what `predict` says, and Yosys proves that the Verilog
of its circuit is its BLIF. What needs a program that is absent is skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.logic import GroupSum, LogicNetwork, Thermometer, harden
from shadergrad.logic.circuit import Circuit, CircuitClassifier, classifier_to_verilog, to_blif
from verilog_simulation import NAME, bench, simulated

pytestmark = pytest.mark.slow  # a training, and a synthesis


@pytest.fixture(scope="module")
def trained() -> tuple[CircuitClassifier, np.ndarray, np.ndarray]:
    """A classifier of digits, and images and labels that it has not learned from."""
    images, labels, test_images, test_labels = sg.data.load_digits()
    sg.manual_seed(0)
    encode = Thermometer(64, 2, mode="hard")
    network = LogicNetwork((128, 300, 200), wiring="random", init="residual", strength=2.0, seed=0)
    model = sg.nn.Sequential(network, GroupSum(10, tau=4.0))
    optimizer = sg.optim.Adam(model.parameters(), lr=0.2)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = sg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    bits, known = encode(sg.tensor(images)), sg.tensor(labels)
    for _ in range(40):
        step(bits, known)
    return harden(sg.nn.Sequential(encode, model)).minimized(), test_images, test_labels


def require_programs(*names: str) -> None:
    absent = [name for name in names if shutil.which(name) is None]
    if absent:
        pytest.skip(f"SYNTHESIS NOT TESTED, no {absent[0]}: apt-get install yosys iverilog")


def yosys(script: str, folder: Path) -> str:
    done = subprocess.run(["yosys", "-Q", "-p", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return done.stdout


def test_the_verilog_of_a_trained_classifier_says_what_predict_says(
    trained: tuple[CircuitClassifier, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    require_programs("iverilog", "vvp")
    classifier, images, labels = trained
    expected = classifier.predict(images)
    assert (expected == labels).mean() > 0.6  # it has learned
    np.testing.assert_array_equal(simulated(classifier, images, tmp_path)[0], expected)


def test_what_yosys_synthesises_says_what_predict_says(
    trained: tuple[CircuitClassifier, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    require_programs("yosys", "iverilog", "vvp")
    classifier, images, _ = trained
    simulated(classifier, images, tmp_path)  # which writes bits.txt, too
    (tmp_path / "classifier.v").write_text(classifier_to_verilog(classifier, NAME), encoding="ascii")
    script = f"read_verilog classifier.v; synth -flatten -top {NAME}; check -assert; select -assert-none t:$dff* t:$_DFF* t:$dlatch* t:$_DLATCH*"
    yosys(f"{script}; write_verilog -noattr gates.v", tmp_path)
    gates = (tmp_path / "gates.v").read_text()
    assert "function" not in gates  # gates, and not what was read
    (tmp_path / "synthesised.v").write_text(gates + bench(classifier.circuit.inputs, 4, len(images)))
    subprocess.run(["iverilog", "-g2001", "-s", "bench", "-o", "run", "synthesised.v"], cwd=tmp_path, check=True)
    lines = subprocess.run(["vvp", "-n", "run"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    np.testing.assert_array_equal([int(line) for line in lines.split()], classifier.predict(images))


@pytest.mark.parametrize("changed", [False, True], ids=["as exported", "with one gate changed"])
def test_yosys_proves_the_verilog_of_a_circuit_equal_to_its_blif(
    trained: tuple[CircuitClassifier, np.ndarray, np.ndarray], tmp_path: Path, changed: bool
) -> None:
    require_programs("yosys")
    classifier, _, _ = trained
    circuit = classifier.circuit
    gates = list(circuit.gates())
    if changed:
        k = int(circuit.outputs[0]) - circuit.inputs
        gates[k] = (15 - gates[k][0], *gates[k][1:])
    (tmp_path / "circuit.blif").write_text(to_blif(Circuit(circuit.inputs, gates, circuit.outputs.tolist()), "other"))
    ports = [f".x{k}(x[{k}])" for k in range(circuit.inputs)] + [f".y{k}(y[{k}])" for k in range(len(circuit.outputs))]
    width = f"input [{circuit.inputs - 1}:0] x, output [{len(circuit.outputs) - 1}:0] y"
    (tmp_path / "wrapped.v").write_text(f"module wrapped({width});\n    other it({', '.join(ports)});\nendmodule\n")
    (tmp_path / "classifier.v").write_text(classifier_to_verilog(classifier, NAME), encoding="ascii")
    told = yosys(
        f"read_verilog classifier.v wrapped.v; read_blif circuit.blif; delete {NAME}; proc; flatten wrapped; "
        f"miter -equiv -flatten {NAME}_gates wrapped miter; sat -prove trigger 0 miter",
        tmp_path,
    )
    assert ("SAT proof finished - no model found: SUCCESS!" in told) is not changed
    assert ("SAT proof finished - model found: FAIL!" in told) is changed
