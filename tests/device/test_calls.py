"""Kernels written by hand: a call in a graph, and each call of the library against its NumPy twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_close
from shadergrad.compile import order
from shadergrad.compile.calls import own_of
from shadergrad.drive.execute import programs
from shadergrad.graph import build
from shadergrad.graph import node as nodes
from shadergrad.primitives.attention import AttentionGradient
from shadergrad.primitives.attention_kernels import (
    JoinShares,
    LaidAttention,
    LaidGradient,
    LaidShares,
    LaidSums,
)
from shadergrad.primitives.attention_tiles import Blocks, Problem, Shares
from shadergrad.primitives.call import Call, CallKernel
from shadergrad.primitives.elementwise import Mul
from shadergrad.primitives.radix import DigitCounts, DigitStarts, MoveByDigit
from shadergrad.primitives.sorting import BLOCK, MergeRuns, SegmentStarts, SegmentSum, SortBlocks
from shadergrad.runtime.device import get_device
from shadergrad.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Axpy(Call):
    """scale * x + y."""

    kind = "call"
    arguments = ("x", "y")
    scale: float

    def infer(self, *inputs):
        return inputs[0].shape, inputs[0].dtype

    def numpy(self, x, y):
        return (self.scale * x + y).astype(x.dtype)

    def vjp(self, g, node):
        return nodes.make(Mul(), g, build.like(g, self.scale)), g

    def kernel(self, options, *inputs):
        n = inputs[0].size
        body = f"let t = wg * 64 + i32(lid);\nif (t < {n}) {{ result[t] = {self.scale} * x[t] + y[t]; }}"
        return CallKernel(body, 64, -(-n // 64), flops=2 * n)


def axpy(x: Tensor, y: Tensor, scale: float = 2.0) -> Tensor:
    return Tensor._of(nodes.make(Axpy(scale), x._node, y._node))


def test_a_call_takes_views_and_expressions_and_gives_gradients(device: str) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = sg.tensor(a, device=device, requires_grad=True)
    y = sg.ones(4, 3, device=device).exp()
    z = axpy((x * 3).t(), y)
    (z * z).sum().backward()
    expected = 6 * a + np.e
    assert_close(z.detach().numpy(), expected.T, 1e-6, 0)
    assert x.grad is not None
    assert_close(x.grad.numpy(), 12 * expected, 1e-6, 0)


def test_a_call_reads_reshaped_tensors_without_a_copy(webgpu: str) -> None:
    @sg.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        return axpy(x.reshape(12), y.reshape(12)).reshape(3, 4)

    x = sg.arange(12, device=webgpu, dtype=sg.float32)
    result = step(x.reshape(4, 3), x.reshape(2, 6))
    assert_close(result.numpy(), (3 * np.arange(12)).reshape(3, 4), 0, 0)
    assert step.explain().count("  call  ") == 1
    assert "1 dispatches" in step.explain()


def test_calls_feed_calls_reductions_and_products(device: str) -> None:
    x = sg.arange(6, device=device, dtype=sg.float32).reshape(2, 3)
    z = axpy(axpy(x, x).exp().log(), x.sum(1, keepdim=True).expand(2, 3), 0.5)
    expected = 1.5 * np.arange(6).reshape(2, 3) + np.array([[3], [12]])
    assert_close((z @ sg.eye(3, device=device)).sum(0).numpy(), expected.sum(0), 1e-5, 0)


def test_a_call_in_a_compiled_step_updates_in_place(device: str) -> None:
    w = sg.ones(5, device=device, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=0.1)

    @sg.compile
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = axpy(w, x).sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(sg.ones(5, device=device)).item() for _ in range(3)]
    assert_close(np.array(losses), np.array([15.0, 13.0, 11.0]), 1e-5, 0)


# ---------------------------------------------------------------------------------- the library's own


def same(primitive: Call, *arrays: np.ndarray, device: str) -> None:
    found = Tensor._of(nodes.make(primitive, *(sg.tensor(a, device=device)._node for a in arrays))).numpy()
    assert_close(found, primitive.numpy(*arrays), rtol=1e-5, atol=1e-5)


def runs(rows: int, n: int, width: int) -> np.ndarray:
    """Keys with many ties in sorted runs, and positions."""
    keys = np.random.default_rng(n).integers(0, 50, (rows, n)).astype(np.uint32)
    order_ = np.concatenate(
        [np.argsort(keys[:, s : s + width], axis=1, kind="stable") + s for s in range(0, n, width)], axis=1
    )
    return np.stack([np.take_along_axis(keys, order_, axis=1), order_.astype(np.uint32)])


@pytest.mark.parametrize("n", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_sort_blocks(n: int, descending: bool, dtype: str, webgpu: str) -> None:
    x: Any = np.random.default_rng(n).integers(0, 99, (3, n)).astype(dtype)
    if dtype != "uint32":
        x -= x.dtype.type(50)
    if dtype == "float32":
        x[0, n // 2 :: 7], x[1, n // 3 :: 5], x[2, :: 3], x[2, 1::9] = np.nan, -0.0, np.inf, -np.inf  # fmt: skip
    same(SortBlocks(descending), x, device=webgpu)


@pytest.mark.parametrize(
    ("n", "width"), [(1, BLOCK), (2 * BLOCK, BLOCK), (3 * BLOCK + 7, BLOCK), (3 * BLOCK - 5, 2 * BLOCK)]
)
def test_merge_runs(n: int, width: int, webgpu: str) -> None:
    same(MergeRuns(width), runs(2, n, width), device=webgpu)


def test_merge_runs_of_which_one_comes_first(webgpu: str) -> None:
    """All of a run before, or after, the other: parts of a merge begin at the ends of the runs."""
    low, high = np.arange(BLOCK, dtype=np.uint32), np.arange(BLOCK, 2 * BLOCK, dtype=np.uint32)
    for keys in ((low, high), (high, low)):
        same(
            MergeRuns(BLOCK), np.stack([[np.concatenate(keys)], [np.arange(2 * BLOCK, dtype=np.uint32)]]), device=webgpu
        )


@pytest.mark.parametrize(("n", "dtype", "descending"), [(5003, "float32", False), (1, "int32", True)])
@pytest.mark.parametrize("many", [False, True])
def test_sorting_by_digits(n: int, dtype: str, descending: bool, many: bool, webgpu: str) -> None:
    """The three calls of a digit, of values and of what the digit before left."""
    own = own_of(1 << 30 if many else 1, get_device(webgpu).target)
    x: Any = np.random.default_rng(n).integers(-50, 50, (2, n)).astype(dtype)
    if dtype == "float32":
        x[0, ::7], x[1, ::5], x[1, ::3], x[1, 1::9] = np.nan, -0.0, np.inf, -np.inf
    for shift in (0, 24):
        count, move = DigitCounts(shift, descending, own), MoveByDigit(shift, descending, own)
        same(count, x, device=webgpu)
        same(DigitStarts(), count.numpy(x), device=webgpu)
        given = x, DigitStarts().numpy(count.numpy(x))
        same(move, *given, device=webgpu)
        x = move.numpy(*given)


@pytest.mark.parametrize(("rows", "outer", "inner"), [(1, 1, 1), (1, 3, 5), (1, 2, 8), (15, 3, 5)])
@pytest.mark.parametrize(("n", "size"), [(1, 1), (700, 3), (700, 50), (50, 700)])
def test_segment_sum(rows: int, outer: int, inner: int, n: int, size: int, webgpu: str) -> None:
    """Keys beyond the size, from positions out of range, add nothing."""
    source = np.random.default_rng(0).normal(size=(outer, n, inner)).astype(np.float32)
    index = runs(rows, n, n)
    same(SegmentStarts(size), index, device=webgpu)
    same(SegmentSum(size), index, SegmentStarts(size).numpy(index), source, device=webgpu)


def heads(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(2, 3, rows, 16)).astype(np.float32)


@pytest.mark.parametrize("by_row", [True, False])
def test_the_calls_of_attention(by_row: bool, webgpu: str) -> None:
    """The forward pass, the gradients in two ways; q lies (n, rows, heads, d), k and v in one array beside each other."""
    problem = Problem(2, 3, 8, 12, 16, 0.25, True, (0, 0, 12, 1), False, 0.25, by_row)
    mask, key = np.random.default_rng(1).normal(size=(1, 1, 8, 12)).astype(np.float32), np.array([1, 2], np.uint32)
    q, g, kv = heads(8).transpose(0, 2, 1, 3).copy(), heads(8) + 1, np.stack([heads(12), heads(12) + 1])
    layouts = ((0, 384, 16, 48), (0, 576, 192, 16), (1152, 576, 192, 16))
    given = (q, kv, kv, mask, key)
    forward = LaidAttention(problem, layouts, True)
    same(forward, *given, device=webgpu)
    same(LaidAttention(problem, layouts, False), *given, device=webgpu)
    flat = forward.numpy(*given)
    places, shape = ((0, 384, 16, 48), (768, 576, 192, 16), (1920, 576, 192, 16)), (3072,)
    laid = ((0, 384, 128, 16), *layouts)
    same(LaidGradient(problem, laid, places, shape), g, flat, *given, device=webgpu)
    plain = AttentionGradient(0.25, True, True, 0.25, by_row, places, shape)
    same(plain, g, flat, q.transpose(0, 2, 1, 3).copy(), *kv, mask, key, device=webgpu)
    shares = Shares(Blocks(32, 32, 64, 16), 2)
    of_rows = LaidSums(problem, laid[0])
    same(of_rows, g, flat, device=webgpu)
    divided = LaidShares(problem, laid, shares).numpy(g, of_rows.numpy(g, flat), *given)
    joined = JoinShares(problem, shares, places, shape)
    same(joined, divided, device=webgpu)
    np.testing.assert_allclose(
        joined.numpy(divided),
        LaidGradient(problem, laid, places, shape).numpy(g, flat, *given),
        rtol=1e-5,
        atol=1e-5,
    )


# ---------------------------------------------------------------------------------- what is made of them


@pytest.mark.parametrize("pairs", [1 << 40, 0])
@pytest.mark.parametrize("shape", [(2, 300), (3, 1100), (5, 1, 7)])
@pytest.mark.parametrize("descending", [False, True])
def test_both_ways_of_sorting_are_stable(
    shape: tuple[int, ...], descending: bool, pairs: int, webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "ALL_PAIRS", pairs)
    programs.clear()
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    x[..., ::11] = np.nan
    for axis in range(len(shape)):
        found = sg.argsort(sg.tensor(x, device=webgpu), dim=axis, descending=descending, stable=True).numpy()
        expected = sg.argsort(sg.tensor(x), dim=axis, descending=descending, stable=True).numpy()
        np.testing.assert_array_equal(found, expected)
    programs.clear()


def test_a_long_sort_equals_numpys(device: str) -> None:
    x = np.random.default_rng(0).normal(size=100_003).round(3).astype(np.float32)  # with ties, and both zeros
    values, positions = sg.tensor(x, device=device).sort()
    np.testing.assert_array_equal(values.numpy(), np.sort(x))
    np.testing.assert_array_equal(positions.numpy(), np.argsort(x, kind="stable"))
    top, _ = sg.tensor(x, device=device).topk(5)
    np.testing.assert_array_equal(top.numpy(), np.sort(x)[::-1][:5])
    assert sg.tensor(x, device=device).median().item() == np.sort(x)[50_001]


@pytest.mark.parametrize("skew", ["uniform", "one", "few"])
@pytest.mark.parametrize("dim", [0, 1])
def test_large_scattered_sums(skew: str, dim: int, webgpu: str) -> None:
    rng = np.random.default_rng(0)
    n, size, width = 3001, 5003, 6
    places = {"uniform": rng.integers(0, size, n), "one": np.full(n, size - 1), "few": rng.integers(0, 3, n)}[skew]
    source = rng.normal(size=(n, width)).astype(np.float32)
    expected = np.zeros((size, width))
    np.add.at(expected, places, source.astype(np.float64))
    if dim:
        source, expected = source.T, expected.T
    start = sg.zeros(expected.shape, device=webgpu)
    positions = sg.tensor(places, device=webgpu)
    added = start.index_add(dim, positions, sg.tensor(source, device=webgpu))
    assert_close(added.numpy(), expected, rtol=1e-4, atol=1e-3)
    full = positions.unsqueeze(1 - dim).expand(source.shape)
    scattered = start.scatter_add(dim, full, sg.tensor(source, device=webgpu))
    assert_close(scattered.numpy(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("n", "size"), [(700, 2000), (3000, 255), (3000, 256)])
def test_scattered_sums_where_every_row_has_its_own_places(n: int, size: int, webgpu: str) -> None:
    """Places of one digit are sorted by it, others in merged blocks."""
    rng = np.random.default_rng(0)
    places = rng.integers(-2, size + 3, (4, n, 3))  # some out of range: they add nothing
    source = rng.normal(size=places.shape).astype(np.float32)
    inside = (places >= 0) & (places < size)
    expected = np.zeros((4, size, 3))
    positions = np.indices(places.shape)
    a, b = positions[0], positions[2]
    np.add.at(expected, (a[inside], places[inside], b[inside]), source[inside])
    added = sg.zeros(4, size, 3, device=webgpu).scatter_add(
        1, sg.tensor(places, device=webgpu) + 0, sg.tensor(source, device=webgpu)
    )
    with pytest.raises(sg.IndexRangeError):  # once
        added.numpy()
    assert_close(added.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_an_embedding_of_a_large_table_is_trained(webgpu: str) -> None:
    tokens = np.random.default_rng(0).integers(0, 20_000, (8, 50))
    gradients = []
    values = np.random.default_rng(1).normal(size=(20_000, 16)).astype(np.float32)
    for device in ("cpu", webgpu):
        table = sg.nn.Embedding.from_pretrained(sg.tensor(values, device=device), freeze=False)
        (table(sg.tensor(tokens, device=device)) ** 2).sum().backward()
        assert table.weight.grad is not None
        gradients.append(table.weight.grad.numpy())
    assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)
