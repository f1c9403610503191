"""What another batch size costs: the first call of each of several sizes, and a later call of one that was seen.

    python benchmarks/shapes.py mlp --device webgpu --others

Prints seconds a call and kernels compiled, for a step with `dynamic=None` and, with --others, with `dynamic=False` and PyTorch's:
`torch.compile(model)` where it works, else eager.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.runtime.device import get_device
from workloads import WORKLOADS, Workload, training_step

SHORTER = (0, 1, 3, 6, 2, 5)  # by how much batches are shorter than the first
Call = Callable[[np.ndarray, np.ndarray], float]


def ours(workload: Workload, device: str, dynamic: bool | None) -> Call:
    sg.manual_seed(0)
    step = sg.compile(training_step(sg, workload, workload.model(sg).to(device)), dynamic=dynamic)
    return lambda x, y: step(sg.tensor(x, device=device), sg.tensor(y, device=device)).item()


def theirs(workload: Workload, is_compiled: bool) -> Call:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = workload.model(torch).to(device)
    step = training_step(torch, workload, torch.compile(model) if is_compiled else model)

    def call(x: np.ndarray, y: np.ndarray) -> float:
        a, b = (torch.tensor(v, device=device) for v in (x, y))
        a, b = (t if t.is_floating_point() else t.long() for t in (a, b))
        return step(a, b).item()

    return call


def kernels(device: str) -> int:
    statistics_of = getattr(get_device(device), "statistics", None)
    return statistics_of().pipelines if statistics_of else 0


def report(
    name: str, call: Call, batch: tuple[np.ndarray, np.ndarray], device: str, sizes: Sequence[int]
) -> dict[str, float]:
    """A line for each size, and one for the first again. Gives seconds: of the first call, of a later size, of one that was seen."""
    typer.echo(name)
    times = []
    for n in (*sizes, sizes[0]):
        before, start = kernels(device), time.perf_counter()
        call(*(a[:n] for a in batch))
        times.append(time.perf_counter() - start)
        typer.echo(f"  {n:6} {times[-1]:9.3f} s, {kernels(device) - before:3} kernels compiled")
    return {"first call": times[0], "call with a new size": times[-2], "call with a size seen before": times[-1]}


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "mlp",
    device: str = "webgpu",
    others: Annotated[bool, typer.Option("--others", help="dynamic=False and PyTorch beside it")] = False,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    results: Folder = None,
) -> None:
    """Measure calls with batches of several sizes."""
    if task not in WORKLOADS:
        raise typer.BadParameter(f"there are {', '.join(WORKLOADS)}")
    workload = WORKLOADS[task](small)
    x, y = (np.asarray(a) for a in workload.batch())
    sizes = [n for n in (len(x) - k for k in SHORTER) if n > 1]
    own = report("dynamic=None", ours(workload, device, None), (x, y), device, sizes)
    found: dict[str, dict[str, float]] = {}
    if others:
        found["dynamic=False"] = report("dynamic=False", ours(workload, device, False), (x, y), device, sizes)
        found |= of_pytorch(workload, (x, y), device, sizes)
    case = f"{task}, small" if small else task
    kept = [
        Measured(case, what, s, "s", {name: times[what] for name, times in found.items()}) for what, s in own.items()
    ]
    keep(results, "shapes", device, kept)


def of_pytorch(
    workload: Workload, batch: tuple[np.ndarray, np.ndarray], device: str, sizes: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Of the first that works."""
    peers: list[tuple[str, Any]] = [("torch.compile", True), ("PyTorch eager", False)]
    for name, is_compiled in peers:
        try:
            return {name: report(name, theirs(workload, is_compiled), batch, device, sizes)}
        except Exception as error:  # without a compiler of C++, or on a GPU that it does not know
            typer.echo(f"  {type(error).__name__}: {str(error).splitlines()[0]}")
    return {}


if __name__ == "__main__":
    typer.run(main)
