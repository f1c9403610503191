"""x[mask] *= 2, x[mask] = f(x[mask]) and other writes where a mask holds, compiled or not, as in PyTorch; and augmented assignments in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad.errors import CompileError

Statement = Callable[..., None]
ROWS = np.array([True, False, True, False])


def statement(text: str) -> Statement:
    """A function of a library, a tensor and other operands that runs a statement."""
    names: dict[str, Any] = {}
    exec(f"def run(lib, y, rows, scale, row):\n    {text}", names)
    return names["run"]


WRITES = [
    "y[y > 0] *= -1",
    "y[y > 0] += 1.5",
    "y[y < 0] /= 3",
    "y[y > 0] **= 2",
    "y[y > 0] -= scale",
    "y[y > 0] *= scale.reshape(1)",
    "y[y > 0] %= 0.3",
    "y[rows] *= row",
    "y[rows] = row",
    "y[rows] = row[None]",
    "y[rows] = row + y[rows] * 2",
    "y[:, y[0] > 0] *= 2",
    "y[..., y[0] > 0] = 7",
    "y[1:, y[0] > 0] = y[1:, y[0] > 0].cos()",
    "y[y[:, 0] > 0, 0] = 3",
    "y[0, y[0] > 0] = 3",
    "y[y[:, 1] > 0, 1:3] = -1",
    "m = y > 0; y[m] = y[m].sqrt()",
    "y[y > 0] = y[y > 0].log() + 1",
    "m = y > 0; z = y * 2; y[m] = z[m].exp() * y[m] - 1",
    "m = y > 0; y[m] = 2 - y[m]; m = y < 0; y[m] = scale / (y[m] - 1)",
    "m = y.abs() > 0.5; y[m] = y[m].clamp(-1, 1).minimum(y[m] * y[m])",
    "m = y > 0; y[m] = (y[m] > 1).to(y.dtype)",
    "m = y > 0; chosen = y[m]; y.mul_(2); y[m] = chosen",
    "v = y[1:]; v[v > 0] *= 2; y.t()[y.t() < 0] += 1",
    "y.view(-1)[y.view(-1) > 0] *= 3",
    "z = y.view(2, 2, 5); z[..., z[0, 0] > 0] *= 3; z[..., 1:][:, z[0, :, 0] > 0] += row[1:]",
    "y[y > 1e9] *= 2",
    "m = y > 0; y[m] = y[m].log(); y[~m] = 0",
]


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("text", WRITES)
def test_a_write_where_a_mask_holds_is_pytorchs(text: str, compiled: bool) -> None:
    """Its values, and the gradients of the tensor and of the operands."""
    run = statement(text)

    def step(lib: Any, x: Any, rows: Any, scale: Any, row: Any) -> tuple[Any, ...]:
        y = x * 1
        run(lib, y, rows, scale, row)
        loss = (y * y).sum() + (scale * row).sum()
        return (y.detach() * 1, *lib.autograd.grad(loss, [x, scale, row]))

    ours: Any = functools.partial(step, sg)
    if compiled:
        ours = sg.compile(lambda x, rows, scale, row: step(sg, x, rows, scale, row))
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal((4, 5)).astype(np.float32)

        def operands(lib: Any, x: np.ndarray = x) -> list[Any]:
            leaves = [lib.tensor(v).requires_grad_() for v in (x, np.float32(2.5), np.arange(1, 6, dtype=np.float32))]
            return [leaves[0], lib.tensor(ROWS), *leaves[1:]]

        for found, expected in zip(ours(*operands(sg)), step(torch, *operands(torch)), strict=True):
            assert_close(found, expected, 1e-5, 1e-6)


INTEGERS = ["y[y > 1] *= 2", "y[y != 0] //= 2", "y[y > 0] ^= 3", "y[y > 1] = 2.7", "y[y > 1] <<= 1"]


@pytest.mark.parametrize("text", INTEGERS)
def test_integers_where_a_mask_holds(text: str) -> None:
    run = statement(text)

    def step(lib: Any, x: Any) -> Any:
        y = x * 1
        run(lib, y, None, None, None)
        return y

    x = np.arange(-3, 5)
    assert sg.compile(lambda x: step(sg, x))(sg.tensor(x)).tolist() == step(torch, torch.tensor(x)).tolist()


def test_a_mask_within_a_step_on_a_device(device: str) -> None:
    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        y = x * 1
        y[y < 0] *= -2
        y[y > 3] = y[y > 3] - 3
        return y

    assert step(sg.tensor([-1.0, 2.0, -2.0, 4.0], device=device)).tolist() == [2, 2, 1, 1]


USES = {
    "the number of elements": lambda y, m: y[m].shape,
    "a sum": lambda y, m: y[m].sum(),
    "a function": lambda y, m: sg.softmax(y[m], 0),
    "a vector of as many elements": lambda y, m: y[m] * sg.ones(3),
    "another mask": lambda y, m: y[m] + y[y > 1],
    "a write with another mask": lambda y, m: y.__setitem__(y > 1, y[m]),
    "a write to another part": lambda y, m: y[:2].__setitem__(m[:2], y[m]),
    "a result": lambda y, m: y[m],
    "a plain write": lambda y, m: y.__setitem__(slice(0, 2), y[m]),
}


@pytest.mark.parametrize("name", USES)
def test_what_needs_the_number_of_elements_is_refused_where_it_is_used(name: str) -> None:
    @sg.compile
    def step(x: sg.Tensor) -> Any:
        y = x * 1
        return USES[name](y, y > 0)

    with pytest.raises(CompileError, match=r"indexing by a bool tensor reads a value inside a compiled step"):
        step(sg.tensor([-1.0, 2.0, 3.0, 4.0]))


def test_elements_that_leave_a_step_say_what_they_are() -> None:
    kept: list[Any] = []

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        y = x * 1
        kept.append(y[y > 0])
        return y

    with pytest.raises(CompileError):
        step(sg.tensor([-1.0, 2.0]))
    for chosen in kept:
        with pytest.raises(CompileError, match="has no elements after it"):
            chosen.sum()


AUGMENTED = ["+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>="]


@pytest.mark.parametrize("operator", AUGMENTED)
def test_an_augmented_assignment_writes_into_the_tensor(operator: str, device: str) -> None:
    """Whoever else holds the tensor, or a view of it, sees it."""
    dtype, number = ("int32", 2) if operator in AUGMENTED[7:] else ("float32", 2.5)
    found = []
    for lib in (sg, torch):
        where = {"device": device} if lib is sg else {}
        y = lib.tensor([[5, 6], [7, 8]], dtype=getattr(lib, dtype), **where)
        names = {"y": y, "row": y[0], "number": number}
        row = names["row"]
        exec(f"y {operator} number\nrow {operator} 3", names)
        assert names["y"] is y
        assert names["row"] is row
        found.append(y.cpu().numpy())
    assert_close(found[0], found[1], 1e-5, 1e-6)


def test_a_plus_sign_and_reversed() -> None:
    for lib in (sg, torch):
        x = lib.tensor([1, 2])
        assert +x is x
        back: list[Any] = [reversed(x), reversed(x[0])]
        assert [t.tolist() for t in back] == [[2, 1], 1]
        with pytest.raises((RuntimeError, TypeError), match="on a bool tensor is not supported"):
            _ = +lib.tensor([True])
