"""Products whose threads hand each other what they loaded (llvmpipe), and what is composed of them: right at every edge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad import nn
from shadergrad.compile import buffers
from shadergrad.drive.execute import programs
from shadergrad.nn import functional as F
from shadergrad.runtime import families
from shadergrad.runtime.device import get_device

rng = np.random.default_rng(0)
Compute = Callable[..., Any]


def drawn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.fixture
def shares(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Small products count as large ones; whether the adapter's are computed so at all."""
    gpu: Any = get_device(webgpu)
    monkeypatch.setattr(gpu, "target", gpu.target.having(shuffled_from=0))
    programs.clear()
    yield gpu.target.traits.slow_loads
    programs.clear()


def sources(step: Any) -> str:
    return "\n".join(kernel.source for kernel in step.plan.kernels)


PRODUCTS: list[tuple[Compute, tuple[tuple[int, ...], ...]]] = [
    (lambda a, b: a @ b, ((64, 40), (40, 128))),
    (lambda a, b: a @ b, ((33, 19), (19, 70))),  # nothing goes up
    (lambda a, b: a @ b.T, ((5, 9), (13, 9))),
    (lambda a, b: a.T @ b, ((17, 40), (17, 36))),
    (lambda a, b: a @ b, ((3, 34, 20), (3, 20, 66))),
    (lambda a, b: a @ b, ((20, 24), (3, 24, 10))),  # one left operand for all
    (lambda a, b: a.T @ b, ((2100, 12), (2100, 9))),  # in parts
    (lambda a, b: a @ b, ((21, 2100), (2100, 20))),  # four places at a time, in parts
    (lambda a, b: a @ b.T, ((21, 36), (30, 36))),  # four places of a column are one load, too
    (lambda a, b: a.T @ b.T, ((36, 21), (30, 36))),
    (lambda a, b: (a.exp() @ b.relu() + 1).tanh(), ((18, 8), (8, 20))),
    (lambda a, b, c: F.gelu(a @ b + c), ((40, 8), (8, 72), (72,))),
    (lambda a, b, c: a @ b + c, ((35, 8), (8, 10), (35, 10))),
]


@pytest.mark.parametrize(("compute", "shapes"), PRODUCTS, ids=[str(shapes) for _, shapes in PRODUCTS])
def test_products(compute: Compute, shapes: tuple[tuple[int, ...], ...], webgpu: str, shares: bool) -> None:
    arrays = [drawn(*shape) for shape in shapes]
    step = sg.compile(compute)
    found = step(*(sg.tensor(a, device=webgpu) for a in arrays)).numpy()
    expected = compute(*(sg.tensor(a.astype(np.float64)) for a in arrays)).numpy()
    assert_close(found, expected, 1e-4, 1e-4)
    assert ("subgroupShuffle" in sources(step)) == shares


def test_convolutions_by_points(webgpu: str, shares: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = get_device(webgpu)
    monkeypatch.setattr(device, "target", device.target.having(winograd=1e9))
    arrays = [drawn(2, 5, 10, 9), drawn(7, 5, 3, 3), drawn(2, 7, 10, 9)]

    def derivatives(x: Any, w: Any, g: Any) -> tuple[Any, ...]:
        x, w = (t.detach().requires_grad_() for t in (x, w))
        convolve: Any = F.conv2d if isinstance(x, sg.Tensor) else torch.nn.functional.conv2d
        y = convolve(x, w, padding=1)
        y.backward(g)
        return y.detach(), x.grad, w.grad

    step = sg.compile(derivatives)
    found = step(*(sg.tensor(a, device=webgpu) for a in arrays))
    expected = derivatives(*(torch.tensor(a.astype(np.float64)) for a in arrays))
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours.numpy(), theirs.numpy(), 1e-4, 1e-4)
    assert ("subgroupShuffle" in sources(step)) == shares
    assert any("topoints" in kernel.name for kernel in step.plan.kernels)


@pytest.mark.parametrize("shapes", [((21, 30), (30, 18)), ((21, 36), (36, 20))], ids=str)
def test_integers(shapes: tuple[tuple[int, int], ...], webgpu: str, shares: bool) -> None:
    a, b = (rng.integers(-9, 9, shape).astype(np.int32) for shape in shapes)
    found = sg.tensor(a, device=webgpu) @ sg.tensor(b, device=webgpu)
    assert found.numpy().tolist() == (a @ b).tolist()


def test_a_size_that_varies(webgpu: str, shares: bool) -> None:
    weight = sg.tensor(drawn(24, 40), device=webgpu)
    step = sg.compile(lambda x: (x @ weight).relu(), dynamic=True)
    for rows in (7, 40, 65, 1):
        x = drawn(rows, 24)
        assert_close(step(sg.tensor(x, device=webgpu)).numpy(), np.maximum(x @ weight.numpy(), 0), 1e-4, 1e-5)


def test_convolutions_and_their_gradients(webgpu: str, shares: bool) -> None:
    x, w = drawn(3, 5, 9, 8), drawn(7, 5, 3, 3)
    ours: list[Any] = [sg.tensor(a, device=webgpu, requires_grad=True) for a in (x, w)]
    theirs: list[Any] = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, w)]
    found, expected = F.conv2d(*ours, stride=2, padding=1), torch.nn.functional.conv2d(*theirs, stride=2, padding=1)
    found.square().sum().backward()
    expected.square().sum().backward()
    assert_close(found.detach().numpy(), expected.detach().numpy(), 1e-4, 1e-4)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a.grad.numpy(), b.grad.numpy(), 1e-4, 1e-4)


def test_windows_that_many_rows_want_are_stored(webgpu: str, shares: bool) -> None:
    """Forward and in both gradients, of a convolution with steps."""
    x, w = drawn(2, 6, 9, 8), drawn(buffers.READ_OFTEN, 6, 3, 3)

    def derivatives(x: Any, w: Any) -> tuple[Any, ...]:
        x, w = (t.detach().requires_grad_() for t in (x, w))
        library: Any = F if isinstance(x, sg.Tensor) else torch.nn.functional
        y = library.conv2d(x, w, stride=2, padding=1)
        y.square().sum().backward()
        return y.detach(), x.grad, w.grad

    step = sg.compile(derivatives)
    found = step(*(sg.tensor(a, device=webgpu) for a in (x, w)))
    for ours, theirs in zip(found, derivatives(*(torch.tensor(a.astype(np.float64)) for a in (x, w))), strict=True):
        assert_close(ours.numpy(), theirs.numpy(), 1e-4, 1e-4)
    stored = [kernel for kernel in step.plan.kernels if kernel.archetype == "map" and "window" in kernel.origin]
    assert bool(stored) == shares


def test_elements_that_are_read_two_by_two(webgpu: str) -> None:
    """Whole floats, which no rounding changes, integers and bools: four at a time, and of the same arrays single ones."""
    x, n, b = np.rint(4 * drawn(3, 8)), rng.integers(-9, 9, (3, 8)).astype(np.int32), rng.random((3, 8)) < 0.5

    @sg.compile
    def step(x: Any, n: Any, b: Any) -> tuple[Any, ...]:
        return (b.logical_not(), sg.where(b, x, n + n[:, 3:4]), x + x[:, 5:6] * x[:, 2:3], n * 2)

    found = step(*(sg.tensor(a, device=webgpu) for a in (x, n, b)))
    expected = (~b, np.where(b, x, n + n[:, 3:4]), x + x[:, 5:6] * x[:, 2:3], n * 2)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.astype(ours.numpy().dtype))
    gpu: Any = get_device(webgpu)
    for function in ("(sg_four(", "(sg_one("):
        assert (function in sources(step)) == gpu.target.traits.slow_loads


def test_products_of_many_sizes_share_kernels(webgpu: str, shares: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one plan, where a driver compiles slowly. Each size by itself gives what it should."""
    monkeypatch.setattr(families, "MANY", 2)
    monkeypatch.setattr(families, "LONG", 0)
    sizes = [(8, 12, 16), (12, 20, 28), (20, 8, 24), (9, 7, 5), (11, 13, 15)]
    arrays = [(drawn(m, k), drawn(k, n)) for m, k, n in sizes]
    gpu: Any = get_device(webgpu)

    @sg.compile
    def step(*pairs: Any) -> list[Any]:
        return [(a @ b).relu() for a, b in zip(pairs[::2], pairs[1::2], strict=True)]

    inputs = [sg.tensor(a, device=webgpu) for pair in arrays for a in pair]
    before = gpu.statistics().pipelines
    for _ in range(2):
        for found, (a, b) in zip(step(*inputs), arrays, strict=True):
            assert_close(found.numpy(), np.maximum(a @ b, 0), 1e-4, 1e-5)
    if shares:
        assert len({kernel.source for kernel in step.plan.kernels}) == len(sizes)
        assert gpu.statistics().pipelines - before < len(sizes)


@pytest.mark.parametrize("rows", [300, 513])
def test_rows_of_one_thread(rows: int, webgpu: str) -> None:
    """Enough elements that a thread takes a row, along it and across."""
    gpu: Any = get_device(webgpu)
    x = drawn(rows, 257)
    found = sg.tensor(x, device=webgpu)
    step = sg.compile(lambda x: x.softmax(-1))
    step(found)
    assert ("workgroupBarrier" in sources(step)) != gpu.target.traits.slow_loads
    double = torch.tensor(x, dtype=torch.float64)
    assert_close(found.softmax(-1).numpy(), double.softmax(-1).numpy(), 1e-4, 1e-7)
    assert_close(found.sum(0).numpy(), double.sum(0).numpy(), 1e-4, 1e-4)
    assert_close(found.var(1).numpy(), double.var(1).numpy(), 1e-4, 1e-5)
    assert found.argmax(1).numpy().tolist() == double.argmax(1).tolist()


SELF, CROSS = (2, 3, 10, 10, 16), (1, 2, 9, 14, 20)


@pytest.mark.parametrize(
    ("shape", "options"),
    [(SELF, {}), (SELF, {"is_causal": True}), (CROSS, {"attn_mask": "bools"}), (CROSS, {"attn_mask": "numbers"})],
    ids=str,
)
def test_attention(shape: tuple[int, ...], options: dict[str, Any], webgpu: str, shares: bool) -> None:
    n, heads, length, columns, d = shape
    arrays = [drawn(n, heads, size, d) for size in (length, columns, columns)]
    masks = {"bools": rng.random((n, 1, length, columns)) < 0.6, "numbers": drawn(length, columns)}
    mask = masks.get(options.get("attn_mask", ""))
    results = []
    for library, device in ((sg, webgpu), (torch, "cpu")):
        q, k, v = (library.tensor(a, device=device, requires_grad=True) for a in arrays)
        given = {**options, "attn_mask": None if mask is None else library.tensor(mask, device=device)}
        attend = (F if library is sg else torch.nn.functional).scaled_dot_product_attention
        result = attend(q, k, v, **given)
        result.square().sum().backward()
        results.append([result.detach().numpy(), *(x.grad.numpy() for x in (q, k, v))])
    for found, expected in zip(*results, strict=True):
        assert_close(found, np.nan_to_num(expected), 1e-4, 1e-5)


def test_attention_of_parts_of_one_array_with_dropout(webgpu: str, shares: bool) -> None:
    """q, k and v beside each other, as a projection leaves them: gradients in one array. The cpu device drops the same weights."""
    x, g = drawn(2, 11, 3 * 2 * 16), drawn(2, 2, 11, 16)
    results = []
    for device in (webgpu, "cpu"):
        sg.manual_seed(3)
        given: Any = sg.tensor(x, device=device, requires_grad=True)

        @sg.compile
        def step(x: Any, g: Any) -> Any:
            q, k, v = x.reshape(2, 11, 3, 2, 16).permute(2, 0, 3, 1, 4)
            result = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
            (result * g).sum().backward()
            return result.detach()

        results.append([step(given, sg.tensor(g, device=device)).numpy(), given.grad.numpy()])
        if device == webgpu and shares:
            assert not any(kernel.archetype == "call" for kernel in step.plan.kernels)
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, 1e-4, 1e-5)


def test_a_layer_equals_the_cpu_device(webgpu: str, shares: bool) -> None:
    x = drawn(2, 9, 16)
    results = []
    for device in (webgpu, "cpu"):
        sg.manual_seed(0)
        layer: Any = nn.TransformerEncoderLayer(16, 1, 24, dropout=0.0, batch_first=True).to(device)
        layer(sg.tensor(x, device=device)).square().sum().backward()
        results.append([p.grad.numpy() for p in layer.parameters()])
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, 1e-4, 1e-5)
