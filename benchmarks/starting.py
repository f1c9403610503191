"""What training costs a process from its start, on a CPU: the model and the first three steps, the peak of memory, and the share of the cores that
later steps use.

    python benchmarks/starting.py mlp cnn mlm --results benchmarks/results

Each library trains the same network in a process of its own: ours with an empty cache, then with what that process has kept, PyTorch eager, and
torch.compile, whose cache is new, too. The time of the network counts, for a library may leave its initial weights to the first step. Memory is the
peak of the process less what it had before it made the network.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Annotated, Any

import typer

from record import ROOT, Folder, Measured, keep
from workloads import WORKLOADS

LIBRARIES = {
    "cold": "ours, empty cache",
    "warm": "ours, kept kernels",
    "torch": "PyTorch eager",
    "compile": "torch.compile",
}
TASKS = ["xor", "mlp", "lstm", "cnn", "mlm", "resnet_16", "gpt2s_128"]
LATER = 3.0  # seconds of later steps


def child(library: str, task: str, threads: int) -> dict[str, Any]:
    """What a process of the library measures."""
    from step import ours, torch_peer

    workload = WORKLOADS[task](False)
    workload.batch()
    if library in ("torch", "compile"):
        import torch

        importlib.import_module("torch._dynamo")  # PyTorch's first optimizer would: imports do not count

        torch.set_num_threads(threads)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    runner = torch_peer(workload, library == "compile") if library in ("torch", "compile") else ours(workload, "cpu")
    built, firsts = time.perf_counter() - start, []
    for _ in range(3):
        start = time.perf_counter()
        runner.call()
        runner.wait()
        firsts.append(time.perf_counter() - start)
    for _ in range(3):
        runner.call()
    runner.wait()
    used, start, end = time.process_time(), time.perf_counter(), time.perf_counter() + LATER
    while time.perf_counter() < end:
        runner.call()
        runner.wait()
    share = (time.process_time() - used) / (time.perf_counter() - start) / threads
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"built": built, "firsts": firsts, "peak": peak * 1024, "share": share}


def measured(library: str, task: str, threads: int, folder: str) -> dict[str, Any]:
    """A process of its own, whose caches lie in the folder."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    folders = {"SHADERGRAD_CACHE": f"{folder}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch"}
    command = [sys.executable, __file__, task, "--child", library, "--threads", str(threads)]
    environment = {**os.environ, **dict.fromkeys(names, str(threads)), **folders}
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(
    tasks: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(WORKLOADS)}")] = None,
    threads: int = 2,
    only: Annotated[str, typer.Option(help=f"of {', '.join(LIBRARIES)}")] = ",".join(LIBRARIES),
    child_of: Annotated[str, typer.Option("--child", hidden=True)] = "",
    results: Folder = None,
) -> None:
    """Measure the tasks, one library after another."""
    tasks = tasks or TASKS
    if child_of:
        typer.echo(json.dumps(child(child_of, tasks[0], threads)))
        return
    for task in tasks:
        with tempfile.TemporaryDirectory() as folder:
            found = {name: measured(name, task, threads, folder) for name in LIBRARIES if name in only.split(",")}
        typer.echo(task)
        for name, figures in found.items():
            steps = ", ".join(f"{1e3 * s:.0f}" for s in figures["firsts"])
            typer.echo(
                f"  {LIBRARIES[name]:20} model {1e3 * figures['built']:.0f} ms, first steps {steps} ms, {together(figures):.2f} s together; "
                f"memory {figures['peak'] / 2**20:.0f} MiB; {100 * figures['share']:.0f} % of {threads} cores"
            )
        keep(results, "starting", "cpu", records(task, threads, found))


def together(figures: dict[str, Any]) -> float:
    """Seconds of the model and the first three steps."""
    return figures["built"] + sum(figures["firsts"])


def records(task: str, threads: int, found: dict[str, dict[str, Any]]) -> list[Measured]:
    """Model and first three steps together, memory and share of ours, beside the others'."""
    if "warm" not in found or "cold" not in found:
        return []
    case, peers = f"{task}, {threads} threads", [n for n in found if n not in ("warm", "cold")]
    made = []
    for name, what in (("cold", "model and three steps, empty cache"), ("warm", "model and three steps, kept kernels")):
        others: dict[str, float] = {LIBRARIES[n]: together(found[n]) for n in peers}
        made.append(Measured(case, what, together(found[name]), "s", others))
    for key, what, unit in (("peak", "peak memory", "bytes"), ("share", "cores in use", "share")):
        theirs: dict[str, float] = {LIBRARIES[n]: found[n][key] for n in peers}
        made.append(Measured(case, what, found["warm"][key], unit, theirs))
    return made


if __name__ == "__main__":
    typer.run(main)
