"""sg.profile: every kernel that ran is in it once a dispatch, and nothing else changes."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import shadergrad as sg
from shadergrad import nn
from shadergrad.cli.app import app
from shadergrad.drive.execute import programs
from shadergrad.runtime import cpu, native
from shadergrad.runtime.device import get_device


def training(device: str) -> tuple[Any, Any]:
    """A compiled step, called once, and what it takes."""
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

    @sg.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = sg.ones(4, 8, device=device)
    step(x)
    return step, x


@pytest.fixture
def by_operations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The cpu device runs the plan's own operations; test_native_cpu.py has the profile of native kernels."""
    monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu="reference"))
    programs.clear()
    yield
    programs.clear()


@pytest.mark.usefixtures("by_operations")
def test_every_dispatch_of_a_step_is_timed(device: str) -> None:
    step, x = training(device)
    with sg.profile(limits=False) as measured:
        for _ in range(3):
            step(x)
    kernels = measured.kernels()
    assert sum(kernel.calls for kernel in kernels) == 3 * len(step.plan.dispatches)
    assert measured.seconds == pytest.approx(sum(kernel.seconds for kernel in kernels))
    assert measured.seconds > 0
    assert all(kernel.seconds >= 0 and kernel.device == device for kernel in kernels)
    assert [k.seconds for k in kernels] == sorted((k.seconds for k in kernels), reverse=True)


def test_a_step_does_the_same_while_it_is_measured(device: str) -> None:
    results = []
    for measure in (False, True):
        step, x = training(device)
        if measure:
            with sg.profile(limits=False):
                losses = [step(x).item() for _ in range(3)]
        else:
            losses = [step(x).item() for _ in range(3)]
        results.append([*losses, step(x).item()])
    assert results[0] == results[1]


def test_what_was_recorded_before_is_not_measured_and_what_the_block_records_is(device: str) -> None:
    before = sg.ones(5, device=device) * 2
    with sg.profile(limits=False) as measured:
        within = sg.ones(7, device=device).exp()
    after = sg.ones(6, device=device).sin()
    sg.sync()
    names = " ".join(kernel.name for kernel in measured.kernels())
    assert "exp" in names
    assert "sin" not in names
    assert "mul" not in names
    np.testing.assert_allclose(within.numpy(), np.full(7, np.e), rtol=1e-5)
    assert (before.tolist(), after.shape) == ([2.0] * 5, (6,))


def test_gradients_that_nobody_reads_are_computed_within_the_block(device: str) -> None:
    model, x = nn.Linear(4, 3).to(device), sg.ones(5, 4, device=device)
    loss = model(x).sum()
    loss.item()
    turned = sg.ones(5, 4, device=device).t()  # a view of what is pending, from before
    with sg.profile(limits=False) as nothing:
        pass
    assert not nothing.kernels()
    with sg.profile() as profile:
        loss.backward()
    assert profile.kernels()
    assert turned.shape == (4, 5)


def test_profiles_within_profiles_both_hear(device: str) -> None:
    with sg.profile(limits=False) as outer:
        with sg.profile(limits=False) as inner:
            sg.ones(3, device=device).exp().numpy()
        sg.ones(3, device=device).exp().numpy()
    assert sum(k.calls for k in outer.kernels()) == 2 * sum(k.calls for k in inner.kernels()) > 0


def test_a_block_that_raises_is_measured_no_longer(device: str) -> None:
    with pytest.raises(ValueError, match="mine"), sg.profile() as measured:
        raise ValueError("mine")
    sg.ones(3, device=device).exp().numpy()
    assert measured.kernels() == []
    assert measured.table() == "nothing ran"


def test_a_compiled_step_cannot_hold_a_profile() -> None:
    def function(x: Any) -> Any:
        with sg.profile():
            return x + 1

    with pytest.raises(sg.CompileError, match="put the step's call inside it"):
        sg.compile(function)(sg.ones(2))


def test_shares_are_of_limits_that_were_measured(device: str) -> None:
    with sg.profile() as measured:
        (sg.ones(64, 64, device=device) @ sg.ones(64, 64, device=device)).numpy()
    limits = sg.devices.measure_limits(device)
    assert limits.bytes_per_second > 1e6
    assert limits.flops_per_second > 1e6
    assert str(limits) in measured.table()
    if device == "webgpu":
        products = [k for k in measured.kernels() if k.archetype == "dot"]
        assert products
        assert all(k.share is not None and k.share > 0 for k in products)


@pytest.mark.usefixtures("by_operations")
def test_a_trace_holds_every_kernel_in_order(device: str, tmp_path: Path) -> None:
    step, x = training(device)
    with sg.profile(limits=False) as measured:
        step(x)
    events = json.loads(measured.export_chrome_trace(tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in events if e["ph"] == "X"]
    plan = step.plan
    assert [e["name"] for e in kernels] == [plan.kernels[d.kernel].name for d in plan.dispatches]
    assert [e["ts"] for e in kernels] == sorted(e["ts"] for e in kernels)
    assert min(e["ts"] for e in kernels) == 0
    told = [(e["args"]["module"], e["args"]["line"], e["args"]["phase"]) for e in kernels]
    assert told == [tuple(note.origin) for note in plan.notes]
    assert ("0", "backward") in {(module, phase) for module, _, phase in told}


@pytest.mark.parametrize("compiled", [True, False])
def test_times_are_summed_by_module_forward_and_backward_apart(device: str, compiled: bool) -> None:
    step, x = training(device)
    call = step if compiled else step.__wrapped__
    call(x)
    with sg.profile(limits=False) as measured:
        call(x)
    times = {time.name: time for time in measured.by_module()}
    assert {"0", "2"} <= times.keys()
    assert times["2"].forward > 0
    assert times["2"].backward > 0
    if not (compiled and device == "webgpu"):  # there it is part of the gradients' kernels
        assert times["SGD"].update > 0
        assert times["SGD"].forward == times["SGD"].backward == 0
        assert ">SGD</td>" in measured.by_module()._repr_html_()
    assert sum(time.seconds for time in times.values()) == pytest.approx(measured.seconds)
    assert sum(time.calls for time in times.values()) == sum(kernel.calls for kernel in measured.kernels())
    assert "  ← " in measured.table()
    assert str(measured.by_module()).count("\n") == len(times) + 2


def test_a_compiled_modules_passes_name_its_modules(device: str) -> None:
    model = sg.compile(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)).to(device))
    with sg.profile(limits=False) as measured:
        model(sg.ones(4, 8, device=device)).sum().backward()
    times = {time.name: time for time in measured.by_module()}
    assert all(times[name].forward > 0 and times[name].backward > 0 for name in ("0", "2"))


def test_a_backward_pass_in_a_later_block_names_the_modules_of_the_forward_pass(device: str) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 3)).to(device)
    with sg.profile(limits=False):
        loss = model(sg.ones(4, 8, device=device)).sum()
    with sg.profile(limits=False) as measured:
        loss.backward()
        gradients = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    assert len(gradients) == 4
    assert {"0", "1"} <= {time.name for time in measured.by_module() if time.backward > 0}


def test_long_plans_are_timed_in_parts(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MOST_QUERIES", 4)
    test_every_dispatch_of_a_step_is_timed(webgpu)


def test_without_timestamps_the_hosts_clock_serves(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_device(webgpu).native, "has_timestamps", False)  # type: ignore[attr-defined]
    step, x = training(webgpu)
    with sg.profile(limits=False) as measured:
        step(x)
    assert measured.clock == "host"
    assert sum(kernel.calls for kernel in measured.kernels()) == len(step.plan.dispatches)


def test_an_order_that_there_is_not_is_refused() -> None:
    with sg.profile(limits=False) as measured:
        pass
    with pytest.raises(sg.ShadergradError, match="one of seconds, calls, mean, name"):
        measured.kernels("time")


# -- memory


def test_memory_is_counted_by_device(webgpu: str) -> None:
    sg.sync()
    before = sg.devices.memory_stats(webgpu)
    x = sg.tensor(np.ones(1 << 18, np.float32), device=webgpu)
    assert sg.devices.memory_stats(webgpu).in_use == before.in_use + (1 << 20)
    assert sg.devices.memory_stats(webgpu).peak >= before.in_use + (1 << 20)
    assert x.shape == (1 << 18,)
    del x
    assert sg.devices.memory_stats(webgpu).in_use == before.in_use
    sg.devices.reset_peak_memory_stats(webgpu)
    assert sg.devices.memory_stats(webgpu).peak == before.in_use
    sg.devices.empty_cache(webgpu)
    assert sg.devices.memory_stats(webgpu).pooled == 0


def test_memory_that_runs_out_is_told_with_the_tensors_that_hold_it(
    webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = nn.Linear(1, 1)
    proxy = weakref.proxy(gone)  # whoever looks for tensors among all objects meets such
    del gone
    x = sg.tensor(np.ones((512, 513), np.float32), device=webgpu)
    memory: Any = get_device(webgpu).memory  # type: ignore[attr-defined]
    sg.devices.empty_cache(webgpu)
    monkeypatch.setattr(memory, "limit", sg.devices.memory_stats(webgpu).in_use + (1 << 20))
    with pytest.raises(
        sg.OutOfMemoryError, match=r"float32 \(512, 513\), 1.0 MiB, made at test_profiling.py:\d+"
    ) as error:
        sg.tensor(np.ones(1 << 20, np.float32), device=webgpu)
    assert "sg.checkpoint" in str(error.value)
    del proxy
    assert x.sum().item() == 512 * 513


def test_the_commands_table_of_limits() -> None:
    done = CliRunner().invoke(app, ["bench", "limits", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert "GFLOP/s" in done.output
    assert "cpu" in done.output
