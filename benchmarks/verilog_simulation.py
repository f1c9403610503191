"""A classifier of gates as Verilog, simulated by Icarus Verilog: is the class of every image that of `predict`, and how long does it take?

    python benchmarks/verilog_simulation.py runs/mnist-logic/classifier.json --data mnist   # the 10,000 test images of MNIST
    python benchmarks/verilog_simulation.py --images 10000                                   # random images and gates

`--data` names a folder with MNIST's files; a classifier of 400 numbers takes the 20 x 20 pixels in the middle, as the recipes do. It prints a
line of JSON, and fails where a class differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import shadergrad as sg
from logic_inference import random_classifier
from shadergrad.logic.circuit import CircuitClassifier, classifier_to_verilog, load

NAME = "classifier"


def bench(inputs: int, digits: int, images: int) -> str:
    """A module that reads the images of bits.txt, a line each, and displays their classes."""
    return f"""
module bench;
    reg [{inputs - 1}:0] images [0:{images - 1}];
    reg [{inputs - 1}:0] x;
    wire [{digits - 1}:0] label;
    {NAME} dut(.x(x), .label(label), .votes());
    integer k;
    initial begin
        $readmemb("bits.txt", images);
        for (k = 0; k < {images}; k = k + 1) begin
            x = images[k];
            #1 $display("%0d", label);
        end
        $finish;
    end
endmodule
"""


def simulated(classifier: CircuitClassifier, images: np.ndarray, folder: Path) -> tuple[np.ndarray, dict[str, float]]:
    """The classes (n,) that Icarus Verilog displays, and the seconds to write, to compile and to simulate; files go to `folder`."""
    begin = time.perf_counter()
    bits = classifier.encode(images)
    rows = (bits[:, ::-1] + np.uint8(ord("0"))).astype(np.uint8)  # the first digit is the highest bit
    (folder / "bits.txt").write_bytes(b"\n".join(row.tobytes() for row in rows))
    digits = max(1, (classifier.classes - 1).bit_length())
    text = classifier_to_verilog(classifier, NAME) + bench(classifier.circuit.inputs, digits, len(images))
    (folder / "bench.v").write_text(text, encoding="ascii")
    written = time.perf_counter()
    compile_ = ["iverilog", "-g2001", "-Wall", "-s", "bench", "-o", "bench", "bench.v"]
    told = subprocess.run(compile_, cwd=folder, check=True, capture_output=True, text=True)
    if told.stderr:
        raise RuntimeError(f"iverilog warns: {told.stderr[:2000]}")
    compiled = time.perf_counter()
    lines = subprocess.run(["vvp", "-n", "bench"], cwd=folder, check=True, capture_output=True, text=True).stdout
    seconds = {"write": written - begin, "compile": compiled - written, "simulate": time.perf_counter() - compiled}
    return np.array([int(line) for line in lines.split()]), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "classifier", nargs="?", type=Path, help="classifier.json of a training; left out: random gates"
    )
    parser.add_argument("--data", type=Path, help="a folder with MNIST's files; left out: random images")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--gates", type=int, default=1_000, help="of the random classifier, in three layers")
    options = parser.parse_args()
    if shutil.which("iverilog") is None:
        sys.exit("Icarus Verilog is not on the path: apt-get install iverilog")
    found = load(options.classifier) if options.classifier else random_classifier(options.gates // 30 * 10, 3)
    if not isinstance(found, CircuitClassifier):
        sys.exit(f"{options.classifier} holds no classifier.")
    if options.data:
        images = sg.data.MNIST(options.data, train=False).images[: options.images].reshape(-1, 28, 28)
        images = images[:, 4:24, 4:24] if found.numbers == 400 else images
    else:
        images = np.random.default_rng(0).random((options.images, found.numbers), np.float32)
        images = images if found.thresholds is not None else images.round()
    with tempfile.TemporaryDirectory() as folder:
        classes, seconds = simulated(found, images, Path(folder))
    expected = found.predict(images)
    same = len(classes) == len(expected) and bool((classes == expected).all())
    rounded = {what: round(value, 2) for what, value in seconds.items()}
    print(json.dumps({"gates": len(found.circuit), "images": len(images), "seconds": rounded, "equal": same}))
    if not same:
        sys.exit("the simulated classes differ from those of predict")


if __name__ == "__main__":
    main()
