"""Logic networks beside torchlogix and difflogic: milliseconds of a step, and the accuracy of the gates after as many steps of the same batches.

    python benchmarks/logic_peers.py --device webgpu --data FOLDER --steps 3000 --results benchmarks/results
    python benchmarks/logic_peers.py --device cpu --data FOLDER --width 800 --steps 200        # a look, beside PyTorch on the CPU

MNIST's 784 pixels, each one bit, through `--layers` layers of `--width` gates, sixteen logits a gate; ten classes count their votes.
Adam, batches of 100 that are on the device, the same for all, pass after pass. Every library has its own initialisation, random wires and best step:
ours one `sg.compile`, torchlogix by itself and by torch.compile, difflogic its CUDA kernels. The time of a step is that of the last half of the steps,
waited for once; the accuracy that of the gates, not of the mixtures, on the 10,000 test images.

The peers are those that can be imported: `pip install --no-deps torchlogix`, and difflogic, which is built with nvcc. FOLDER/mnist holds the four files.
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad import nn
from shadergrad.data import MNIST
from shadergrad.logic import GroupSum, LogicNetwork

CLASSES, PIXELS, HALF = 10, 784, 128
AT_ONCE = 1000  # test images
ADAM = 0.01
TAU = 30.0
STRENGTH = 3.0  # of ours, as `shadergrad train mnist-logic` begins


@dataclass(frozen=True)
class Data:
    """images: bits [n, 784] as float32. labels: [n]. batches: the images of each, one pass over them all."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    batches: np.ndarray

    @classmethod
    def read(cls, folder: Path, batch: int, seed: int) -> Data:
        parts = [MNIST(folder, train=part, download=False) for part in (True, False)]
        images, tests = ((part.images.reshape(len(part), -1) >= HALF).astype(np.float32) for part in parts)
        rows = np.random.default_rng(seed).permutation(len(images))
        whole = len(rows) // batch * batch
        return cls(images, parts[0].labels, tests, parts[1].labels, rows[:whole].reshape(-1, batch))


@dataclass(frozen=True)
class Run:
    """A library, ready to train. step: bits and labels to nothing. scores: bits to class scores, of the gates. put: an array as its tensor."""

    step: Callable[[Any, Any], Any]
    scores: Callable[[Any], np.ndarray]
    put: Callable[[np.ndarray], Any]
    wait: Callable[[], Any]


@dataclass(frozen=True)
class Outcome:
    """ms: of a step. accuracy: of the gates on the test images."""

    ms: float
    accuracy: float


def ours(device: str, sizes: tuple[int, ...], seed: int) -> Run:
    network = LogicNetwork(sizes, "random", "residual", seed=seed, device=device, strength=STRENGTH)
    model = nn.Sequential(network, GroupSum(CLASSES, TAU))
    optimizer = sg.optim.Adam(model.parameters(), lr=ADAM)

    @sg.compile
    def step(bits: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(bits), labels)
        loss.backward()
        optimizer.step()
        return loss

    def scores(bits: sg.Tensor) -> np.ndarray:
        model.eval()
        with sg.no_grad():
            found = model(bits).numpy()
        model.train()
        return found

    return Run(step, scores, lambda a: sg.tensor(a, device=device), sg.sync)


def theirs(layers: Callable[[str, tuple[int, ...]], Any], is_compiled: bool) -> Callable[[tuple[int, ...], int], Run]:
    """A run of PyTorch's, on CUDA where it is available. layers: the module by a device and the sizes."""

    def build(sizes: tuple[int, ...], seed: int) -> Run:
        import torch

        torch.manual_seed(seed)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = layers(device, sizes).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=ADAM, fused=device == "cuda")
        forward = torch.compile(model) if is_compiled else model

        def step(bits: Any, labels: Any) -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(forward(bits), labels)
            loss.backward()
            optimizer.step()

        def scores(bits: Any) -> np.ndarray:
            model.eval()
            with torch.no_grad():
                found = model(bits).float().cpu().numpy()
            model.train()
            return found

        def put(array: np.ndarray) -> Any:
            return torch.tensor(array, device=device, dtype=torch.int64 if array.dtype != np.float32 else None)

        return Run(step, scores, put, torch.cuda.synchronize if device == "cuda" else lambda: None)

    return build


def torchlogix(device: str, sizes: tuple[int, ...]) -> Any:
    import torch
    from torchlogix.layers import GroupSum as Count  # type: ignore[reportMissingImports]
    from torchlogix.layers import LogicDense  # type: ignore[reportMissingImports]

    pairs = itertools.pairwise(sizes)
    return torch.nn.Sequential(*[LogicDense(a, b, device=device) for a, b in pairs], Count(CLASSES, TAU))


def difflogic(device: str, sizes: tuple[int, ...]) -> Any:
    import torch
    from difflogic import GroupSum as Count  # type: ignore[reportMissingImports]
    from difflogic import LogicLayer  # type: ignore[reportMissingImports]

    pairs = itertools.pairwise(sizes)
    return torch.nn.Sequential(*[LogicLayer(a, b, device=device) for a, b in pairs], Count(CLASSES, TAU))


PEERS: dict[str, tuple[str, Callable[[tuple[int, ...], int], Run]]] = {
    "torchlogix": ("torchlogix", theirs(torchlogix, is_compiled=False)),
    "torchlogix, torch.compile": ("torchlogix", theirs(torchlogix, is_compiled=True)),
    "difflogic": ("difflogic", theirs(difflogic, is_compiled=False)),
}


def trained(run: Run, data: Data, steps: int) -> Outcome:
    """Train by the batches, pass after pass, and test."""
    batches = [(run.put(data.images[rows]), run.put(data.labels[rows])) for rows in data.batches[:steps]]
    middle = steps // 2
    begin = time.perf_counter()
    for k in range(steps):
        if k == middle:
            run.wait()
            begin = time.perf_counter()
        run.step(*batches[k % len(batches)])
    run.wait()
    ms = (time.perf_counter() - begin) / (steps - middle) * 1e3
    hits = 0
    for rows in parts(len(data.test_images)):
        hits += int((run.scores(run.put(data.test_images[rows])).argmax(1) == data.test_labels[rows]).sum())
    return Outcome(ms, hits / len(data.test_images))


def parts(count: int) -> Iterator[slice]:
    return (slice(k, min(k + AT_ONCE, count)) for k in range(0, count, AT_ONCE))


def main(
    device: str = "webgpu",
    data: Annotated[Path, typer.Option(help="the folder that holds mnist/")] = Path(),
    width: int = 8000,
    layers: int = 6,
    batch_size: int = 100,
    steps: Annotated[int, typer.Option(min=2)] = 3000,
    seed: int = 0,
    results: Folder = None,
) -> None:
    """Train each library's network by the same batches."""
    sizes = (PIXELS, *[width] * layers)
    given = Data.read(data, batch_size, seed)
    case = f"{layers} layers of {width}, batch {batch_size}, {steps} steps"
    runs: dict[str, Callable[[], Run]] = {"shadergrad": lambda: ours(device, sizes, seed)}
    for name, (module, build) in PEERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{module} cannot be imported; it is left out")
        else:
            runs[name] = lambda build=build: build(sizes, seed)
    found: dict[str, Outcome] = {}
    for name, begin in runs.items():
        found[name] = trained(begin(), given, steps)
        print(f"{case}, {name}: {found[name].ms:.3f} ms a step, {found[name].accuracy:.2%} by gates")
    mine = found.pop("shadergrad")
    how = f"seed {seed}; batches on the device; steps of the last half; Adam at {ADAM}"
    keep(
        results,
        "logic_peers",
        device,
        [
            Measured(case, "time", mine.ms, "ms", {name: o.ms for name, o in found.items()}, how),
            Measured(case, "hard accuracy", mine.accuracy, "share", {n: o.accuracy for n, o in found.items()}, how),
        ],
    )


if __name__ == "__main__":
    typer.run(main)
