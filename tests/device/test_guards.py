"""Kernels write their results and nothing behind them: guard words after every output stay as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_close, listed
from shadergrad.dtypes import uint32
from shadergrad.plan import VECTOR, BufferSpec, Plan, round_up
from shadergrad.runtime.device import get_device

GUARDS = 1024  # words: more than the threads that a missing guard sets free in the last workgroup of a small kernel
WORD = 0x5EA15EA1
Program = Callable[..., Any]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def update(*tensors: sg.Tensor) -> list[sg.Tensor]:
    """Each is changed in place; all of them fit one dispatch."""
    for t in tensors:
        t.mul_(0.5).add_(1)
    return [t * 1 for t in tensors]


# name: (function of tensors, shapes)
PROGRAMS: dict[str, tuple[Program, Sequence[tuple[int, ...]]]] = {
    "a map of an odd size": (lambda x: x * 2 + 1, [(1001,)]),
    "a map of whole vec4s": (lambda x: x * 2 + 1, [(1000,)]),
    "a map with large workgroups": (lambda x: x * 2 + 1, [(300_001,)]),
    "a map of vec4s with large workgroups": (lambda x: x * 2 + 1, [(300_004,)]),
    "several outputs of one map": (lambda x, y: (x + y, x * y), [(77,), (77,)]),
    "maps that share a dispatch": (lambda x, y, z: (x + 1, y * 2, z - 3), [(5,), (130,), (1004,)]),
    "a comparison": (lambda x: x > 0, [(13, 7)]),
    "a transposed matrix": (lambda x: x.t() * 1, [(33, 9)]),
    "short rows": (lambda x: x.sum(1), [(65, 5)]),
    "rows of several threads": (lambda x: x.sum(1), [(67, 40)]),
    "long rows": (lambda x: x.sum(1), [(3, 5000)]),
    "columns": (lambda x: x.sum(0), [(40, 33)]),
    "long columns of several matrices": (lambda x: (x.sum(1), x.amin(1)), [(3, 600, 33)]),
    "everything": (lambda x: x.sum(), [(100_003,)]),
    "vectors of rows": (lambda x: x.softmax(1), [(65, 37)]),
    "vectors of short rows": (lambda x: x.softmax(1), [(67, 3)]),
    "a product": (lambda x, y: x @ y, [(33, 17), (17, 29)]),
    "a product with an epilogue": (lambda x, y, z: (x @ y + z).relu(), [(65, 32), (32, 68), (68,)]),
    "products": (lambda x, y: x @ y, [(3, 5, 7), (3, 7, 9)]),
    "a convolution": (lambda x, y: sg.nn.functional.conv2d(x, y, padding=1), [(2, 3, 9, 7), (5, 3, 3, 3)]),
    "a sorted vector": (lambda x: x.sort().values, [(3001,)]),
    "a running sum": (lambda x: x.cumsum(0), [(1001,)]),
}


def with_guards(plan: Plan) -> Plan:
    """The plan with room behind what it writes, which its kernels may reach and must not touch."""
    written = {*plan.outputs, *(plan.buffers[row].aliases for row in plan.outputs)} - {None}

    def widened(spec: BufferSpec) -> BufferSpec:
        wide = replace(spec, shape=(spec.size + GUARDS,), bound=0)
        return replace(wide, bound=round_up(wide.bound, VECTOR))

    return replace(plan, buffers=tuple(widened(b) if k in written else b for k, b in enumerate(plan.buffers)))


def run_guarded(step: sg.CompiledStep, arguments: Sequence[sg.Tensor], device: str) -> list[np.ndarray]:
    """The plan's outputs, in a run of which each output lay before guard words; fails if one was overwritten."""
    plan, d = step.plan, get_device(device)
    guarded = with_guards(plan)

    def put(array: np.ndarray, row: int) -> Any:
        words = np.ascontiguousarray(array, np.uint32 if array.dtype == np.bool_ else array.dtype).reshape(-1)
        missing = guarded.buffers[row].size - plan.buffers[row].size
        return d.upload(np.concatenate([words.view(np.uint32), np.full(missing, WORD, np.uint32)]), uint32)

    inputs = [put(array, row) for array, row in zip(step.inputs(*arguments), plan.inputs, strict=True)]
    empty = [np.zeros(plan.buffers[row].shape, np.uint32) for row in plan.outputs]
    fresh = [plan.buffers[row].aliases is None for row in plan.outputs]
    into = [put(e, row) if f else None for e, row, f in zip(empty, plan.outputs, fresh, strict=True)]
    found = []
    for storage, row in zip(d.load(guarded).run(inputs, into), plan.outputs, strict=True):
        spec = plan.buffers[row]
        words = d.download(storage, (spec.size + GUARDS,), uint32)
        touched = np.flatnonzero(words[spec.size :] != WORD)
        assert not touched.size, f"{spec.name}: {touched.size} words behind it were written, the first at +{touched[0]}"
        values = words[: spec.size].reshape(spec.shape)
        found.append(values.astype(np.bool_) if spec.dtype is sg.bool else values.view(spec.dtype.numpy))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_writes_nothing_behind_its_results(name: str, webgpu: str) -> None:
    function, shapes = PROGRAMS[name]
    arrays = [numbers(*shape, seed=k) for k, shape in enumerate(shapes)]
    arguments = [sg.tensor(a, device=webgpu) for a in arrays]
    step = sg.compile(function)
    expected = [t.numpy() for t in listed(function(*map(sg.tensor, arrays)))]
    step(*arguments)
    for value, wanted in zip(run_guarded(step, arguments, webgpu), expected, strict=True):
        assert_close(value, wanted, 1e-4, 1e-4 if wanted.size < 1000 else 1e-3)


@pytest.mark.parametrize("sizes", [(1001,), (1000,), (5, 130, 1004), (300_001,)], ids=str)
def test_an_update_in_place_writes_nothing_behind_it(sizes: tuple[int, ...], webgpu: str) -> None:
    arrays = [numbers(n, seed=k) for k, n in enumerate(sizes)]
    tensors = [sg.tensor(a, device=webgpu) for a in arrays]

    @sg.compile
    def step() -> None:
        for t in tensors:
            t.mul_(0.5).add_(1)

    step()
    assert all(step.plan.buffers[row].aliases is not None for row in step.plan.outputs)
    for value, a in zip(run_guarded(step, (), webgpu), arrays, strict=True):
        assert_close(value, (a * 0.5 + 1) * 0.5 + 1, 1e-6, 1e-6)


@pytest.mark.parametrize("rows", [1, 3, 65, 127, 129, 1001])
@pytest.mark.parametrize("columns", [3, 5, 40, 300])
def test_rows_that_are_no_multiple_of_a_workgroups_are_updated_once(rows: int, columns: int, webgpu: str) -> None:
    """The threads beyond the last row take the last row's place; they must not add to it again."""
    x = numbers(rows, columns)
    totals = sg.zeros(rows, device=webgpu)
    matrix = sg.tensor(x, device=webgpu)

    @sg.compile
    def step() -> None:
        totals.copy_(totals + matrix.sum(1))

    for _ in range(3):
        step()
    assert step.plan.buffers[step.plan.outputs[0]].aliases is not None
    assert [k.archetype for k in step.plan.kernels] == ["row"]
    assert_close(totals, 3 * x.sum(1, dtype=np.float64).astype(np.float32), 1e-4, 1e-4)
