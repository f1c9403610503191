"""Weights of 8 and 4 bits beside floats: products, GPT-2 small's tokens and fine-tuning, time and memory.

    python benchmarks/quantized.py --device webgpu                                  # float32
    SHADERGRAD_WEBGPU=dawn python benchmarks/quantized.py --device webgpu --half    # float16, on matrix units where they are

Products of 1, 16 and 512 rows with a weight of 4096 x 4096: time, and bytes of the weight a second. Then a model of GPT-2 small's shapes with random
weights: a token at a time with its cache, and a step of LoRA on 4 x 256 tokens, with the peak of memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
import shadergrad.nn.functional as F
from record import Folder, Measured, keep
from shadergrad import nn
from shadergrad.models.gpt import GPT, Config, Sampler

SCHEMES: tuple[tuple[str, dict[str, Any] | None], ...] = (
    ("floats", None),
    ("8 bits", {"bits": 8}),
    ("4 bits", {"bits": 4}),
    ("4 bits, groups of 32, asymmetric", {"bits": 4, "group_size": 32, "symmetric": False}),
)


def best(call: Callable[[], Any], device: str, rounds: int = 5, least: float = 0.2) -> float:
    """Seconds of a call, the best of some rounds, each of as many calls as take so long."""

    def taken(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            call()
        sg.sync(device)
        return time.perf_counter() - start

    taken(3)
    times = 1
    while taken(times) < least:
        times *= 2
    return min(taken(times) for _ in range(rounds)) / times


def stored(model: nn.Module) -> int:
    """Bytes of a model's parameters and buffers."""
    return sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))


def products(device: str, dtype: Any, n: int) -> Iterator[tuple[str, str, float, float]]:
    for name, scheme in SCHEMES:
        sg.manual_seed(0)
        layer: nn.Module = nn.Linear(n, n, bias=False).to(device, dtype)
        layer.requires_grad_(False)
        if scheme is not None:
            layer = sg.quantize(layer, **scheme)
        for rows in (1, 16, 512):
            x = sg.randn(rows, n).to(device, dtype).requires_grad_()
            forward = sg.compile(lambda x, layer=layer: layer(x.detach()))
            both = sg.compile(lambda x, layer=layer: sg.autograd.grad(layer(x).square().sum(), x)[0])
            for what, step in (("forward", forward), ("forward and gradient", both)):
                seconds = best(lambda step=step, x=x: step(x), device)
                yield f"{rows} rows, {what}", name, seconds, stored(layer) / seconds


class Adapted(nn.Module):
    def __init__(self, base: Any, dtype: Any, device: str, rank: int = 8) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter((sg.randn(rank, base.in_features) * 0.02).to(device, dtype))
        self.up = nn.Parameter(sg.zeros(base.out_features, rank).to(device, dtype))

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


def language_model(device: str, dtype: Any, scheme: dict[str, Any] | None, layers: int) -> GPT:
    sg.manual_seed(0)
    model = GPT(Config(n_layer=layers, dropout=0.0))
    model.to("cpu" if scheme else device, dtype)
    return (sg.quantize(model, **scheme) if scheme else model).to(device).eval()


def generation(device: str, dtype: Any, scheme: dict[str, Any] | None, layers: int) -> float:
    """Seconds a token."""
    sampler = Sampler(language_model(device, dtype, scheme, layers))
    sampler.generate([[1, 2, 3]], 8)
    start = time.perf_counter()
    sampler.generate([[1, 2, 3]], 64)
    return (time.perf_counter() - start) / 64


def adapters(device: str, dtype: Any, scheme: dict[str, Any] | None, layers: int) -> tuple[float, int]:
    """Seconds of a step, and the peak of memory."""
    model = language_model(device, dtype, scheme, layers)
    model.requires_grad_(False)
    for block in model.h:
        block.attn.c_attn, block.mlp.c_fc = (
            Adapted(block.attn.c_attn, dtype, device),
            Adapted(block.mlp.c_fc, dtype, device),
        )
    optimizer = sg.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    tokens = sg.tensor(np.random.default_rng(0).integers(0, 50257, (4, 257)), device=device)

    def step() -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    run = sg.compile(step)
    seconds = best(run, device, rounds=3)
    if device == "cpu":
        return seconds, 0
    sg.devices.reset_peak_memory_stats(device)
    run()
    sg.sync(device)
    return seconds, sg.devices.memory_stats(device).peak


def main(
    device: str = "webgpu",
    half: Annotated[bool, typer.Option(help="float16, else float32")] = False,
    size: Annotated[int, typer.Option(help="rows and columns of the weight of single products")] = 4096,
    layers: Annotated[int, typer.Option(help="of the language model")] = 12,
    model: Annotated[bool, typer.Option(help="measure the language model, too")] = True,
    results: Folder = None,
) -> None:
    """Products, then the model."""
    found = []
    dtype = sg.float16 if half else sg.float32
    print(f"{dtype}, weight of {size} x {size}")
    for what, name, seconds, rate in products(device, dtype, size):
        print(f"  {what:32} {name:34} {seconds * 1e6:10.1f} us {rate / 1e9:8.1f} GB/s", flush=True)
        found.append(Measured(f"{what}, {size} x {size}, {name}, {dtype.name}", "time", seconds * 1e3, "ms"))
    for name, scheme in SCHEMES if model else ():
        token = generation(device, dtype, scheme, layers)
        step, peak = adapters(device, dtype, scheme, layers)
        print(
            f"  {name:34} {token * 1e3:8.2f} ms a token, {step * 1e3:8.2f} ms a step of LoRA, peak {peak / 2**20:8.0f} MiB",
            flush=True,
        )
        case = f"GPT-2 small, {layers} layers, {name}, {dtype.name}"
        found += [
            Measured(f"{case}, a token", "time", token * 1e3, "ms"),
            Measured(f"{case}, a step of LoRA", "time", step * 1e3, "ms"),
            Measured(f"{case}, a step of LoRA", "peak memory", peak, "bytes"),
        ]
    keep(results, "quantized", device, found)


if __name__ == "__main__":
    typer.run(main)
