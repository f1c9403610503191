"""The cpu device's native kernels against its interpreter: every case of the operators' table, random graphs, modules' shapes of
reductions; functions to their last bits; the same bits for any number of threads; what is kept on disk, and whom it is taken from."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from scipy import special

import shadergrad as sg
from cases import CASES, Case
from helpers import assert_devices_agree, assert_same_bits, leaves_of, results_of
from shadergrad import plan
from shadergrad.compile.native import functions, kernel, product, program, rules
from shadergrad.compile.native.registers import LARGE, SMALL, Tile
from shadergrad.drive.execute import programs
from shadergrad.errors import ArgumentError, PositionError
from shadergrad.nn import functional as F
from shadergrad.runtime import cpu, llvm
from shadergrad.runtime.device import get_device
from shadergrad.runtime.threads import pool
from test_random_graphs import random_graphs

pytestmark = [
    pytest.mark.skipif(llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'),
    pytest.mark.filterwarnings("ignore:.*degrees of freedom.*"),
]


@pytest.fixture
def computes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Say which of the two computes from here on; native kernels do so from the first run of a program."""
    monkeypatch.setattr(cpu, "COMES_AGAIN", 1)
    monkeypatch.setattr(cpu, "LITTLE_COMES_AGAIN", 1)
    monkeypatch.setattr(cpu, "LONG_COMES_AGAIN", 1)

    def choose(name: str) -> None:
        monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu=name))
        programs.clear()

    yield choose
    programs.clear()


def both(
    computes: Callable[[str], None], run: Callable[[], list[np.ndarray]]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What a function gives, natively and by the interpreter."""
    computes("native")
    native = run()
    computes("reference")
    return native, run()


# -- values


BOTH = [(c, sg.float32) for c in CASES] + [(c, sg.float64) for c in CASES[::8]]  # float64 has fewer kernels of its own


@pytest.mark.parametrize(("case", "dtype"), BOTH, ids=[f"{c.id}-{d.name}" for c, d in BOTH])
def test_operators_equal_the_interpreters(case: Case, dtype: Any, computes: Any) -> None:
    def run() -> list[np.ndarray]:
        results = results_of(case, sg, leaves_of(case, case.arrays(), "cpu", dtype))
        sg.sync("cpu")
        return [r.detach().numpy() for several in results.values() for r in several]

    for k, (actual, reference) in enumerate(zip(*both(computes, run), strict=True)):
        assert_devices_agree(actual, reference, case.length, f"result {k}")


@seed(11)
@settings(
    max_examples=60,
    derandomize=False,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
@given(graph=random_graphs())
def test_random_graphs_equal_the_interpreters(graph: Any, computes: Any) -> None:
    for actual, reference in zip(*both(computes, lambda: graph.run("cpu")), strict=True):
        assert_devices_agree(actual, reference, 16, repr(graph))


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "erf": special.erf,
    "erfinv": lambda x: np.copysign(special.erfinv(x), x),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_exact_to_two_units_in_the_last_place(name: str, computes: Any) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.integers(0, 1 << 32, 1 << 17, dtype=np.uint32).view(np.float32),  # any bits
            rng.uniform(-5, 5, 1 << 17).astype(np.float32),
            rng.uniform(-110, 110, 1 << 15).astype(np.float32),
            rng.uniform(-1, 1, 1 << 15).astype(np.float32),
            (1 - 2.0 ** rng.uniform(-24, 0, 1 << 12)).astype(np.float32),
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 88.7, 88.8, -104, 1e-45, -1e-45], np.float32),
        ]
    )
    computes("native")
    found = getattr(sg, name)(sg.tensor(x, device="cpu")).numpy()
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64))
        rounded = exact.astype(np.float32)
    assert_same_bits(np.isnan(found), np.isnan(rounded))
    known = ~np.isnan(rounded)
    assert_same_bits(np.signbit(found[known]), np.signbit(rounded[known]), "signs")
    assert_same_bits(found[np.isinf(rounded)], rounded[np.isinf(rounded)], "infinities")
    finite = np.isfinite(rounded)
    units = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(rounded[finite])).astype(np.float64)
    assert units.max() <= 2, f"{units.max()} units at {x[finite][units.argmax()]}"


SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -1.5, 2.5, 3e9, -3e9, 300.7, 1e30)


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "mul", "div", "sub"])
def test_pairs_of_special_numbers_have_the_interpreters_bits(name: str, computes: Any) -> None:
    a, b = (np.ascontiguousarray(x.reshape(-1), np.float32) for x in np.meshgrid(SPECIAL, SPECIAL))
    native, reference = both(computes, lambda: [getattr(sg, name)(sg.tensor(a), sg.tensor(b)).numpy()])
    nan = np.isnan(reference[0])
    assert_same_bits(np.isnan(native[0]), nan)
    assert_same_bits(native[0][~nan], reference[0][~nan])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_shifts_have_the_interpreters_bits(dtype: str, computes: Any) -> None:
    """By any width, beyond the bits and below 0, too."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = np.array([0, 1, 2, 100, high, high - 1, low, low + 1], dtype)
    widths = np.array([0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, high], np.int64)
    widths = widths[widths <= high].astype(dtype)
    if low < 0:
        widths = np.concatenate([widths, np.array([-1, -7, low], dtype)])
    a, b = (np.ascontiguousarray(x.reshape(-1)) for x in np.meshgrid(values, widths))

    def run() -> list[np.ndarray]:
        x, by = sg.tensor(a), sg.tensor(b)
        return [(x >> by).numpy(), (x << by).numpy(), (x >> 3).numpy(), (x << 5).numpy()]

    for actual, reference in zip(*both(computes, run), strict=True):
        assert_same_bits(actual, reference)


@pytest.mark.parametrize("target", ["bool", "int8", "uint8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("source", ["bool", "int8", "uint8", "int32", "int64", "float32", "float64"])
def test_conversions_have_the_interpreters_bits(source: str, target: str, computes: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.tile(np.array(SPECIAL), 4).astype(source)
    native, reference = both(computes, lambda: [sg.tensor(x).to(getattr(sg, target)).numpy()])
    assert_same_bits(native[0], reference[0])


SUMS: dict[str, tuple[tuple[int, ...], Any]] = {
    "rows of 37": ((5, 37), 1),
    "columns of 37": ((37, 5), 0),
    "many columns": ((300, 40), 0),
    "channels": ((4, 7, 5, 3), (0, 2, 3)),
    "middle": ((4, 19, 33), 1),
    "all": ((3, 5, 7, 11), (0, 1, 2, 3)),
    "ends": ((6, 4, 18), (0, 2)),
    "one of each": ((9, 1, 21), (1,)),
}


@pytest.mark.parametrize("reduce", ["sum", "amax", "amin"])
@pytest.mark.parametrize("shape", SUMS)
def test_reductions_equal_the_interpreters(shape: str, reduce: str, computes: Any) -> None:
    size, axes = SUMS[shape]
    x = np.random.default_rng(3).standard_normal(size).astype(np.float32)

    def run() -> list[np.ndarray]:
        t = sg.tensor(x) * 2 + 1
        return [getattr(t, reduce)(axes).numpy(), (t - getattr(t, reduce)(axes, keepdim=True)).exp().sum(axes).numpy()]

    for actual, reference in zip(*both(computes, run), strict=True):
        np.testing.assert_allclose(actual, reference, rtol=3e-6, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_many_arrays_are_joined_at_once(axis: int, computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(4).standard_normal((5, 7)).astype(np.float32)
    found: list[Any] = []
    loaded = cpu.Native
    monkeypatch.setattr(cpu, "Native", lambda steps: found.append(steps) or loaded(steps))

    def run() -> list[np.ndarray]:
        step = sg.compile(
            lambda t: sg.cat([*(t.exp() * k for k in range(80)), t, sg.cat([t, t], 1 - axis)[:5, :7]], axis).tanh()
        )
        return [step(sg.tensor(x)).numpy() for _ in range(3)]

    for native, reference in zip(*both(computes, run), strict=True):
        np.testing.assert_allclose(native, reference, rtol=3e-7)
    joins = [len(step.reads) for steps in found for step in steps.steps if step.name == "cat" and len(step.reads) > 2]
    assert joins == [82], "an element is copied more than once"


PRODUCTS: dict[
    str,
    tuple[Callable[[Any, Any], Any], Callable[[np.ndarray], np.ndarray], tuple[int, int, int], tuple[int, int, int]],
] = {
    "as they lie": (lambda a, b: a @ b, lambda t: t, (0, 1, 2), (0, 1, 2)),
    "right transposed": (lambda a, b: a @ b.transpose(1, 2) * 2 + 1, lambda t: t * 2 + 1, (0, 1, 2), (0, 2, 1)),
    "left transposed": (lambda a, b: (a.transpose(1, 2) @ b).relu(), lambda t: np.maximum(t, 0), (0, 2, 1), (0, 1, 2)),
    "heads beside each other": (
        lambda a, b: a.permute(1, 0, 2) @ b.permute(1, 0, 2) - 1,
        lambda t: t - 1,
        (1, 0, 2),
        (1, 0, 2),
    ),
    "of what is computed": (lambda a, b: (a * 2) @ (b.exp().log() - 0), lambda t: t * 2, (0, 1, 2), (0, 1, 2)),
}


@pytest.mark.parametrize("dtype", [sg.int32, sg.int64, sg.float32], ids=lambda d: d.name)
@pytest.mark.parametrize("length", [5, 8, 16, 17])
def test_several_reductions_in_one_kernel_equal_the_interpreters(length: int, dtype: Any, computes: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.permuted(np.tile(np.arange(length), (40, 1)), axis=1) for _ in range(3)]

    def run() -> list[np.ndarray]:
        @sg.compile
        def step(*tensors: sg.Tensor) -> list[sg.Tensor]:
            return [f(-1) for x in tensors for f in (x.argmax, x.sum, x.amin, x.amax, x.argmin)]

        return [r.numpy() for r in step(*(sg.tensor(a, device="cpu").to(dtype) for a in arrays))]

    for k, (actual, reference) in enumerate(zip(*both(computes, run), strict=True)):
        np.testing.assert_array_equal(actual, reference, err_msg=f"result {k}")


@pytest.mark.parametrize(
    "shape", [(4, 16, 16, 16), (5, 7, 37, 9), (8, 64, 64, 32), (6, 1, 50, 3), (9, 33, 40, 128)], ids=str
)
@pytest.mark.parametrize("how", PRODUCTS)
def test_small_products_are_exact_to_rounding(
    how: str, shape: tuple[int, int, int, int], computes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same bits for any number of registers."""
    batch, m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((batch, m, k), (batch, k, n)))
    ours, behind, *axes = PRODUCTS[how]
    given = [sg.tensor(np.ascontiguousarray(x.transpose(o))) for x, o in zip((a, b), axes, strict=True)]
    steps: list[Any] = []
    loaded = cpu.Native
    monkeypatch.setattr(cpu, "Native", lambda found: steps.append(found) or loaded(found))

    def computed(tile: Tile) -> np.ndarray:
        monkeypatch.setattr(llvm.code(), "tile", tile)
        computes("native")
        return ours(*given).numpy()

    found, other = (computed(tile) for tile in (LARGE, SMALL))
    assert all(any(step.shape.startswith("dot ") for step in of.steps) for of in steps), "BLAS computed it"
    assert_same_bits(found, other)
    exact = behind(a.astype(np.float64) @ b.astype(np.float64))
    assert np.abs(found - exact).max() <= 2e-7 * (4 + k) * np.abs(exact).max()


@pytest.mark.parametrize("shape", [(8, 0, 16, 4), (8, 5, 16, 0), (8, 5, 0, 4), (0, 5, 16, 4)], ids=str)
def test_products_without_elements_are_empty_or_zero(shape: tuple[int, int, int, int], computes: Any) -> None:
    batch, m, n, k = shape
    computes("native")
    found = (sg.zeros(batch, m, k) @ sg.zeros(batch, k, n)).numpy()
    np.testing.assert_array_equal(found, np.zeros((batch, m, n), np.float32))


def test_weights_of_attention_sum_to_one(computes: Any) -> None:
    """Logarithms of sums, which the backward pass is given, are rounded; weights are not off by that."""
    computes("native")
    x = sg.ones(1, 2, 8, 16)
    result = F.scaled_dot_product_attention(x * 7.0, x, x)
    np.testing.assert_array_equal(result.numpy(), x.numpy())
    q, k = ((x * scale).detach().requires_grad_() for scale in (7.0, 3.0))
    F.scaled_dot_product_attention(q, k, x).sum().backward()
    for gradient in (q.grad, k.grad):
        np.testing.assert_array_equal(gradient.numpy(), 0 * x.numpy())  # type: ignore[union-attr]


@pytest.mark.parametrize(("size", "window", "step"), [(8, 2, 2), (9, 2, 3), (11, 3, 3), (9, 3, 2)], ids=str)
def test_gradients_of_windows_have_the_interpreters_bits(size: int, window: int, step: int, computes: Any) -> None:
    """Apart, side by side and overlapping; a part of -0.0 was added to 0.0."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, size, size)).astype(np.float32)
    count = (size - window) // step + 1
    upper = rng.standard_normal((2, 3, count, count)).astype(np.float32)
    upper[0] = -0.0

    def run() -> list[np.ndarray]:
        @sg.compile
        def step_of(x: sg.Tensor, upper: sg.Tensor) -> sg.Tensor:
            x = x.detach().requires_grad_()
            pooled = F.max_pool2d(x, window, step)
            assert isinstance(pooled, sg.Tensor)
            (pooled * upper).sum().backward()
            return x.grad  # type: ignore[return-value]

        return [step_of(sg.tensor(x), sg.tensor(upper)).numpy()]

    (actual,), (reference,) = both(computes, run)
    assert_same_bits(actual, reference)


@pytest.mark.parametrize("dtype", [sg.int32, sg.int64], ids=lambda d: d.name)
def test_gathers_equal_the_interpreters_and_check_their_positions(dtype: Any, computes: Any) -> None:
    """Of memory, of what is computed, along rows, of whole rows, and behind reductions."""
    rng = np.random.default_rng(0)
    x, table = (rng.standard_normal(s).astype(np.float32) for s in ((40, 33), (7, 33)))
    places = rng.integers(0, 33, (40, 5))
    rows = rng.integers(0, 7, 50)

    @sg.compile
    def step(x: sg.Tensor, table: sg.Tensor, places: sg.Tensor, rows: sg.Tensor) -> list[sg.Tensor]:
        of_rows = F.embedding(rows, table)
        found = [x.gather(1, places), (x * 2).exp().gather(1, places) + 1, x.log_softmax(1).gather(1, places)]
        return [
            *found,
            of_rows * 3,
            table[rows].sum(1),
            x.gather(1, places[:, ::2].flip(1)),
            F.cross_entropy(x, places[:, 0]),
        ]

    def run() -> list[np.ndarray]:
        return [
            r.numpy() for r in step(sg.tensor(x), sg.tensor(table), *(sg.tensor(a).to(dtype) for a in (places, rows)))
        ]

    for k, (actual, reference) in enumerate(zip(*both(computes, run), strict=True)):
        np.testing.assert_allclose(actual, reference, rtol=1e-5, atol=1e-6, err_msg=f"result {k}")
    for array, place in ((places, 33), (places, -1), (rows, 7), (rows, -8)):
        computes("native")
        before, array.flat[3] = array.flat[3], place
        with pytest.raises(PositionError, match=f"{place} is out of range"):
            run()
        array.flat[3] = before


def test_complex_numbers_are_not_simplified_as_real_ones(computes: Any) -> None:
    z = sg.tensor(np.array([1 + 2j, -3j, 0], np.complex64))

    def run() -> list[np.ndarray]:
        @sg.compile
        def step(z: sg.Tensor) -> list[sg.Tensor]:
            numbers = (0, 1, 2, 2.5, 1j, 2 + 0j)
            return [
                f(z)
                for n in numbers
                for f in (lambda z, n=n: z + n, lambda z, n=n: n - z, lambda z, n=n: z * n, lambda z, n=n: z / (n + 1))
            ] + [z.abs() * 2]

        return [r.numpy() for r in step(z)]

    for k, (actual, reference) in enumerate(zip(*both(computes, run), strict=True)):
        np.testing.assert_array_equal(actual, reference, err_msg=f"result {k}")


def test_what_is_out_of_range_raises_as_before(computes: Any) -> None:
    computes("native")
    x = sg.tensor(np.ones((4, 3), np.float32))
    with pytest.raises(IndexError):
        x.gather(0, sg.tensor([[4, 0, 0]])).sum().item()


# -- threads


def training() -> Callable[[], list[np.ndarray]]:
    sg.manual_seed(0)
    model = sg.nn.Sequential(
        sg.nn.Linear(33, 257), sg.nn.GELU(), sg.nn.LayerNorm(257), sg.nn.Dropout(0.1), sg.nn.Linear(257, 19)
    )
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    x = sg.tensor(rng.standard_normal((500, 33)).astype(np.float32))
    y = sg.tensor(rng.integers(0, 19, 500))

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = sg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def run() -> list[np.ndarray]:
        losses = [step(x, y).item() for _ in range(8)]
        return [np.array(losses), *(p.detach().numpy() for p in model.parameters())]

    return run


def test_the_bits_are_the_same_for_any_number_of_threads(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "FEWEST", 64)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(pool, "_wanted", count)
        computes("native")
        found.append(training()())
    for other in found[1:]:
        for actual, first in zip(other, found[0], strict=True):
            assert_same_bits(actual, first)


def test_a_training_is_the_interpreters_to_rounding(computes: Any) -> None:
    native, reference = both(computes, lambda: training()())
    for actual, expected in zip(native, reference, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_threads_of_its_own(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "FEWEST", 64)
    monkeypatch.setattr(pool, "_wanted", 2)
    computes("native")
    x = sg.tensor(np.linspace(0, 1, 4096, dtype=np.float32))
    expected = (x.exp() + 1).numpy()
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal((x.exp() + 1).numpy(), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- starting


@pytest.mark.parametrize(
    ("elements", "long", "again"),
    [(100, 2000, 4), (1 << 14, 2000, 2), (100, 1, 5), (1 << 14, 1, 2), (1 << 20, 2000, 1), (1 << 20, 1, 1)],
)
def test_a_program_is_interpreted_until_it_comes_again(
    elements: int, long: int, again: int, computes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COMES_AGAIN": 2, "LITTLE_COMES_AGAIN": 4, "LONG_COMES_AGAIN": 5, "LONG": long}.items():
        monkeypatch.setattr(cpu, name, value)
    computes("native")
    loaded: list[object] = []
    original = cpu.Native
    monkeypatch.setattr(cpu, "Native", lambda steps: loaded.append(steps) or original(steps))
    step = sg.compile(lambda x: (x * 2).exp())
    x = sg.tensor(np.linspace(0, 1, elements, dtype=np.float32))
    for run in range(1, 7):
        step(x).numpy()
        assert len(loaded) == (run >= again), f"run {run}"


def test_the_device_says_how_it_computes(computes: Any) -> None:
    for name, words in (
        ("reference", "cpu (NumPy"),
        ("auto", "cpu (native kernels"),
        ("native", "cpu (native kernels"),
    ):
        computes(name)
        assert get_device("cpu").describe().startswith(words), name


def test_an_older_llvmlite_is_refused_in_words(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    computes("native")
    monkeypatch.setattr(llvm, "has_llvmlite", lambda: False)
    with pytest.raises(
        llvm.NativeCodeError, match=r"needs llvmlite 0\.50 or newer, and .* is installed\. Hint: pip install --upgrade"
    ):
        cpu.CpuDevice()


def test_no_memory_is_said_in_words(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    computes("native")
    x = sg.tensor(np.ones(100, np.float32))

    def run(self: Any, *of: Any) -> Any:
        raise MemoryError("nothing left")

    monkeypatch.setattr(cpu.Native, "run", run)
    with pytest.raises(sg.OutOfMemoryError, match="the host has no memory"):
        (x.exp() * 2).numpy()


def test_explanations_say_that_operations_are_fused(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = sg.compile(lambda x: (x * 2).exp())
    step(sg.tensor(np.ones(4, np.float32)))
    monkeypatch.setattr(plan, "config", replace(plan.config, cpu="reference"))
    assert "none fused" in str(step.explain())
    monkeypatch.setattr(plan, "config", replace(plan.config, cpu="native"))
    assert "fused to 1 native kernel where they come again" in str(step.explain())
    sums = sg.compile(lambda x: (x * 2).exp().cumsum(0) + 1)
    sums(sg.tensor(np.ones(4, np.float32)))
    assert "fused to 2 native kernels and 1 operation of NumPy (" in str(sums.explain(why=True))
    monkeypatch.setattr(cpu, "LONG", 1)
    assert f"none fused before run {cpu.LONG_COMES_AGAIN}: so many operations" in str(step.explain())
    large = sg.compile(lambda x: (x * 2).exp())
    large(sg.tensor(np.ones(1 << 20, np.float32)))
    assert "fused to 1 native kernel" in str(large.explain())
    assert "come again" not in str(large.explain())


def test_explain_lists_native_kernels_and_what_numpy_computes(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    computes("native")
    monkeypatch.setattr(plan, "config", replace(plan.config, cpu="native"))
    model = sg.nn.Linear(40, 30)
    step = sg.compile(lambda x: (model(x).exp() * 2).softmax(-1).sort()[0])
    x = sg.tensor(np.ones((50, 40), np.float32))
    step(x)
    lines = [line.split("  ") for line in str(step.explain(choices=True)).splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines if line[0].isdigit()]
    assert [row[0] for row in rows] == [str(n) for n in range(len(rows))]
    assert rows[0][1:] == ["dot", "Linear", "matrix multiplication 1 x 50 x 30"]
    assert rows[1][-2:] == ["native row 50 x 30", "#0"]
    assert any("sort" in row[1] for row in rows)
    why = str(step.explain(why=True))
    assert "a matrix multiplication is a step of its own" in why
    assert "NumPy computes one of them" in why
    with pytest.raises(ArgumentError, match="one after the other"):
        step.explain(why=True, choices=True)
    monkeypatch.setattr(plan, "config", replace(plan.config, cpu="reference"))
    step = sg.compile(lambda x: x.exp() * 2)
    step(x)
    for table in (step.explain(why=True), step.explain(choices=True)):
        assert "NumPy operations, with those that they read results of; none fused" in str(table)


def test_a_profile_names_native_kernels_and_where_they_are_from(computes: Any) -> None:
    computes("native")
    model = sg.nn.Sequential(sg.nn.Linear(40, 30), sg.nn.Softmax(-1))
    step = sg.compile(lambda x: model(x) * 2)
    x = sg.tensor(np.ones((50, 40), np.float32))
    expected = step(x).detach().numpy()
    with sg.profile() as found:
        assert_same_bits(step(x).detach().numpy(), expected)
    rows = {row.archetype: row for row in found.kernels()}
    assert {"native dot", "native row"} <= rows.keys(), found
    assert rows["native row"].shape == "50 x 30"
    assert "1" in rows["native row"].origin.name


def test_what_llvm_does_not_take_is_said_in_words(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "literal", lambda value, kind: kernel.Value("no number", kind, constant=True))
    computes("native")
    with pytest.raises(
        llvm.NativeCodeError, match=r"(?s)LLVM does not take a native kernel: .*Hint: SHADERGRAD_CPU=reference"
    ):
        sg.tensor(np.ones((5, 7), np.float32)).sum(1).numpy()


def test_an_llvm_that_does_not_load_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("libllvmlite.so: wrong ELF class")

    monkeypatch.setattr(llvm, "Code", broken)
    with pytest.raises(llvm.NativeCodeError, match=r"does not work here: .*wrong ELF class.*Hint"):
        llvm.code.__wrapped__()


TEXT = """define void @kernel(ptr %buffers, i64 %begin, i64 %end) {
  ret void
}
"""


def test_machine_code_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "config", replace(llvm.config, cache=str(tmp_path)))
    first, second = llvm.Code(), llvm.Code()
    first.addresses([TEXT])
    (file,) = (tmp_path / "native").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    second.addresses([TEXT])
    assert (first.compiled, first.found, second.compiled, second.found) == (1, 0, 0, 1)


@pytest.mark.parametrize("harm", ["torn", "writable"])
def test_code_that_others_may_have_written_is_not_run(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llvm, "config", replace(llvm.config, cache=str(tmp_path)))
    monkeypatch.setattr(llvm.files, "warned", [tmp_path])
    llvm.Code().addresses([TEXT])
    (file,) = (tmp_path / "native").iterdir()
    if harm == "torn":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.chmod(0o666)
    again = llvm.Code()
    again.addresses([TEXT])
    assert (again.compiled, again.found) == (1, 0)


# -- faults: what is broken in the emitter is seen


def _wrong_tail(self: Any, k: int) -> Any:
    return kernel.literal(True, "i1")


_right = product.ProductText._right


def _first_vector(self: Any, j: int) -> Any:
    return _right(self, 0)


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "the last elements of a row count twice": (kernel._Kernel, "_new_lanes", _wrong_tail),
    "erf is cut too early": (functions, "ERF_END", 2.0),
    "exp has too few terms": (functions, "EXP32", functions.EXP32[2:]),
    "expm1 has too few terms": (functions, "EXP", functions.EXP[6:]),
    "sums begin with the last row's": (kernel, "literal", lambda value, kind: kernel.Value("1", kind, constant=True)),
    "a product reads one vector twice": (product.ProductText, "_right", _first_vector),
    "the smaller is the larger": (rules, "maximum", rules.minimum),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm.code(), "tile", LARGE)  # of two vectors, whatever this processor has
    rng = np.random.default_rng(0)
    x = sg.tensor(rng.standard_normal((20, 37)).astype(np.float32))
    wide, tall = (sg.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((5, 20, 8), (5, 8, 37)))

    def run() -> list[np.ndarray]:
        functions = (
            sg.erf,
            sg.exp,
            sg.expm1,
            sg.sigmoid,
            sg.relu,
            lambda x: x.sum(1),
            lambda x: x.amax(1),
            lambda x: wide @ tall,
        )
        return [f(x).numpy() for f in functions]

    def agree() -> bool:
        return all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*both(computes, run), strict=True))

    assert agree(), "without a fault"
    monkeypatch.setattr(*FAULTS[fault])
    try:
        same = agree()
    except llvm.NativeCodeError:  # a text that is no IR is seen, too
        same = False
    assert not same


# -- other processors


def test_kernels_compile_for_web_assembly(computes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map, rows and a product, as the cpu device has them."""
    texts: list[str] = []
    loaded = cpu.Native
    monkeypatch.setattr(cpu, "Native", lambda found: texts.extend(found.texts) or loaded(found))
    computes("native")
    x = sg.tensor(np.ones((5, 7, 33), np.float32))
    assert np.isfinite(((x.exp() * 2).softmax(2) @ x.transpose(1, 2).erf() @ x).numpy()).all()
    assert len(texts) > 2
    for text in texts:
        code = llvm.code().object_for(text, "wasm32-unknown-unknown", "+simd128")
        assert code.startswith(b"\0asm\1\0\0\0")
        assert b"\xfd" in code, "no instruction of vectors"
