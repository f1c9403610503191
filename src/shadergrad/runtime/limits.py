"""Measures a device's peak rates: bytes per second, and multiply-adds per second.

Profiles give a kernel's performance as a share of them. In: a device. Out: two rates, measured once per process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..dtypes import float32
from ..errors import DeviceError
from ..plan import BufferSpec, Dispatch, Kernel, Plan
from . import timing
from .device import Device, get_device

COPIED = 1 << 24  # floats: 64 MiB, more than caches hold
THREADS = 256
CHAINS = 8  # independent vec4 accumulators per thread
MOST_REPEATS = 1 << 14
ROUNDS = 3  # repetitions, of which the fastest counts
MATRIX = 1024  # rows and columns of the matrix multiplication that measures arithmetic on the host


@dataclass(frozen=True)
class DeviceLimits:
    """Measured peak rates of a device: bytes_per_second of memory, read and written; flops_per_second in float32.

    >>> print(sg.devices.DeviceLimits("mine", 1e9, 2e9))
    mine: 1.0 GB/s, 2 GFLOP/s
    """

    device: str
    bytes_per_second: float
    flops_per_second: float

    def __str__(self) -> str:
        return f"{self.device}: {self.bytes_per_second / 1e9:,.1f} GB/s, {self.flops_per_second / 1e9:,.0f} GFLOP/s"


@lru_cache(maxsize=16)
def measure_limits(name: str) -> DeviceLimits:
    """The peak rates of an open device. Raises DeviceError for one that runs no plans."""
    device = get_device(name)
    language = device.target.language
    if language == "wgsl":
        with device.measuring():
            return DeviceLimits(name, *_of_gpu(device))
    if language == "numpy":
        return DeviceLimits(name, *_of_host())
    raise DeviceError(f"[{name}] no limits are known of this device.")


def _of_host() -> tuple[float, float]:
    source = np.ones(COPIED, np.float32)
    into = np.empty_like(source)
    a = np.ones((MATRIX, MATRIX), np.float32)

    def fastest(call: object, *args: object) -> float:
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            call(*args)  # type: ignore[operator]
            times.append(time.perf_counter() - start)
        return min(times)

    return 2 * source.nbytes / fastest(np.copyto, into, source), 2 * MATRIX**3 / fastest(np.matmul, a, a)


def _of_gpu(device: Device) -> tuple[float, float]:
    floats = min(COPIED, device.target.max_binding_bytes // 4)
    copy = f"""@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<f32>>;
@compute @workgroup_size({THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    b[id.x] = a[id.x];
}}
"""
    grid = floats // 4 // THREADS
    plan = _plan(device, Kernel("copy", "map", ("read", "read_write"), copy, nbytes=8 * floats), floats, grid)
    bandwidth = plan.kernels[0].nbytes / _fastest(device, plan, floats)
    repeats, groups = 64, 2048
    while True:
        kernel = Kernel("fma", "map", ("read", "read_write"), _fma(repeats))
        flops = groups * THREADS * repeats * CHAINS * 4 * 2
        seconds = _fastest(device, _plan(device, kernel, groups * THREADS, groups), groups * THREADS)
        if seconds > 0.002 or repeats >= MOST_REPEATS:
            return bandwidth, flops / seconds
        repeats *= 4  # so that the launch itself does not count


def _fma(repeats: int) -> str:
    names = [f"s{k}" for k in range(CHAINS)]
    begin = "\n".join(f"    var {s} = vec4<f32>(x + {k}.0);" for k, s in enumerate(names))
    again = "\n".join(f"        {s} = fma({s}, m, c);" for s in names)
    total = " + ".join(names)
    return f"""@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> b: array<f32>;
@compute @workgroup_size({THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    let x = a[id.x];
    let m = vec4<f32>(x * 0.5);
    let c = vec4<f32>(x);
{begin}
    for (var i = 0u; i < {repeats}u; i++) {{
{again}
    }}
    b[id.x] = dot({total}, vec4<f32>(1.0));
}}
"""


def _plan(device: Device, kernel: Kernel, floats: int, grid: int) -> Plan:
    buffers = (
        BufferSpec("argument", (floats,), float32, name="a"),
        BufferSpec("result", (floats,), float32, name="b"),
    )
    kernel = replace(kernel, workgroup=(THREADS, 1, 1))
    return Plan(device.target, buffers, (kernel,), (Dispatch(0, (0, 1), (grid, 1, 1)),), (0,), (1,))


def _fastest(device: Device, plan: Plan, floats: int) -> float:
    program = device.load(plan)
    storage = device.upload(np.ones(floats, np.float32), float32)
    heard: list[timing.Timed] = []
    with timing.listening(heard.append, alone=True):
        for _ in range(ROUNDS):
            program.run([storage])
    return max(min(t.seconds for t in heard), 1e-9)
