"""Products that leave a GPU idle share a dispatch: what they give, and when they stay apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.compile.choices import Beside, Cut, Shape, Table, Tile
from shadergrad.compile.tiles import register
from shadergrad.plan import Plan
from shadergrad.runtime.device import get_device

Arrays = Sequence[np.ndarray]


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


def gelu(x: Any) -> Any:
    return x * (1 + np.tanh(x)) if isinstance(x, np.ndarray) else x * (1 + x.tanh())


def gradients(g: Any, w: Any, x: Any) -> Any:
    """Of a linear layer."""
    return g @ w, g.T @ x


THREE = "three, with contractions of other lengths"  # in one shader, which takes a software adapter 10 s to compile
CASES: dict[str, tuple[Arrays, Callable[..., Any]]] = {
    "both gradients of a layer, no size a multiple of a tile": (drawn((101, 37), (37, 53), (101, 53)), gradients),
    "one in parts": (drawn((1551, 29), (29, 41), (1551, 41)), gradients),
    "an epilogue that reads what both read": (
        drawn((67, 67), (67, 67)),
        lambda a, b: (gelu(a @ b + 1) + a, b @ a.T * a),
    ),
    "batches": (
        drawn((3, 33, 18), (3, 18, 21), (2, 40, 11), (2, 11, 50)),
        lambda a, b, c, d: (a @ b, c @ d),
    ),
    THREE: (
        drawn((50, 300), (300, 30), (45, 20), (20, 31), (52, 17), (17, 40)),
        lambda a, b, c, d, e, f: (a @ b, c @ d, e @ f),
    ),
}


def products(plan: Plan) -> list[Any]:
    """The kernels of the dispatches that are products."""
    return [plan.kernels[d.kernel] for d in plan.dispatches if plan.kernels[d.kernel].archetype == "dot"]


def merges(plan: Plan) -> bool:
    """Whether the plan is for a device whose products share dispatches."""
    return plan.target.traits.unrolls


@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n == THREE else []) for n in CASES])
def test_products_in_one_dispatch_give_what_they_give_alone(
    name: str, stores: bool, webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """stores: whether threads may write components of vectors in workgroup memory, which the products share. In a browser they may
    not: then tiles of some layouts are arrays of numbers."""
    gpu: Any = get_device(webgpu)
    # all of them have tiles, in software too
    monkeypatch.setattr(gpu, "target", gpu.target.having(shuffled_from=1 << 23, component_stores=stores))
    arrays, call = CASES[name]
    step = sg.compile(call)
    results = step(*(sg.tensor(a, device=webgpu) for a in arrays))
    expected = call(*(a.astype(np.float64) for a in arrays))
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.numpy(), right, rtol=1e-4, atol=1e-4)
    found = products(step.plan)
    assert len(found) == (1 if merges(step.plan) else len(results)), step.explain()
    if merges(step.plan):
        assert found[0].shape.count(" + ") == len(results) - 1


@pytest.mark.parametrize(
    "tiles",
    [
        (Tile(32, 16, 16, 4, 4), Tile(16, 32, 16, 4, 4)),
        (Tile(32, 16, 8, 8, 4, 1, 2), Tile(16, 16, 16, 4, 4, 2, 2)),
        (Tile(16, 16, 16, 4, 4), Tile(32, 16, 16, 4, 4)),  # 16 threads and 32
    ],
    ids=str,
)
def test_a_pair_takes_the_tiles_that_were_measured(
    tiles: tuple[Tile, Tile], webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu: Any = get_device(webgpu)
    g, w, x = drawn((202, 37), (37, 53), (202, 53))
    back, weight = Shape(1, 202, 53, 37), Shape(1, 37, 53, 202)
    choices: Table = {Beside(back, weight): Cut(tiles[0]), Beside(weight, back): Cut(tiles[1], 3)}
    monkeypatch.setattr(gpu, "target", replace(gpu.target, measured=register(choices)))
    step = sg.compile(gradients)
    results = step(*(sg.tensor(a, device=webgpu) for a in (g, w, x)))
    for result, right in zip(results, gradients(g, w, x), strict=True):
        np.testing.assert_allclose(result.numpy(), right, rtol=1e-4, atol=1e-4)
    if merges(step.plan):
        parts = [f"(tile {t.bm} x {t.bn} x {t.bk})" for t in tiles]
        shapes = {f"202 x 53 x 37 {parts[0]}", f"3 x 37 x 53 x 80 {parts[1]}"}
        (kernel,) = products(step.plan)
        assert (set(kernel.shape.split(" + ")) == shapes) == (tiles[0].threads == tiles[1].threads)


def test_a_product_that_overwrites_what_another_reads_runs_after_it(webgpu: str) -> None:
    w, x, g = drawn((24, 24), (24, 24), (24, 24))
    weight = sg.tensor(w, device=webgpu)

    @sg.compile
    def step(x: Any, g: Any) -> Any:
        back = g @ weight
        weight.copy_(weight + g.T @ x)
        return back

    back = step(sg.tensor(x, device=webgpu), sg.tensor(g, device=webgpu))
    np.testing.assert_allclose(back.numpy(), g @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(weight.numpy(), w + g.T @ x, rtol=1e-4, atol=1e-4)


def test_sizes_that_vary_stay_apart(webgpu: str) -> None:
    step = sg.compile(gradients, dynamic=True)
    for n in (40, 51, 77):
        g, w, x = drawn((n, 12), (12, 20), (n, 20))
        results = step(*(sg.tensor(a, device=webgpu) for a in (g, w, x)))
        for result, right in zip(results, gradients(g, w, x), strict=True):
            np.testing.assert_allclose(result.numpy(), right, rtol=1e-4, atol=1e-4)
