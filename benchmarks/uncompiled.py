"""A training loop as it is written for PyTorch: uncompiled, with a compiled module, and as one compiled step.

    python benchmarks/uncompiled.py mlp --device webgpu

Prints medians of milliseconds a step, taken in turns in one run, and their ratios to PyTorch eager.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

import shadergrad as sg
from record import Folder, Measured, keep
from step import Runner, medians, torch_peer
from workloads import WORKLOADS, Workload, training_step


def ours(workload: Workload, device: str, how: str) -> Runner:
    sg.manual_seed(0)
    model: Any = workload.model(sg).to(device)
    step: Any = training_step(sg, workload, sg.compile(model) if how == "module" else model)
    if how == "step":
        step = sg.compile(step)
    x, y = (sg.tensor(a, device=device) for a in workload.batch())
    return Runner(how, lambda: step(x, y), sg.sync, lambda: None)


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "mlp",
    device: str = "webgpu",
    steps: int = 100,
    rounds: int = 9,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    results: Folder = None,
) -> None:
    """Measure one training step in each way."""
    if task not in WORKLOADS:
        raise typer.BadParameter(f"there are {', '.join(WORKLOADS)}")
    workload = WORKLOADS[task](small)
    runners = [torch_peer(workload), *(ours(workload, device, how) for how in ("uncompiled", "module", "step"))]
    times = medians(runners, steps, rounds)
    typer.echo(f"{task}: {runners[0].name}: {times[0]:.3f} ms a step")
    for runner, ms in zip(runners[1:], times[1:], strict=True):
        typer.echo(f"  {runner.name:10} {ms:8.3f} ms, {times[0] / ms:.2f} times as fast")
    size = ", small" if small else ""
    found = [
        Measured(
            f"{task}, {runner.name}{size}",
            "time",
            ms,
            "ms",
            {"PyTorch eager": times[0]},
            f"median of {rounds} x {steps} steps",
        )
        for runner, ms in zip(runners[1:], times[1:], strict=True)
    ]
    keep(results, "uncompiled", device, found)


if __name__ == "__main__":
    typer.run(main)
