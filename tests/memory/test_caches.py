"""Ever new shapes leave nothing behind: what is kept of each (plans, programs, pipelines) is bounded by memory.

How the device bounds pipelines and bind groups is in test_webgpu_runtime.py; here a user's loop is what is watched.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.drive import execute
from shadergrad.drive.execute import Programs, structure_bytes
from shadergrad.run import step

ROOM = 60_000  # bytes, for the plans of four to ten small programs
MANY_SHAPES = """
from pathlib import Path
import numpy as np
import shadergrad as sg
from shadergrad.drive.execute import programs
from shadergrad.runtime.device import get_device

def resident_mebibytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

def product(n):
    x = np.arange(n * 16, dtype=np.float32).reshape(n, 16) % 7
    return (sg.tensor(x, device="webgpu") @ sg.tensor(x.T.copy(), device="webgpu")).numpy(), x @ x.T

for n in range(10, 58):
    ours, expected = product(n)
    np.testing.assert_array_equal(ours, expected)
    if n == 33:
        warm = resident_mebibytes(), programs.compiled
print(programs.compiled - warm[1], get_device("webgpu").statistics().pipeline_bytes, resident_mebibytes() - warm[0])
ours, expected = product(10)  # whose kernel was dropped long ago
np.testing.assert_array_equal(ours, expected)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_loop_over_new_shapes_keeps_memory_flat_and_comes_back_right(webgpu: str) -> None:
    """24 shapes after a warm-up, in which kernels for many shapes are compiled. Without a bound llvmpipe takes 1.1 MiB for each of their kernels."""
    environment = {**os.environ, "SHADERGRAD_PIPELINE_MEMORY": "4M", "MESA_SHADER_CACHE_DISABLE": "true"}
    done = subprocess.run(
        [sys.executable, "-c", MANY_SHAPES], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    compiled, pipeline_bytes, growth = map(float, done.stdout.split())
    assert compiled == 24
    assert pipeline_bytes <= 4 << 20
    assert growth < 8


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """The cache of programs, with room for a few, and as much for the captures of a compiled step."""
    few = Programs(most_bytes=ROOM)
    monkeypatch.setattr(execute, "programs", few)
    monkeypatch.setattr(step, "CAPTURE_BYTES", ROOM)
    return few


def test_programs_keep_to_their_memory(device: str, small_caches: Programs) -> None:
    for _ in range(2):
        for n in range(1, 40):
            assert (sg.ones(n, device=device) * 2 + n).numpy().tolist() == [2 + n] * n
            assert small_caches.nbytes <= ROOM
    assert 1 < len(small_caches) < 20
    assert small_caches.nbytes == sum(structure_bytes(structure) for structure in small_caches._cache.values())


def test_a_program_larger_than_the_memory_is_kept_alone(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    none = Programs(most_bytes=0)
    monkeypatch.setattr(execute, "programs", none)
    x = sg.ones(3, device=device)
    for _ in range(2):
        assert (x + 1).numpy().tolist() == [2, 2, 2]
    assert (len(none), none.compiled) == (1, 1)


def test_the_program_used_longest_ago_goes_first(device: str, small_caches: Programs) -> None:
    often = sg.ones(50, device=device)
    (often * 2 + 50).numpy()
    for n in range(1, 30):
        (sg.ones(n, device=device) * 2 + n).numpy()
        before = small_caches.compiled
        (often * 2 + 50).numpy()
        assert small_caches.compiled == before


@pytest.mark.filterwarnings("ignore:.*is captured for the 8th time")
def test_a_compiled_step_forgets_the_shapes_it_met_longest_ago(device: str, small_caches: Programs) -> None:
    state = sg.zeros(1, device=device)

    def add(x: sg.Tensor) -> sg.Tensor:
        state.add_(x.sum())
        return state * 1

    compiled = sg.compile(add)
    often = sg.ones(40, device=device)
    total = 0
    for n in [*range(1, 30), *range(1, 30)]:
        for x in (sg.ones(n, device=device), often):
            total += x.numel()
            assert compiled(x).tolist() == [total]
    assert compiled.captures == 2 * 29 + 1, "the shape that came every time was captured once"


@pytest.mark.filterwarnings("ignore:.*is captured for the 8th time")
def test_a_compiled_step_forgets_captures_of_one_shape_too(device: str, small_caches: Programs) -> None:
    """A Python attribute that the step looks at captures anew whenever it changes."""
    parameter = sg.ones(3, device=device, requires_grad=True)
    optimizer = sg.optim.SGD([parameter], lr=0.5)

    def update(scale: int) -> sg.Tensor:
        optimizer.zero_grad()
        loss = (parameter * scale).sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = sg.compile(update)
    for scale in range(1, 20):
        before = parameter.detach().numpy()
        compiled(scale)
        np.testing.assert_allclose(parameter.detach().numpy(), before - 0.5 * scale)
    assert compiled.captures == 19
    assert sum(len(entries) for entries in compiled._entries.values()) < 15
