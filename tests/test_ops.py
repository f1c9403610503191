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
    torch_leaves_of,
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
every_differentiable_case = pytest.mark.parametrize("case", [c for c in CASES if c.differentiable], ids=lambda c: c.id)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*degrees of freedom.*"),
    pytest.mark.filterwarnings("ignore:.*numel.*:UserWarning"),
]


def value_of(case: Case, device: str, dtype: Any) -> list[sg.Tensor]:
    return evaluate(case, case.ours, leaves_of(case, case.arrays(), device, dtype))


def gradients(lib: Any, outputs: list[Any], inputs: list[Any], cotangents: list[Any], **options: Any) -> list[Any]:
    """What lib.autograd.grad gives, with zeros for unused inputs."""
    found = lib.autograd.grad(outputs, inputs, cotangents, allow_unused=True, **options)
    return [lib.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def ours(
    case: Case, device: str, dtype: Any, arrays: list[np.ndarray] | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Floating leaves, floating results and their cotangents."""
    leaves = leaves_of(case, case.arrays() if arrays is None else arrays, device, dtype)
    outputs = [o for o in evaluate(case, case.ours, leaves) if is_floating(o)]
    us = [sg.tensor(u, dtype=o.dtype, device=device) for u, o in zip(cotangents_of(outputs), outputs, strict=True)]
    return [x for x in leaves if is_floating(x)], outputs, us


def theirs(case: Case) -> tuple[list[Any], list[Any], list[Any]]:
    leaves = torch_leaves_of(case, case.arrays())
    outputs = [o for o in evaluate(case, case.torch, leaves) if is_floating(o)]
    us = [torch.from_numpy(u).to(o.dtype) for u, o in zip(cotangents_of(outputs), outputs, strict=True)]
    return [x for x in leaves if is_floating(x)], outputs, us


@every_case
def test_cpu_value_equals_pytorch(case: Case) -> None:
    expected = evaluate(case, case.torch, torch_leaves_of(case, case.arrays()))
    actual = value_of(case, "cpu", sg.float64)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert_equals_torch(a, b, what=case.id)


@every_differentiable_case
def test_cpu_gradient_equals_pytorch(case: Case) -> None:
    leaves, outputs, us = ours(case, "cpu", sg.float64)
    torch_leaves, torch_outputs, torch_us = theirs(case)
    actual = gradients(sg, outputs, leaves, us)
    expected = gradients(torch, torch_outputs, torch_leaves, torch_us)
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert_equals_torch(a, b, what=f"gradient of input {k}")


@pytest.mark.parametrize("case", [c for c in CASES if c.differentiable and c.second], ids=lambda c: c.id)
def test_cpu_second_derivative_equals_pytorch(case: Case) -> None:
    """d/d(inputs, cotangents) of <gradients, w>, for random w."""

    def second(lib: Any, leaves: list[Any], outputs: list[Any], us: list[Any]) -> list[Any]:
        us = [u.requires_grad_() for u in us]
        first = gradients(lib, outputs, leaves, us, create_graph=True)
        make = sg.tensor if lib is sg else torch.tensor
        total = sum((g * make(w, dtype=g.dtype)).sum() for g, w in zip(first, cotangents_of(first, 11), strict=True))
        if not total.requires_grad:  # the gradient is constant, as that of floor
            return [lib.zeros_like(x) for x in (*leaves, *us)]
        return gradients(lib, [total], [*leaves, *us], [make(1.0, dtype=total.dtype)])

    actual, expected = second(sg, *ours(case, "cpu", sg.float64)), second(torch, *theirs(case))
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert_equals_torch(a, b, what=f"second derivative by variable {k}")


# At ties and kinks, which have fixed values, there is no one derivative.
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.differentiable and not any(i.values for i in c.inputs)], ids=lambda c: c.id
)
def test_cpu_gradient_equals_finite_differences(case: Case) -> None:
    """<v, vjp(u)> = <u, jvp(v)>, with jvp by central differences along a random direction v."""
    arrays = case.arrays()
    leaves, outputs, us = ours(case, "cpu", sg.float64)
    found = gradients(sg, outputs, leaves, us)
    is_float = [i.kind == "float" for i in case.inputs]
    directions = iter(cotangents_of(leaves, 13))
    vs = [next(directions) if f else None for f in is_float]
    left = sum(float((g.numpy() * v).sum()) for g, v in zip(found, [v for v in vs if v is not None], strict=True))

    def moved(h: float) -> float:
        shifted = [a if v is None else a + h * v for a, v in zip(arrays, vs, strict=True)]
        _, results, _ = ours(case, "cpu", sg.float64, shifted)
        return sum(float((o.detach().numpy() * u.numpy()).sum()) for o, u in zip(results, us, strict=True))

    h = 1e-6
    right = (moved(h) - moved(-h)) / (2 * h)
    assert abs(left - right) <= 1e-4 * max(1.0, abs(left)), f"<v, vjp(u)> = {left}, <u, jvp(v)> = {right}"


@every_case
def test_webgpu_value_and_gradient_equal_cpu(case: Case, webgpu: str) -> None:
    """Forward and backward, computed as one graph on each device, from the same float32 inputs."""

    def run(device: str) -> list[np.ndarray]:
        leaves = leaves_of(case, case.arrays(), device, sg.float32)
        outputs = evaluate(case, case.ours, leaves)
        results = list(outputs)
        if case.differentiable:
            smooth = [o for o in outputs if is_floating(o)]
            us = [
                sg.tensor(u, dtype=o.dtype, device=device) for u, o in zip(cotangents_of(smooth), smooth, strict=True)
            ]
            results += gradients(sg, smooth, [x for x in leaves if is_floating(x)], us)
        sg.sync(device)
        return [r.detach().numpy() for r in results]

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
