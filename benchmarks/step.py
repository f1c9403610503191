"""One training step, compiled: ms a step, dispatches, host time a dispatch, memory; beside PyTorch where it is asked for.

    python benchmarks/step.py mlp --device webgpu --against torch
    python benchmarks/step.py mlp --against torch,compile --results benchmarks/results      # torch.compile, too; keeps what is measured
    python benchmarks/step.py xor --explain
    python benchmarks/step.py transformer --small --steps 2 --rounds 1

A step is measured in rounds: `--steps` steps are submitted, then the device is waited for once. Medians over `--rounds`
rounds are printed, ours and the peers' taken in turns in the same run; torch.compile, whose compilation takes long, comes after
the others, which are measured again beside it. Host time is that of the calls alone. Memory is the most that buffers (PyTorch eager: tensors) had taken at once since
the process began. See `workloads` for what is trained.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.config import config
from shadergrad.plan import format_bytes
from shadergrad.runtime.device import get_device
from workloads import WORKLOADS, Workload, training_step

WAKING = 1.0  # seconds after which a GPU has raised its clock: an H100 that has idled takes four times as long for a step of ResNet-18
WARM_UP = 20  # steps before the first round
PEERS = {"torch": "PyTorch eager", "compile": "torch.compile"}
ROUND = 0.4  # seconds of a round, about, where nobody says how many steps it has
FEWEST, MOST = 3, 200  # steps of such a round
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


def ours(workload: Workload, name: str) -> Runner:
    device = get_device(name)
    sg.manual_seed(0)
    step = sg.compile(training_step(sg, workload, workload.model(sg).to(name)))
    x, y = (sg.tensor(a, device=name) for a in workload.batch())

    def peak() -> int | None:
        statistics_of = getattr(device, "statistics", None)
        return statistics_of().peak_bytes if statistics_of else None

    return Runner(device.describe(), lambda: step(x, y), lambda: sg.sync(), peak, step)


def torch_peer(workload: Workload, is_compiled: bool = False) -> Runner:
    """The same step in PyTorch, float32 without TF32, on CUDA where there is one. is_compiled: the model is, by torch.compile."""
    import torch

    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    model = workload.model(torch).to(device)
    step = training_step(torch, workload, torch.compile(model) if is_compiled else model)
    x, y = (torch.tensor(a, device=device) for a in workload.batch())
    x, y = (t if t.is_floating_point() else t.long() for t in (x, y))
    return Runner(
        f"torch {torch.__version__} {'compiled' if is_compiled else 'eager'} on {torch.cuda.get_device_name() if cuda else 'cpu'}",
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


def in_turns(runners: list[Runner], steps: int, rounds: int) -> tuple[list[float], str]:
    """Milliseconds a step of each, and how many steps were measured."""
    if not steps:
        busy_until = time.perf_counter() + WAKING
        # The first steps of a process are no measure, nor those of a GPU that has slept.
        while time.perf_counter() < busy_until:
            for runner in runners:
                measure(runner, FEWEST)
        slowest = max(measure(runner, FEWEST)[0] for runner in runners)
        steps = max(FEWEST, min(MOST, round(ROUND / slowest)))
    return medians(runners, steps, rounds), f"median of {rounds} x {steps} steps"


def peer_of(workload: Workload, name: str) -> Runner | None:
    """A peer that has taken its first step; None, and the reason printed, where it cannot: without a compiler of C++, say."""
    try:
        peer = torch_peer(workload, name == "compile")
        peer.call()
        peer.wait()
    except Exception as error:
        if name != "compile":
            raise
        print(f"  {PEERS[name]} failed: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        return None
    return peer


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "mlp",
    device: str = "webgpu",
    against: Annotated[str, typer.Option(help="peers to measure beside: torch, compile, or torch,compile")] = "",
    steps: Annotated[int, typer.Option(help=f"of a round; 0: as many as take {ROUND} s")] = 200,
    rounds: int = 9,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="print the table of kernels")] = False,
    results: Folder = None,
) -> None:
    """Measure one compiled training step."""
    names = [name for name in against.split(",") if name]
    if task not in WORKLOADS or not {*names} <= PEERS.keys():
        raise typer.BadParameter(f"there are {', '.join(WORKLOADS)}; --against {', '.join(PEERS)} or nothing")
    workload = WORKLOADS[task](small)
    case = f"{task}, small" if small else task
    begun = time.perf_counter()
    own = ours(workload, device)
    own.call()
    own.wait()
    first = time.perf_counter() - begun
    print(f"{task}{', small,' if small else ''} on {own.name}")
    print(f"  first step, capture and compilation included: {first:.2f} s", flush=True)
    how = ""
    peers: dict[str, Runner] = {}
    memory: dict[str, float] = {}
    for name in ("torch" if "torch" in names else "", *(["compile"] if "compile" in names else [])):
        peer = peer_of(workload, name) if name else None
        if name and peer is None:
            continue
        is_first = not how
        if peer:
            peers[PEERS[name]] = peer
        (ms, *others), how = in_turns([own, *peers.values()], steps, rounds)  # all anew: a record is of one run
        theirs = dict(zip(peers, others, strict=True))
        dispatches = len(own.compiled.plan.dispatches)
        if is_first:
            # In bursts shorter than the bound on work in flight, so that no call waits for the device.
            burst = max(1, min(steps or MOST, config.in_flight // 2))
            host = statistics.median(measure(own, burst)[1] for _ in range(min(steps or MOST, BURSTS))) * 1e6
            print(
                f"  {ms:.4f} ms/step ({how}), {dispatches} dispatches, 1 submit, {host / max(dispatches, 1):.2f} us host a dispatch ({host:.0f} us a step)"
            )
            print(memory_line([own, *([peer] if peer else [])]))
        if peer:
            for runner, other in zip(peers.values(), others, strict=True):
                print(
                    f"  {other:.4f} ms/step {runner.name}: ours is {other / ms:.2f} times as fast ({ms:.4f} ms)",
                    flush=True,
                )
            if name == "torch" and (peak := peer.peak()):
                memory[PEERS[name]] = peak
        found = [
            Measured(case, "time", ms, "ms", theirs, how),
            Measured(case, "dispatches", dispatches, "dispatches"),
        ]
        if own_peak := own.peak():
            found.append(Measured(case, "peak memory", own_peak, "bytes", dict(memory)))
        keep(results, "step", device, found)  # now, for the next peer may take long
    if explain:
        print(own.compiled.explain())


if __name__ == "__main__":
    typer.run(main)
