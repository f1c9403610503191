"""One training step, compiled: ms a step, dispatches, host time a dispatch, memory; beside PyTorch where it is asked for.

    python benchmarks/step.py mlp --device webgpu --against torch
    python benchmarks/step.py xor --explain
    python benchmarks/step.py transformer --small --steps 2 --rounds 1

A step is measured in rounds: `--steps` steps are submitted, then the device is waited for once. Medians over `--rounds`
rounds are printed, ours and the peer's taken in turns in the same run. Host time is that of the calls alone. Memory is
the most that buffers (PyTorch: tensors) had taken at once since the process began. See `workloads` for what is trained.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

import shadergrad as sg
from shadergrad.config import config
from shadergrad.plan import format_bytes
from shadergrad.runtime.device import get_device
from workloads import WORKLOADS, Workload

WARM_UP = 20  # steps before the first round
BURSTS = 25  # for the host time


@dataclass
class Runner:
    """What is measured: `call` submits a step, `wait` waits for all of them, `peak` is the most memory so far in bytes,
    None where nobody counts it. compiled: our step, for its plan."""

    name: str
    call: Callable[[], Any]
    wait: Callable[[], None]
    peak: Callable[[], int | None]
    compiled: Any = None


def training_step(lib: Any, workload: Workload, model: Any) -> Callable[[Any, Any], Any]:
    optimizer = getattr(lib.optim, workload.optimizer)(model.parameters(), lr=workload.lr)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = workload.loss(lib, model, x, y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def ours(workload: Workload, name: str) -> Runner:
    device = get_device(name)
    sg.manual_seed(0)
    step = sg.compile(training_step(sg, workload, workload.model(sg).to(name)))
    x, y = (sg.tensor(a, device=name) for a in workload.batch())

    def peak() -> int | None:
        statistics_of = getattr(device, "statistics", None)
        return statistics_of().peak_bytes if statistics_of else None

    return Runner(device.describe(), lambda: step(x, y), lambda: sg.sync(), peak, step)


def torch_peer(workload: Workload) -> Runner:
    """The same step in PyTorch eager, float32 without TF32, on CUDA where there is one."""
    import torch

    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    step = training_step(torch, workload, workload.model(torch).to(device))
    x, y = (torch.tensor(a, device=device) for a in workload.batch())
    x, y = (t if t.is_floating_point() else t.long() for t in (x, y))
    return Runner(
        f"torch {torch.__version__} eager on {torch.cuda.get_device_name() if cuda else 'cpu'}",
        lambda: step(x, y),
        torch.cuda.synchronize if cuda else lambda: None,
        torch.cuda.max_memory_allocated if cuda else lambda: None,
    )


def measure(runner: Runner, steps: int) -> tuple[float, float]:
    """Seconds a step, in all and of host time alone."""
    runner.wait()
    start = time.perf_counter()
    for _ in range(steps):
        runner.call()
    submitted = time.perf_counter()
    runner.wait()
    return (time.perf_counter() - start) / steps, (submitted - start) / steps


def medians(runners: list[Runner], steps: int, rounds: int) -> list[float]:
    """Milliseconds a step of each, measured in turns."""
    for runner in runners:
        measure(runner, min(steps, WARM_UP))
    times = [[measure(runner, steps)[0] for runner in runners] for _ in range(rounds)]
    return [statistics.median(row) * 1e3 for row in zip(*times, strict=True)]


def memory_line(runners: list[Runner]) -> str:
    """The peaks, and of two their ratio."""
    peaks = [runner.peak() for runner in runners]
    texts = [f"{format_bytes(peak)} {who}" for peak, who in zip(peaks, ("ours", "torch"), strict=False) if peak]
    if len(peaks) == 2 and peaks[0] and peaks[1]:
        texts.append(f"ours is {peaks[0] / peaks[1]:.2f} of torch's")
    return "  peak device memory: " + (", ".join(texts) or "not counted on the cpu")


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "mlp",
    device: str = "webgpu",
    against: Annotated[str, typer.Option(help="a peer to measure beside: torch")] = "",
    steps: int = 200,
    rounds: int = 9,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="print the table of kernels")] = False,
) -> None:
    """Measure one compiled training step."""
    if task not in WORKLOADS or against not in ("", "torch"):
        raise typer.BadParameter(f"there are {', '.join(WORKLOADS)}; --against torch or nothing")
    workload = WORKLOADS[task](small)
    begun = time.perf_counter()
    own = ours(workload, device)
    own.call()
    own.wait()
    first = time.perf_counter() - begun
    runners = [own, *([torch_peer(workload)] if against else [])]
    ms, *others = medians(runners, steps, rounds)
    # In bursts shorter than the bound on work in flight, so that no call waits for the device.
    burst = max(1, min(steps, config.in_flight // 2))
    host = statistics.median(measure(own, burst)[1] for _ in range(min(steps, BURSTS))) * 1e6
    dispatches = len(own.compiled.plan.dispatches)
    if explain:
        print(own.compiled.explain())
    print(f"{task}{', small,' if small else ''} on {own.name}")
    print(f"  first step, capture and compilation included: {first:.2f} s")
    print(
        f"  {ms:.4f} ms/step (median of {rounds} x {steps}), {dispatches} dispatches, 1 submit, {host / max(dispatches, 1):.2f} us host a dispatch ({host:.0f} us a step)"
    )
    for other in others:
        print(f"  {other:.4f} ms/step {runners[1].name}: ours is {other / ms:.2f} times as fast")
    print(memory_line(runners))


if __name__ == "__main__":
    typer.run(main)
