"""Products on matrix units: what they give, on any adapter by the same kernels without the units, and which products they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from emulated_units import emulated
from shadergrad.compile import matrix_units
from shadergrad.compile.matrix_units import TILES, Candidate
from shadergrad.compile.wgsl import call as call_archetype
from shadergrad.compile.wgsl.matmul import kernel
from shadergrad.drive import execute
from shadergrad.runtime.device import get_device
from shadergrad.target import ROWS, Matrices
from shadergrad.testing import assert_close

rng = np.random.default_rng(0)
HALF = 2.0**-11  # of a rounding


@pytest.fixture(autouse=True)
def drawn_from_the_first_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test draws the same numbers, whichever tests came before it in its process."""
    monkeypatch.setitem(globals(), "rng", np.random.default_rng(0))


def drawn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32).astype(np.float16)


@pytest.fixture(params=range(3), ids=["", "ahead", "in turn"])
def units(webgpu: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """A device that takes kernels for matrix units, with small tiles; they run without units where it has none."""
    gpu: Any = get_device(webgpu)
    if not gpu.target.traits.unrolls:
        pytest.skip("a browser's kernels have no matrix units")
    if not gpu.target.matrices:
        finish = kernel.finish

        def without_units(*given: Any, **options: Any) -> Any:
            made = finish(*given, **options)
            return replace(made, kernel=replace(made.kernel, source=emulated(made.kernel.source)))

        for module in (kernel, call_archetype):
            monkeypatch.setattr(module, "finish", without_units)
        target = replace(
            gpu.target,
            traits=ROWS["discrete"],
            max_workgroup_storage=49152,
            f16=True,
            subgroups=(32, 32),
            matrices=(Matrices(16, 16, 16, "f16", "f32"),),
        )
        monkeypatch.setattr(gpu, "target", target)
    monkeypatch.setattr(
        matrix_units,
        "TILES",
        tuple(Candidate(32, 32, bk, 2, 2, relative, 1, request.param) for bk, relative in ((32, 1.0), (16, 1.5))),
    )
    monkeypatch.setattr(matrix_units, "SMALLEST", 1)
    monkeypatch.setattr(matrix_units, "LEAST", 1)
    execute.programs.clear()
    yield webgpu
    execute.programs.clear()


def results(call: Callable[..., Any], arrays: list[np.ndarray], device: str, kernels: int = 1) -> list[Any]:
    """Of a compiled function whose products are all on units."""
    step = sg.compile(call)
    found = step(*(sg.tensor(a, device=device) for a in arrays))
    dots = [k for k in step.plan.kernels if k.archetype == "dot"]
    assert len(dots) == kernels
    assert all(" units " in k.choice for k in dots)
    return list(found) if isinstance(found, tuple) else [found]


def assert_near(found: Any, exact: np.ndarray, size: np.ndarray) -> None:
    """A sum in float32 of products whose sizes have this sum, rounded to the dtype of the result."""
    rounding = HALF * np.abs(exact) if found.dtype is sg.float16 else 0
    error = np.abs(found.float().numpy().astype(np.float64) - exact)
    assert (error <= rounding + 2.0**-20 * size + 2.0**-24).all()


@pytest.mark.parametrize("layout", ["", "a", "b", "ab"])
@pytest.mark.parametrize(
    "sizes",
    [
        (64, 96, 64),
        (40, 56, 72),  # tiles and steps that are not full, loads of eight
        (36, 44, 52),  # of four
        (33, 47, 51),  # of one
        (32, 32, 2112),  # in parts
    ],
    ids=str,
)
def test_products(sizes: tuple[int, int, int], layout: str, units: str) -> None:
    m, n, k = sizes
    a, b = drawn(m, k), drawn(k, n)
    laid = [np.ascontiguousarray(x.T) if name in layout else x for name, x in (("a", a), ("b", b))]
    (found,) = results(lambda a, b: (a.T if "a" in layout else a) @ (b.T if "b" in layout else b), laid, units)
    exact = a.astype(np.float64), b.astype(np.float64)
    assert_near(found, exact[0] @ exact[1], np.abs(exact[0]) @ np.abs(exact[1]))


@pytest.mark.parametrize("tile", TILES, ids=lambda t: "x".join(map(str, t[:5])))
def test_all_tiles(tile: Candidate, units: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which some reach beyond the product."""
    monkeypatch.setattr(matrix_units, "TILES", (tile,))
    a, b = drawn(tile.bm + 12, 72), drawn(tile.bn + 20, 72)
    (found,) = results(lambda a, b: a @ b.T, [a, b], units)
    a, b = a.astype(np.float64), b.T.astype(np.float64)
    assert_near(found, a @ b, np.abs(a) @ np.abs(b))


def test_sums_are_kept_in_float32(units: str) -> None:
    a, b = drawn(48, 200), drawn(200, 40)
    (found,) = results(lambda a, b: a.float() @ b.float(), [a, b], units)
    assert found.dtype is sg.float32
    a, b = a.astype(np.float64), b.astype(np.float64)
    assert_near(found, a @ b, np.abs(a) @ np.abs(b))


def test_infinities_and_small_numbers_go_to_tiles_as_they_are(units: str) -> None:
    """Subnormal numbers as well, of a product with powers of two, which is exact; also of operands that a kernel computes."""
    a = np.zeros((32, 32), np.float16)
    a[np.arange(32), np.arange(32)] = 2.0 ** np.arange(-10, 6).repeat(2)
    b = np.array([6e-8, 1e-5, 65504, -0.5, 6.1e-5], np.float16)[rng.integers(0, 5, (32, 32))]
    b[3, 5] = -np.inf
    with np.errstate(invalid="ignore"):
        exact = (a.astype(np.float32)[..., None] * b.astype(np.float32)[None]).sum(1)
    for call in (lambda a, b: a.float() @ b.float(), lambda a, b: (-a).float() @ (-b).float()):
        assert_close(results(call, [a, b], units)[0].numpy(), exact, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "shapes", [((3, 40, 24), (3, 24, 48)), ((1, 40, 24), (3, 24, 48)), ((2, 3, 33, 17), (2, 3, 17, 35))], ids=str
)
def test_batches(shapes: tuple[tuple[int, ...], ...], units: str) -> None:
    a, b = (drawn(*shape) for shape in shapes)
    (found,) = results(lambda a, b: a @ b, [a, b], units)
    a, b = a.astype(np.float64), b.astype(np.float64)
    assert_near(found, a @ b, np.abs(a) @ np.abs(b))


def test_epilogues(units: str) -> None:
    """A bias, an activation, and a residual that is an operand, too, of which the product takes bits and the sum takes numbers."""
    x, w, bias = drawn(40, 40), drawn(40, 40), drawn(40)
    (found,) = results(
        lambda x, w, bias: ((x.float() @ w.float().T + bias.float()).relu() + x.float()).half(), [x, w, bias], units
    )
    x, w, bias = (a.astype(np.float64) for a in (x, w, bias))
    assert_near(found, np.maximum(x @ w.T + bias, 0) + x, np.abs(x) @ np.abs(w.T) + 1)


def test_views_and_computed_operands(units: str) -> None:
    a, b = drawn(50, 90), drawn(90, 60)
    (found,) = results(lambda a, b: a[1:41, 8:72].relu() @ b[3:67, 16:56], [a, b], units)
    a, b = np.maximum(a[1:41, 8:72], 0).astype(np.float64), b[3:67, 16:56].astype(np.float64)
    assert_near(found, a @ b, np.abs(a) @ np.abs(b))


def test_products_that_share_a_dispatch(units: str) -> None:
    """Both gradients of a layer, of other sizes and layouts."""
    g, w, x = drawn(104, 40), drawn(40, 56), drawn(104, 56)
    found = results(lambda g, w, x: (g @ w, g.T @ x), [g, w, x], units)
    g, w, x = (a.astype(np.float64) for a in (g, w, x))
    for y, (a, b) in zip(found, ((g, w), (g.T, x)), strict=True):
        assert_near(y, a @ b, np.abs(a) @ np.abs(b))


def test_products_that_share_a_dispatch_and_load_otherwise(units: str) -> None:
    """One has rows of whole loads of 16 bytes, the other single elements: tiles in the same memory."""
    arrays = [drawn(104, 40), drawn(40, 56), drawn(104, 39), drawn(104, 55)]
    found = results(lambda g, w, h, x: (g @ w, h.T @ x), arrays, units)
    g, w, h, x = (a.astype(np.float64) for a in arrays)
    for y, (a, b) in zip(found, ((g, w), (h.T, x)), strict=True):
        assert_near(y, a @ b, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize("words", [51, 53, 36], ids=str)
def test_rows_that_eight_does_not_divide(words: int, units: str) -> None:
    """Of logits and of their slopes, which are computed, and of the weight: all loads are of 16 bytes, and the padding changes no sum. All logits
    are far below zero, so that what is computed of a padding of zeros is infinite.
    """
    x, w = np.abs(drawn(40, 24)) + 1, -np.abs(drawn(words, 24)).astype(np.float32) - 1

    def sums(x: Any, w: Any) -> tuple[Any, ...]:
        half = w.to(x.dtype)
        logits = (x @ half.T).float()
        most = logits.amax(1, keepdim=True)
        weights = (logits - most).exp()
        slopes = (weights / weights.sum(1, keepdim=True)).to(x.dtype)
        return slopes @ half, slopes.T @ x, most, weights.sum(0)

    step = sg.compile(sums)
    found = step(*(sg.tensor(a, device=units) for a in (x, w)))
    dots = [k for k in step.plan.kernels if k.archetype == "dot"]
    assert len(step.plan.dispatches) < 9
    assert all(" units " in k.choice and "loads of 8 and 8" in k.choice for k in dots)
    assert not any("atomic" in k.source for k in step.plan.kernels)
    exact = sums(*(sg.tensor(a.astype(np.float16).astype(np.float64), device="cpu") for a in (x, w)))
    for y, right in zip(found, exact, strict=True):  # logits of some -50 are rounded to 2^-6
        assert_close(y.float().numpy(), right.numpy(), rtol=2.0**-5, atol=2.0**-7)


def test_losses_of_rows_that_eight_does_not_divide(units: str) -> None:
    """Under autocast, with both gradients: as in float64, and as of classes that eight divides."""
    x, w, y = drawn(40, 24).astype(np.float32), drawn(50, 24).astype(np.float32), rng.integers(0, 50, 40)

    def loss_and_slopes(x: Any, w: Any, y: Any) -> tuple[Any, ...]:
        with sg.autocast("webgpu", dtype=sg.float16):
            loss = sg.nn.functional.cross_entropy(sg.nn.functional.linear(x, w), y)
        return loss, *sg.autograd.grad(loss * 1024, (x, w))

    step = sg.compile(loss_and_slopes)
    y = y.astype(np.int32)
    given = [sg.tensor(a, device=units, requires_grad=a is not y) for a in (x, w, y)]
    found = step(*given)
    dots = [k for k in step.plan.kernels if k.archetype == "dot"]
    assert all(" units " in k.choice and "loads of 8 and 8" in k.choice for k in dots)
    x, w = x.astype(np.float64), w.astype(np.float64)
    logits = x @ w.T
    weights = np.exp(logits - logits.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    slopes = 1024 / 40 * (weights - np.eye(50)[y])
    right = -np.log(weights[np.arange(40), y]).mean(), slopes @ w, slopes.T @ x
    for a, b in zip(found, right, strict=True):
        assert_close(a.detach().float().numpy(), b.astype(np.float32), rtol=2.0**-6, atol=2.0**-6 * np.abs(b).max())


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("sizes", [(40, 64, 96), (33, 36, 72)], ids=str)
def test_quantised_weights_are_rounded_to_halves_on_their_way_into_tiles(
    bits: int, sizes: tuple[int, int, int], units: str
) -> None:
    """Of a layer's product, and of the gradient of its input."""
    m, n, k = sizes
    layer = sg.quantize(sg.nn.Linear(k, n, bias=False).to(units), bits, 24).half()
    weight = layer.weight.float().numpy().astype(np.float64)
    cases = (drawn(m, k), weight.T, lambda x: x @ layer.weight.T), (drawn(m, n), weight, lambda x: x @ layer.weight)
    for operand, exact, call in cases:
        (found,) = results(call, [operand], units)
        wide = operand.astype(np.float64)
        assert_near(found, wide @ exact, np.abs(wide) @ np.abs(exact))


@pytest.mark.parametrize(
    ("channels", "out", "sizes", "window", "options"),
    [
        (32, 40, (9, 10), 3, {"padding": 1}),
        (40, 32, (8, 8), (3, 2), {"padding": (1, 0)}),
        (32, 32, (11, 12), 3, {"padding": 1, "stride": 2}),
        (32, 72, (12, 10), 1, {"stride": 2}),
        (32, 32, (12, 13), 3, {"padding": 2, "dilation": 2}),
        (32, 32, (9, 9), 4, {"padding": 2, "stride": (3, 1)}),
        (32, 32, (6, 7), 1, {}),
    ],
    ids=str,
)
def test_convolutions(
    channels: int, out: int, sizes: tuple[int, int], window: Any, options: dict[str, Any], units: str
) -> None:
    """And both gradients: all of their products are on units."""
    rows, columns = (window, window) if isinstance(window, int) else window
    x, w = drawn(3, channels, *sizes), drawn(out, channels, rows, columns).astype(np.float32)

    def all_three(x: Any, w: Any) -> Any:
        y = sg.nn.functional.conv2d(x, w.to(x.dtype), **options)
        g = (sg.arange(y.numel(), device=y.device).reshape(y.shape) * 7 % 5 - 2).to(y.dtype)
        return y, *sg.autograd.grad((y * g).sum(), (x, w))

    step = sg.compile(all_three)
    found = step(*(sg.tensor(a, device=units, requires_grad=True) for a in (x, w)))
    dots = [k for k in step.plan.kernels if k.archetype == "dot"]
    assert dots
    assert all(" units " in k.choice for k in dots)
    wide = [a.astype(np.float16).astype(np.float64) for a in (x, w)]
    exact = all_three(*(sg.tensor(a, device="cpu", requires_grad=True) for a in wide))
    for y, right in zip(found, exact, strict=True):
        right = right.detach().numpy()
        error = np.abs(y.detach().float().numpy() - right)
        assert (error <= HALF * np.abs(right) + 2.0**-20 * 2 * x.size).all()


@pytest.mark.parametrize("units", [0], indirect=True)
@pytest.mark.parametrize(
    ("sizes", "by_row", "causal"),
    [((2, 1, 70, 100, 16), True, True), ((1, 2, 40, 72, 16), False, False), ((1, 1, 36, 40, 96), False, True)],
    ids=str,
)
def test_attention(sizes: tuple[int, ...], by_row: bool, causal: bool, units: str) -> None:
    """Forward and backward, with blocks that are not full, from arrays whose heads lie in rows or apart."""
    n, heads, rows, columns, d = sizes
    shapes = [(n, m, heads, d) if by_row else (n, heads, m, d) for m in (rows, columns, columns, rows)]
    arrays = [drawn(*shape) for shape in shapes]

    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        a, b, c, of_result = (x.transpose(1, 2) if by_row else x for x in (q, k, v, g))
        y = sg.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=causal)
        return y, *sg.autograd.grad((y * of_result).sum(), (q, k, v))

    step = sg.compile(both)
    found = step(*(sg.tensor(a, device=units, requires_grad=i < 3) for i, a in enumerate(arrays)))
    assert [k.choice for k in step.plan.kernels if k.archetype == "call"] == [
        f"call: matrix units, blocks of 64 x {64 if d <= 64 else 32}",
        f"call: matrix units, blocks of {64 if d <= 64 else 32} x 32",
    ]
    exact = both(*(sg.tensor(a.astype(np.float64), device="cpu", requires_grad=i < 3) for i, a in enumerate(arrays)))
    for y, right in zip(found, exact, strict=True):
        right = right.detach().numpy()
        error = np.abs(y.detach().float().numpy() - right)
        assert (error <= 4 * HALF * np.abs(right).max()).all()


@pytest.mark.parametrize("units", [0], indirect=True)
def test_weights_of_attention_may_be_small(units: str) -> None:
    """As those of long sequences are: here the first key has all weight but little, and the value 0."""
    q, k, v, g = (np.zeros((1, 1, 40, 16), np.float16) for _ in range(4))
    g[...] = 1024
    q[..., 0], k[..., 0, 0], k[..., 1:, 0], v[..., 1:, :] = 8, 4, -4.875, 60000

    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        y = sg.nn.functional.scaled_dot_product_attention(q, k, v)
        return y, *sg.autograd.grad((y * g).sum(), (q, v))

    step = sg.compile(both)
    found = step(*(sg.tensor(a, device=units, requires_grad=True) for a in (q, k, v, g)))
    assert all("matrix units" in k.choice for k in step.plan.kernels if k.archetype == "call")
    exact = both(*(sg.tensor(a.astype(np.float64), device="cpu", requires_grad=True) for a in (q, k, v, g)))
    for y, right in zip(found, exact, strict=True):
        assert_close(y.detach().float().numpy(), right.detach().numpy(), rtol=8 * HALF, atol=2.0**-24)


@pytest.mark.parametrize("units", [0], indirect=True)
def test_an_infinite_value_of_the_last_key_makes_no_nan(units: str) -> None:
    """Although the block has rows behind it, whose weights are 0."""
    q, k, v = (np.zeros((1, 1, 40, 16), np.float16) for _ in range(3))
    v[0, 0, -1, 3] = np.inf
    step = sg.compile(lambda q, k, v: sg.nn.functional.scaled_dot_product_attention(q, k, v))
    found = step(*(sg.tensor(a, device=units) for a in (q, k, v))).float().numpy()
    assert all("matrix units" in k.choice for k in step.plan.kernels if k.archetype == "call")
    assert (found[..., 3] == np.inf).all()
    assert (np.delete(found, 3, -1) == 0).all()


@pytest.mark.parametrize("units", [0], indirect=True)
def test_scores_far_below_zero(units: str) -> None:
    """A row of zeros behind the last key or query has a score of 0, whose exponential would be infinite beside these."""
    q, k, v, g = (drawn(1, 1, 40, 16) for _ in range(4))
    q[...], k[...] = 8 + q / 64, -8 + k / 64

    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        y = sg.nn.functional.scaled_dot_product_attention(q, k, v)
        return y, *sg.autograd.grad((y * g).sum(), (q, k, v))

    step = sg.compile(both)
    found = step(*(sg.tensor(a, device=units, requires_grad=i < 3) for i, a in enumerate((q, k, v, g))))
    assert all("matrix units" in kernel.choice for kernel in step.plan.kernels if kernel.archetype == "call")
    exact = both(*(sg.tensor(a.astype(np.float64), device="cpu", requires_grad=True) for a in (q, k, v, g)))
    for y, right in zip(found, exact, strict=True):  # slopes of q and k are sums of some 0.1 that nearly cancel
        error = np.abs(y.detach().float().numpy() - right.detach().numpy())
        assert (error <= 2 * HALF * (1 + np.abs(right.detach().numpy()))).all()
