"""Long loops neither leak nor grow: counted buffers, bytes in use, and the resident memory of the process."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.drive.execute import programs
from shadergrad.runtime.device import get_device

GROWTH_ALLOWED = 8 << 20  # bytes of resident memory: the allocator's own noise


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def xor_step(device: str):
    """(step, x, y) of the XOR network."""
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)
    x = sg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], device=device)
    y = sg.tensor([[0.0], [1.0], [1.0], [0.0]], device=device)

    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, x, y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiled", "warm_up", "steps"), [(True, 500, 10_000), (False, 100, 2_000)], ids=["compiled", "uncompiled"]
)
def test_memory_is_flat_over_a_long_loop(device: str, compiled: bool, warm_up: int, steps: int) -> None:
    step, x, y = xor_step(device)
    if compiled:
        step = sg.compile(step)
    loss = step(x, y)
    untrained = loss.item()
    for _ in range(warm_up):
        loss = step(x, y)
    loss.item()
    before = counts(device), resident_bytes(), programs.compiled
    for _ in range(steps):
        loss = step(x, y)
    assert loss.item() < 1e-2 * untrained, "the loop did not train"
    after = counts(device), resident_bytes(), programs.compiled
    assert after[0][1] == before[0][1], "buffers were allocated after the warm-up"
    assert after[0][0] <= before[0][0], "more buffers are alive than after the warm-up"
    assert after[2] == before[2], "something was compiled after the warm-up"
    assert after[1] - before[1] < GROWTH_ALLOWED


def counts(device: str) -> tuple[int, int]:
    """(live buffers, buffers ever allocated) of a GPU device, what other tests left in circles let go."""
    gc.collect()
    sg.sync()
    if device == "cpu":
        return (0, 0)
    statistics = get_device(device).statistics()  # type: ignore[attr-defined]
    return statistics.live_buffers, statistics.buffers_allocated


def test_losses_may_be_collected_without_reading_them(device: str) -> None:
    step, x, y = xor_step(device)
    compiled = sg.compile(step)
    losses = [compiled(x, y) for _ in range(300)]
    values = [loss.item() for loss in losses]
    assert len(set(values)) > 250, "a later step overwrote an earlier loss"
    assert values[-1] < values[0]
