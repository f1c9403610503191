"""Images per second of a hardened classifier: compiled C on one core, and tensors on a device.

    python benchmarks/logic_inference.py --device webgpu --images 4194304

Six layers of random gates on 784 thresholded pixels, ten classes. The core's time is the processor time of the process; the device's
is that of classify() on words that are there already, from the first submission until the last class is read.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

import shadergrad as sg
from shadergrad.logic.circuit import Circuit, CircuitClassifier, DeviceClassifier, NativeClassifier

PIXELS, WIDTH, LAYERS, CLASSES = 784, 8000, 6, 10
READS_BOTH = [1, 2, 4, 6, 7, 8, 9, 11, 13, 14]


def random_classifier(width: int = WIDTH, layers: int = LAYERS, seed: int = 0) -> CircuitClassifier:
    """Layers of gates that read both of two random wires of the layer before; a threshold a pixel."""
    rng = np.random.default_rng(seed)
    gates, before, start = [], PIXELS, 0
    for layer in range(layers):
        wires = start + rng.integers(0, before, (width, 2))
        gates.append(np.concatenate([rng.choice(READS_BOTH, (width, 1)), wires], 1))
        start, before = PIXELS + layer * width, width
    circuit = Circuit(PIXELS, np.concatenate(gates), np.arange(start, start + width))
    return CircuitClassifier(circuit, CLASSES, np.full((PIXELS, 1), 0.5, np.float32))


def measure_native(found: CircuitClassifier, images: np.ndarray) -> dict[str, float]:
    begin = time.perf_counter()
    runner = NativeClassifier(found)
    runner.predict(images[:1])
    ready = time.perf_counter() - begin
    begin = time.process_time()
    runner.predict(images)
    return {"ready_seconds": ready, "images_per_second": len(images) / (time.process_time() - begin)}


def measure_device(found: CircuitClassifier, device: str, images: int, rounds: int = 20) -> dict[str, float]:
    begin = time.perf_counter()
    runner = DeviceClassifier(found, device)
    words = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, (PIXELS, images // 32), np.int64).astype(np.int32)
    given = sg.tensor(words, device=device)
    runner.classify(given).numpy()
    ready = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(rounds - 1):
        runner.classify(given)
    runner.classify(given).numpy()
    return {"ready_seconds": ready, "images_per_second": images * rounds / (time.perf_counter() - begin)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="webgpu")
    parser.add_argument("--images", type=int, default=1 << 17, help="on the device at a time; a multiple of 32")
    parser.add_argument("--native-images", type=int, default=20_000)
    options = parser.parse_args()
    found = random_classifier()
    floats = np.random.default_rng(1).random((options.native_images, PIXELS), np.float32)
    results = {
        "native, float32 images": measure_native(found, floats),
        "native, uint8 images": measure_native(found, (255 * floats).astype(np.uint8)),
        options.device: measure_device(found, options.device, options.images),
    }
    print(json.dumps({"gates": len(found.circuit), **results}, indent=1))


if __name__ == "__main__":
    main()
