"""Convolutions in their three directions and matrix products, beside PyTorch: device time, float32 without TF32.

    python benchmarks/products.py --against torch
    python benchmarks/products.py --only 256x512x784

Ours: the dispatches of a compiled function, many times in one submission (see `device_time`). PyTorch's on CUDA: the same
call many times in one CUDA graph; elsewhere a loop.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
from device_time import commands_of, seconds
from record import Folder, Measured, keep

REPEATED = 10  # calls in a CUDA graph


@dataclass(frozen=True)
class Convolution:
    """batch images of channels x side x side, `out` windows of width `window`, every `stride`, padded to keep the size."""

    channels: int
    side: int
    out: int
    window: int = 3
    stride: int = 1
    batch: int = 128
    groups: int = 1

    def __str__(self) -> str:
        return (
            f"{self.batch}x{self.channels}x{self.side}x{self.side} to {self.out}, {self.window}x{self.window}/{self.stride}"
            + (f" in {self.groups} groups" if self.groups > 1 else "")
        )

    @property
    def padding(self) -> int:
        return self.window // 2

    @property
    def flops(self) -> int:
        places = (self.side // self.stride) ** 2 * self.batch
        return 2 * places * self.out * self.channels // self.groups * self.window**2


CONVOLUTIONS = (
    Convolution(3, 32, 64),
    Convolution(64, 32, 64),
    Convolution(64, 32, 128, 3, 2),
    Convolution(64, 32, 128, 1, 2),
    Convolution(128, 16, 128),
    Convolution(128, 16, 256, 3, 2),
    Convolution(128, 16, 256, 1, 2),
    Convolution(256, 8, 256),
    Convolution(256, 8, 512, 3, 2),
    Convolution(256, 8, 512, 1, 2),
    Convolution(512, 4, 512),
    Convolution(1, 28, 32),
    Convolution(32, 28, 64),
    Convolution(64, 32, 64, groups=64),
)
# (m, n, k), and which operands are transposed views
PRODUCTS = (
    (1024, 1024, 1024, ""),
    (2048, 2048, 2048, ""),
    (4096, 4096, 4096, ""),
    (8192, 8192, 8192, ""),
    (2048, 3072, 768, "b"),
    (2048, 768, 3072, ""),
    (768, 3072, 2048, "a"),
    (256, 512, 784, "b"),
    (512, 784, 256, "a"),
    (4096, 512, 128, "b"),
    (128, 128, 9216, "b"),
    (128, 128, 12544, "b"),
    (1, 4096, 4096, "b"),
    (4096, 1, 4096, ""),
    (16384, 16, 1024, ""),
    (2048, 256, 512, "b"),
)


def operands(shape: tuple[int, ...], *more: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, dtype=np.float32) for s in (shape, *more)]


Case = tuple[str, float, list[np.ndarray], Callable[..., Any], Callable[..., Any]]  # name, flops, arrays, ours, torch's


def convolutions(shapes: tuple[Convolution, ...] = CONVOLUTIONS) -> Iterator[Case]:
    """Each shape forward, backward to the input and backward to the weights."""
    for c in shapes:
        side = c.side // c.stride
        arrays = operands(
            (c.batch, c.channels, c.side, c.side),
            (c.out, c.channels // c.groups, c.window, c.window),
            (c.batch, c.out, side, side),
        )

        def forward(x: Any, w: Any, g: Any, c: Convolution = c) -> Any:
            return sg.nn.functional.conv2d(x, w, stride=c.stride, padding=c.padding, groups=c.groups)

        def gradient(x: Any, w: Any, g: Any, which: int, c: Convolution = c) -> Any:
            leaves = [t.detach().requires_grad_() for t in (x, w)]
            y = sg.nn.functional.conv2d(*leaves, stride=c.stride, padding=c.padding, groups=c.groups)
            return sg.autograd.grad(y, [leaves[which]], g)[0]

        def theirs(x: Any, w: Any, g: Any, which: int, c: Convolution = c) -> Any:
            import torch

            if which < 0:
                return torch.nn.functional.conv2d(x, w, stride=c.stride, padding=c.padding, groups=c.groups)
            mask = [which == 0, which == 1, False]
            pair, pads = [c.stride, c.stride], [c.padding, c.padding]
            found = torch.ops.aten.convolution_backward(
                g, x, w, None, pair, pads, [1, 1], False, [0, 0], c.groups, mask
            )
            return found[which]

        yield f"conv {c} forward", c.flops, arrays, forward, lambda *a, f=theirs: f(*a, -1)
        for k, name in enumerate(("input", "weight")):
            yield (
                f"conv {c} {name} gradient",
                c.flops,
                arrays,
                lambda *a, f=gradient, k=k: f(*a, k),
                lambda *a, f=theirs, k=k: f(*a, k),
            )


def products() -> Iterator[Case]:
    for m, n, k, transposed in PRODUCTS:
        a, b = operands((k, m) if "a" in transposed else (m, k), (n, k) if "b" in transposed else (k, n))

        def multiply(a: Any, b: Any, transposed: str = transposed) -> Any:
            return (a.T if "a" in transposed else a) @ (b.T if "b" in transposed else b)

        marks = "".join(f" {t}T" for t in transposed)
        yield f"dot {m}x{n}x{k}{marks}", 2 * m * n * k, [a, b], multiply, multiply


def ours(given: list[Any], call: Callable[..., Any], device: str) -> tuple[float, Any, int]:
    """Of tensors: seconds, the result, the number of dispatches."""
    step = sg.compile(call)
    result = step(*given).numpy()
    step(*given)
    _, commands = commands_of(step, device)
    return seconds(device, commands), result, len(commands)


def theirs(arrays: list[np.ndarray], call: Callable[..., Any]) -> tuple[float, Any]:
    """The same of PyTorch."""
    import torch

    cuda = torch.cuda.is_available()
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    given = [torch.tensor(a, device="cuda" if cuda else "cpu") for a in arrays]
    result = call(*given).cpu().numpy()
    if not cuda:
        start = time.perf_counter()
        call(*given)
        return time.perf_counter() - start, result
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATED):
            call(*given)
    times = []
    for _ in range(4):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / REPEATED / 1e3)
    return statistics.median(times[1:]), result


def main(
    device: str = "webgpu",
    against: Annotated[str, typer.Option(help="a peer to measure beside: torch")] = "",
    only: Annotated[str, typer.Option(help="names that contain this")] = "",
    results: Folder = None,
) -> None:
    """A line a case: microseconds, TFLOP/s, and the peer's with the ratio of speeds and the largest difference."""
    for name, flops, arrays, call, peer in (*convolutions(), *products()):
        if only not in name:
            continue
        found, result, dispatches = ours([sg.tensor(a, device=device) for a in arrays], call, device)
        peers: dict[str, float] = {}
        line = f"{name:52s} {found * 1e6:9.1f} us {flops / found / 1e12:6.2f} TFLOP/s in {dispatches}"
        if against:
            other, expected = theirs(arrays, peer)
            peers["PyTorch eager"] = other * 1e6
            error = np.abs(result - expected).max() / np.abs(expected).max()
            line += f"   torch {other * 1e6:9.1f} us {flops / other / 1e12:6.2f}   ours {other / found:5.2f} times as fast, {error:.0e} apart"
        print(line, flush=True)
        keep(results, "products", device, [Measured(name, "device time", found * 1e6, "us", peers)])


if __name__ == "__main__":
    typer.run(main)
