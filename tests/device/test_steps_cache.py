"""Steps of large plans on disk: another process computes natively from its first run on, with the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_same_bits
from shadergrad.compile.native import steps_cache
from shadergrad.compile.native.program import steps_of
from shadergrad.compile.native.registers import LARGE, SMALL
from shadergrad.drive.execute import programs
from shadergrad.runtime import cpu, llvm

pytestmark = pytest.mark.skipif(
    llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (cpu, steps_cache, llvm):
        monkeypatch.setattr(module, "config", replace(module.config, cpu="native", cache=str(tmp_path)))
    monkeypatch.setattr(steps_cache.verify, "enabled", False)
    monkeypatch.setattr(steps_cache, "FEWEST_DISPATCHES", 1)
    monkeypatch.setattr(cpu, "_compiled_in", lambda plan: 2)
    programs.clear()
    return tmp_path / "steps"


def training() -> tuple[Callable[[], Any], Any]:
    """A compiled step with products, convolutions, views and positions, and its parameters."""
    sg.manual_seed(0)
    model = sg.nn.Sequential(
        *(sg.nn.Conv2d(2, 4, 3), sg.nn.BatchNorm2d(4), sg.nn.ReLU(), sg.nn.MaxPool2d(2), sg.nn.Flatten()),
        *(sg.nn.Linear(36, 16), sg.nn.GELU(), sg.nn.Dropout(0.3), sg.nn.Linear(16, 5)),
    )
    optimizer = sg.optim.Adam(model.parameters())
    rng = np.random.default_rng(0)
    x, y = sg.tensor(rng.normal(size=(6, 2, 8, 8)), dtype=sg.float32), sg.tensor(rng.integers(0, 5, 6))

    def step() -> Any:
        optimizer.zero_grad()
        loss = sg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return sg.compile(step), model


def results(steps: int = 4) -> list[np.ndarray]:
    """As a new process would compute them."""
    programs.clear()
    step, model = training()
    losses = [step().numpy() for _ in range(steps)]
    return [*losses, *(p.detach().numpy() for p in model.parameters())]


def test_a_process_after_the_first_computes_natively_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = results()
    assert len(list(folder.iterdir())) >= 1

    interpreted: list[int] = []
    run = cpu.CpuProgram.run

    def noted(self: Any, *arguments: Any) -> Any:
        interpreted.append(len(self.plan.dispatches))
        return run(self, *arguments)

    monkeypatch.setattr(cpu.CpuProgram, "run", noted)
    for again, before in zip(results(), first, strict=True):
        assert_same_bits(again, before)
    assert max(interpreted, default=0) < 100, "the step is not interpreted"
    programs.clear()
    for path in folder.iterdir():
        path.unlink()
    results()
    assert max(interpreted) > 100


def test_steps_are_the_same_after_a_way_through_the_disk(folder: Path) -> None:
    step, _ = training()
    step()
    plan = step.plan  # type: ignore[attr-defined]
    steps = steps_of(plan, LARGE)
    assert steps is not None
    path = steps_cache.path_of(plan, LARGE)
    assert path is not None
    steps_cache.write(path, steps)
    found = steps_cache.read(path)
    assert found is not None
    assert found.rows == steps.rows
    assert json.dumps(steps_cache._data(found)) == json.dumps(steps_cache._data(steps))
    assert [s.hosted is None for s in found.steps] == [s.hosted is None for s in steps.steps]


def test_files_are_named_by_all_that_steps_depend_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def path(function: Callable[[Any], Any], shape: tuple[int, ...] = (8, 8), tile: Any = LARGE) -> Path | None:
        step = sg.compile(function)
        step(sg.zeros(*shape))
        return steps_cache.path_of(step.plan, tile)

    paths = [
        path(lambda x: (x + 1).sum()),
        path(lambda x: (x + 1).sum(), (8, 9)),
        path(lambda x: (x + 1).sum(), tile=SMALL),
        path(lambda x: (x + 2).sum()),
        path(lambda x: (x + 1).sum(0)),
        path(lambda x: (x * 0.0).sum()),
        path(lambda x: (x * -0.0).sum()),
    ]
    assert None not in paths
    assert len({*paths}) == len(paths)
    assert path(lambda x: (x + 1).sum()) == paths[0]
    monkeypatch.setattr(steps_cache, "source_digest", lambda: "another version")
    assert path(lambda x: (x + 1).sum()) != paths[0]
    monkeypatch.setattr(steps_cache, "config", replace(steps_cache.config, cache="off"))
    assert path(lambda x: (x + 1).sum()) is None


def test_only_primitives_that_another_process_knows_are_cached(folder: Path) -> None:
    step = sg.compile(lambda x: x * 2)
    step(sg.zeros(4))
    kernel = step.plan.kernels[0]
    assert steps_cache._is_of_library(kernel)
    assert not steps_cache._is_of_library(replace(kernel, primitive="Unknown"))
    assert not steps_cache._is_of_library(replace(kernel, parameters='{"f": {"object": "mine"}}'))


def test_nothing_is_cached_in_checked_mode(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_cache.verify, "enabled", True)
    results()
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["cut", "another text", "no steps"])
def test_damaged_files_are_compiled_again(folder: Path, damage: str) -> None:
    first = results()
    for path in folder.iterdir():
        content = path.read_bytes()
        if damage == "no steps":
            path.unlink()
            steps_cache.files.write(path, b"no steps")
        else:
            path.write_bytes(content[:-9] if damage == "cut" else b"x" * len(content))
    for again, before in zip(results(), first, strict=True):
        assert_same_bits(again, before)


def test_files_that_others_may_write_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results()
    monkeypatch.setattr(steps_cache.files, "warned", [])
    folder.chmod(0o777)
    with pytest.warns(steps_cache.StepsCacheWarning, match="may be written by others"):
        results()


PROGRAM = """
import sys
import shadergrad as sg
from shadergrad.runtime import cpu, llvm
run = cpu.NativeProgram.run
cpu.NativeProgram.run = lambda self, *given: (llvm.code(), run(self, *given))[1]  # the first in the midst of the capture
before = {*sys.modules}
w = sg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, device="cpu")
optimizer = sg.optim.Adam([w])

@sg.compile
def step():
    optimizer.zero_grad()
    (w @ w).square().mean().backward()
    optimizer.step()  # makes its state

step(), step(), step()
assert "llvmlite.binding" in {*sys.modules} - before
lib = sys.modules["llvmlite.binding.ffi"].lib
assert lib.LLVMPY_ParseAssembly.argtypes is not None
"""


def test_what_a_device_imports_during_a_capture_stays() -> None:
    native = {**os.environ, "SHADERGRAD_CPU": "native"}  # also where the rest runs by the reference
    done = subprocess.run([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True, check=False, env=native)
    assert done.returncode == 0, done.stderr
