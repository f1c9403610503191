"""Values whose bits are compared are computed once: extrema, their gradients and their places, of values that were never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad.compile.buffers import Buffers
from shadergrad.compile.pipeline import compile_graph
from shadergrad.drive.execute import programs
from shadergrad.errors import CompileError
from shadergrad.graph.capture import Capture
from shadergrad.graph.node import topological
from shadergrad.target import PORTABLE

SEEDS = range(4)
ROWS = (64, 33)


def rounded(x: Any, y: Any) -> Any:
    """A value whose last bit depends on how a kernel contracts it."""
    return x.sin().reshape(ROWS) - (y * 1.5).cos() + 1e-6


def drawn(seed: int, device: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((66, 32)), rng.standard_normal(ROWS)
    return sg.tensor(x.astype(np.float32), device=device).requires_grad_(), sg.tensor(
        y.astype(np.float32), device=device
    )


# what is taken of the value, and how many of its elements get a gradient
EXTREMA: dict[str, tuple[Callable[[Any], Any], int]] = {
    "max": (lambda v: v.max(), 1),
    "min": (lambda v: v.min(), 1),
    "amax of rows": (lambda v: v.amax(1).sum(), 64),
    "amin of columns": (lambda v: v.amin(0).sum(), 33),
    "max of rows": (lambda v: v.max(1).values.sum(), 64),
    "norm at infinity": (lambda v: v.norm(float("inf"), dim=1).sum(), 64),
    "distance at infinity": (lambda v: F.pairwise_distance(v, v.roll(1, 0).detach(), p=float("inf")).sum(), 64),
    "max pooling": (lambda v: sg.nn.MaxPool1d(3)(v[None]).sum(), 64 * 11),
    "median of rows": (lambda v: v.median(1).values.sum(), 64),
    "kth value": (lambda v: v.kthvalue(5, 1).values.sum(), 64),
    "top 3": (lambda v: v.topk(3, 1).values.sum(), 64 * 3),
    "sorted": (lambda v: v.sort(1).values[:, 7].sum(), 64),
    "cumulative maximum": (lambda v: v.cummax(1).values[:, -1].sum(), 64),
}


@pytest.mark.parametrize("read", ["loss first", "backward at once", "compiled"])
@pytest.mark.parametrize("name", EXTREMA)
def test_as_many_elements_get_a_gradient_as_were_taken(name: str, read: str, webgpu: str) -> None:
    take, count = EXTREMA[name]
    for seed in SEEDS:
        x, y = drawn(seed, webgpu)
        if read == "compiled":
            step = sg.compile(lambda x, y: sg.autograd.grad(take(rounded(x, y)), [x])[0])
            found = step(x, y)
        else:
            loss = take(rounded(x, y))
            if read == "loss first":
                loss.item()
            loss.backward()
            found = x.grad
        gradient: np.ndarray = found.numpy()
        assert np.isfinite(gradient).all(), seed
        assert np.count_nonzero(gradient) == count, seed


def test_an_extremum_that_was_read_is_found_among_its_elements(webgpu: str) -> None:
    for seed in SEEDS:
        x, y = (t.detach() for t in drawn(seed, webgpu))
        value = rounded(x, y)
        largest = value.amax(1, keepdim=True)
        largest.numpy()
        assert ((value == largest).sum(1).numpy() == 1).all()


def test_places_that_are_read_after_the_values_are_places_of_them(webgpu: str) -> None:
    for seed in SEEDS:
        x, y = (t.detach() for t in drawn(seed, webgpu))
        values, places = rounded(x, y).max(1)
        read = values.numpy()
        every = rounded(x, y).numpy()
        np.testing.assert_allclose(every[np.arange(64), places.numpy()], read, rtol=1e-6, atol=1e-6)


READ: dict[str, Callable[[Any], Any]] = {
    "of all": lambda v: v.max(),
    "the smallest of all": lambda v: v.min(),
    "of rows": lambda v: v.amax(1, keepdim=True),
    "of columns": lambda v: v.amin(0),
    "of both": lambda v: v.aminmax(dim=1, keepdim=True).max,
    "of a view": lambda v: v.t().amax(0, keepdim=True).t(),
}


@pytest.mark.parametrize("read", [lambda m: m, lambda m: m * 1.1], ids=["itself", "what is computed of it"])
@pytest.mark.parametrize("name", READ)
def test_what_an_extremum_was_taken_of_is_kept_for_a_later_comparison(
    name: str, read: Callable[[Any], Any], device: str
) -> None:
    """Its elements belong to no tensor any more when it is read. A later kernel compares it with them, and so must read them: one that
    computed them again might round them otherwise. That it reads them does not depend on how this device rounds.
    """
    x, y = (t.detach() for t in drawn(0, device))
    value = rounded(x, y)
    extremum = READ[name](value)
    is_taken = value == extremum
    del value
    read(extremum).numpy()
    pending = topological([is_taken._node], lambda n: () if n.storage is not None else n.inputs)
    assert not {"sin", "cos"} & {n.primitive.name for n in pending if n.storage is None}
    assert is_taken.any().item()


def kernels(outputs: list[Any]) -> int:
    return len(compile_graph(Capture([t._node for t in outputs]).graph(), PORTABLE)[0].dispatches)


def test_what_is_rounded_once_is_not_stored_for_a_comparison() -> None:
    """A sum is the same in every kernel; so is what is exact of it."""
    x, y = (sg.tensor(np.full((64, 32), v, np.float32)) for v in (0.3, 0.7))
    few, more = (kernels([(v == v.amax(1, keepdim=True)).float().mean(1)]) for v in (x + 1, x * 2 + 1))
    assert few < more
    assert kernels([(x * y + 1).softmax(1)]) == 1


def test_a_value_that_a_comparison_sees_twice_is_stored_once_and_said_to_be() -> None:
    x, y = sg.rand(64, 32), sg.rand(64, 32)
    value = x * y + 1
    graph = Capture([(value == value.amax(1, keepdim=True)).float().mean(1)._node]).graph()
    plan, _ = compile_graph(graph, PORTABLE)
    assert "its bits are compared" in plan.explain(why=True)
    with mock.patch.object(Buffers, "_store_compared"), pytest.raises(CompileError) as error:
        compile_graph(graph, PORTABLE)
    assert "a comparison sees both values" in str(error.value)
    programs.clear()


def test_all_pairs_of_a_value_are_compared_as_it_was_computed_once() -> None:
    """Ranks of a short axis: each element beside each other one, at other places of the same value."""
    x = sg.rand(64, 32)
    graph = Capture([(x * x + 1).argsort(1)._node]).graph()
    fuser_saw: list[Any] = []
    real = Buffers._store_compared

    def noted(self: Any) -> None:
        real(self)
        fuser_saw.extend(self.cuts)

    with mock.patch.object(Buffers, "_store_compared", noted):
        compile_graph(graph, PORTABLE)
    assert fuser_saw
