"""PyTorch on this library's device: the training steps of workloads.py, written for torch and moved with `.to("webgpu")`.

    python benchmarks/torch_device.py mlp --results benchmarks/results

Prints medians of milliseconds a step: of the same loop on our device, uncompiled and by torch.compile(backend="shadergrad"), and of `sg.compile`'s
step, one after another; and of PyTorch eager on CUDA (or its CPU), just before and in a process of its own: where our device is registered, CUDA has no
backward pass.
"""

from __future__ import annotations

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Annotated, Any

import typer

from record import Folder, Measured, keep
from step import Runner, in_turns, ours, torch_peer
from workloads import WORKLOADS, Workload, training_step


def on_our_device(workload: Workload, is_compiled: bool) -> Runner:
    """A loop of PyTorch's on device webgpu."""
    import shadergrad.torch  # noqa: F401 (registers the device)

    torch: Any = importlib.import_module("torch")  # whose attribute `webgpu` type checkers do not know

    torch.manual_seed(0)
    model = workload.model(torch).to("webgpu")
    x, y = (torch.from_numpy(a).to("webgpu") for a in workload.batch())
    x, y = (t if t.is_floating_point() else t.long() for t in (x, y))
    step = training_step(torch, workload, model)
    if is_compiled:
        step = torch.compile(step, backend="shadergrad")
    name = "torch.compile, backend shadergrad" if is_compiled else "uncompiled"
    return Runner(name, lambda: step(x, y), torch.webgpu.synchronize, lambda: None)


def eager(task: str, small: bool, steps: int, rounds: int) -> tuple[str, float]:
    """PyTorch's name, and its milliseconds a step."""
    peer = torch_peer(WORKLOADS[task](small))
    (ms,), _ = in_turns([peer], steps, rounds)
    return peer.name, ms


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "mlp",
    steps: Annotated[int, typer.Option(help="of a round; 0: as many as take 0.4 s")] = 0,
    rounds: int = 9,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    results: Folder = None,
) -> None:
    """Measure one training step in each way."""
    if task not in WORKLOADS:
        raise typer.BadParameter(f"there are {', '.join(WORKLOADS)}")
    workload = WORKLOADS[task](small)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        peer, theirs = other.submit(eager, task, small, steps, rounds).result()
    compiled = ours(workload, "webgpu")
    compiled.name = "sg.compile"
    runners = [on_our_device(workload, False), on_our_device(workload, True)]
    # one after the other: rounds of as many steps as the slowest can take would measure the wait at the end of the others'
    measured = [in_turns([runner], steps, rounds) for runner in (compiled, *runners)]
    best, *times = (ms for (ms,), _ in measured)
    typer.echo(f"{task}: {peer}: {theirs:.3f} ms a step; {compiled.name}: {best:.3f}")
    for runner, ms in zip(runners, times, strict=True):
        typer.echo(
            f"  {runner.name}: {ms:.3f} ms, {theirs / ms:.2f} times as fast, {ms / best:.2f} of sg.compile's time"
        )
    size = ", small" if small else ""
    beside = {"PyTorch eager": theirs, "sg.compile": best}
    found = [
        Measured(f"{task}, {r.name}{size}", "time", ms, "ms", beside, how)
        for r, ms, (_, how) in zip(runners, times, measured[1:], strict=True)
    ]
    keep(results, "torch_device", "webgpu", found)


if __name__ == "__main__":
    typer.run(main)
