"""Device time of what a plan dispatches: the same commands many times in one submission, waited for once.

    python benchmarks/device_time.py resnet          # which kernels of a training step take how long
    python benchmarks/device_time.py cnn --small

Kernels run by themselves, over and over, on the buffers of the last step: caches are warm, values become nonsense, and
nothing overlaps. Times of kernels shorter than a few microseconds are those of a dispatch.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.runtime.device import get_device
from workloads import WORKLOADS

ROUNDS = 3
MOST_TIMES = 200


def commands_of(step: Any, device: str) -> tuple[Any, list[list[Any]]]:
    """The program of the last call of a compiled function, and its dispatches, each with all that it must set."""
    program = step._ran_last("time")[1].program
    pipeline = group = None
    full = []
    for p, g, *grid in program._latest.commands:
        pipeline, group = p or pipeline, g or group
        full.append((pipeline, group, *grid))
    return program, full


def seconds(device: str, commands: Sequence[Any], budget: float = 0.02) -> float:
    """Seconds that the commands take, run one list after another; the median of some rounds of about `budget`."""
    native: Any = get_device(device).native  # type: ignore[attr-defined]

    def once(times: int) -> float:
        sg.sync()
        start = time.perf_counter()
        native.run((), [*commands] * times)
        native.wait_all()
        return (time.perf_counter() - start) / times

    once(1)
    times = max(1, min(MOST_TIMES, int(budget / max(once(1), 1e-6))))
    return statistics.median(once(times) for _ in range(ROUNDS))


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "resnet",
    device: str = "webgpu",
    small: bool = False,
    top: int = 60,
    results: Folder = None,
) -> None:
    """The kernels of one training step, the longest first."""
    import step as steps

    runner = steps.ours(WORKLOADS[task](small), device)
    for _ in range(3):
        runner.call()
    runner.wait()
    program, commands = commands_of(runner.compiled, device)
    plan = program.plan
    together = seconds(device, commands, 0.2) * 1e3
    print(f"{task}: {len(commands)} dispatches, {together:.3f} ms together")
    keep(results, "device_time", device, [Measured(f"{task}, small" if small else task, "device time", together, "ms")])
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    rates: dict[tuple[str, str], tuple[int, int]] = {}
    for dispatch, command in zip([d for d in plan.dispatches if all(d.grid)], commands, strict=True):
        kernel = plan.kernels[dispatch.kernel]
        key = (kernel.name, f"{kernel.shape} [{dispatch.grid[0] * dispatch.grid[1]} x {kernel.workgroup[0]}]")
        found[key].append(seconds(device, [command], 0.005))
        rates[key] = (kernel.flops, kernel.nbytes)
    print(f"{sum(map(sum, found.values())) * 1e3:.3f} ms one by one")
    for key, times in sorted(found.items(), key=lambda item: -sum(item[1]))[:top]:
        flops, nbytes = rates[key]
        each = sum(times) / len(times)
        print(
            f"{sum(times) * 1e3:8.3f} ms {len(times):3d} x {each * 1e6:8.1f} us {flops / each / 1e12:6.2f} TFLOP/s "
            f"{nbytes / each / 1e9:7.0f} GB/s  {key[0]} {key[1]}"
        )


if __name__ == "__main__":
    typer.run(main)
