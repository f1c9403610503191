"""Attention alone, forward and with its backward pass: ms a call, beside PyTorch's in float32 where it is asked for.

    python benchmarks/attention.py --shape 8x12x1024x64 --causal --against torch
    python benchmarks/attention.py --small --calls 2 --rounds 1

shape: batch x heads x length x size of a head. Each pass is a compiled step that writes its results anew, a call of it one
submission; medians over `--rounds` rounds of `--calls` calls at least, ours and the peer's taken in turns. The share of the speed is
PyTorch's time by ours.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep

SHAPES = ("8x12x1024x64", "32x4x128x32")
Call = Callable[[], Any]


def arrays(shape: tuple[int, ...]) -> list[np.ndarray]:
    """q, k, v and the gradient of the result."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) for _ in range(4)]


def ours(shape: tuple[int, ...], causal: bool, device: str) -> tuple[Call, Call, Call]:
    """Forward, forward and backward, wait."""
    q, k, v, g = (sg.tensor(a, device=device) for a in arrays(shape))
    a, b, c = leaves = [sg.tensor(x.numpy(), device=device, requires_grad=True) for x in (q, k, v)]

    @sg.compile
    def forward(q: Any, k: Any, v: Any) -> Any:
        return sg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    @sg.compile
    def both(g: Any) -> Any:
        result = sg.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=causal)
        return sg.autograd.grad(result, leaves, g)

    return lambda: forward(q, k, v), lambda: both(g), sg.sync


def torch_peer(shape: tuple[int, ...], causal: bool) -> tuple[Call, Call, Call]:
    """The same in PyTorch, float32 without TF32."""
    import torch

    cuda = torch.cuda.is_available()
    torch.backends.cuda.matmul.allow_tf32 = False
    q, k, v, g = (torch.tensor(a, device="cuda" if cuda else "cpu") for a in arrays(shape))
    a, b, c = leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention

    def both() -> Any:
        return torch.autograd.grad(attend(a, b, c, is_causal=causal), leaves, g)

    wait = torch.cuda.synchronize if cuda else lambda: None
    return lambda: attend(q, k, v, is_causal=causal), both, wait


# Of a round at least: a wait alone takes 4 to 7 microseconds, and runs of little work are submitted together once nobody waits for them
ROUND = 0.01


def seconds(call: Call, wait: Call, calls: int) -> float:
    for _ in range(calls // 5 + 1):  # the GPU turns to another library's work: that is not timed
        call()
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - start) / calls


def medians(runners: list[tuple[Call, Call]], calls: int, rounds: int) -> list[float]:
    """Milliseconds of each, measured in turns, in rounds of `calls` calls at least, and of `ROUND` seconds."""
    counts = [max(calls, round(ROUND / seconds(call, wait, calls))) for call, wait in runners]
    times = [[seconds(*runner, n) for runner, n in zip(runners, counts, strict=True)] for _ in range(rounds)]
    return [statistics.median(row) * 1e3 for row in zip(*times, strict=True)]


def main(
    shape: Annotated[list[str], typer.Option(help="batch x heads x length x size of a head")] = list(SHAPES),  # noqa: B006
    device: str = "webgpu",
    against: Annotated[str, typer.Option(help="a peer to measure beside: torch")] = "",
    causal: bool = False,
    calls: int = 50,
    rounds: int = 7,
    small: Annotated[bool, typer.Option("--small", help="a tiny size: to try it, not to measure")] = False,
    results: Folder = None,
) -> None:
    """Measure attention."""
    if against not in ("", "torch"):
        raise typer.BadParameter("--against torch or nothing")
    for text in ["2x2x40x16"] if small else shape:
        sizes = tuple(int(n) for n in text.split("x"))
        own = ours(sizes, causal, device)
        peer = torch_peer(sizes, causal) if against else None
        for k, what in enumerate(("forward", "forward and backward")):
            runners = [(r[k], r[2]) for r in (own, peer) if r is not None]
            ms, *other = medians(runners, calls, rounds)
            flops = (4, 14)[k] * math.prod(sizes) * sizes[2] / (2 if causal else 1)
            line = f"{text}{' causal' if causal else ''} {what}: {ms:.4f} ms, {flops / ms / 1e9:.2f} TFLOP/s"
            print(line + "".join(f"; torch {o:.4f} ms, ours has {o / ms:.2f} of its speed" for o in other))
            peers = {"PyTorch eager": other[0]} if other else {}
            case = f"{text}{' causal' if causal else ''} {what}{', small' if small else ''}"
            keep(results, "attention", device, [Measured(case, "time", ms, "ms", peers)])


if __name__ == "__main__":
    typer.run(main)
