"""int64 and uint8 on every device: PyTorch's values and dtypes, 32 bits each on a GPU, and a word where those do not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import assert_close, assert_equals_torch, assert_same_bits, grad_of
from shadergrad import nn
from shadergrad.plan import Plan
from shadergrad.runtime.device import get_device

KINDS = {name: np.dtype(name) for name in ("int64", "uint8", "int8", "int16")}
TORCH = {name: getattr(torch, name) for name in (*KINDS, "int32", "float32", "bool")}
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def numbers(kind: str, *shape: int, seed: int = 0) -> np.ndarray:
    """All of those of 8 and 16 bits; of int64, numbers of which products of three fit 32 bits."""
    low, high = (-1000, 1000) if kind == "int64" else (np.iinfo(kind).min, np.iinfo(kind).max + 1)
    return np.random.default_rng(seed).integers(low, high, shape).astype(KINDS[kind])


def ours(array: np.ndarray, device: str) -> Any:
    return sg.tensor(array, device=device)


# ---------------------------------------------------------------------------------- operations

# over a library, two arrays of one dtype, of which the second has no 0, and a float, an int32 and a bool array of their shape
OPERATIONS: dict[str, Callable[..., Any]] = {
    "x + y": lambda t, x, y, f, i, b: x + y,
    "x - y": lambda t, x, y, f, i, b: x - y,
    "x * y": lambda t, x, y, f, i, b: x * y,
    "x * x * y - x": lambda t, x, y, f, i, b: x * x * y - x,
    "(x + y) // 2": lambda t, x, y, f, i, b: (x + y) // 2,
    "x / y": lambda t, x, y, f, i, b: x / y,
    "x // y": lambda t, x, y, f, i, b: x // y,
    "x % y": lambda t, x, y, f, i, b: x % y,
    "-x": lambda t, x, y, f, i, b: -x,
    "abs": lambda t, x, y, f, i, b: x.abs(),
    "sign": lambda t, x, y, f, i, b: x.sign(),
    "relu": lambda t, x, y, f, i, b: x.relu(),
    "x ** 3": lambda t, x, y, f, i, b: x**3,
    "~x": lambda t, x, y, f, i, b: ~x,
    "x & y": lambda t, x, y, f, i, b: x & y,
    "x | y": lambda t, x, y, f, i, b: x | y,
    "x ^ y": lambda t, x, y, f, i, b: x ^ y,
    "x << 3": lambda t, x, y, f, i, b: x << 3,
    "x >> 2": lambda t, x, y, f, i, b: x >> 2,
    "x + 1": lambda t, x, y, f, i, b: x + 1,
    "200 - x": lambda t, x, y, f, i, b: 200 - x,
    "x * 2.5": lambda t, x, y, f, i, b: x * 2.5,
    "x + float": lambda t, x, y, f, i, b: x + f,
    "x + int32": lambda t, x, y, f, i, b: x + i,
    "x * bool": lambda t, x, y, f, i, b: x * b,
    "x + a number of int32": lambda t, x, y, f, i, b: x + i[0, 0],
    "maximum": lambda t, x, y, f, i, b: t.maximum(x, y),
    "minimum": lambda t, x, y, f, i, b: t.minimum(x, y),
    "clamp": lambda t, x, y, f, i, b: x.clamp(3, 100),
    "x == y": lambda t, x, y, f, i, b: x == y,
    "x != 5": lambda t, x, y, f, i, b: x != 5,
    "x < y": lambda t, x, y, f, i, b: x < y,
    "x >= 100": lambda t, x, y, f, i, b: x >= 100,
    "x <= 1.5": lambda t, x, y, f, i, b: x <= 1.5,
    "where": lambda t, x, y, f, i, b: t.where(b, x, y),
    "where with int32": lambda t, x, y, f, i, b: t.where(b, x, i),
    "masked_fill": lambda t, x, y, f, i, b: x.masked_fill(b, 7),
    "to float": lambda t, x, y, f, i, b: x.float() / 3,
    "to bool": lambda t, x, y, f, i, b: x.bool(),
    "to int": lambda t, x, y, f, i, b: x.int() - 300,
    "to long": lambda t, x, y, f, i, b: x.long() - 300,
    "to uint8": lambda t, x, y, f, i, b: x.to(t.uint8) + 1,
    "float to uint8": lambda t, x, y, f, i, b: (f * 40).to(t.uint8),
    "float to int64": lambda t, x, y, f, i, b: (f * 40).to(t.int64),
    "int32 to uint8": lambda t, x, y, f, i, b: i.to(t.uint8),
    "int32 to int64": lambda t, x, y, f, i, b: i.to(t.int64) + x,
    "bool to uint8": lambda t, x, y, f, i, b: b.to(t.uint8) + x.to(t.uint8),
    "sum": lambda t, x, y, f, i, b: x.sum(),
    "sum of rows": lambda t, x, y, f, i, b: x.sum(1),
    "sum of columns, kept": lambda t, x, y, f, i, b: x.sum(0, keepdim=True),
    "sum as uint8": lambda t, x, y, f, i, b: x.sum(1, dtype=t.uint8) // 3,
    "sum as int64": lambda t, x, y, f, i, b: x.sum(dtype=t.int64),
    "mean as float": lambda t, x, y, f, i, b: x.mean(dtype=t.float32),
    "prod": lambda t, x, y, f, i, b: (x % 5).prod(1),
    "prod as uint8": lambda t, x, y, f, i, b: (x | 1).prod(1, dtype=t.uint8) // 3,
    "amax": lambda t, x, y, f, i, b: x.amax(1),
    "amin": lambda t, x, y, f, i, b: x.amin(),
    "max over an axis": lambda t, x, y, f, i, b: x.max(1).values,
    "argmin": lambda t, x, y, f, i, b: y[0].argmin(),
    "sum of a row of a sum": lambda t, x, y, f, i, b: (x + y).amax(1) + x.amin(1),
    "all": lambda t, x, y, f, i, b: x.bool().all(1),
    "any": lambda t, x, y, f, i, b: x.bool().any(),
    "cumsum": lambda t, x, y, f, i, b: x.cumsum(1),
    "cumprod": lambda t, x, y, f, i, b: (x % 4).cumprod(0),
    "sort": lambda t, x, y, f, i, b: x.sort(1).values,
    "sort, descending": lambda t, x, y, f, i, b: x.sort(0, descending=True).values,
    "topk": lambda t, x, y, f, i, b: x.topk(2).values,
    "matmul": lambda t, x, y, f, i, b: x @ y.T,
    "matrix times vector": lambda t, x, y, f, i, b: x @ y[0],
    "matmul, then more": lambda t, x, y, f, i, b: (x @ y.T) // 3,
    "cat": lambda t, x, y, f, i, b: t.cat([x, y], 1),
    "cat with int32": lambda t, x, y, f, i, b: t.cat([x, i]),
    "stack": lambda t, x, y, f, i, b: t.stack([x, y], 1),
    "slice": lambda t, x, y, f, i, b: x[1:, ::2],
    "row": lambda t, x, y, f, i, b: x[-1] + x[0],
    "mask": lambda t, x, y, f, i, b: x[b],
    "flip, roll": lambda t, x, y, f, i, b: x.flip(0).roll(1, 1),
    "transposed, flat": lambda t, x, y, f, i, b: x.T.reshape(-1),
    "expand, sum": lambda t, x, y, f, i, b: x[0].expand(300, -1).sum(0),
    "expand, sum as uint8": lambda t, x, y, f, i, b: x[0].expand(300, -1).sum(0, dtype=t.uint8),
    "tril": lambda t, x, y, f, i, b: x.tril(),
    "ones like, full like": lambda t, x, y, f, i, b: t.ones_like(x) + t.full_like(x, 127),
    "many ones, as uint8": lambda t, x, y, f, i, b: t.ones_like(x[0]).expand(300, -1).sum(0, dtype=t.uint8),
    "product of threes": lambda t, x, y, f, i, b: t.full_like(x, 3).prod(1),
    "product of threes, as uint8": lambda t, x, y, f, i, b: t.full_like(x, 3).prod(1, dtype=t.uint8),
    "positions": lambda t, x, y, f, i, b: f[:, x[0].long() % f.shape[1]],
    "pairs of positions": lambda t, x, y, f, i, b: f[x[0].long() % len(f), y[0].long() % f.shape[1]],
    "gather": lambda t, x, y, f, i, b: f.gather(0, x.long() % len(f)),
    "gather of them": lambda t, x, y, f, i, b: x.gather(1, y.long() % x.shape[1]),
    "index_select": lambda t, x, y, f, i, b: x.index_select(1, y[0].long() % x.shape[1]),
    "scatter_add": lambda t, x, y, f, i, b: t.zeros_like(x).scatter_add(0, y.long() % len(x), x),
    "index_add": lambda t, x, y, f, i, b: x.index_add(1, (y[0].long() % 3).to(t.int64), x),
    "one_hot": lambda t, x, y, f, i, b: t.nn.functional.one_hot(x.long() % 7, 7),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(6, 8), (5, 7)], ids=["quads", "odd"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_pytorchs(name: str, kind: str, shape: tuple[int, int], device: str) -> None:
    rng = np.random.default_rng(7)
    arrays = (
        numbers(kind, *shape),
        np.maximum(numbers(kind, *shape, seed=1) % 100, KINDS[kind].type(1)),
        rng.uniform(-6, 6, shape).astype(np.float32),
        rng.integers(-1000, 1000, shape).astype(np.int32),
        rng.integers(0, 2, shape).astype(bool),
    )
    expected = OPERATIONS[name](torch, *map(torch.from_numpy, arrays))
    found = OPERATIONS[name](sg, *(ours(a, device) for a in arrays))
    assert_equals_torch(found, expected, 1e-6, name)


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "~": lambda a, b: ~a,
    "neg": lambda a, b: -a,
    "<<": lambda a, b: a << 1,
    ">>": lambda a, b: a >> 1,
    "//": lambda a, b: a // (b | 1),
    "max": lambda a, b: a.maximum(b),
}


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("seed", range(16))
def test_chains_of_operations_wrap_small_integers_at_every_step(seed: int, kind: str, device: str) -> None:
    """Beside int64, wrapped by hand after every step: PyTorch has few operations of uint16."""
    rng = np.random.default_rng(seed)
    limits = np.iinfo(kind)
    low, count = int(limits.min), int(limits.max) - int(limits.min) + 1
    array = rng.integers(low, low + count, 1 + seed % 9).astype(kind)
    chain = [list(STEPS)[k] for k in rng.integers(0, len(STEPS), 6)]
    x, y = ours(array, device), torch.from_numpy(array.astype(np.int64))
    found, expected = x, y
    for step in chain:
        found, expected = STEPS[step](found, x), (STEPS[step](expected, y) - low) % count + low
    assert (found.dtype.name, found.tolist()) == (kind, expected.tolist()), " ".join(chain)


@pytest.mark.parametrize("kind", KINDS)
def test_long_axes_are_sorted_and_summed(kind: str, device: str) -> None:
    """Merged runs, reductions in two passes, sums by an inverse index."""
    x = numbers(kind, 3, 5000)
    index = np.random.default_rng(1).integers(0, 700, 5000)
    assert_equals_torch(ours(x, device).sort(1).values, torch.from_numpy(x).sort(1).values)
    assert_equals_torch(ours(x, device).sum(1), torch.from_numpy(x).sum(1))
    assert_equals_torch(
        ours(x, device).sum(1, dtype=KINDS[kind]),
        torch.from_numpy(x).sum(1, dtype=TORCH[kind]),
        what="in its own dtype",
    )
    assert_equals_torch(ours(x, device).amin(1), torch.from_numpy(x).amin(1))
    assert_equals_torch(ours(x, device).amax(1), torch.from_numpy(x).amax(1))
    zeros, theirs = sg.zeros(3, 700, dtype=kind, device=device), torch.zeros(3, 700, dtype=TORCH[kind])
    found = zeros.index_add(1, ours(index, device), ours(x, device)) // 3  # nothing in between wraps for it
    assert_equals_torch(found, theirs.index_add(1, torch.from_numpy(index), torch.from_numpy(x)) // 3)


@pytest.mark.parametrize("shift", [0, 1, 31, 32, 40, 63])
def test_int64_shifts_to_the_right_by_up_to_63(shift: int, device: str) -> None:
    x = np.array([5, -5, HIGHEST, LOWEST], np.int64)
    assert_equals_torch(ours(x, device) >> shift, torch.from_numpy(x) >> shift)
    by = np.full(4, shift, np.int64)
    assert_equals_torch(ours(x, device) >> ours(by, device), torch.from_numpy(x) >> torch.from_numpy(by))


@pytest.mark.parametrize("shift", [-1, 0, 7, 8, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64])
def test_shifts_of_any_width_shift_all_bits_out(dtype: Any, shift: int, device: str) -> None:
    """A shader takes widths modulo 32."""
    kind, wide = np.iinfo(dtype), dtype is np.int64
    if shift < kind.min:
        return
    high, low = (HIGHEST, LOWEST) if wide else (kind.max, kind.min)
    x = np.array([1, 5, high, 100, 0, low, -1 if low else 2], dtype)
    by = np.full(x.size, shift, dtype)
    given, widths = sg.tensor(x, device=device), sg.tensor(by, device=device)
    for right in (given >> widths, given >> shift):
        np.testing.assert_array_equal(right.numpy(), np.right_shift(x, by))
    if not (wide and device == "webgpu" and 0 < shift < 64):  # int64 has 32 bits there
        for left in (given << widths, given << shift):
            np.testing.assert_array_equal(left.numpy(), np.left_shift(x, by))


def test_results_keep_the_dtype(device: str) -> None:
    x, u = ours(np.array([3, 1, 2]), device), ours(np.array([3, 1, 2], np.uint8), device)
    assert x.dtype is sg.int64
    for result in (
        x + 1,
        x + x.int(),
        x + u,
        x.sum(),
        x.prod(),
        x.cumsum(0),
        x.amax(),
        x.sort().values,
        u.long(),
        x[x - 1],
    ):
        assert (result.dtype, result.numpy().dtype) == (sg.int64, np.int64)
    for result in (u + 1, u + u, u.amin(), u.sort().values, x.to(sg.uint8), u + (u > 1), u.sum(dtype=sg.uint8)):
        assert (result.dtype, result.numpy().dtype) == (sg.uint8, np.uint8)
    assert (u + x.int()).dtype is sg.int32
    assert {(x / x).dtype, (x * 1.5).dtype, x.float().dtype, (u / u).dtype} == {sg.float32}


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_are_made_of_them(kind: str, device: str) -> None:
    options: dict[str, Any] = {"dtype": kind, "device": device}
    made = {
        "zeros": (sg.zeros(2, **options), [0, 0]),
        "ones": (sg.ones(2, **options), [1, 1]),
        "full": (sg.full((2,), 100, **options), [100, 100]),
        "tensor of a list": (sg.tensor([1, 125], **options), [1, 125]),
        "arange": (sg.arange(3, **options), [0, 1, 2]),
        "arange with a step": (sg.arange(120, 1, -50, **options), [120, 70, 20]),
        "eye": (sg.eye(2, **options), [[1, 0], [0, 1]]),
        "linspace": (sg.linspace(0, 4, 3, **options), [0, 2, 4]),
        "new_tensor": (sg.zeros(1, **options).new_tensor([7]), [7]),
    }
    for name, (x, values) in made.items():
        assert (x.dtype.name, x.device, x.tolist()) == (kind, device, values), name
    drawn = sg.randint(0, 9, (50,), **options)
    assert drawn.dtype.name == kind
    assert 0 <= drawn.amin().item() <= drawn.amax().item() < 9


def test_arrays_of_numpy_keep_int64_and_python_ints_are_int32(device: str) -> None:
    assert sg.tensor(np.array([1, 2]), device=device).dtype is sg.int64
    assert sg.tensor(np.int64(3), device=device).dtype is sg.int64
    assert sg.Tensor(np.array([1, 2]), device=device).dtype is sg.float32
    assert sg.from_numpy(np.array([1, 2])).to(device).dtype is sg.int64
    assert sg.tensor([1, 2], device=device).dtype is sg.int32
    assert sg.tensor(np.array([1, 2]), dtype=sg.int32, device=device).dtype is sg.int32


def test_the_way_there_and_back_keeps_dtype_and_values(webgpu: str) -> None:
    for array in (
        np.array([LOWEST, -1, 0, HIGHEST]),
        np.arange(256).astype(np.uint8),
        np.zeros((0, 3), np.int64),
        np.array(7),
    ):
        x = sg.tensor(array).to(webgpu)
        assert_same_bits(x, array)
        assert_same_bits(x.cpu(), array)
        assert_same_bits(sg.tensor(array, device=webgpu).clone(), array)
    assert repr(sg.tensor(np.array([1, 2]), device=webgpu)) == "tensor([1, 2], device='webgpu', dtype=shadergrad.int64)"


def test_assignments(device: str) -> None:
    for kind, dtype in KINDS.items():
        x, y = ours(numbers(kind, 6), device), torch.from_numpy(numbers(kind, 6))
        for t, lib in ((x, sg), (y, torch)):
            t[1] = 9
            t[3:5] = t[:2]
            t += 1
            t[t > 100] = 3
            t[ours(np.array([0, 5]), device) if lib is sg else torch.tensor([0, 5])] = 100
            t.copy_(t * 2)
        assert_equals_torch(x, y)
        x.write_(np.arange(6, dtype=dtype))
        assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_equal_values_for_one_place_are_that_value(device: str) -> None:
    """The mean of several is taken, and the sum of uint8 leaves its 8 bits."""
    x = ours(np.zeros(3, np.uint8), device)
    x[ours(np.array([1, 1, 1]), device)] = ours(np.full(3, 200, np.uint8), device)
    assert x.tolist() == [0, 200, 0]
    places = ours(np.array([2, 2]), device)
    assert x.scatter(0, places, ours(np.full(2, 250, np.uint8), device)).tolist() == [0, 200, 250]


# ---------------------------------------------------------------------------------- what does not fit

TOO_LARGE: dict[str, Callable[[str], Any]] = {
    "tensor": lambda d: sg.tensor(np.array([1, 1 << 40]), device=d),
    "tensor of a list": lambda d: sg.tensor([1, 1 << 40], dtype=sg.int64, device=d),
    "to": lambda d: sg.tensor(np.array([1 << 40])).to(d),
    "write_": lambda d: sg.zeros(2, dtype=sg.int64, device=d).write_(np.array([0, 1 << 40])),
    "copy_": lambda d: sg.zeros(1, dtype=sg.int64, device=d).copy_(sg.tensor(np.array([1 << 40]))),
    "full": lambda d: sg.full((2,), 1 << 40, dtype=sg.int64, device=d),
    "arange": lambda d: sg.arange(1 << 40, (1 << 40) + 3, dtype=sg.int64, device=d),
    "a number added": lambda d: (sg.zeros(2, dtype=sg.int64, device=d) + (1 << 40)).numpy(),
    "a number compared": lambda d: (sg.tensor(np.array([1, 2]), device=d) < (1 << 40)).numpy(),
    "masked_fill": lambda d: sg.zeros(2, dtype=sg.int64, device=d).masked_fill(sg.ones(2, device=d) > 0, 1 << 40).numpy(),
    "a model": lambda d: _with_buffer(np.array([1 << 40])).to(d),
    "a batch": lambda d: next(iter(sg.data.DataLoader(sg.data.TensorDataset(np.array([1 << 40])), device=d))),
}  # fmt: skip


def _with_buffer(array: np.ndarray) -> nn.Module:
    model = nn.Module()
    model.register_buffer("counts", sg.tensor(array))
    return model


@pytest.mark.parametrize("name", TOO_LARGE)
def test_an_int64_beyond_32_bits_is_refused(name: str, webgpu: str) -> None:
    with pytest.raises(
        sg.DTypeError, match=r"1099511627776 is beyond .* int64, .* 32 bits.*-2147483648 to 2147483647.*Hint: .*cpu"
    ):
        TOO_LARGE[name](webgpu)


def test_the_first_value_beyond_is_named(webgpu: str) -> None:
    assert sg.tensor(np.array([HIGHEST, LOWEST]), device=webgpu).tolist() == [HIGHEST, LOWEST]
    for bad in (HIGHEST + 1, LOWEST - 1):
        with pytest.raises(sg.DTypeError, match=rf"{bad} is beyond"):
            sg.tensor(np.array([[0, bad], [bad * 2, 0]]), device=webgpu)


def test_the_cpu_device_keeps_64_bits() -> None:
    x = sg.tensor(np.array([1 << 40, -(1 << 62)]))
    assert (x + 1).tolist() == [(1 << 40) + 1, 1 - (1 << 62)]
    assert sg.full((1,), 1 << 40, dtype=sg.int64).tolist() == [1 << 40]
    assert sg.arange(1 << 40, (1 << 40) + 2, dtype=sg.int64).tolist() == [1 << 40, (1 << 40) + 1]
    assert x.amax().item() == 1 << 40
    assert x.amin().item() == -(1 << 62)


def test_arithmetic_of_int64_wraps_at_32_bits_on_a_gpu(webgpu: str) -> None:
    """As docs/from-pytorch.md says: results are not looked at."""
    assert (sg.tensor(np.array([HIGHEST]), device=webgpu) + 1).tolist() == [LOWEST]


def test_a_failed_computation_leaves_its_operands(webgpu: str) -> None:
    x = sg.tensor(np.array([1, 2]), device=webgpu)
    with pytest.raises(sg.DTypeError, match="beyond"):
        (x + (1 << 40)).numpy()
    assert (x + 1).tolist() == [2, 3]


NO_POSITIONS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "x[u]": (lambda x, u: x[u], r"the shape of the mask \[2\] at index 0"),
    "x[u] = 1": (lambda x, u: x.__setitem__(u, 1.0), r"The shape of the mask \[2\]"),
    "x[i]": (lambda x, u: x[u.char()], r"not int8\. Hint: \.long\(\) gives positions"),
    "gather": (lambda x, u: x.gather(0, u), "Expected dtype int32/int64 for index"),
    "index_select": (lambda x, u: x.index_select(0, u), r"uint8, not int32 or int64\. Hint: \.long\(\)"),
    "index_fill": (lambda x, u: x.index_fill(0, u, 1.0), "must be of integers, not uint8"),
    "scatter_add": (lambda x, u: x.scatter_add(0, u, x[:2]), r"uint8, not int32 or int64\. Hint: \.long\(\)"),
    "embedding": (lambda x, u: F.embedding(u, x.reshape(3, 1)), "Long, Int; but got uint8"),
    "one_hot": (lambda x, u: F.one_hot(u, 3), "LongTensor"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:indexing with dtype uint8")  # of masks, as in PyTorch
@pytest.mark.parametrize("name", NO_POSITIONS)
def test_uint8_tensors_are_no_positions(name: str, device: str) -> None:
    call, message = NO_POSITIONS[name]
    with pytest.raises(sg.ShadergradError, match=message):
        call(sg.arange(3.0, device=device), ours(np.array([1, 0], np.uint8), device))


# ---------------------------------------------------------------------------------- labels and positions in training


@pytest.mark.parametrize("kind", ["int64", "uint8", "int32"])
def test_labels_of_numpy_train_through_a_loader(kind: str, device: str) -> None:
    """Losses and weights as PyTorch's, uncompiled and compiled."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 5)).astype(np.float32)
    y = rng.integers(0, 3, 12).astype(kind)
    start = rng.standard_normal((3, 5)).astype(np.float32)
    theirs = torch.nn.Linear(5, 3, bias=False)
    theirs.load_state_dict({"weight": torch.from_numpy(start)})
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
    expected = []
    for k in range(0, 12, 4):
        loss = torch.nn.functional.cross_entropy(
            theirs(torch.from_numpy(x[k : k + 4])), torch.from_numpy(y[k : k + 4]).long()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    for compiled in (False, True):
        model = nn.Linear(5, 3, bias=False).to(device)
        model.load_state_dict({"weight": start})
        sgd = sg.optim.SGD(model.parameters(), lr=0.5)

        def step(a: Any, b: Any, model: Any = model, sgd: Any = sgd) -> Any:
            loss = F.cross_entropy(model(a), b)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            return loss.detach()

        run = sg.compile(step) if compiled else step
        found = []
        for a, b in sg.data.DataLoader(sg.data.TensorDataset(x, y), batch_size=4, device=device):
            assert b.dtype.name == kind
            found.append(run(a, b).item())
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert_close(model.weight, theirs.weight, 1e-4, 1e-5)


@pytest.mark.parametrize("kind", ["int64", "uint8"])
def test_a_label_out_of_range_raises(kind: str, device: str) -> None:
    loss = F.cross_entropy(sg.zeros(2, 3, device=device), ours(np.array([0, 7], kind), device))
    with pytest.raises(sg.IndexRangeError, match="target 7 is out of bounds: there are 3 classes"):
        loss.item()


def test_ignored_labels(device: str) -> None:
    logits = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    for labels, ignored in ((np.array([1, -100, 2]), -100), (np.array([1, 255, 2], np.uint8), 255)):
        expected = torch.nn.functional.cross_entropy(
            torch.from_numpy(logits), torch.from_numpy(labels.astype(np.int64)), ignore_index=ignored
        )
        found = F.cross_entropy(ours(logits, device), ours(labels, device), ignore_index=ignored)
        assert_close(found, expected, 1e-5, 1e-6)


def test_embeddings_of_int64_positions_and_their_gradient(device: str) -> None:
    table = np.random.default_rng(0).standard_normal((11, 4)).astype(np.float32)
    positions = np.array([[1, 3, 3], [10, 0, 1]])
    weight, theirs = ours(table, device).requires_grad_(), torch.from_numpy(table).requires_grad_()
    (F.embedding(ours(positions, device), weight) ** 2).sum().backward()
    (torch.nn.functional.embedding(torch.from_numpy(positions), theirs) ** 2).sum().backward()
    assert_close(grad_of(weight), grad_of(theirs), 1e-5, 1e-6)
    found, expected = ours(table, device).requires_grad_(), torch.from_numpy(table).requires_grad_()
    (found.gather(0, ours(positions, device)) ** 2).sum().backward()
    (expected.gather(0, torch.from_numpy(positions)) ** 2).sum().backward()
    assert_close(grad_of(found), grad_of(expected), 1e-5, 1e-6)


def test_pictures_of_uint8_are_scaled_in_a_step(device: str) -> None:
    pictures = numbers("uint8", 3, 1, 6, 6)
    layer = nn.Conv2d(1, 2, 3).to(device)
    theirs = torch.nn.Conv2d(1, 2, 3)
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in layer.state_dict().items()})
    run = sg.compile(lambda x: layer(x.float() / 255))
    assert_close(run(ours(pictures, device)), theirs(torch.from_numpy(pictures).float() / 255), 1e-4, 1e-5)


def test_max_pooling_of_int64(device: str) -> None:
    x = -numbers("uint8", 1, 1, 4, 6).astype(np.int64) - 5
    assert_equals_torch(
        F.max_pool2d(ours(x, device), 2, padding=1), torch.nn.functional.max_pool2d(torch.from_numpy(x), 2, padding=1)
    )


# ---------------------------------------------------------------------------------- memory and plans


@pytest.mark.parametrize("kind", KINDS)
def test_an_element_takes_four_bytes_on_a_gpu(kind: str, webgpu: str) -> None:
    storage = get_device(webgpu).upload(np.zeros(1000, kind), sg.zeros(1, dtype=kind).dtype)
    assert storage.nbytes == 4000


def test_plans_say_the_dtype_and_the_bytes_of_a_gpu(webgpu: str) -> None:
    @sg.compile
    def step(x: Any, u: Any) -> Any:
        return {"x": x + 1, "u": u.sort().values}

    x, u = ours(np.arange(1000), webgpu), ours(numbers("uint8", 1000), webgpu)
    step(x, u)
    buffers = {b.name: b for b in step.plan.buffers}
    found = {b.dtype.name: b for b in buffers.values() if b.role in ("argument", "result")}
    assert {"int64", "uint8"} <= set(found)
    for b in buffers.values():
        assert b.nbytes == max(4, 4 * b.size), b
        assert b.bound < b.nbytes + 16, b
    assert Plan.from_json(step.plan.to_json()) == step.plan


def test_a_plan_of_json_runs_on_them(webgpu: str) -> None:
    @sg.compile
    def step(x: Any) -> Any:
        return x * 2

    step(ours(np.array([100, 200], np.uint8), webgpu))
    device = get_device(webgpu)
    program = device.load(Plan.from_json(step.plan.to_json()))
    kind = sg.uint8
    (result,) = program.run([device.upload(np.array([100, 200], np.uint8), kind)])
    assert device.download(result, (2,), kind).tolist() == [200, 144]


@pytest.mark.parametrize("name", ["ceil", "fix", "floor", "nan_to_num", "round", "trunc"])
def test_what_leaves_integers_as_they_are_gives_a_new_tensor(name: str) -> None:
    for lib in (sg, torch):
        x = lib.tensor([1, 2])
        y = getattr(x, name)()
        y += 5
        assert (x.tolist(), y.tolist()) == ([1, 2], [6, 7])


def test_bytes_are_close_by_their_distance_and_have_the_remainder_of_a_byte(device: str) -> None:
    """1 - 2 is no byte; -1 as a byte is 255."""
    values, others = [1, 2, 254, 0, 7], [2, 1, 1, 4, 7]
    found = []
    for lib in (sg, torch):
        where = {"device": device} if lib is sg else {}
        x, y = (lib.tensor(v, dtype=lib.uint8, **where) for v in (values, others))
        close = [x.isclose(y, atol=1.0), x.isclose(y, rtol=2.0), x.isclose(y)]
        found.append(
            [*(c.tolist() for c in close), x.fmod(-1).tolist(), x.fmod(3).tolist(), lib.allclose(x[:2], y[:2], atol=1)]
        )
    assert found[0] == found[1]


def test_logits_limited_beyond_the_middle() -> None:
    x = np.array([0.1, 0.5, 0.9], np.float32)
    for eps in (0.5, 0.7, 0.2):
        np.testing.assert_allclose(sg.tensor(x).logit(eps).numpy(), torch.tensor(x).logit(eps).numpy(), 1e-5)


def test_functions_of_bytes_do_not_wrap_where_pytorch_computes_wider() -> None:
    for lib in (sg, torch):
        x = lib.tensor([0, 3, 200], dtype=lib.uint8)
        assert lib.linalg.vander(x)[:, 2].tolist() == [0, 9, 40000]
        assert lib.special.shifted_chebyshev_polynomial_t(x, 1).tolist() == [-1, 5, 399]


NEW: dict[str, Callable[[Any, Any], Any]] = {
    "a polynomial of degree 1": lambda lib, x: lib.special.legendre_polynomial_p(x, 1),
    "a product of one matrix": lambda lib, x: lib.chain_matmul(x),
}


@pytest.mark.filterwarnings("ignore:torch.chain_matmul")
@pytest.mark.parametrize("name", NEW)
def test_what_equals_its_argument_is_a_new_tensor(name: str) -> None:
    for lib in (sg, torch):
        x = lib.tensor([[1.0, 2.0]])
        y = NEW[name](lib, x)
        y += 5
        assert (x.tolist(), y.tolist()) == ([[1, 2]], [[6, 7]])
