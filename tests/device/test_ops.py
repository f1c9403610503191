"""Every operation of the table (cases.py): values, gradients and second derivatives against PyTorch and finite
differences in float64 on the cpu device, then the webgpu device against the cpu device in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from cases import CASES, Case
from helpers import (
    assert_close,
    assert_devices_agree,
    assert_equals_torch,
    cotangents_of,
    evaluate,
    is_floating,
    leaves_of,
    listed,
    results_of,
    torch_leaves_of,
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
every_differentiable_case = pytest.mark.parametrize("case", [c for c in CASES if c.differentiable], ids=lambda c: c.id)

# variances of one element are cases
pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom.*")


def ours(case: Case, device: str, dtype: Any, **options: bool) -> dict[str, list[Any]]:
    return results_of(case, sg, leaves_of(case, case.arrays(), device, dtype), **options)


def theirs(case: Case, **options: bool) -> dict[str, list[Any]]:
    return results_of(case, torch, torch_leaves_of(case, case.arrays()), **options)


def assert_all_equal_torch(actual: list[Any], expected: list[Any], what: str) -> None:
    assert len(actual) == len(expected)
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert_equals_torch(a, b, what=f"{what} {k}")


@every_case
def test_cpu_value_equals_pytorch(case: Case) -> None:
    assert_all_equal_torch(ours(case, "cpu", sg.float64)["values"], theirs(case)["values"], case.id)


@every_differentiable_case
def test_cpu_gradient_equals_pytorch(case: Case) -> None:
    actual, expected = ours(case, "cpu", sg.float64), theirs(case)
    assert_all_equal_torch(actual["gradients"], expected["gradients"], "gradient of input")


@pytest.mark.parametrize("case", [c for c in CASES if c.differentiable and c.second], ids=lambda c: c.id)
def test_cpu_second_derivative_equals_pytorch(case: Case) -> None:
    actual, expected = ours(case, "cpu", sg.float64, second=True), theirs(case, second=True)
    assert_all_equal_torch(actual["second derivatives"], expected["second derivatives"], "by variable")


# At ties and kinks, which have fixed values, there is no one derivative.
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.differentiable and not any(i.values for i in c.inputs)], ids=lambda c: c.id
)
def test_cpu_gradient_equals_finite_differences(case: Case) -> None:
    """<v, vjp(u)> = <u, jvp(v)>, with jvp by central differences along a random direction v."""
    arrays = case.arrays()
    found = ours(case, "cpu", sg.float64)
    us = cotangents_of([o for o in found["values"] if is_floating(o)])
    vs = iter(cotangents_of(found["gradients"], 13))
    directions = [next(vs) if i.kind == "float" else None for i in case.inputs]
    moving = [v for v in directions if v is not None]
    left = sum(float((g.numpy() * v).sum()) for g, v in zip(found["gradients"], moving, strict=True))

    def moved(h: float) -> float:
        shifted = [a if v is None else a + h * v for a, v in zip(arrays, directions, strict=True)]
        results = evaluate(case, case.ours, leaves_of(case, shifted, "cpu", sg.float64))
        smooth = [o.detach().numpy() for o in results if is_floating(o)]
        return sum(float((o * u).sum()) for o, u in zip(smooth, us, strict=True))

    h = 1e-6
    right = (moved(h) - moved(-h)) / (2 * h)
    assert abs(left - right) <= 1e-4 * max(1.0, abs(left)), f"<v, vjp(u)> = {left}, <u, jvp(v)> = {right}"


@every_case
def test_webgpu_value_and_gradient_equal_cpu(case: Case, webgpu: str) -> None:
    """Forward and backward, computed as one graph on each device, from the same float32 inputs."""

    def run(device: str) -> list[np.ndarray]:
        results = ours(case, device, sg.float32)
        sg.sync(device)
        return [r.detach().numpy() for several in results.values() for r in several]

    for k, (actual, reference) in enumerate(zip(run(webgpu), run("cpu"), strict=True)):
        assert_devices_agree(actual, reference, case.length, f"result {k}")


# -- making tensors

MAKERS: dict[str, Any] = {
    "zeros(2, 3)": lambda lib: lib.zeros(2, 3),
    "zeros(())": lambda lib: lib.zeros(()),
    "ones((2, 3))": lambda lib: lib.ones((2, 3)),
    "full((2,), 1.5)": lambda lib: lib.full((2,), 1.5),
    "full((2,), True)": lambda lib: lib.full((2,), True),
    "arange(5)": lambda lib: lib.arange(5),
    "arange(2, 9, 3)": lambda lib: lib.arange(2, 9, 3),
    "arange(9, 2, -3)": lambda lib: lib.arange(9, 2, -3),
    "arange(0)": lambda lib: lib.arange(0),
    "arange(0.5, 3)": lambda lib: lib.arange(0.5, 3),
    "arange(0, 1, 0.25)": lambda lib: lib.arange(0, 1, 0.25),
    "arange(5, dtype=float32)": lambda lib: lib.arange(5, dtype=lib.float32),
    "linspace(0, 1, 7)": lambda lib: lib.linspace(0, 1, 7),
    "eye(3)": lambda lib: lib.eye(3),
    "eye(2, 4)": lambda lib: lib.eye(2, 4),
    "zeros_like of int32": lambda lib: lib.zeros_like(lib.ones(2, 3, dtype=lib.int32)),
    "ones_like with dtype": lambda lib: lib.ones_like(lib.zeros(2, 3), dtype=lib.int32),
    "full_like": lambda lib: lib.full_like(lib.zeros(2), 3.0),
    "tensor of a number": lambda lib: lib.tensor(2.5),
    "tensor of ints": lambda lib: lib.tensor([[1, 2], [3, 4]]),
    "tensor of floats": lambda lib: lib.tensor([1.0, 2.5]),
    "tensor of ints and floats": lambda lib: lib.tensor([1, 2.5]),
    "tensor of bools": lambda lib: lib.tensor([True, False]),
    "tensor of nothing": lambda lib: lib.tensor([]),
    "tensor of a float64 array": lambda lib: lib.tensor(np.ones(2)),
    "tensor with dtype": lambda lib: lib.tensor([1, 0, 2], dtype=lib.bool),
}


@pytest.mark.parametrize("name", MAKERS)
def test_making_tensors_equals_pytorch(name: str) -> None:
    assert_equals_torch(MAKERS[name](sg), MAKERS[name](torch), 1e-7, name)


# -- result types

KINDS = ("bool", "int32", "float32", "float64")


@pytest.mark.parametrize("right", [*KINDS, "True", "2", "2.5"])
@pytest.mark.parametrize("left", KINDS)
def test_result_types_equal_pytorch(left: str, right: str) -> None:
    """Tensors with axes, 0-d tensors and Python numbers, in both orders."""
    numbers: dict[str, Any] = {"True": True, "2": 2, "2.5": 2.5}
    for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):

        def made(lib: Any, kind: str, shape: tuple[int, ...]) -> Any:
            return numbers[kind] if kind in numbers else lib.ones(shape, dtype=getattr(lib, kind))

        for name, op in {
            "+": lambda x, y: x + y,
            "*": lambda x, y: x * y,
            "/": lambda x, y: x / y,
            "<": lambda x, y: x < y,
        }.items():
            a, b = (
                op(made(sg, left, shapes[0]), made(sg, right, shapes[1])),
                op(made(torch, left, shapes[0]), made(torch, right, shapes[1])),
            )
            expected = str(b.dtype).removeprefix("torch.").replace("int64", "int32")  # ints are int32 here
            assert a.dtype.name == expected, f"{left}{shapes[0]} {name} {right}{shapes[1]}"


def test_methods_and_functions_are_the_same_operation() -> None:
    x = sg.tensor([[0.5, -1.0], [2.0, 0.25]])
    for name in ("exp", "tanh", "relu", "sum", "amax", "square", "abs", "argmax"):
        assert_close(getattr(sg, name)(x), getattr(x, name)(), 0, 0, name)
    assert_close(sg.maximum(x, -x), x.abs(), 0, 0)
    assert_close(sg.where(x > 0, x, 0.0), x.relu(), 0, 0)


def test_split_gives_as_many_parts_as_pytorch() -> None:
    for n, size in ((7, 3), (6, 3), (1, 3), (0, 3)):
        ours_, theirs_ = listed(sg.zeros(n).split(size)), listed(torch.zeros(n).split(size))
        assert [tuple(p.shape) for p in ours_] == [tuple(p.shape) for p in theirs_]
