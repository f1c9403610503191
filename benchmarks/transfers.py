"""Moving arrays between host and device: GB/s each way, beside PyTorch where it is there.

    python benchmarks/transfers.py --device webgpu --mib 64

Medians over rounds, in turns in one run. Upload: a new tensor from a NumPy array, until the device has it; download: a new
NumPy array from a tensor.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep


def gigabytes_a_second(nbytes: int, rounds: int, move: Callable[[], Any]) -> float:
    times = []
    for _ in range(rounds + 2):
        start = time.perf_counter()
        kept = move()
        times.append(time.perf_counter() - start)
        del kept
    return nbytes / statistics.median(times[2:]) / 1e9


def ours(device: str, array: np.ndarray) -> tuple[Callable[[], Any], Callable[[], Any]]:
    def up() -> Any:
        tensor = sg.tensor(array, device=device)
        sg.sync()
        return tensor

    held = up()
    return up, held.numpy


def theirs(array: np.ndarray) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    def up() -> Any:
        tensor = torch.tensor(array, device="cuda")
        torch.cuda.synchronize()
        return tensor

    held = up()
    return up, lambda: held.cpu().numpy()


def main(device: str = "webgpu", mib: int = 64, rounds: int = 9, against: str = "", results: Folder = None) -> None:
    """Measure both ways."""
    array = np.random.default_rng(0).normal(size=(mib << 20) // 4).astype(np.float32)
    rows = [(device, ours(device, array)), *([("torch", theirs(array))] if against == "torch" else [])]
    found: dict[str, list[float]] = {}
    for name, (up, down) in rows:
        found[name] = rates = [gigabytes_a_second(array.nbytes, rounds, move) for move in (up, down)]
        typer.echo(f"{name}: {mib} MiB: {rates[0]:.1f} GB/s up, {rates[1]:.1f} GB/s down")
    own, *peer = found.values()
    kept = [
        Measured(f"{mib} MiB {way}", "rate", own[k], "GB/s", {"PyTorch eager": peer[0][k]} if peer else {})
        for k, way in enumerate(("to the device", "to the host"))
    ]
    keep(results, "transfers", device, kept)


if __name__ == "__main__":
    typer.run(main)
