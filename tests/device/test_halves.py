"""float16 and bfloat16: stored in 16 bits, computed in float32, rounded once; beside PyTorch and float64, on both devices."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad.primitives.elementwise import Elementwise
from shadergrad.pytorch_files import write_pytorch_file
from shadergrad.tensor.records import public_records

HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # and the largest error of rounding a number near 1
NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
EDGES = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 65504, 65519.9, 65520, 65536, -70000, 2.0**-14, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0001, 3e-5,
    6e-8, 1e-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, 3.39e38, -2.0**-15 * 1.5,
]  # fmt: skip


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def beside(found: sg.Tensor) -> np.ndarray:
    return found.detach().float().numpy()


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 1021])
def test_numbers_are_rounded_to_nearest_even(device: str, name: str, count: int) -> None:
    values = np.array([*EDGES, *numbers(997) * 10.0 ** np.random.default_rng(1).integers(-9, 5, 997)], np.float32)[
        :count
    ]
    wanted = torch.tensor(values).to(getattr(torch, name)).float().numpy()
    for found in (sg.tensor(values, device=device).to(name), sg.tensor(values, device=device, dtype=name)):
        assert found.dtype is getattr(sg, name)
        np.testing.assert_array_equal(found.numpy().astype(np.float32), wanted)
        np.testing.assert_array_equal(found.float().numpy(), wanted)
        np.testing.assert_array_equal(
            found.float().signbit().numpy()[~np.isnan(wanted)], np.signbit(wanted)[~np.isnan(wanted)]
        )


def test_every_number_of_16_bits_is_read_and_written_as_it_is(device: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = sg.tensor(bits.view(np.float16), device=device)
    np.testing.assert_array_equal((x.reshape(-1, 2)[:, 1] * 1).numpy(), bits.view(np.float16)[1::2])
    np.testing.assert_array_equal(x.float().to("float16").numpy(), bits.view(np.float16))
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    wide = np.where(np.abs(wide) < 2.0**-126, 0, wide)  # which GPUs may take for 0
    y = sg.tensor(wide, device=device, dtype="bfloat16")
    np.testing.assert_array_equal((y * 1).numpy(), wide)


@pytest.mark.parametrize("pair", [*itertools.product(NAMES, NAMES)], ids="-".join)
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,))], ids=str)
def test_promotion_is_pytorchs(pair: tuple[str, str], shapes: tuple[Any, Any]) -> None:
    ours = [sg.ones(*s, dtype=n) for s, n in zip(shapes, pair, strict=True)]
    theirs = [torch.ones(s, dtype=getattr(torch, n)) for s, n in zip(shapes, pair, strict=True)]
    assert (ours[0] * ours[1]).dtype.name == str((theirs[0] * theirs[1]).dtype).removeprefix("torch.")


@pytest.mark.parametrize("name", HALVES)
def test_python_numbers_leave_halves_as_they_are_and_are_not_rounded(device: str, name: str) -> None:
    x, y = sg.tensor(numbers(9), device=device, dtype=name), torch.tensor(numbers(9), dtype=getattr(torch, name))
    for f in (
        lambda t: t * 0.1,
        lambda t: 1 - t,
        lambda t: t + 0.3,
        lambda t: t / 3,
        lambda t: 2.7 * t,
        lambda t: t > 0.1,
    ):
        assert f(x).dtype.name == str(f(y).dtype).removeprefix("torch.")
        np.testing.assert_array_equal(f(x).float().numpy(), f(y).float().numpy())


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("record", public_records())
def test_records_are_exact_within_a_rounding(device: str, name: str, record: str) -> None:
    kind: type[Elementwise] = public_records()[record]
    low, high = kind.domain
    given = low + (high - low) * np.random.default_rng(3).random(257)
    x = sg.tensor(given, device=device, dtype=name)
    exact = getattr(sg.tensor(x.float().numpy(), dtype="float64"), record)().numpy()
    found = getattr(x, record)()
    assert found.dtype is x.dtype
    np.testing.assert_allclose(beside(found), exact, rtol=HALVES[name] * 1.05, atol=1e-6)


CASES: dict[str, Any] = {
    "sum": lambda t, x, y: x.sum(),
    "sum of rows": lambda t, x, y: x.sum(1),
    "mean": lambda t, x, y: x.mean(0),
    "var": lambda t, x, y: x.var(1),
    "prod": lambda t, x, y: x[:, :3].prod(1),
    "amax": lambda t, x, y: x.amax(1),
    "max": lambda t, x, y: x.max(1)[0],
    "cumsum": lambda t, x, y: x.cumsum(1),
    "matmul": lambda t, x, y: x @ y.T,
    "batched": lambda t, x, y: x.reshape(3, 1, 7) @ y.reshape(3, 7, 1),
    "softmax": lambda t, x, y: x.softmax(1),
    "log_softmax": lambda t, x, y: x.log_softmax(1),
    "layer_norm": lambda t, x, y: t.nn.functional.layer_norm(x, (7,)),
    "gelu": lambda t, x, y: t.nn.functional.gelu(x),
    "mse": lambda t, x, y: t.nn.functional.mse_loss(x, y),
    "linear": lambda t, x, y: t.nn.functional.linear(x, y, y[:, 0]),
    "conv": lambda t, x, y: t.nn.functional.conv1d(x.reshape(1, 3, 7), y[:, :6].reshape(3, 3, 2)),
    "pool": lambda t, x, y: t.nn.functional.avg_pool1d(x.reshape(1, 3, 7), 2),
    "where": lambda t, x, y: t.where(x > y, x, y * 2),
    "odd part": lambda t, x, y: x.reshape(-1)[5:18] * y.reshape(-1)[1:14],
    "gather": lambda t, x, y: x[:, [1, 3, 0]] - y[[2, 0, 1]][:, :3],
    "cat": lambda t, x, y: t.cat([x, y[:, 1:4]], 1),
    "pad": lambda t, x, y: t.nn.functional.pad(x, (1, 2), value=0.1),
    "flip": lambda t, x, y: x.flip(1) + y.T.contiguous().T,
    "tanh of products": lambda t, x, y: (x * y).tanh(),
    "divide": lambda t, x, y: x / (y * y + 1),
    "pow": lambda t, x, y: (x * x + 1) ** 1.5,
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_near_float64s(device: str, name: str, case: str) -> None:
    """As far as rounding each operation's result lets them, and PyTorch's are not nearer by much."""
    f = CASES[case]
    given = [numbers(21, seed).reshape(3, 7) for seed in (5, 6)]
    ours = [sg.tensor(a, device=device, dtype=name, requires_grad=True) for a in given]
    theirs = [torch.tensor(beside(a), dtype=torch.float64, requires_grad=True) for a in ours]
    halves = [torch.tensor(beside(a), dtype=getattr(torch, name), requires_grad=True) for a in ours]
    found, exact, near = f(sg, *ours), f(torch, *theirs), f(torch, *halves)
    assert found.dtype.name == name
    assert str(near.dtype).removeprefix("torch.") == name
    weights = numbers(exact.numel(), 9).reshape(tuple(exact.shape))
    (found * sg.tensor(weights, device=device, dtype=name)).sum().backward()
    rounded = torch.tensor(weights, dtype=getattr(torch, name))
    (exact * rounded.double()).sum().backward()
    (near * rounded).sum().backward()
    tolerance = 4 * HALVES[name]
    assert_near(beside(found), exact.detach().numpy(), near.detach().double().numpy(), tolerance)
    for a, b, c in zip(ours, theirs, halves, strict=True):
        if b.grad is None:
            assert a.grad is None
            continue
        assert a.grad is not None
        assert a.grad.dtype.name == name
        assert c.grad is not None
        assert_near(beside(a.grad), b.grad.numpy(), c.grad.double().numpy(), tolerance)


def assert_near(found: np.ndarray, exact: np.ndarray, near: np.ndarray, tolerance: float) -> None:
    size = max(1.0, float(np.abs(exact).max()))
    apart, theirs = float(np.abs(found - exact).max()), float(np.abs(near - exact).max())
    assert apart <= max(tolerance * size, 2 * theirs), (apart, theirs, size)


def test_sums_and_means_accumulate_in_float32(device: str) -> None:
    x = sg.full((70000,), 1.0, dtype="float16", device=device)
    assert x.mean().item() == 1
    assert x.sum().item() == math.inf
    assert sg.full((4096,), 1.0, dtype="bfloat16", device=device).sum().item() == 4096
    assert (
        sg.full((1, 4096), 1.0, dtype="bfloat16", device=device)
        @ sg.full((4096, 1), 1.0, dtype="bfloat16", device=device)
    ).item() == 4096


def test_overflow_is_infinite_and_nan_stays(device: str) -> None:
    x = sg.tensor([60000.0, 1.0, math.nan, -60000.0], dtype="float16", device=device)
    np.testing.assert_array_equal((x * 2).numpy(), np.array([np.inf, 2, np.nan, -np.inf], np.float16))
    assert (x * 2).isfinite().tolist() == [False, True, False, False]
    y = sg.tensor([3e38, 1.0, math.nan], dtype="bfloat16", device=device)
    np.testing.assert_array_equal((y + y).numpy(), np.array([np.inf, 2, np.nan], np.float32))


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_written_in_place_at_odd_places(device: str, name: str) -> None:
    x, y = sg.zeros(9, dtype=name, device=device), torch.zeros(9, dtype=getattr(torch, name))
    t: Any
    for t in (x, y):
        t[1] = 0.1
        t[3:6] += 2
        t[::2].mul_(3)
        t[7:].fill_(5)
        t.add_(1)
    np.testing.assert_array_equal(beside(x), y.float().numpy())
    z = sg.zeros(3, 5, dtype=name, device=device)
    z.index_add_(0, sg.tensor([2, 0, 2], device=device), sg.ones(3, 5, dtype=name, device=device))
    assert z.float().sum(1).tolist() == [5, 0, 10]


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("count", [5, 8, 1001])
def test_a_compiled_step_updates_halves_in_place(device: str, name: str, count: int) -> None:
    w = sg.tensor(numbers(count), dtype=name, device=device)
    again = w.clone()

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        w.mul_(0.5).add_(x)
        return w.sum()

    for k in range(4):
        x = sg.tensor(numbers(count, k), dtype=name, device=device)
        total = step(x)
        again = again * 0.5 + x
        np.testing.assert_array_equal(beside(w), beside(again))
        assert total.item() == again.sum().item()


def test_halves_take_half_the_memory(webgpu: str) -> None:
    x = sg.rand(1001, device=webgpu)
    x.tolist()
    y = x.to("float16")
    y.tolist()
    assert (x._node.storage.nbytes, y._node.storage.nbytes) == (4004, 2004)
    assert y.element_size() == 2


@pytest.mark.parametrize("name", HALVES)
def test_files_and_copies_keep_the_dtype(tmp_path: Path, device: str, name: str) -> None:
    import copy
    import pickle

    x = sg.tensor(numbers(7), dtype=name, device=device)
    sg.save({"x": x, "n": 3}, tmp_path / "a.safetensors")
    with open(tmp_path / "a.pt", "wb") as file:
        write_pytorch_file({"x": x}, file)
    copies = [
        sg.load(tmp_path / "a.safetensors")["x"], sg.load(tmp_path / "a.pt")["x"], copy.deepcopy(x), pickle.loads(pickle.dumps(x)),
        x.to("cpu"), x.clone(), sg.interop.from_torch(sg.interop.to_torch(x)), sg.tensor(x.tolist(), dtype=name),
    ]  # fmt: skip
    for found in copies:
        assert found.dtype is x.dtype
        np.testing.assert_array_equal(beside(found), beside(x))
    assert torch.load(tmp_path / "a.pt")["x"].dtype is getattr(torch, name)


@pytest.mark.parametrize("name", HALVES)
def test_a_module_is_cast_and_trains(device: str, name: str) -> None:
    sg.manual_seed(0)
    model = sg.nn.Sequential(sg.nn.Linear(5, 9), sg.nn.LayerNorm(9), sg.nn.GELU(), sg.nn.Linear(9, 3)).to(device)
    model = model.half() if name == "float16" else model.bfloat16()
    assert {p.dtype.name for p in model.parameters()} == {name}
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)
    x, y = sg.tensor(numbers(40).reshape(8, 5), dtype=name, device=device), sg.arange(8, device=device) % 3
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses


def test_reinterpretation_on_the_cpu_is_bit_by_bit() -> None:
    for name in HALVES:
        x = sg.tensor(numbers(6), dtype=name)
        theirs = torch.tensor(numbers(6), dtype=getattr(torch, name))
        assert x.view(sg.int16).tolist() == theirs.view(torch.int16).tolist()
        assert x.view(sg.int16).view(x.dtype).tolist() == theirs.tolist()
        assert x.view(sg.int32).tolist() == theirs.view(torch.int32).tolist()


def test_finfo_and_printing() -> None:
    for name in HALVES:
        ours, theirs = sg.finfo(getattr(sg, name)), torch.finfo(getattr(torch, name))
        assert (ours.bits, ours.eps, ours.max, ours.min, ours.tiny) == (
            theirs.bits,
            theirs.eps,
            theirs.max,
            theirs.min,
            theirs.tiny,
        )
    assert repr(sg.tensor([1.5, 2.0]).to("bfloat16")) == "tensor([1.5, 2. ], dtype=shadergrad.bfloat16)"


@pytest.mark.parametrize("name", HALVES)
def test_a_half_may_be_the_default_dtype(name: str) -> None:
    lines = "t.ones(2)|t.tensor([1.5])|t.rand(2)|t.arange(3.0)|t.nn.Linear(2, 3).weight|t.arange(3) * 1.5|t.arange(3) / 2|t.tensor(2).exp()"
    kinds = []
    for lib in (sg, torch):
        lib.set_default_dtype(getattr(lib, name))
        try:
            kinds.append([str(eval(line, {"t": lib}).dtype).rpartition(".")[2] for line in lines.split("|")])
        finally:
            lib.set_default_dtype(lib.float32)
    assert kinds[0] == kinds[1] == [name] * 8


@pytest.mark.parametrize("name", HALVES)
def test_results_of_the_host_keep_the_dtype(device: str, name: str) -> None:
    x = sg.tensor([2.5, 1.5, 2.5], device=device, dtype=name)
    for found in (
        x.unique(),
        x.unique_consecutive(),
        x.sort()[0],
        x.topk(2)[0],
        x.median(),
        x[x > 2],
        sg.zeros_like(x),
        x.new_ones(2),
    ):
        assert found.dtype is x.dtype
    assert x.unique().tolist() == [1.5, 2.5]
