"""Scattered sums in machine code against the interpreter's: the same bits, for any number of threads; a planted fault is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_same_bits
from shadergrad.compile.native import scatter
from shadergrad.errors import PositionError
from shadergrad.primitives.indexing import ScatterAdd
from shadergrad.runtime import cpu, llvm, native_operations
from shadergrad.runtime.native_operations import operation_of
from shadergrad.runtime.threads import pool

pytestmark = pytest.mark.skipif(
    llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'
)

# shape of the source, axis, places; whether a position is that of a whole row
SIZES = [
    ((50,), 0, 7, False),
    ((3, 40, 5), 1, 9, False),
    ((3, 40, 37), 1, 9, True),
    ((3000, 64), 0, 96, True),
    ((300, 90), 1, 11, False),
    ((4, 1, 3), 1, 2, True),
    ((2, 9, 16, 3), 1, 4, False),
]


@pytest.fixture(autouse=True)
def machine_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For arrays of any size."""
    monkeypatch.setattr(native_operations, "FEW_SCATTERED", 0)
    count = pool.count
    yield
    pool.limit(count)


def assert_equals_the_interpreters(
    shape: tuple[int, ...], axis: int, size: int, rows: bool, dtype: str, at: str
) -> None:
    rng = np.random.default_rng(5)
    source = (rng.standard_normal(shape) * 100).astype(dtype)
    if source.dtype.kind == "f":
        source.reshape(-1)[:4] = [-0.0, np.inf, 1e30, -1e30]
    known = (*shape[: axis + 1], *(1 for _ in shape[axis + 1 :])) if rows else shape
    positions = np.broadcast_to(rng.integers(0, size, known).astype(at), shape)
    primitive = ScatterAdd(axis, size)
    expected = primitive.numpy(positions, source)
    for count in (1, 2, 3):
        pool.limit(count)
        assert_same_bits(operation_of(primitive).numpy(positions, source), expected, f"{count} threads")
    turned = np.asfortranarray(source)
    assert_same_bits(operation_of(primitive).numpy(positions, turned), expected, "another order in memory")


@pytest.mark.parametrize("at", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
@pytest.mark.parametrize("case", SIZES, ids=str)
def test_scattered_sums_have_the_interpreters_bits(
    case: tuple[tuple[int, ...], int, int, bool], dtype: str, at: str
) -> None:
    with np.errstate(all="ignore"):
        assert_equals_the_interpreters(*case, dtype, at)


FAULTS = {  # within the arrays
    "lanes": ("%count = sub i64 %column.end, %column", "%count = sub i64 1, 0"),
    "the outer index of the result": ("%row.first = mul i64 %o, %size", "%row.first = mul i64 %o, 0"),
    "the outer index of the source": ("%source.first = mul i64 %o, %length", "%source.first = mul i64 %o, 0"),
    "the first position": ("%j = phi i64 [ 0,", "%j = phi i64 [ 1,"),
    "the sum": ("fadd", "fsub"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = FAULTS[fault]
    text = scatter.scatter_text("float32", "int32", True)
    assert old in text
    monkeypatch.setattr(scatter, "scatter_text", lambda *_: text.replace(old, new))
    with pytest.raises(AssertionError):
        assert_equals_the_interpreters((3, 40, 37), 1, 9, True, "float32", "int32")


@pytest.mark.parametrize("position", [-1, 4])
def test_positions_out_of_range_raise(position: int) -> None:
    positions = np.broadcast_to(np.array([[0], [position]], np.int32), (2, 20))
    with pytest.raises(PositionError):
        operation_of(ScatterAdd(0, 4)).numpy(positions, np.ones((2, 20), np.float32))


def test_the_gradient_of_an_embedding_is_the_interpreters() -> None:
    rng = np.random.default_rng(7)
    indices = rng.integers(0, 5, (6, 3))
    upstream = rng.standard_normal((6, 3, 17)).astype(np.float32)
    w = sg.tensor(rng.standard_normal((5, 17)).astype(np.float32), requires_grad=True)
    (sg.nn.functional.embedding(sg.tensor(indices), w) * sg.tensor(upstream)).sum().backward()
    expected = np.zeros((5, 17), np.float32)
    np.add.at(expected, indices, upstream)
    assert w.grad is not None
    assert_same_bits(w.grad.numpy(), expected)


@pytest.mark.parametrize("kind", ["an output", "read by a kernel"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_sums_in_reused_memory_begin_at_zero(kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program's result lies where another run, or another array of this one, has left its own; int8 is NumPy's."""
    for name in ("COMES_AGAIN", "LITTLE_COMES_AGAIN", "LONG_COMES_AGAIN"):
        monkeypatch.setattr(cpu, name, 1)
    monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu="native"))
    target = sg.zeros(64, 24, dtype=getattr(sg, dtype))

    @sg.compile
    def step(x: sg.Tensor, at: sg.Tensor) -> sg.Tensor:
        rows = target.index_add(0, at, x)
        return rows if kind == "an output" else (rows * 2 + 1).reshape(-1)

    rng = np.random.default_rng(11)
    for _ in range(3):
        x = rng.integers(-3, 4, (40, 24)).astype(dtype)
        at = rng.integers(0, 64, 40)
        expected = np.zeros((64, 24), dtype)
        np.add.at(expected, at, x)
        found = step(sg.tensor(x), sg.tensor(at)).numpy()
        assert_same_bits(found, expected if kind == "an output" else (expected * 2 + 1).reshape(-1).astype(dtype))
