"""How long the first training step takes, in all and without what the network itself takes to build.

    python benchmarks/first_step.py resnet mlm --device webgpu

SHADERGRAD_CACHE says where plans are kept: run it twice with one folder for the times without and with the cache; `off` for
none. Weights are zeros: building large networks is another matter.
"""

from __future__ import annotations

import time
from typing import Annotated
from unittest import mock

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.drive.execute import programs
from shadergrad.primitives import random
from workloads import WORKLOADS, training_step


def main(
    tasks: Annotated[list[str], typer.Argument(help=f"of {', '.join(WORKLOADS)}")],
    device: str = "webgpu",
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    results: Folder = None,
) -> None:
    """Measure the first compiled step of each, capture and compilation included, until the device has done it."""
    with mock.patch.object(random.Threefry, "numpy", lambda self, key, x0, x1: np.zeros_like(x0)):
        for task in tasks:
            keep(results, "first_step", device, measure(task, device, small))


def measure(task: str, device: str, small: bool) -> list[Measured]:
    """Prints what was measured, and gives it."""
    workload = WORKLOADS[task](small)
    model = workload.model(sg).to(device)
    step = sg.compile(training_step(sg, workload, model))
    x, y = (sg.tensor(a, device=device) for a in workload.batch())
    sg.sync()
    before = programs.compiled
    times = []
    for _ in range(2):
        begun = time.perf_counter()
        step(x, y)
        submitted = time.perf_counter()
        sg.sync()
        times.append((submitted - begun, time.perf_counter() - begun))
    (host, first), (_, second) = times
    typer.echo(
        f"{task}: first step {first:.2f} s, {host:.2f} of it on the host; the next {second:.3f} s; "
        f"{programs.compiled - before} plans, {len(step.plan.kernels)} kernels, {len(step.plan.dispatches)} dispatches"
    )
    case = f"{task}, small" if small else task
    parts = {"first step": first, "first step, of it on the host": host, "second step": second}
    return [Measured(case, what, seconds, "s") for what, seconds in parts.items()]


if __name__ == "__main__":
    typer.run(main)
