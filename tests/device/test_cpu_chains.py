"""Compiled on the cpu device operations run a block of rows at a time, constants are computed once, and results may share
their memory: values are, bit for bit, those of one operation after another, and nobody sees the sharing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import extend

Case = tuple[Callable[..., object], tuple[tuple[int, ...], ...]]


def numbers(seed: int, *shape: int) -> sg.Tensor:
    return sg.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), device="cpu")


def bits(x: object) -> np.ndarray:
    assert isinstance(x, sg.Tensor)
    return np.ascontiguousarray(x.numpy()).view(np.uint8)


def several(found: object) -> tuple[object, ...]:
    return found if isinstance(found, tuple) else (found,)


def normalised(a: sg.Tensor, b: sg.Tensor) -> tuple[sg.Tensor, ...]:
    m = a * 0.9 + b * 0.1
    v = a * a * 0.99 + b * b * 0.01
    return m, v, a * 0.5 - m / (v.sqrt() + 1e-8)


def around_a_product(a: sg.Tensor, b: sg.Tensor) -> tuple[sg.Tensor, ...]:
    first = a * 2 + 1
    product = first @ b.T
    return first, product, (product - 1) * product, first * 3, a - first


def many_at_once(a: sg.Tensor, b: sg.Tensor) -> sg.Tensor:
    p, q, r, s = a + b, a - b, a * b, a * 2
    return ((p * q + r) * (p - s) + q) * s - r * p


CASES: dict[str, Case] = {
    "one axis, the last block short": (normalised, ((100_003,), (100_003,))),
    "two axes": (normalised, ((301, 401), (301, 401))),
    "a first axis of one": (normalised, ((1, 307, 309), (1, 307, 309))),
    "a transposed operand": (lambda a, b: normalised(a, b.T), ((301, 401), (401, 301))),
    "one number": (normalised, ((301, 401), (1, 1))),
    "a row": (normalised, ((301, 401), (1, 401))),
    "a column": (normalised, ((301, 401), (301, 1))),
    "a row of a column": (lambda a, b: (a + b) * (a - 1), ((301, 1), (1, 401))),
    "results read between": (around_a_product, ((307, 307), (307, 307))),
    "many values at once": (many_at_once, ((301, 401), (301, 401))),
    "conditions": (
        lambda a, b: (
            sg.where(a > b, a, 0.0),
            sg.where(a > 0, 0.0, b),
            sg.where(a < b, a, b),
            sg.where(a < b, a, -0.0),
            sg.where(a > 0, b, (a - b).relu()),
        ),
        ((301, 401), (301, 401)),
    ),
    "not numbers": (
        lambda a, b: (sg.where(a > 0, a / 0.0, 0.0), sg.where(a > 0, 0.0, (a - a) / 0.0), (a / 0.0).relu() * (b - b)),
        ((301, 401), (301, 401)),
    ),
    "other types between": (
        lambda a, b: ((a * 4).int() // 3 + (b > 0).int(), (a > 0) & (b < 1), (a.double() * b.double()).float() + a),
        ((301, 401), (301, 401)),
    ),
    "extremes": (lambda a, b: (a.clamp(-1, 1) * b, (a + 1).maximum(b) - a.minimum(b)), ((301, 401), (301, 401))),
    "slopes": (
        lambda a, b: sg.func.grad(lambda a, b: ((a * b).relu() * a.tanh()).sum(), (0, 1))(a, b),
        ((301, 401),) * 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_one_operation_after_another(name: str) -> None:
    function, shapes = CASES[name]
    arguments = [numbers(k, *shape) for k, shape in enumerate(shapes)]
    with sg.profile():  # there each operation runs by itself, for its time to be taken
        expected = [bits(x) for x in several(function(*arguments))]
    step = sg.compile(function)
    for _ in range(2):
        for x, y in zip(several(step(*arguments)), expected, strict=True):
            np.testing.assert_array_equal(bits(x), y)


OPERANDS = {
    "a first element of 0": [0.0, 1.0, -2.0],
    "zeros": [0.0],
    "zeros with a minus": [-0.0],
    "numbers": [3.0, -0.0, np.nan, np.inf, 1e-42],
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64", "bool"])
@pytest.mark.parametrize("b", OPERANDS)
@pytest.mark.parametrize("a", OPERANDS)
def test_where_is_numpys_bit_for_bit(a: str, b: str, dtype: str) -> None:
    """Large selections are done on the bits: neither a sign of 0 nor what is no number gets lost."""
    n = 6000
    with np.errstate(invalid="ignore"):
        x, y = (np.resize(np.array(OPERANDS[k]), 1 if "zeros" in k else n).astype(dtype) for k in (a, b))
    condition = np.random.default_rng(0).random(n) < 0.5
    found = sg.where(*(sg.tensor(v, device="cpu") for v in (condition, x, y)))
    np.testing.assert_array_equal(bits(found), np.where(condition, x, y).view(np.uint8))


SHARED: dict[str, Callable[[sg.Tensor], sg.Tensor]] = {
    "a constant": lambda w: sg.zeros((), device="cpu") + 2,
    "a repeated constant": lambda w: sg.ones(3, 4, device="cpu"),
    "a constant of one element": lambda w: sg.full((1, 1), 3.0, device="cpu"),
    "a repeated row": lambda w: w[:1].expand(5, w.shape[1]).clone(),
    "itself": lambda w: w * 1,
    "itself in another shape": lambda w: w.reshape(-1).clone(),
    "a part of a result": lambda w: (w * 2)[1:3],
    "a result in another shape": lambda w: (w * 2).reshape(-1),
    "a result as it lies": lambda w: (w * 2).t().contiguous().t(),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_a_step_returns_is_nobody_elses(name: str) -> None:
    w = numbers(0, 4, 6)
    before = w.numpy().copy()
    step = sg.compile(SHARED[name])
    expected = step(w).numpy().copy()
    first, second = step(w), step(w)
    array = first.numpy()
    assert array.flags.writeable
    assert array.flags.owndata
    array[...] = -1
    first += 5
    np.testing.assert_array_equal(first.numpy(), expected + 5)
    np.testing.assert_array_equal(second.numpy(), expected)
    np.testing.assert_array_equal(step(w).numpy(), expected)
    np.testing.assert_array_equal(w.numpy(), before)


def test_gradients_that_lie_in_a_product_outlive_the_next_step() -> None:
    """The gradient of a weight is a view of a product, of the state of an optimizer, and of nothing that a step writes."""
    layer = sg.nn.Linear(300, 200, bias=False).to("cpu")
    optimizer = sg.optim.SGD(layer.parameters(), lr=0.5)

    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = (layer(x) * layer(x)).mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled, x = sg.compile(step), numbers(0, 32, 300)
    compiled(x)
    gradient, weight = layer.weight.grad, layer.weight.detach().clone()
    assert gradient is not None
    kept = gradient.clone()
    value = kept.numpy().copy()
    compiled(x)
    assert layer.weight.grad is not None
    np.testing.assert_allclose(
        layer.weight.detach().numpy(), weight.numpy() - 0.5 * layer.weight.grad.numpy(), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_array_equal(kept.numpy(), value)
    layer.weight.grad.zero_()
    np.testing.assert_array_equal(kept.numpy(), value)
    assert layer.weight.detach().numpy().any()


def test_a_value_saved_for_the_way_back_is_not_the_one_written_later() -> None:
    def step(w: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        row = w[:1].expand(400, 300)
        loss = (row * row * 2).sum()
        with sg.no_grad():
            changed = row.clone()
            changed += 1
        return sg.autograd.grad(loss, w)[0], changed

    w = numbers(0, 2, 300).requires_grad_()
    gradient, changed = sg.compile(step)(w)
    value = w.detach().numpy()
    np.testing.assert_allclose(gradient.numpy()[0], value[0] * 4 * 400, rtol=1e-4)
    np.testing.assert_array_equal(changed.numpy(), np.repeat(value[:1] + np.float32(1), 400, 0))


TABLE = np.arange(6, dtype=np.float32)


@dataclass(frozen=True)
class Shown(extend.Operation):
    """An array that somebody else holds, in another shape."""

    arguments = ("x",)

    def infer(self, x):
        return x

    def numpy(self, x):
        return TABLE.reshape(x.shape)


def test_what_an_operation_of_ones_own_holds_is_not_taken_over() -> None:
    found = sg.compile(lambda x: Shown()(x))(numbers(0, 2, 3))
    TABLE[0] = 7
    assert found.numpy()[0, 0] == 0
    TABLE[0] = 0


@pytest.mark.parametrize("compiled", [False, True])
def test_zeros_where_a_column_says_so(compiled: bool) -> None:
    """The zeros alone have the shape of the result."""
    mask = np.random.default_rng(0).random((5000, 1)) < 0.5
    for fill in (
        lambda m: sg.zeros(15000).reshape(5000, 3).masked_fill(m, 2.0),
        lambda m: sg.where(m, sg.zeros(15000).reshape(5000, 3), 2.0),
    ):
        found = (sg.compile(fill) if compiled else fill)(sg.tensor(mask, device="cpu")).numpy()
        expected = fill(sg.tensor(np.broadcast_to(mask, (5000, 3)).copy(), device="cpu")).numpy()
        np.testing.assert_array_equal(found, expected)
        assert found.shape == (5000, 3)
        assert set(np.unique(found)) == {0.0, 2.0}
