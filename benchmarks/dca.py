"""Direct coupling analysis on a device: seconds, and floating point operations a second, for two proteins of LENGTH columns together.

    python benchmarks/dca.py --results benchmarks/results      # 500 columns, 10,000 sequences: a minute at most on an H100
    python benchmarks/dca.py --small --device cpu

The family is random but for planted pairs of columns, which each method must find first: a run that is fast and wrong ends with an error.
The first call of a method also compiles its kernels; it is what a user waits for, and what is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.models import coevolution as co
from shadergrad.runtime.device import get_device

SMALL = {"length": 24, "sequences": 500, "steps": 50}
PLANTED = 0.2  # pairs of columns that change together, as a share of the shorter chain


def random_family(length: int, sequences: int, seed: int = 0) -> co.Family:
    """Columns with preferences of their own, some of the first chain followed by one of the second; sequences resemble each other in groups."""
    rng = np.random.default_rng(seed)
    preferences = rng.dirichlet(np.full(20, 0.3), length).cumsum(1)
    rows = (rng.random((sequences, length, 1)) > preferences).sum(2).clip(0, 19).astype(np.uint8)
    half = length // 2
    contacts = np.zeros((half, length - half), bool)
    count = max(1, round(PLANTED * half))
    for i, j in zip(rng.permutation(half)[:count], rng.permutation(length - half)[:count], strict=True):
        contacts[i, j] = True
        follows = rng.random(sequences) < 0.8
        rows[:, i] = rng.integers(0, 20, sequences)
        rows[:, half + j] = np.where(follows, (rows[:, i] + 7) % 20, rng.integers(0, 20, sequences))
    copies = sequences // 4  # relatives, whose weights are less than 1
    rows[:copies] = rows[copies : 2 * copies]
    rows[rng.random(rows.shape) < 0.02] = co.PAD
    return co.Family("random", rows[:, :half], rows[:, half:], contacts)


def methods(
    family: co.Family, device: str, steps: int
) -> dict[str, tuple[Callable[[], np.ndarray | co.dca.Maps], float]]:
    """Each with the floating point operations of its products."""
    count, length = family.depth, sum(family.shape)
    weights = 2.0 * count**2 * 22 * length
    return {
        "weights": (lambda: co.sequence_weights(family.joined(), device=device), weights),
        "mean_field": (
            lambda: co.dca.mean_field_maps(family, device=device),
            weights + 2.0 * count * (20 * length) ** 2 + 8 / 3 * (20 * length) ** 3,
        ),
        "pseudo_likelihood": (
            lambda: co.dca.pseudo_likelihood_maps(family, device, steps=steps),
            weights + 4.0 * steps * count * (21 * length) ** 2,
        ),
    }


def main(
    device: str = "webgpu",
    length: Annotated[int, typer.Option(help="Columns of both chains together.")] = 500,
    sequences: int = 10_000,
    steps: Annotated[int, typer.Option(help="Of Adam, for pseudo_likelihood.")] = 100,
    small: Annotated[bool, typer.Option(help="A family that two CPU cores take, to see that it runs.")] = False,
    results: Folder = None,
) -> None:
    """Measure each method on one family, and check that it finds the planted pairs."""
    if small:
        length, sequences, steps = SMALL.values()
    family = random_family(length, sequences)
    assert family.contacts is not None
    print(f"{get_device(device).describe()}; {length} columns, {sequences} sequences", flush=True)
    sg.zeros(1, device=device).numpy()  # the device starts before the clock
    found = []
    size = f"{length} columns, {sequences} sequences{', small' if small else ''}"
    for name, (run, operations) in methods(family, device, steps).items():
        began = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - began
        told = ""
        if isinstance(result, co.dca.Maps):
            precision = co.precision_at(result.between, family.contacts, int(family.contacts.sum()))
            told = f", {100 * precision:.0f} % of the planted pairs first"
            if precision < 0.9:
                raise SystemExit(f"{name} finds {100 * precision:.0f} % of the planted pairs: its scores are wrong.")
        rate = operations / seconds / 1e12
        print(f"{name:18} {seconds:8.2f} s  {operations / 1e12:8.3f} TFLOP  {rate:7.2f} TFLOP/s{told}", flush=True)
        found.append(Measured(f"{name}, {size}", "first call", seconds, "s", how=f"{rate:.1f} TFLOP/s"))
    keep(results, "dca", device, found)


if __name__ == "__main__":
    typer.run(main)
