"""Numbers that change from run to run: a second value is compiled once more, further ones never, and every value is right.

What a loop computes is compared with PyTorch at each value; how often it compiled is counted.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from cases import CASES, Case
from helpers import assert_close, assert_compiles_nothing, assert_same_bits, grad_of, leaves_of, listed, results_of
from shadergrad.compile.pipeline import compile_graph
from shadergrad.drive import execute
from shadergrad.drive.execute import load_plan, programs
from shadergrad.errors import ShadergradError
from shadergrad.graph.capture import Capture
from shadergrad.graph.numbers import NO_SLOTS, Slots
from shadergrad.plan import Plan
from shadergrad.runtime.device import get_device
from shadergrad.target import PORTABLE
from shadergrad.tensor import flush

rng = np.random.default_rng(0)
ROWS = rng.standard_normal((700, 7)).astype(np.float32)
CUBE = rng.standard_normal((40, 6, 40)).astype(np.float32)
SQUARE = rng.uniform(0.1, 2, (9, 9)).astype(np.float32)
COUNTS = rng.integers(-50, 50, (30, 4)).astype(np.int32)
SMALL = SQUARE[:4]

Loop = tuple[Callable[..., Any], tuple[np.ndarray, ...], Sequence[Any]]


def written(key: Callable[[int], Any], value: Any) -> Callable[..., Any]:
    """x with x[key(i)] = value."""

    def run(m: Any, i: int, x: Any) -> Any:
        y = x * 1
        y[key(i)] = value
        return y + 1

    return run


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the sum of squares of what a function gives."""

    def run(m: Any, i: Any, *operands: Any) -> Any:
        leaves = [x.detach().clone().requires_grad_() for x in operands]
        (function(m, i, *leaves) ** 2).sum().backward()
        return tuple(x.grad for x in leaves)

    return run


def on(m: Any, x: Any) -> dict[str, Any]:
    """Where to make a tensor beside x."""
    return {"device": x.device} if m is sg else {}


OFFSETS = [8 * k for k in range(20)]
RATES = [0.1 / (k + 1) for k in range(30)]
HALVES = [k / 2 for k in range(1, 9)]
# what is computed from (library, number, operands), the operands, and the numbers
LOOPS: dict[str, Loop] = {
    "a learning rate": (lambda m, lr, w, g: w - lr * g, (SQUARE, SQUARE.T), RATES),
    "a reflected difference": (lambda m, a, x: (a - x, a / x), (SQUARE,), HALVES),
    "signs and specials": (lambda m, a, x: (x * 0 + a, x + a), (SQUARE,), [1.5, 0.0, -0.0, -3.0, math.inf, -math.inf]),
    "not a number": (lambda m, a, x: x + a, (SQUARE,), [1.0, math.nan, math.nan, 2.0]),
    "two numbers": (lambda m, a, x: x * a + 1 / a, (SQUARE,), HALVES),
    "a whole number": (lambda m, k, x: (x * k, x + k, x // k), (COUNTS,), range(3, 20)),
    "a whole number beside floats": (lambda m, k, x: x * k, (SQUARE,), range(3, 20)),
    "a float beside whole numbers": (lambda m, a, x: x * a, (COUNTS,), HALVES),
    "an exponent": (lambda m, p, x: x**p, (SQUARE,), [2.0, 3.0, 0.5, -1.0, 1.7, 0.0]),
    "a bound": (lambda m, a, x: x.clamp(a, a + 0.5), (SQUARE,), HALVES),
    "a threshold": (lambda m, a, x: m.where(x > a, x, -a), (SQUARE,), HALVES),
    "a fill": (lambda m, a, x: m.full_like(x, a), (SQUARE,), HALVES),
    "a fill in place": (lambda m, a, x: (x * 1).fill_(a), (SQUARE,), HALVES),
    "a fill of a border": (lambda m, a, x: pad_with(m, x, a), (SQUARE,), HALVES),
    "a slope": (
        lambda m, a, x: (m.nn.functional if m is torch else F).leaky_relu(x - 1, a),
        (SQUARE,),
        HALVES,
    ),
    "a loss": (lambda m, a, x: ((x - 1).abs() < a).to(m.float32).mean() * a, (SQUARE,), HALVES),
    "rows of a data set": (lambda m, i, x: x[i : i + 8], (ROWS,), OFFSETS),
    "rows from the end": (lambda m, i, x: x[-i - 8 : -i], (ROWS,), OFFSETS[1:]),
    "every third row": (lambda m, i, x: x[i : i + 24 : 3], (ROWS,), OFFSETS),
    "two axes": (lambda m, i, x: x[i : i + 8, i % 3 : i % 3 + 4] * 2, (ROWS,), OFFSETS),
    "a row": (lambda m, i, x: x[i], (ROWS,), OFFSETS),
    "an element": (lambda m, i, x: x[i, i % 7] * 2, (ROWS,), OFFSETS),
    "narrow and select": (lambda m, i, x: x.narrow(0, i, 5).select(1, i % 7), (ROWS,), OFFSETS),
    "a block of counts": (lambda m, i, x: x[i : i + 3].sum(), (COUNTS,), range(20)),
    "a product of slices": (lambda m, i, x: x[i : i + 8] @ x[i + 8 : i + 16].T, (ROWS,), OFFSETS),
    "a softmax of slices": (lambda m, i, x: x[i : i + 8].softmax(1), (ROWS,), OFFSETS),
    "the last axis of many": (lambda m, i, x: x[:, i % 4 : i % 4 + 2, i : i + 8].sum(1), (CUBE,), range(20)),
    "a reversed slice": (lambda m, i, x: x[i : i + 8].flip(0), (ROWS,), OFFSETS),
    "a slice of a slice": (lambda m, i, x: x[i : i + 20][i % 7 : i % 7 + 4], (ROWS,), OFFSETS),
    "the beginning of the rest": (lambda m, i, x: x[i:][::2][:8], (ROWS,), OFFSETS),
    "the gradient of a row": (gradient(lambda m, i, x: x[i]), (ROWS[:50],), range(40)),
    "the gradient of a block": (gradient(lambda m, i, x: x[i : i + 12 : 4, 1:3] * i), (ROWS[:60],), range(1, 40)),
    "the gradient of a rate": (gradient(lambda m, a, x, y: (a * x - y).exp()), (SQUARE, SQUARE.T.copy()), HALVES),
    "an arange": (lambda m, i, x: m.arange(i, i + 8, **on(m, x)) + x[0, 0], (COUNTS,), OFFSETS),
    "an arange by steps": (lambda m, i, x: m.arange(i, i + 16, 2, **on(m, x)) * x[0, 0], (COUNTS,), OFFSETS),
    "an arange of floats": (lambda m, a, x: m.arange(a, a + 3.0, **on(m, x)) * x[0, 0], (SQUARE,), HALVES),
    "a row written": (written(lambda i: i, 7.0), (ROWS[:50],), range(40)),
    "a block written": (written(lambda i: slice(i, i + 3), -1.5), (ROWS[:50],), range(40)),
    "a strided block written": (
        written(lambda i: (slice(i, i + 9, 4), slice(i % 3, i % 3 + 2)), 2.0),
        (ROWS[:50],),
        range(40),
    ),
    "counts written": (written(lambda i: (i, i % 4), 9), (COUNTS,), range(20)),
    "a band": (lambda m, k, x: x.tril(k) + x.triu(-k), (SQUARE,), range(1, 8)),
    "a diagonal": (lambda m, k, x: x.tril(k), (SQUARE,), range(-4, 4)),
}


def pad_with(m: Any, x: Any, a: float) -> Any:
    return (torch.nn.functional if m is torch else F).pad(x, (1, 2), value=a)


def assert_alike(ours: Any, theirs: Any) -> None:
    for a, b in zip(listed(ours), listed(theirs), strict=True):
        assert_close(a.detach().numpy(), b.detach().numpy(), 2e-5, 1e-6)


def compilations(run: Callable[[Any], Any], values: Sequence[Any]) -> list[int]:
    """How many plans each value compiled."""
    counts = [programs.compiled]
    for value in values:
        run(value)
        counts.append(programs.compiled)
    return [b - a for a, b in pairwise(counts)]


@pytest.mark.parametrize("name", LOOPS)
def test_a_number_is_compiled_twice_and_right_each_time(name: str, device: str) -> None:
    function, arrays, values = LOOPS[name]
    gc.collect()
    flush(views=True)  # what other tests have left pending would be read along, in another plan
    programs.clear()
    ours = [sg.tensor(a, device=device) for a in arrays]
    theirs = [torch.tensor(a) for a in arrays]

    def run(value: Any) -> None:
        assert_alike(function(sg, value, *ours), function(torch, value, *theirs))

    counts = compilations(run, values)
    most = max(counts[:1])  # of what is read one by one, each is a plan
    assert all(n <= most for n in counts[:2])
    assert not any(counts[2:]), f"compiled by value: {counts}"


def test_an_epoch_longer_than_the_cache_compiles_two_plans(device: str) -> None:
    programs.clear()
    data = sg.tensor(np.arange(5200 * 3, dtype=np.float32).reshape(5200, 3), device=device)
    counts = compilations(lambda i: data[i : i + 8].numpy(), range(0, 4808, 8))
    assert (len(counts), sum(counts)) == (601, 2)
    first = assert_compiles_nothing(lambda: data[0:8].numpy())
    np.testing.assert_array_equal(first, np.arange(24, dtype=np.float32).reshape(8, 3))


def test_the_first_value_again_is_the_first_plan(device: str) -> None:
    programs.clear()
    x = sg.tensor(SQUARE, device=device)
    first = (x**2.0).numpy()
    for power in (3.0, 4.0, 2.0):
        again = (x**power).numpy()
    assert_same_bits(again, first)


def test_a_number_that_changes_later_is_freed_then(device: str) -> None:
    programs.clear()
    x = sg.tensor(SQUARE, device=device)

    def run(pair: tuple[float, float]) -> None:
        a, b = pair
        np.testing.assert_allclose((x * a + b).numpy(), SQUARE * np.float32(a) + np.float32(b), 1e-6)

    assert compilations(run, [(2, 5), (3, 5), (4, 5), (2, 6), (7, 8), (9, 5)]) == [1, 1, 0, 1, 0, 0]


def test_numbers_that_were_equal_may_part(device: str) -> None:
    """They are read from one place while they are equal: a rate that all parameters of a model share."""
    programs.clear()
    x, y = sg.tensor(SQUARE, device=device), sg.tensor(SQUARE.T.copy(), device=device)

    def run(pair: tuple[float, float]) -> None:
        a, b = pair
        result = x * a - y * b
        np.testing.assert_allclose(result.numpy(), SQUARE * np.float32(a) - SQUARE.T * np.float32(b), 1e-5, 1e-6)

    assert compilations(run, [(2, 2), (3, 3), (4, 4), (5, 6), (7, 7), (8, 9)]) == [1, 1, 0, 1, 0, 0]


def test_many_numbers_that_change_one_after_another_are_compiled_a_few_times(device: str) -> None:
    programs.clear()
    x = sg.tensor(SMALL, device=device)

    def run(changed: int) -> None:
        numbers = [k + (100.5 if k < changed else 0.25) for k in range(12)]
        y, expected = x, SMALL.astype(np.float64)
        for a in numbers:
            y, expected = y + a, expected + a
        np.testing.assert_allclose(y.numpy(), expected, 1e-5)

    assert sum(compilations(run, range(13))) <= 4


def test_parameters_of_one_shape_share_a_kernel_whatever_the_rate(webgpu: str) -> None:
    programs.clear()
    ws = [sg.tensor(SQUARE + k, device=webgpu) for k in range(6)]

    def kernels(rate: float) -> int:
        new = [w - rate * w.sin() for w in ws]
        capture = Capture([t._node for t in new])
        return len(programs.get(capture)[0].plan.kernels)

    before = kernels(0.5)
    assert kernels(0.25) <= before  # fewer, where the numbers leave as many buffers to each


def test_0_and_minus_0_are_two_numbers(device: str) -> None:
    programs.clear()
    mask = sg.tensor([True, False], device=device)
    for zero, other in ((0.0, 1.0), (0.0, 2.0), (-0.0, 3.0), (0.0, 4.0), (-0.0, 1.0)):
        result = sg.where(mask, sg.full((2,), zero, device=device), other).numpy()
        assert (result.tolist(), np.signbit(result[0])) == ([0, other], np.signbit(zero))


def test_loops_by_hand_compile_twice(device: str) -> None:
    """Training with a rate that falls, on blocks of a data set, whose updates are written out."""
    programs.clear()
    x, y = ROWS, ROWS @ np.arange(7, dtype=np.float32)
    ours, labels = sg.tensor(x, device=device), sg.tensor(y, device=device)
    w, v = sg.tensor(np.zeros(7, np.float32), device=device, requires_grad=True), torch.zeros(7, requires_grad=True)

    def run(k: int) -> None:
        nonlocal w, v
        rows, rate = slice(8 * k, 8 * k + 8), 0.05 / (k + 1)
        loss = ((ours[rows] @ w - labels[rows]) ** 2).mean()
        loss.backward()
        w = (w.detach() - rate * grad_of(w)).requires_grad_()
        sg.sync()
        other = ((torch.tensor(x[rows]) @ v - torch.tensor(y[rows])) ** 2).mean()
        other.backward()
        assert v.grad is not None
        v = (v.detach() - rate * v.grad).requires_grad_()

    counts = compilations(run, range(40))
    assert not any(counts[2:]), counts
    assert_close(w.detach().numpy(), v.detach().numpy(), 1e-4, 1e-5)


# ---------------------------------------------------------------------------------- compiled steps


@pytest.mark.filterwarnings("ignore:.* is captured for the 8th time")  # that it is, is the point
def test_an_argument_that_is_a_number_compiles_two_plans(device: str) -> None:
    """Each value is traced, for the function may look at it; from the second on none is compiled."""
    programs.clear()
    state = sg.zeros(3, device=device)

    def add(x: sg.Tensor, a: float, i: int) -> sg.Tensor:
        state.add_(x[i : i + 3] * a)
        return state * 1 if a < 5 else state * 2

    step = sg.compile(add)
    x = np.arange(40, dtype=np.float32)
    tensor = sg.tensor(x, device=device)
    expected = np.zeros(3, np.float32)

    def run(k: int) -> None:
        nonlocal expected
        expected = expected + x[k : k + 3] * np.float32(k / 8)
        np.testing.assert_allclose(step(tensor, k / 8, k).numpy(), expected, 1e-5)

    step(tensor, 0.0, 0)
    assert sum(compilations(run, range(1, 30))) == 1
    expected = expected + x[7:10] * np.float32(7.5)
    np.testing.assert_allclose(step(tensor, 7.5, 7).numpy(), expected * 2, 1e-5)
    expected = expected + x[8:11]
    np.testing.assert_allclose(assert_compiles_nothing(lambda: step(tensor, 1.0, 8)).numpy(), expected, 1e-5)


@pytest.mark.filterwarnings("ignore:.* is captured for the 8th time")  # that it is, is the point
def test_values_of_an_argument_keep_no_gradients_without_bound(webgpu: str) -> None:
    w = sg.tensor(np.ones(50_000, np.float32), device=webgpu, requires_grad=True)

    def descend(rate: float) -> sg.Tensor:
        w.grad = None
        loss = (w * w).sum()
        loss.backward()
        with sg.no_grad():
            w.sub_(rate * grad_of(w))
        return loss

    step = sg.compile(descend)
    sizes = []
    for k in range(40):
        step(0.1 / (k + 1)).item()
        sizes.append(get_device(webgpu).statistics().bytes_in_use)  # type: ignore[attr-defined]
    assert sizes[-1] <= sizes[15]  # less, where garbage of another test went meanwhile
    assert step.captures == 40


@pytest.mark.filterwarnings("ignore:.* is captured for the 8th time")  # that it is, is the point
def test_a_row_of_state_is_written_in_place_wherever_it_is(device: str) -> None:
    programs.clear()
    history = sg.tensor(np.zeros((40, 2), np.float32), device=device)
    expected = np.zeros((40, 2), np.float32)

    def note(value: sg.Tensor, i: int) -> None:
        history[i] = value

    step = sg.compile(note)
    values = [sg.tensor(ROWS[i, :2], device=device) for i in range(40)]
    for i, value in enumerate(values):
        before = programs.compiled
        step(value, i)
        assert i < 2 or programs.compiled == before
        expected[i] = ROWS[i, :2]
        np.testing.assert_array_equal(history.numpy(), expected)
    (row,) = step.plan.outputs
    assert step.plan.buffers[row].aliases is not None


def test_threads_that_use_other_numbers_get_their_own_results(device: str) -> None:
    x = sg.tensor(SQUARE, device=device)
    sg.sync()
    wrong: list[float] = []

    def work(a: float) -> None:
        for k in range(20):
            rate = a + k / 64
            target = get_device(device)
            capture = Capture([(x * rate)._node])
            program, _ = programs.get(capture)
            with execute.lock:  # a program has one table of addresses
                (storage,) = program.run([s.storage for s in capture.sources])
            if (target.download(storage, (9, 9), sg.float32) != SQUARE * np.float32(rate)).any():
                wrong.append(rate)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 9)))
    assert not wrong


def test_the_first_plan_of_a_function_does_not_depend_on_other_functions(device: str) -> None:
    programs.clear()
    x = sg.tensor(SQUARE, device=device)

    def scaled(a: float) -> Any:
        return sg.compile(lambda x: x * a)

    alone = scaled(4.0)
    alone(x)
    programs.clear()
    for a in (2.0, 3.0, 4.0, 5.0):
        step = scaled(a)
        np.testing.assert_array_equal(step(x).numpy(), SQUARE * np.float32(a))
        assert len(step.plan.inputs) == 1
        if a == 4.0:
            assert step.plan == alone.plan
    assert_compiles_nothing(lambda: scaled(3.0)(x))


def test_a_plan_with_numbers_is_plain_data_and_runs_elsewhere(device: str) -> None:
    programs.clear()
    step = sg.compile(lambda x, a, i: (x[i : i + 4] * a, x + i))
    x = sg.tensor(SQUARE, device=device)
    for a, i in ((2.0, 1), (3.0, 2), (5.0, 4)):
        ours = step(x, a, i)
    plan = Plan.from_json(step.plan.to_json())
    assert plan == step.plan
    names = [(plan.buffers[row].role, plan.buffers[row].name) for row in plan.inputs]
    assert names == [("argument", "x"), ("constant", "numbers[int32]"), ("constant", "numbers[float32]")]
    inputs = step.inputs(x, 5.0, 4)
    assert [a.tolist() for a in inputs[1:]] == [[4], [5.0, 4.0]]
    target = get_device(device)
    storages = [target.upload(a, plan.buffers[row].dtype) for a, row in zip(inputs, plan.inputs, strict=True)]
    results = load_plan(plan, device).run(storages)
    for storage, tensor in zip(results, ours, strict=True):
        assert_same_bits(target.download(storage, tuple(tensor.shape), tensor.dtype), tensor.numpy())


def test_a_start_out_of_range_stays_within_the_tensor(webgpu: str) -> None:
    """Another runner may feed a plan anything: a kernel never leaves the buffer that it is given."""
    programs.clear()
    step = sg.compile(lambda x, i: x[i : i + 4] * 1)
    x = sg.tensor(SQUARE, device=webgpu)
    for i in (1, 2):
        step(x, i)
    target = get_device(webgpu)
    for start, clamped in ((-3, 0), (1000, 5)):
        inputs = [target.upload(a, d) for a, d in ((SQUARE, sg.float32), (np.array([start], np.int32), sg.int32))]
        (storage,) = load_plan(step.plan, webgpu).run(inputs)
        np.testing.assert_array_equal(target.download(storage, (4, 9), sg.float32), SQUARE[clamped : clamped + 4])


def test_captures_of_one_program_hold_their_own_numbers(device: str) -> None:
    step = sg.compile(lambda x, a: x * a)
    x = sg.tensor(SQUARE, device=device)
    for a in (2.0, 3.0, 5.0, 3.0, 7.0, 5.0, 2.0):
        np.testing.assert_array_equal(step(x, a).numpy(), SQUARE * np.float32(a))


# ---------------------------------------------------------------------------------- every operation


def numbers_in(capture: Capture) -> Slots:
    """Every number of a graph in a place of its own."""
    kinds = capture.kinds()
    return Slots.grouped(range(len(kinds)), kinds)


def values_of(capture: Capture, slots: Slots, device: str) -> list[np.ndarray]:
    target = get_device(device)
    plan, _ = compile_graph(capture.graph(slots=slots), target.target)
    arrays = slots.arrays(capture.numbers()) if slots.of else []
    numbers = [target.upload(a, d) for a, d in zip(arrays, slots.rows, strict=True)]
    results = target.load(plan).run([*(s.storage for s in capture.sources), *numbers])
    return [target.download(s, n.shape, n.dtype) for s, n in zip(results, capture.roots, strict=True)]


def capture_of(case: Case, device: str) -> Capture | None:
    """The graph of a case and its gradients, if it has a number."""
    results = results_of(case, sg, leaves_of(case, case.arrays(), device, "float32"))
    roots = [t._node for part in results.values() for t in listed(part) if t._node.storage is None]
    capture = Capture(roots) if roots else None
    return capture if capture is not None and capture.numbered else None


def assert_numbers_may_be_read(case: Case, device: str) -> None:
    capture = capture_of(case, device)
    if capture is None:
        return
    try:
        expected = values_of(capture, NO_SLOTS, device)
    except ShadergradError:
        return  # what a case of errors says
    for found, value in zip(values_of(capture, numbers_in(capture), device), expected, strict=True):
        assert_close(found, value, 2e-5, 1e-6)


DEFINED = [
    c for c in CASES if "empty axis" not in c.id
]  # of no elements: a division of zeros, which shaders may call 0


@pytest.mark.parametrize("case", DEFINED, ids=lambda c: c.id)
def test_every_number_of_an_operation_may_be_read_on_cpu(case: Case) -> None:
    assert_numbers_may_be_read(case, "cpu")


@pytest.mark.slow
def test_every_number_of_an_operation_may_be_read_on_webgpu(webgpu: str) -> None:
    for case in DEFINED:
        assert_numbers_may_be_read(case, webgpu)


@pytest.mark.parametrize("case", DEFINED, ids=lambda c: c.id)
def test_kernels_that_read_numbers_keep_to_the_portable_profile(case: Case) -> None:
    capture = capture_of(case, "cpu")
    if capture is None or any(n.dtype.wgsl is None for n in capture.order):
        return
    plan, _ = compile_graph(capture.graph(slots=numbers_in(capture)), PORTABLE)
    assert all(len(plan.kernels[d.kernel].access) <= PORTABLE.max_storage_buffers for d in plan.dispatches)


def test_what_fails_to_compile_is_tried_again(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.clear()
    x = sg.tensor(SQUARE, device=device)
    (x * 2.0).numpy()
    with monkeypatch.context() as patched:

        def fail(*_: Any) -> Any:
            raise sg.CompileError("played")

        patched.setattr(execute, "compile_graph", fail)
        with pytest.raises(sg.CompileError, match="played"):
            (x * 3.0).numpy()
    np.testing.assert_array_equal((x * 4.0).numpy(), SQUARE * 4)
