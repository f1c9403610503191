"""A training step of a wide logic network: milliseconds, with and without the upload of the batch, dispatches and bytes.

    python benchmarks/logic_training.py --device webgpu
    python benchmarks/logic_training.py --parametrisation light --mode gumbel-hard
    shadergrad train mnist-logic --device webgpu --out RUN       # the same network on real data, with its accuracy

Six layers of 8,000 gates on 784 bits, ten classes, Adam, batches of 100. A step is the forward and backward pass and the optimizer in one
compiled step. It is measured in rounds: `--steps` steps are submitted, then the device is waited for once; medians over `--rounds` rounds.
Resident steps are given a batch that is on the device, fed steps a new one from NumPy each time. Bytes are those of every buffer that
a kernel reads or writes, once a dispatch; peak memory is the most that buffers had taken at once since the process began.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad import nn
from shadergrad.logic import GroupSum, LogicNetwork
from shadergrad.plan import format_bytes
from shadergrad.runtime.device import get_device

CLASSES = 10


def build(device: str, sizes: tuple[int, ...], **options: Any) -> Any:
    """The compiled step: bits (batch, inputs) and labels (batch) to the loss."""
    network = LogicNetwork(sizes, "random", "residual", seed=0, device=device, **options)
    model = nn.Sequential(network, GroupSum(CLASSES, 30.0))
    optimizer = sg.optim.Adam(model.parameters(), lr=0.01)

    @sg.compile
    def step(bits: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bits), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def milliseconds(call: Callable[[int], Any], steps: int, rounds: int) -> float:
    """The median over rounds, after one that warms up."""
    found = []
    for _ in range(rounds + 1):
        sg.sync()
        begin = time.perf_counter()
        for k in range(steps):
            call(k)
        sg.sync()
        found.append((time.perf_counter() - begin) / steps * 1e3)
    return statistics.median(found[1:])


def main(
    device: str = "webgpu",
    width: int = 8000,
    layers: int = 6,
    inputs: int = 784,
    batch_size: int = 100,
    parametrisation: str = "softmax",
    mode: str = "soft",
    steps: int = 200,
    rounds: int = 7,
    results: Folder = None,
) -> None:
    """Measure whole training steps."""
    step = build(device, (inputs, *[width] * layers), parametrisation=parametrisation, mode=mode)
    rng = np.random.default_rng(0)
    batches = [
        ((rng.random((batch_size, inputs)) < 0.2).astype(np.float32), rng.integers(0, CLASSES, batch_size, np.int32))
        for _ in range(8)
    ]
    resident = tuple(sg.tensor(x, device=device) for x in batches[0])
    begin = time.perf_counter()
    float(step(*resident))
    ready = time.perf_counter() - begin
    case = f"{layers} layers of {width}, batch {batch_size}, {parametrisation}, {mode}"
    runtime = get_device(device)
    print(f"{case}, on {runtime.describe()}; {ready:.1f} s to the first loss")
    how = f"median of {rounds} x {steps} steps"
    found = [
        Measured(case, "time", milliseconds(lambda _: step(*resident), steps, rounds), "ms", {}, how),
        Measured(
            case,
            "time, fed",
            milliseconds(lambda k: step(*(sg.tensor(x, device=device) for x in batches[k % 8])), steps, rounds),
            "ms",
            {},
            how,
        ),
    ]
    for measured in found:
        print(f"  {measured.quantity}: {measured.value:.3f} ms a step")
    count = getattr(runtime, "statistics", None)
    if count:
        kernels = [step.plan.kernels[d.kernel] for d in step.plan.dispatches]
        moved, peak = sum(k.nbytes for k in kernels), count().peak_bytes
        print(f"  {len(kernels)} dispatches, {format_bytes(moved)} moved a step, {format_bytes(peak)} at the peak")
        found.append(Measured(case, "dispatches", float(len(kernels)), "dispatches"))
        found.append(Measured(case, "peak memory", float(peak), "bytes"))
    keep(results, "logic_training", device, found)


if __name__ == "__main__":
    typer.run(main)
