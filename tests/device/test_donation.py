"""Outputs that take over an input's memory: where it is right, it is done; where it is not, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_close

LENGTH, SIDE = 100_001, 501  # hundreds of workgroups: some run after others, whatever the device


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


Change = Callable[[sg.Tensor], sg.Tensor]

READ_ELSEWHERE: dict[str, tuple[Change, tuple[int, ...]]] = {
    "its reverse": (lambda w: w.flip(0) * 1 + 1, (LENGTH,)),
    "its transpose": (lambda w: w.t() + 1, (SIDE, SIDE)),
    "itself rolled": (lambda w: w.roll(1, 0) * 2, (LENGTH,)),
    "its neighbours' sum": (lambda w: w + sg.cat([w[1:], w[:1]]), (LENGTH,)),
    "its reverse rows": (lambda w: w.flip(1) - w, (SIDE, SIDE)),
    "itself less its first element": (lambda w: w - w[0], (LENGTH,)),
    "itself in another order": (lambda w: w[sg.arange(LENGTH - 1, -1, -1, device=w.device)] + 1, (LENGTH,)),
    "its first elements, one a row": (
        lambda w: w.reshape(-1)[:SIDE].reshape(SIDE, 1) + sg.tensor(numbers(SIDE, SIDE), device=w.device).softmax(1),
        (SIDE, SIDE),
    ),
    "a product with itself": (lambda w: (w @ w) * 0.01, (48, 48)),  # too short a contraction to be cut in parts
}
READ_IN_PLACE: dict[str, tuple[Change, tuple[int, ...]]] = {
    "a multiple of itself": (lambda w: w * 2 + 1, (LENGTH,)),
    "itself, reshaped and back": (lambda w: w.reshape(-1).tanh().reshape(SIDE, SIDE), (SIDE, SIDE)),
    "its double transpose": (lambda w: w.t().t() + 1, (SIDE, SIDE)),
    "its double reverse": (lambda w: w.flip(0).flip(0) * 3, (LENGTH,)),
    "the softmax of its rows": (
        lambda w: w.softmax(1) * 3,
        (SIDE, SIDE),
    ),  # each thread writes what it alone still reads
}


def changed(change: Change, shape: tuple[int, ...], device: str) -> tuple[np.ndarray, bool]:
    """A tensor after three compiled changes, and whether they were made in place."""
    w = sg.tensor(numbers(*shape), device=device)

    @sg.compile
    def step() -> None:
        w.copy_(change(w))

    for _ in range(3):
        step()
    return w.numpy(), step.plan.buffers[step.plan.outputs[0]].aliases is not None


def expected(change: Change, shape: tuple[int, ...]) -> np.ndarray:
    w = sg.tensor(numbers(*shape))
    for _ in range(3):
        w = change(w).clone()
    return w.numpy()


@pytest.mark.parametrize("name", READ_ELSEWHERE)
def test_a_tensor_overwritten_by_what_it_is_at_other_places(name: str, webgpu: str) -> None:
    change, shape = READ_ELSEWHERE[name]
    found, in_place = changed(change, shape, webgpu)
    assert not in_place
    assert_close(found, expected(change, shape), 1e-4, 1e-4)


@pytest.mark.parametrize("name", READ_IN_PLACE)
def test_a_tensor_overwritten_element_by_element_keeps_its_memory(name: str, webgpu: str) -> None:
    change, shape = READ_IN_PLACE[name]
    found, in_place = changed(change, shape, webgpu)
    assert in_place
    assert_close(found, expected(change, shape), 1e-4, 1e-4)


def test_what_reads_the_old_value_runs_before_it_is_overwritten(webgpu: str) -> None:
    a = numbers(LENGTH)
    w, x = sg.tensor(a, device=webgpu), numbers(LENGTH)[::-1].copy()
    other = sg.tensor(x, device=webgpu)

    @sg.compile
    def step() -> sg.Tensor:
        total = (w.flip(0) * other).sum()
        w.mul_(2)
        return total

    for k in range(3):
        assert_close(step(), np.float32((a[::-1].astype(np.float64) * x * 2**k).sum()), 1e-4, 1e-2)
    assert_close(w, a * 8, 1e-6, 0)


def test_what_reads_the_old_value_late_still_runs_before_it_is_overwritten(webgpu: str) -> None:
    """The reader waits for another kernel, whereas what overwrites could run at once."""
    a, x = numbers(LENGTH), numbers(SIDE, SIDE)
    w, matrix = sg.tensor(a, device=webgpu), sg.tensor(x, device=webgpu)

    @sg.compile
    def step() -> sg.Tensor:
        scale = matrix.sum(1).exp().sum(0).log()
        late = w.flip(0) * scale + w
        w.mul_(2)
        return late

    scale = np.log(np.exp(x.sum(1, dtype=np.float64)).sum())
    for k in range(3):
        assert_close(step(), ((a[::-1] * scale + a) * 2**k).astype(np.float32), 1e-4, 1e-3)
    assert step.plan.buffers[step.plan.outputs[1]].aliases is not None
    assert_close(w, a * 8, 1e-6, 0)


def test_of_two_outputs_over_one_input_one_takes_its_memory(webgpu: str) -> None:
    """a and b exchange values: neither may be overwritten before the other has read it."""
    a, b = sg.tensor(numbers(LENGTH), device=webgpu), sg.tensor(numbers(LENGTH)[::-1].copy(), device=webgpu)
    first, second = a.numpy(), b.numpy()

    @sg.compile
    def step() -> None:
        old = a.clone()
        a.copy_(b * 1)
        b.copy_(old)

    for _ in range(3):
        step()
    assert_close(a, second, 0, 0)
    assert_close(b, first, 0, 0)


def test_a_rows_scalar_is_not_overwritten_while_its_vector_reads_it(webgpu: str) -> None:
    """In one kernel: a scalar of each row, and a vector of the row that needs the old scalar."""
    rows, columns = 67, 33
    x = numbers(rows, columns)
    matrix, scalars = sg.tensor(x, device=webgpu), sg.tensor(numbers(rows), device=webgpu)
    old = scalars.numpy()

    @sg.compile
    def step() -> sg.Tensor:
        total = matrix.sum(1)
        before = scalars.clone()
        scalars.copy_(scalars + total)
        return matrix * before.reshape(rows, 1) + total.reshape(rows, 1)

    for k in range(3):
        total = x.sum(1, dtype=np.float64)
        expected = x * (old + k * total)[:, None] + total[:, None]
        assert_close(step(), expected.astype(np.float32), 1e-4, 1e-4)
    assert_close(scalars, (old + 3 * x.sum(1)).astype(np.float32), 1e-4, 1e-4)
