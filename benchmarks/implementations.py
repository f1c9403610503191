"""The implementations of WebGPU beside each other on one machine: what each offers, and the host time of a dispatch.

    python benchmarks/implementations.py                 every implementation that is installed
    python benchmarks/implementations.py --results DIR   and keep the figures

The host time is that of dispatches of two small kernels in turn, with a bind group each, in one pass and one submission: recording,
finishing, submitting; the second decile of the rounds counts.

What else to run where there is a GPU, with SHADERGRAD_WEBGPU=wgpu and with dawn:

    shadergrad info --verbose                                        # f16, and the shapes of its matrix units
    python -m pytest tests/device                                    # all kernels' values
    python benchmarks/step.py gpt2s --device webgpu                  # steps: time, host time, memory
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import typer

from record import Folder, Measured, keep
from shadergrad.config import config
from shadergrad.errors import DeviceError
from shadergrad.runtime.adapters import choose_adapter
from shadergrad.runtime.implementations import PACKAGES, implementation, is_installed
from shadergrad.runtime.interface import Wish

COUNTS = (1, 10, 100, 1000)
SOURCE = """@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x] + BY; }"""


def host_time(native: Any, count: int, rounds: int) -> dict[str, float]:
    """Microseconds that `count` dispatches take the host, by phase."""
    layout = native.create_bind_group_layout(["read", "read_write"])
    whole = native.create_pipeline_layout(layout)
    pipelines = [native.create_pipeline(SOURCE.replace("BY", f"{k}.0"), whole) for k in range(2)]
    buffers = [native.create_buffer(256) for _ in range(3)]
    groups = [native.create_bind_group(layout, [(b, 0, 256) for b in buffers[k : k + 2]]) for k in range(2)]
    commands = [(pipelines[k % 2].raw, groups[k % 2].raw, 1, 1, 1) for k in range(count)]
    rows: list[tuple[float, ...]] = []
    for _ in range(rounds):
        native.wait_all()
        native._held = [(commands, None)]
        times = [time.perf_counter()]
        encoder = native._encoder()
        times.append(time.perf_counter())
        native._commands[0] = finished = native.lib.wgpuCommandEncoderFinish(encoder, native.null)
        native.lib.wgpuCommandEncoderRelease(encoder)
        native._held = []
        times.append(time.perf_counter())
        native._submitted(native._submit_commands(1))
        native.lib.wgpuCommandBufferRelease(finished)
        times.append(time.perf_counter())
        rows.append(tuple(b - a for a, b in pairwise(times)))
    native.wait_all()
    for buffer in buffers:
        native.destroy_buffer(buffer)
    low = [statistics.quantiles(column, n=10)[1] * 1e6 for column in zip(*rows, strict=True)]
    return dict(zip(("record", "finish", "submit"), low, strict=True))


def main(rounds: int = 60, results: Folder = None) -> None:
    """Print, and keep, what each implementation offers and takes."""
    for name in PACKAGES:
        if not is_installed(name):
            typer.echo(f"{name}: not installed")
            continue
        try:
            info, found = choose_adapter(0, replace(config, webgpu=name))
        except DeviceError as error:
            typer.echo(f"{name}: {error}")
            continue
        target = info.target
        typer.echo(f"{name}: {info.describe()}, driver {info.driver}; f16 {target.f16}, subgroups {target.subgroups}")
        for m in target.matrices:
            typer.echo(f"  matrix unit: {m.operand} {m.m}x{m.n}x{m.k} to {m.result}")
        native: Any = implementation(name).open_device(found, Wish({}, 16))
        measured: list[Measured] = []
        for count in COUNTS:
            phases = host_time(native, count, rounds)
            each = sum(phases.values()) / count
            told = ", ".join(f"{phase} {us:.1f}" for phase, us in phases.items())
            typer.echo(f"  {count} dispatches, us: {told}; {each:.2f} a dispatch")
            measured.append(Measured(f"{name}, {count} dispatches", "a dispatch from begin to submit", each, "us"))
        keep(results, "implementations", "webgpu", measured)
        native.destroy()


if __name__ == "__main__":
    typer.run(main)
