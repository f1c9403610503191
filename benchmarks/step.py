"""One training step, compiled: ms a step, dispatches, host time a dispatch; beside PyTorch where it is asked for.

    python benchmarks/step.py mlp --device webgpu --against torch
    python benchmarks/step.py xor --explain

A step is measured in rounds: `--steps` steps are submitted, then the device is waited for once. Medians over `--rounds`
rounds are printed, ours and the peer's taken in turns in the same run. Host time is that of the calls alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.config import config


@dataclass
class Task:
    """A network and a batch. sizes: of the MLP's layers; or of the input and the classes, where `image` is given:
    then two convolutions (32 and 64 channels), a pooling and 128 features."""

    sizes: tuple[int, ...]
    batch: int
    activation: str
    loss: str
    image: tuple[int, int, int] | None = None


TASKS = {
    "mlp": Task((784, 512, 512, 10), 256, "ReLU", "cross_entropy"),
    "cnn": Task((784, 10), 128, "ReLU", "cross_entropy", (1, 28, 28)),
    "xor": Task((2, 8, 1), 4, "Tanh", "mse_loss"),
}


def data(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """A batch of random inputs and targets (or the four cases of XOR)."""
    if task.loss == "mse_loss":
        x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
        return x, (x.sum(1, keepdims=True) == 1).astype(np.float32)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(task.batch, *(task.image or task.sizes[:1]))).astype(np.float32)
    return x, rng.integers(0, task.sizes[-1], task.batch).astype(np.int32)


def layers(task: Task, nn_module: Any) -> list[Any]:
    """Linear layers with activations between, of shadergrad.nn or torch.nn; or the convolutional network."""
    made: list[Any] = []
    activation = getattr(nn_module, task.activation)
    if task.image is not None:
        channels, height, width = task.image
        made += [nn_module.Conv2d(channels, 32, 3, padding=1), activation()]
        made += [nn_module.Conv2d(32, 64, 3, padding=1), activation(), nn_module.MaxPool2d(2), nn_module.Flatten()]
        made += [nn_module.Linear(64 * (height // 2) * (width // 2), 128), activation()]
        return [*made, nn_module.Linear(128, task.sizes[-1])]
    for n_in, n_out in zip(task.sizes[:-1], task.sizes[1:], strict=True):
        made += [nn_module.Linear(n_in, n_out), activation()]
    return made[:-1]


def ours(task: Task, device: str) -> tuple[Any, Callable[[], Any], Callable[[], None]]:
    """(compiled step, call, wait)."""
    sg.manual_seed(0)
    model = nn.Sequential(*layers(task, nn)).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = getattr(F, task.loss)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = (sg.tensor(a, device=device) for a in data(task))
    return step, lambda: step(x, y), lambda: sg.sync()


def torch_peer(task: Task) -> tuple[str, Callable[[], Any], Callable[[], None]]:
    """(name, call, wait) of the same step in PyTorch eager, float32 without TF32, on CUDA where there is one."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    model = torch.nn.Sequential(*layers(task, torch.nn)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = getattr(torch.nn.functional, task.loss)
    x, y = (torch.tensor(a, device=device) for a in data(task))
    y = y.long() if task.loss == "cross_entropy" else y

    def call() -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return f"torch {torch.__version__} eager on {name}", call, wait


def measure(call: Callable[[], Any], wait: Callable[[], None], steps: int) -> tuple[float, float]:
    """Seconds a step, in all and of host time alone."""
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        call()
    submitted = time.perf_counter()
    wait()
    return (time.perf_counter() - start) / steps, (submitted - start) / steps


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(TASKS)}")] = "mlp",
    device: str = "webgpu",
    against: Annotated[str, typer.Option(help="a peer to measure beside: torch")] = "",
    steps: int = 200,
    rounds: int = 9,
    explain: Annotated[bool, typer.Option(help="print the table of kernels")] = False,
) -> None:
    """Measure one compiled training step."""
    from shadergrad.runtime.device import get_device

    begun = time.perf_counter()
    step, call, wait = ours(TASKS[task], device)
    call()
    wait()
    first = time.perf_counter() - begun
    peer = torch_peer(TASKS[task]) if against == "torch" else None
    runs: list[tuple[float, float]] = []
    peer_runs: list[tuple[float, float]] = []
    for c, w in ((call, wait), *([peer[1:]] if peer else [])):
        measure(c, w, 20)
    for _ in range(rounds):
        runs.append(measure(call, wait, steps))
        if peer:
            peer_runs.append(measure(peer[1], peer[2], steps))
    dispatches = len(step.plan.dispatches)
    ms = statistics.median(r[0] for r in runs) * 1e3
    # In bursts shorter than the bound on work in flight, so that no call waits for the device.
    host = statistics.median(measure(call, wait, max(1, config.in_flight // 2))[1] for _ in range(25)) * 1e6
    if explain:
        print(step.explain())
    print(f"{task} on {get_device(device).describe()}")
    print(f"  first step, capture and compilation included: {first:.2f} s")
    print(
        f"  {ms:.4f} ms/step (median of {rounds} x {steps}), {dispatches} dispatches, 1 submit, {host / max(dispatches, 1):.2f} us host a dispatch ({host:.0f} us a step)"
    )
    if peer:
        other = statistics.median(r[0] for r in peer_runs) * 1e3
        print(f"  {other:.4f} ms/step {peer[0]}: ours is {other / ms:.2f} times as fast")


if __name__ == "__main__":
    typer.run(main)
