"""Products of float16 on matrix units: values beside NumPy in float64, and speed beside float32.

SHADERGRAD_WEBGPU=dawn SHADERGRAD_CACHE=off python benchmarks/units.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from unittest import mock

import numpy as np
import typer

import shadergrad as sg
from device_time import commands_of, seconds
from record import Folder, Measured, keep
from shadergrad.compile import matrix_units
from shadergrad.drive import execute
from shadergrad.runtime.device import get_device

F = sg.nn.functional
Arrays = list[np.ndarray]
HALF = 2.0**-11  # of a rounding to float16
SUM = 2.0**-18  # of the products' sizes, for sums in float32

rng = np.random.default_rng(0)
POOL = rng.standard_normal(1_000_003, dtype=np.float32)


def drawn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32).astype(np.float16)


def wide(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.float()


def gelu(x: Any) -> Any:
    return x / (1 + np.exp(-1.702 * x)) if isinstance(x, np.ndarray) else x * (1.702 * x).sigmoid()


def swapped(x: Any) -> Any:
    return np.swapaxes(x, -1, -2) if isinstance(x, np.ndarray) else x.transpose(-1, -2)


def at_least_zero(x: Any) -> Any:
    return np.maximum(x, 0) if isinstance(x, np.ndarray) else x.relu()


# name, operands, and a function of wide operands and of tensors alike. Sums are compared in float32, before any rounding
CASES: list[Any] = [
    (f"{m}x{n}x{k} {'T' * at or '-'} {'T' * bt or '-'}", [drawn(*((k, m) if at else (m, k))), drawn(*((n, k) if bt else (k, n)))],
     lambda a, b, at=at, bt=bt: wide(swapped(a) if at else a) @ wide(swapped(b) if bt else b))
    for m, n, k in ((256, 384, 512), (1024, 1024, 1024), (260, 516, 132), (257, 259, 261), (200, 100, 4104))
    for at in (False, True) for bt in (False, True)
] + [
    ("bias", [drawn(256, 512), drawn(384, 512), drawn(384)], lambda x, w, b: wide(x) @ wide(swapped(w)) + wide(b)),
    ("bias and gelu", [drawn(2048, 768), drawn(3072, 768), drawn(3072)], lambda x, w, b: gelu(0.05 * (wide(x) @ wide(swapped(w))) + wide(b))),
    ("residual of an operand", [drawn(320, 320), drawn(320, 320)], lambda a, b: at_least_zero(wide(a) @ wide(b) + wide(a))),
    ("by its own transpose", [drawn(300, 520)], lambda a: wide(a) @ wide(swapped(a))),
    ("batches", [drawn(12, 256, 64), drawn(12, 64, 256)], lambda a, b: wide(a) @ wide(b)),
    ("batches, transposed", [drawn(6, 130, 64), drawn(6, 130, 64)], lambda a, b: wide(a) @ wide(swapped(b))),
    ("one left operand", [drawn(1, 128, 256), drawn(5, 256, 64)], lambda a, b: wide(a) @ wide(b)),
    ("slices", [drawn(300, 600), drawn(600, 300)], lambda a, b: wide(a[8:264, 16:528]) @ wide(b[16:528, 24:280])),
    ("slices by odd numbers", [drawn(300, 600), drawn(600, 300)], lambda a, b: wide(a[1:257, 3:515]) @ wide(b[5:517, 7:263])),
    ("a long contraction", [drawn(128, 20000), drawn(20000, 128)], lambda a, b: wide(a) @ wide(b)),
    ("a long contraction, both transposed", [drawn(20000, 96), drawn(160, 20000)], lambda a, b: wide(swapped(a)) @ wide(swapped(b))),
    ("computed operands", [drawn(256, 512), drawn(512, 256)],
     lambda a, b: wide(at_least_zero(a)) @ wide(-b)),
    ("both gradients of a layer", [drawn(1024, 256), drawn(256, 768), drawn(1024, 768)],
     lambda g, w, x: (wide(g) @ wide(w), wide(swapped(g)) @ wide(x))),
]  # fmt: skip


def compiled(call: Callable[..., Any], tensors: list[Any]) -> tuple[Any, list[Any], list[str]]:
    """The step, its results, and the choices of its products' kernels."""
    step = sg.compile(call)
    found = step(*tensors)
    program, _ = commands_of(step, "webgpu")
    choices = [k.choice for k in program.plan.kernels if k.archetype == "dot"]
    return step, list(found) if isinstance(found, tuple) else [found], choices


def check(name: str, arrays: Arrays, call: Callable[..., Any]) -> bool:
    """Sums in float32 and, of the same, results in float16."""
    tensors = [sg.tensor(a, device="webgpu") for a in arrays]
    exact = call(*arrays)
    exact = list(exact) if isinstance(exact, tuple) else [exact]
    size = call(*(np.abs(a) for a in arrays))
    size = list(size) if isinstance(size, tuple) else [size]
    fine = True
    for half in (False, True) if max(a.size for a in arrays) < 300_000 else (False,):

        def rounded(*given: Any, half: bool = half) -> Any:
            found = call(*given)
            found = found if isinstance(found, tuple) else (found,)
            return tuple(y.half() for y in found) if half else found

        try:
            _, found, choices = compiled(rounded, tensors)
            on = sum("units" in c for c in choices)
            worst = 0.0
            for y, x, s in zip(found, exact, size, strict=True):
                error = np.abs(y.float().numpy().astype(np.float64) - x)
                bound = SUM * (np.abs(s) + np.abs(x) + 1) + (HALF * 1.01 * np.abs(x) + 2.0**-24 if half else 0)
                worst = max(worst, float(np.nan_to_num(error / bound, nan=np.inf).max()))
            told = "OK" if worst <= 1 else "WRONG"
            told += "" if on == len(choices) and on else f" ({on} of {len(choices)} on units)"
            print(
                f"{told:6} {name}, {'float16' if half else 'float32'}: {worst:.3f} of the bound; {' + '.join(dict.fromkeys(choices))}",
                flush=True,
            )
            fine &= worst <= 1
        except Exception as error:  # one kernel that fails shall not hide what others give
            print(f"FAILED {name}: {type(error).__name__} {str(error)[:1500]}", flush=True)
            fine = False
    return fine


def rate(
    m: int, n: int, k: int, bt: bool = False, at: bool = False, dtype: Any = np.float16
) -> tuple[float, float, str]:
    """TFLOP/s, the largest error of 32 rows, in parts of the largest result, and the choice."""
    a = np.resize(POOL, (k, m) if at else (m, k)).astype(dtype)
    b = (np.resize(POOL[::-1], (n, k) if bt else (k, n)) / np.sqrt(np.float32(k))).astype(dtype)
    tensors = [sg.tensor(x, device="webgpu") for x in (a, b)]
    step, (y,), choices = compiled(lambda a, b: (a.T if at else a) @ (b.T if bt else b), tensors)
    rows = (*range(8), *range(m - 8, m))
    first = (a.T if at else a)[rows, :].astype(np.float64) @ (b.T if bt else b).astype(np.float64)
    error = np.abs(y.numpy()[rows, :].astype(np.float64) - first).max() / np.abs(first).max()
    step(*tensors)
    _, commands = commands_of(step, "webgpu")
    seconds("webgpu", commands, 0.1)  # until the clock is up
    return 2 * m * n * k / seconds("webgpu", commands, 0.03) / 1e12, float(error), " + ".join(choices)


SHAPES = (
    (4096, 4096, 4096, False, False),
    (1024, 1024, 1024, False, False),
    (2048, 2048, 2048, False, False),
    (4096, 4096, 4096, True, False),
    (4096, 4096, 4096, False, True),
    (8192, 8192, 8192, False, False),
    *((t, n, k, True, False) for t in (2048, 8192) for n, k in ((2304, 768), (768, 768), (3072, 768), (768, 3072))),
    (8192, 768, 3072, False, False),
    (768, 3072, 8192, False, True),
    (2048, 50257, 768, True, False),
)


@contextmanager
def only(tile: matrix_units.Candidate) -> Iterator[None]:
    """Meanwhile products have this tile."""
    execute.programs.clear()
    with mock.patch.object(matrix_units, "TILES", (tile,)):
        yield
    execute.programs.clear()


def main(
    limit: Annotated[float, typer.Option(help="seconds after which nothing new begins")] = 80.0, results: Folder = None
) -> None:
    """Values first, then TFLOP/s of common shapes, then of each tile for two sizes."""
    start = time.perf_counter()
    target = get_device("webgpu").target
    print(f"float16 {target.f16}, subgroups of {target.subgroups}, {target.matrices}", flush=True)
    right = all([check(*case) for case in CASES])  # noqa: C419 - all of them, also after a wrong one
    print(f"{'all right' if right else 'WRONG VALUES'} after {time.perf_counter() - start:.1f} s", flush=True)
    found = []
    for shape in SHAPES:
        if time.perf_counter() - start > limit:
            break
        speed, error, choice = rate(*shape)
        name = f"{'x'.join(map(str, shape[:3]))}{' aT' * shape[4]}{' bT' * shape[3]} float16"
        print(f"{speed:7.1f} TFLOP/s, error {error:.1e}: {name} {choice}", flush=True)
        found.append(Measured(f"dot {name}", "rate", speed, "TFLOP/s"))
    for n in (4096, 2048):
        for tile in matrix_units.TILES:
            if time.perf_counter() - start > limit:
                break
            with only(tile):
                speed, error, _ = rate(n, n, n)
            print(f"{speed:7.1f} TFLOP/s, error {error:.1e}: {n}x{n}x{n} {tile}", flush=True)
    keep(results, "units", "webgpu", found)


if __name__ == "__main__":
    typer.run(main)
