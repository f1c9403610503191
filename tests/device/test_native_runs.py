"""With native kernels a program has the same bits from its first run to its last, and an operation by itself those that it has in a
captured step: what is compiled, planned and interpreted, or evaluated node by node, is compared bit for bit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import shadergrad as sg
from cases import CASES, Case
from helpers import assert_same_bits, leaves_of, results_of
from shadergrad.compile.native import program
from shadergrad.drive import execute
from shadergrad.drive.execute import programs
from shadergrad.primitives.random import Threefry
from shadergrad.runtime import cpu, llvm, native_cpu, native_operations
from test_random_graphs import random_graphs

pytestmark = [
    pytest.mark.skipif(llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'),
    pytest.mark.filterwarnings("ignore:.*degrees of freedom.*"),
]
NEVER = 1 << 30
RUNS = {
    "compiled": (1, NEVER),
    "planned": (NEVER, NEVER),
    "evaluated": (NEVER, 0),
}  # when compiled, and how long a graph needs no plan


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Say how programs run from here on."""
    monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu="native"))

    def choose(how: str) -> None:
        comes_again, long = RUNS[how]
        monkeypatch.setattr(cpu, "COMES_AGAIN", comes_again)
        monkeypatch.setattr(cpu, "LITTLE_COMES_AGAIN", comes_again)
        monkeypatch.setattr(cpu, "LONG_COMES_AGAIN", comes_again)
        monkeypatch.setattr(execute, "LONG", long)
        programs.clear()

    yield choose
    programs.clear()


def without_nan(x: np.ndarray) -> np.ndarray:
    """NaNs have any sign."""
    return np.where(np.isnan(x), 1, x).astype(x.dtype) if x.dtype.kind == "f" else x


def assert_the_same_in_every_run(runs: Callable[[str], None], run: Callable[[], list[np.ndarray]], what: str) -> None:
    found = {}
    for how in RUNS:
        runs(how)
        found[how] = run()
    for how in ("planned", "evaluated"):
        for k, (actual, compiled) in enumerate(zip(found[how], found["compiled"], strict=True)):
            assert_same_bits(without_nan(actual), without_nan(compiled), f"{what}: result {k}, {how}")


BOTH = [(c, sg.float32) for c in CASES] + [(c, sg.float64) for c in CASES[::8]]  # float64 has fewer kernels of its own


@pytest.mark.parametrize(("case", "dtype"), BOTH, ids=[f"{c.id}-{d.name}" for c, d in BOTH])
def test_operators(case: Case, dtype: Any, runs: Any) -> None:
    def run() -> list[np.ndarray]:
        results = results_of(case, sg, leaves_of(case, case.arrays(), "cpu", dtype))
        sg.sync("cpu")
        return [r.detach().numpy() for several in results.values() for r in several]

    assert_the_same_in_every_run(runs, run, case.id)


@seed(12)
@settings(
    max_examples=60,
    derandomize=False,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
@given(graph=random_graphs())
def test_random_graphs(graph: Any, runs: Any) -> None:
    assert_the_same_in_every_run(runs, lambda: graph.run("cpu"), repr(graph))


# -- trainings

Layers = sg.nn.Sequential


class Encoder(sg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = sg.nn.TransformerEncoder(
            sg.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), 2
        )
        self.last = sg.nn.Linear(32, 19)

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return self.last(self.layers(x).mean(1))


class Attention(sg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = sg.nn.Linear(32, 96), sg.nn.Linear(32, 19)

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        q, k, v = self.first(x).reshape(4, 20, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = sg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.last(y.transpose(1, 2).reshape(4, 20, 32).mean(1))


class Recurrent(sg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = sg.nn.LSTM(12, 24, batch_first=True), sg.nn.Linear(24, 19)

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return self.last(self.first(x)[0][:, -1])


nn = sg.nn
MODELS: dict[str, tuple[Callable[[], sg.nn.Module], tuple[int, ...]]] = {
    "layers": (
        lambda: Layers(nn.Linear(33, 257), nn.GELU(), nn.LayerNorm(257), nn.Dropout(0.1), nn.Linear(257, 19)),
        (64, 33),
    ),
    "images": (
        lambda: Layers(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3),
            nn.Tanh(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 19),
        ),
        (16, 1, 14, 14),
    ),
    "encoder": (Encoder, (8, 10, 32)),
    "attention": (Attention, (4, 20, 32)),
    "recurrent": (Recurrent, (6, 9, 12)),
}


def trained(name: str, how: str) -> list[np.ndarray]:
    """Losses and parameters of four steps: captured, in a loop, or in pieces of which each is read."""
    sg.manual_seed(0)
    make, shape = MODELS[name]
    model, rng = make(), np.random.default_rng(0)
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = sg.tensor(rng.standard_normal(shape).astype(np.float32)), sg.tensor(rng.integers(0, 19, shape[0]))

    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        out = model(x)
        if how == "pieces":
            out.detach().numpy()
        loss = sg.nn.functional.cross_entropy(out, y)
        if how == "pieces":
            loss.item()
        loss.backward()
        if how == "pieces":
            for p in model.parameters():
                assert p.grad is not None
                p.grad.numpy()
        optimizer.step()
        return loss

    step = sg.compile(step) if how == "captured" else step
    losses = [step(x, y).item() for _ in range(4)]
    return [np.array(losses), *(p.detach().numpy() for p in model.parameters())]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_trainings(name: str, runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs("compiled")
    expected = trained(name, "captured")
    for how in ("captured", "loop", "pieces"):
        for comes_again in (1, 3, NEVER):
            runs("planned")
            monkeypatch.setattr(cpu, "COMES_AGAIN", comes_again)
            monkeypatch.setattr(cpu, "LITTLE_COMES_AGAIN", comes_again)
            monkeypatch.setattr(cpu, "LONG_COMES_AGAIN", comes_again)
            for k, (actual, wanted) in enumerate(zip(trained(name, how), expected, strict=True)):
                assert_same_bits(actual, wanted, f"{how}, compiled in run {comes_again}, value {k}")


# -- faults: an interpreter with bits of its own is seen


def _numpys(self: Any, *arrays: Any) -> Any:
    return self.of.numpy(*arrays)


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "functions are NumPy's": (native_operations._Function, "numpy", _numpys),
    "sums are NumPy's": (native_operations._Reduction, "numpy", _numpys),
    "small products are of BLAS": (native_operations._Product, "numpy", _numpys),
    "powers are NumPy's": (native_operations._Power, "numpy", _numpys),
    "rows of another order share a kernel": (program, "order_of", lambda node: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = sg.tensor(rng.standard_normal((40, 371)).astype(np.float32))
    wide, tall = (sg.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((5, 20, 64), (5, 64, 37)))
    parts, columns = (sg.tensor(rng.standard_normal(s), dtype=sg.float64) for s in ((40, 6, 80), (3200, 6)))

    def run() -> list[np.ndarray]:
        both = sg.compile(lambda a, b: (a.sum((0, 2)), b.sum(0)))  # as many rows of as many elements
        found = [x.exp(), (x * 1e3).sum(1), (x * 1e3).sum(0), wide @ tall, x.abs() ** 3, *both(parts, columns)]
        return [f.numpy() for f in found]

    assert_the_same_in_every_run(runs, run, "without a fault")
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        assert_the_same_in_every_run(runs, run, fault)


def test_programs_do_not_keep_memory_that_was_exchanged(runs: Callable[[str], None]) -> None:
    """A larger program takes other memory: the smaller ones before it compute there, and let the old go."""
    runs("compiled")

    def twice(size: int) -> Callable[[], np.ndarray]:
        a = sg.tensor(np.random.default_rng(size).normal(size=(size, size)), dtype=sg.float32)
        step = sg.compile(lambda x: ((x @ x).tanh() @ x).sum(0))
        step(a)
        return lambda: step(a).numpy()

    native_cpu.memory.take(0)
    small, before = twice(40), native_cpu.memory.bytes
    first = small()
    large = twice(int(np.sqrt(before.nbytes / 4)) + 300)
    weak = weakref.ref(before)
    del before
    large()
    assert weak() is None
    assert_same_bits(small(), first, "after the exchange")
    assert_same_bits(small(), first, "again")


def _step_of(model: Any) -> Callable[[], None]:
    """A compiled step of Adam, whose program is native from its first run on."""
    optimizer = sg.optim.Adam(model.parameters(), lr=0.01)
    x = sg.tensor(np.random.default_rng(0).normal(size=(8, 40)), dtype=sg.float32)

    def train() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return sg.compile(train)


def _array(parameter: Any) -> np.ndarray:
    return parameter._node.storage.handle


def test_parameters_are_written_to_the_arrays_that_they_had_before(runs: Callable[[str], None]) -> None:
    runs("compiled")
    model = sg.nn.Linear(40, 40)
    step = _step_of(model)
    places = []
    for _ in range(12):
        step()
        places.append(_array(model.weight).ctypes.data)
    assert len({*places[4:]}) == 2


def test_spare_arrays_are_shared_by_programs_and_go_with_the_model(
    runs: Callable[[str], None],
) -> None:
    runs("compiled")
    model = sg.nn.Linear(40, 40)
    steps = [_step_of(model) for _ in range(3)]
    seen: list[weakref.ref[np.ndarray]] = []
    for k in range(12):
        steps[k % 3]()
        seen.append(weakref.ref(_array(model.weight)))
    assert len({id(weak()) for weak in seen if weak() is not None}) == 2
    del model, steps
    gc.collect()
    assert not any(weak() is not None for weak in seen)


def _references_are_kept() -> bool:
    """Whether arrays, and views of them, keep their values while a model goes on training."""
    sg.manual_seed(0)
    model = sg.nn.Linear(40, 40)
    step = _step_of(model)
    held: list[tuple[Any, np.ndarray]] = []
    for k in range(16):
        step()
        array = _array(model.weight)
        value: Any = (array, array[::2], array.view(np.int32), model.weight.detach().numpy())[k % 4]
        held.append((value, np.array(value)))
        del array, value
    return all(np.array_equal(np.asarray(now), then) for now, then in held)


def test_an_array_that_anyone_refers_to_is_not_written(
    runs: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs("compiled")
    assert _references_are_kept()
    monkeypatch.setattr(native_cpu.cpython, "references", lambda thing: 0)
    assert not _references_are_kept(), "the planted fault is seen"


@pytest.mark.parametrize("count", [native_operations.FEW_DRAWN, native_operations.FEW_DRAWN + 1, 100_003])
@pytest.mark.parametrize("is_broadcast", [False, True])
def test_random_words_of_machine_code_are_numpys(count: int, is_broadcast: bool) -> None:
    drawn = Threefry(True)
    key = np.array([3, 0xDEADBEEF], np.uint32)
    x1 = np.arange(count, dtype=np.uint32) * np.uint32(77)
    x0 = np.broadcast_to(np.uint32(5), (count,)) if is_broadcast else x1[::-1]
    found = native_operations.operation_of(drawn).numpy(key, x0, x1)
    assert found.tobytes() == drawn.numpy(key, x0, x1).tobytes()


def test_zeros_of_a_program_are_arrays_of_their_own() -> None:
    a, b = sg.zeros(300, 200), sg.full((300, 200), -0.0)
    assert a.numpy().tobytes() == bytes(300 * 200 * 4)
    assert np.signbit(b.numpy()).all()
    a += 1
    assert (a.numpy() == 1).all()
    assert (sg.zeros(300, 200).numpy() == 0).all()
