"""Where the host time of a replayed step goes: the library's own Python, and each call into wgpu.

    python benchmarks/host_time.py xor mlp --device webgpu
    python benchmarks/host_time.py resnet --uncompiled      # an uncompiled step: forward, backward, and the update with the run

Medians of microseconds a step, over bursts of steps that find the queue empty; small steps of a burst share a submission. `record` is the loop over dispatches: Python, cffi, and what wgpu
does at once; `finish` and `submit` are wgpu's alone.
"""

from __future__ import annotations

import statistics
import time
from typing import Annotated, Any

import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.graph import node as nodes
from shadergrad.runtime.device import get_device
from workloads import WORKLOADS, training_step

BURST = 6  # steps before the device is waited for
PARTS = ("begin", "record", "end", "finish", "submit")


class Clock:
    """Stands before wgpu's functions and notes how long each takes."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        self.began = 0.0

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._lib, name)
        part = {
            "wgpuDeviceCreateCommandEncoder": "begin",
            "wgpuCommandEncoderBeginComputePass": "begin",
            "wgpuComputePassEncoderEnd": "end",
            "wgpuCommandEncoderFinish": "finish",
            "wgpuQueueSubmitForIndex": "submit",  # of wgpu-native
            "wgpuQueueSubmit": "submit",
            "wgpuQueueOnSubmittedWorkDone": "submit",  # what Dawn waits for
        }.get(name)
        if part is None:
            return function

        def timed(*args: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*args)
            finally:
                now = time.perf_counter()
                self.spent[part] += now - begun
                if part == "begin":
                    self.began = now
                elif part == "end":
                    self.spent["record"] += begun - self.began

        return timed


def uncompiled(task: str, device: str, rounds: int, small: bool) -> list[Measured]:
    """The phases of an uncompiled step, and what it records: time of this thread alone, whatever the device does meanwhile."""
    workload = WORKLOADS[task](small)
    sg.manual_seed(0)
    model: Any = workload.model(sg).to(device)
    optimizer = getattr(sg.optim, workload.optimizer)(model.parameters(), lr=workload.lr)
    x, y = (sg.tensor(a, device=device) for a in workload.batch())
    rows: list[dict[str, float]] = []
    for _ in range(rounds):
        recorded, begun = nodes.nodes_made, time.thread_time()
        optimizer.zero_grad()
        loss = workload.loss(sg, model, x, y)
        forward = time.thread_time()
        loss.backward()
        backward = time.thread_time()
        optimizer.step()
        end = time.thread_time()
        phases = {"forward": forward - begun, "backward": backward - forward, "run and update": end - backward}
        rows.append({**phases, "step": end - begun, "nodes": (nodes.nodes_made - recorded) * 1e-6})
        sg.sync()
    medians = {part: statistics.median(row[part] for row in rows[rounds // 4 :]) * 1e6 for part in rows[0]}
    count = medians.pop("nodes")
    parts = ", ".join(f"{part} {us:.0f}" for part, us in medians.items())
    typer.echo(f"{task}, uncompiled: {count:.0f} nodes, us a step: {parts}; {medians['step'] / count:.2f} us a node")
    case = f"{task}, uncompiled{', small' if small else ''}"
    return [Measured(case, part, us, "us") for part, us in medians.items()]


def main(
    tasks: Annotated[list[str], typer.Argument(help=f"of {', '.join(WORKLOADS)}")],
    device: str = "webgpu",
    rounds: int = 60,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    results: Folder = None,
    is_uncompiled: Annotated[bool, typer.Option("--uncompiled", help="of a step without sg.compile")] = False,
) -> None:
    """Measure the host time of a compiled step, or of an uncompiled one by its phases."""
    if is_uncompiled:
        for task in tasks:
            keep(results, "host_time", device, uncompiled(task, device, rounds, small))
        return
    for task in tasks:
        workload = WORKLOADS[task](small)
        sg.manual_seed(0)
        step = sg.compile(training_step(sg, workload, workload.model(sg).to(device)))
        x, y = (sg.tensor(a, device=device) for a in workload.batch())
        native: Any = get_device(device).native  # type: ignore[attr-defined]
        rows: list[dict[str, float]] = []
        library = native.lib
        for _ in range(rounds):
            native.lib = clock = Clock(library)
            begun = time.perf_counter()
            for _ in range(BURST):
                step(x, y)
            whole = time.perf_counter() - begun
            inside = sum(clock.spent.values())
            sg.sync()  # small steps share a submission, which may be made here
            native.lib = library
            row = {**clock.spent, "python": whole - inside, "call": whole}
            rows.append({part: seconds / BURST for part, seconds in row.items()})
        count = len(step.plan.dispatches)
        medians = {part: statistics.median(row[part] for row in rows[1:]) * 1e6 for part in rows[0]}
        parts = ", ".join(f"{part} {us:.0f}" for part, us in medians.items())
        wgpu = sum(medians[part] for part in PARTS) / max(count, 1)
        typer.echo(f"{task}: {count} dispatches, us a step: {parts}; {wgpu:.2f} us a dispatch from begin to submit")
        case = f"{task}, small" if small else task
        found = [Measured(case, part, us, "us") for part, us in medians.items()]
        keep(results, "host_time", device, [*found, Measured(case, "a dispatch from begin to submit", wgpu, "us")])


if __name__ == "__main__":
    typer.run(main)
