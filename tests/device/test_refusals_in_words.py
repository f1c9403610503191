"""What a compiled step refuses names the user's line, and no line of the library stands between; what it prints; what is measured."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad import plan
from shadergrad.plan import compact


def test_a_refused_condition_names_the_users_line_alone() -> None:
    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        loss = (x * x).sum()
        if loss > 1:
            return x
        return loss

    with pytest.raises(sg.CompileError) as refused:
        step(sg.ones(3))
    lines = traceback.extract_tb(refused.value.__traceback__)
    assert lines[-1].line == "if loss > 1:"
    assert [Path(line.filename).name for line in lines] == [Path(__file__).name, "step.py", Path(__file__).name]
    assert f"({Path(__file__).name}:{lines[-1].lineno})" in str(refused.value)


def test_a_tensor_that_is_printed_in_a_step_shows_what_computes_it(capsys: pytest.CaptureFixture[str]) -> None:
    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        y = x + 1
        print("y is", y)
        return y

    step(sg.ones(2))
    step(sg.ones(2))
    assert capsys.readouterr().out == "y is tensor(<captured add[2]:float32>)\n"  # when it was captured


FLOATS_INTO_INTEGERS: dict[str, Any] = {
    "a number": lambda lib, x: x.__setitem__(0, 1.5),
    "a number at positions": lambda lib, x: x.__setitem__(lib.tensor([0]), 1.5),
    "a number where a mask holds": lambda lib, x: x.__setitem__(x == 3, 1.5),
    "a tensor": lambda lib, x: x.__setitem__(0, lib.tensor(1.5)),
    "a tensor for a slice": lambda lib, x: x.__setitem__(slice(0, 2), lib.tensor([1.5, 2.5])),
    "a tensor at positions": lambda lib, x: x.__setitem__(lib.tensor([0]), lib.tensor([1.5])),
    "a tensor without axes at positions": lambda lib, x: x.__setitem__(lib.tensor([0]), lib.tensor(1.5)),
    "a list": lambda lib, x: x.__setitem__(slice(0, 2), [1.5, 2.5]),
    "fill_": lambda lib, x: x.fill_(1.5),
    "copy_": lambda lib, x: x.copy_(lib.tensor([1.5, 2.5, -3.5])),
    "masked_fill_": lambda lib, x: x.masked_fill_(x == 3, 1.5),
    "index_put_": lambda lib, x: x.index_put_((lib.tensor([0]),), lib.tensor([1.5])),
    "index_fill_": lambda lib, x: x.index_fill_(0, lib.tensor([0]), 1.5),
    "scatter_": lambda lib, x: x.scatter_(0, lib.tensor([0]), lib.tensor([1.5])),
    "index_copy_": lambda lib, x: x.index_copy_(0, lib.tensor([0]), lib.tensor([1.5])),
    "put_": lambda lib, x: x.put_(lib.tensor([0]), lib.tensor([1.5])),
    "add_": lambda lib, x: x.add_(1.5),
    "mul_": lambda lib, x: x.mul_(1.5),
    "clamp_": lambda lib, x: x.clamp_(min=3.5),
}


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", FLOATS_INTO_INTEGERS)
def test_floats_go_into_integers_where_pytorch_lets_them(name: str, dtype: str) -> None:
    found = []
    for lib in (torch, sg):
        x: Any = lib.tensor([3, 4, 5]).to(getattr(lib, dtype))
        try:
            FLOATS_INTO_INTEGERS[name](lib, x)
            found.append(x.tolist())
        except (RuntimeError, TypeError, ValueError):
            found.append("refused")
    assert found[0] == found[1]


def test_the_number_of_threads_is_that_of_the_matrix_products() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    before = sg.get_num_threads()
    try:
        sg.set_num_threads(1)
        assert sg.get_num_threads() == 1
        np.testing.assert_array_equal(sg.ones(3, 3) @ sg.ones(3, 3), np.full((3, 3), 3.0))
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"} == {1}
    finally:
        sg.set_num_threads(before)


def test_without_threadpoolctl_a_warning_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "threadpoolctl", None)
    with pytest.warns(UserWarning, match="OMP_NUM_THREADS"):
        sg.set_num_threads(2)


@pytest.mark.webgpu
def test_the_profilers_measurement_is_no_part_of_the_peak(webgpu: str) -> None:
    from shadergrad.runtime import limits

    x = sg.ones(1000, device=webgpu)
    limits.measure_limits.cache_clear()
    sg.devices.reset_peak_memory_stats(webgpu)
    with sg.profile() as profile:
        (x + 1).tolist()
    assert "limits of" in str(profile)
    assert sg.devices.memory_stats(webgpu).peak < sg.devices.memory_stats(webgpu).in_use + (1 << 20)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ("8 x 16 x 4 (direct 32x32x1)", "8x16x4, direct 32x32x1"),
        ("128 x 5 x 30 (tile 32x64x32) + 8 x 3", "128x5x30, tile 32x64x32 + 8x3"),
        ("128 rows of 30", "128 rows of 30"),
    ],
)
def test_a_table_cuts_no_shape(shape: str, wanted: str) -> None:
    assert compact(shape) == wanted


def test_the_cpu_devices_tables_show_shapes_and_what_reads_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "config", replace(plan.config, cpu="reference"))  # native kernels: test_native_cpu.py
    step = sg.compile(lambda x: (x.exp() * 2).sum())
    step(sg.ones(3, 4))
    why = step.explain(why=True)
    assert why.splitlines()[0].split() == ["#", "operation", "from", "result", "reads"]
    assert any(line.split()[1] == "reducesum" and "#" in line for line in why.splitlines()[2:-1])
    with sg.profile() as profile:
        step(sg.ones(3, 4))
    assert "3x4" in str(profile)
