"""Where the host's time of an uncompiled step of PyTorch's device goes: processor time of the program's thread, by phase.

    python benchmarks/torch_device_host.py xor mlp mlm --small --device cpu

Prints, in microseconds, the 10th percentile over many steps of: the forward pass, the backward pass, the optimizer, and the end of the recorded sequence.
On the cpu device the last contains the kernels. With --peer, PyTorch's cpu in place of ours.
"""

from __future__ import annotations

import gc
import importlib
import time
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import typer

from workloads import WORKLOADS

PHASES = ("zero_grad", "forward", "backward", "optimizer", "end")


def phases(task: str, steps: int, small: bool, place: str) -> list[dict[str, float]]:
    """Seconds of this thread by phase, of each step. place: PyTorch's name of the device."""
    from shadergrad.torch import sequences

    torch: Any = importlib.import_module("torch")
    workload = WORKLOADS[task](small)
    torch.manual_seed(0)
    model = workload.model(torch).to(place)
    optimizer = getattr(torch.optim, workload.optimizer)(model.parameters(), lr=workload.lr)
    x, y = (torch.from_numpy(a).to(place) for a in workload.batch())
    x, y = (t if t.is_floating_point() else t.long() for t in (x, y))
    rows: list[dict[str, float]] = []
    now, flush = time.thread_time, sequences.flush
    spent = 0.0

    def timed() -> None:
        nonlocal spent
        begun = now()
        flush()
        spent += now() - begun

    sequences.flush = timed  # which the hook after an optimizer's step looks up
    try:
        for _ in range(steps):
            spent = 0.0
            times = [now()]
            optimizer.zero_grad()
            times.append(now())
            loss = workload.loss(torch, model, x, y)
            times.append(now())
            loss.backward()
            times.append(now())
            optimizer.step()
            times.append(now())
            parts = [b - a for a, b in pairwise(times)]
            rows.append(dict(zip(PHASES, [*parts[:3], parts[3] - spent, spent], strict=True)))
            if place != "cpu":
                torch.webgpu.synchronize()
    finally:
        sequences.flush = flush
    return rows


def main(
    tasks: Annotated[list[str], typer.Argument(help=f"of {', '.join(WORKLOADS)}")],
    device: Annotated[str, typer.Option(help="cpu or webgpu: shadergrad's device behind PyTorch's")] = "webgpu",
    steps: int = 220,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes, so that kernels take no time")] = False,
    peer: Annotated[bool, typer.Option("--peer", help="PyTorch's cpu, on one thread")] = False,
) -> None:
    """Measure the host's time of uncompiled steps."""
    import shadergrad.torch

    shadergrad.torch.use(device)
    importlib.import_module("torch").set_num_threads(1)
    for task in tasks:
        gc.collect()
        rows = phases(task, steps, small, "cpu" if peer else "webgpu")[steps // 10 :]
        low = {phase: float(np.percentile([row[phase] for row in rows], 10)) * 1e6 for phase in PHASES}
        whole = float(np.percentile([sum(row.values()) for row in rows], 10)) * 1e6
        parts = ", ".join(f"{phase} {us:.0f}" for phase, us in low.items())
        typer.echo(f"{task}: us a step {whole:.0f}: {parts}")


if __name__ == "__main__":
    typer.run(main)
