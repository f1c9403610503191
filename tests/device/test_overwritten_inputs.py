"""Parameters, their optimizer's state and gradients are written where the old ones lie: with the bits of other runs, and only where nothing else needs those."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.compile.native.program import Row, Step, Steps
from shadergrad.compile.native.regions import Hosted
from shadergrad.drive.execute import programs
from shadergrad.dtypes import float32
from shadergrad.primitives.indexing import InRange
from shadergrad.primitives.views import Flip
from shadergrad.runtime import cpu, llvm, native_cpu
from shadergrad.runtime.overwritten import overwriting_steps, written_late
from shadergrad.runtime.threads import pool

pytestmark = pytest.mark.skipif(
    llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'
)


@pytest.fixture
def overwritten(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Programs are native in their first run; how many arrays each run overwrites."""
    monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu="native"))
    for name in ("COMES_AGAIN", "LITTLE_COMES_AGAIN", "LONG_COMES_AGAIN"):
        monkeypatch.setattr(cpu, name, 1)
    counts: list[int] = []
    overwrite = native_cpu.Native._overwrite

    def noted(self: native_cpu.Native, *given: Any) -> dict[int, np.ndarray]:
        found = overwrite(self, *given)
        counts.append(len(found))
        return found

    monkeypatch.setattr(native_cpu.Native, "_overwrite", noted)
    programs.clear()
    yield counts
    programs.clear()


def trained(shape: tuple[int, ...], name: str, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A parameter, its gradient and its optimizer's state after four steps."""
    with monkeypatch.context() as patch:
        if not in_place:
            patch.setattr(native_cpu.Native, "_overwrite", lambda self, *given: {})
        programs.clear()
        rng = np.random.default_rng(0)
        p = sg.nn.Parameter(sg.tensor(rng.standard_normal(shape).astype(np.float32)))
        given = {"SGD": {"momentum": 0.9}}.get(name, {})
        optimizer = getattr(sg.optim, name)([p], lr=0.1, **given)

        @sg.compile
        def step(x: Any) -> None:
            optimizer.zero_grad()
            ((p - x) ** 2 * p).sum().backward()
            optimizer.step()

        for _ in range(4):
            step(sg.tensor(rng.standard_normal(shape).astype(np.float32)))
        state = [v.numpy() for v in optimizer.state[p].values() if isinstance(v, sg.Tensor)]
        assert p.grad is not None
        return [a.tobytes() for a in (p.detach().numpy(), p.grad.numpy(), *state)]


SIZES = [(1 << 14,), ((1 << 14) + 1,), (9 * 2048 + 15,), (9 * 2048 + 63,), (9 * 2048 + 64,), (263, 251)]


@pytest.mark.parametrize("name", ["Adam", "SGD"])
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_updates_in_place_have_the_same_bits_for_any_threads(
    shape: tuple[int, ...], name: str, overwritten: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = trained(shape, name, False, monkeypatch)
    del overwritten[:]
    before = pool.count
    try:
        for count in (1, 2, 3):
            pool.limit(count)
            assert trained(shape, name, True, monkeypatch) == expected
    finally:
        pool.limit(before)
    assert max(overwritten) == {"Adam": 4, "SGD": 3}[name]  # the parameter, its gradient and its state


def operands(shape: tuple[int, ...]) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p, y = (sg.tensor(rng.standard_normal(shape).astype(np.float32)) for _ in range(2))
    return p, y


def changed(
    update: Callable[[Any, Any], Any], shape: tuple[int, ...], overwritten: list[int], *, held: bool = False
) -> tuple[int, Any, Any]:
    """How many arrays a step overwrites that updates a parameter, its values, and what it gives."""
    p, y = operands(shape)

    @sg.compile
    def step(y: Any) -> Any:
        return update(p, y)

    step(y)
    before = p.numpy()
    array = p._node.storage.handle if held else None
    result = step(y)
    if held:
        assert array is not None
        assert array.tobytes() == before.tobytes()
        assert p._node.storage.handle is not array
    return overwritten[-1], p.numpy(), None if result is None else result.numpy()


def eager(update: Callable[[Any, Any], Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    p, y = operands(shape)
    result = None
    for _ in range(2):
        result = update(p, y)
        p.numpy()
    return p.numpy(), None if result is None else result.numpy()


def of_own_elements(p: Any, y: Any) -> None:
    p.sub_(p * y)


def of_others(p: Any, y: Any) -> None:
    p.sub_(p.flip(0) * y)


def with_the_old_one(p: Any, y: Any) -> Any:
    old = p * 1
    p.sub_(p * y)
    return (old @ y.T).exp().sum(1) + p.sum(1)


def of_one(p: Any, y: Any) -> None:
    p.sub_(p[7] * y)


@pytest.mark.parametrize("shape", [(200, 150), (30_000,)], ids=str)
@pytest.mark.parametrize("update", [of_own_elements, of_others, of_one, with_the_old_one])
def test_what_reads_other_elements_or_the_old_value_is_right(
    update: Callable[[Any, Any], Any], shape: tuple[int, ...], overwritten: list[int]
) -> None:
    if update is with_the_old_one and len(shape) == 1:
        shape = (150, 200)
    found, p, result = changed(update, shape, overwritten)
    assert update is with_the_old_one or found == (1 if update is of_own_elements else 0)
    expected, given = eager(update, shape)
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    if given is not None:
        np.testing.assert_allclose(result, given, rtol=1e-4)


def test_an_array_that_somebody_holds_is_not_overwritten(overwritten: list[int]) -> None:
    found, p, _ = changed(of_own_elements, (200, 150), overwritten, held=True)
    assert found == 0
    np.testing.assert_allclose(p, eager(of_own_elements, (200, 150))[0], rtol=1e-6)


UPDATE = Step("sub", (0, 1), (2,), None, 0, 1 << 15, 1, (0, 1, 2), f"map {1 << 15}", own=(0, 1))


def steps_of(*steps: Step) -> Steps:
    """Row 0 is a parameter and row 1 an input; row 2 is the parameter's new value, 3 another result."""
    rows = (Row((1 << 15,), float32),) * 4
    return Steps(rows, 2, (2, 3), ("",), steps, ((),) * len(steps))


def test_an_input_that_is_read_later_is_not_overwritten() -> None:
    reader = Step("exp", (0,), (3,), None, 0, 1 << 15, 1, (0, 3), f"map {1 << 15}")
    assert overwriting_steps(steps_of(reader, UPDATE))[1].inputs == {0, 1}
    assert overwriting_steps(steps_of(UPDATE, reader))[0].inputs == {1}


def test_an_input_of_which_the_interpreter_shows_a_view_is_not_overwritten() -> None:
    viewed = Step("flip", (0,), (3,), Hosted(Flip((0,)), ((),)))
    assert overwriting_steps(steps_of(viewed, UPDATE))[1].inputs == {1}


def test_nothing_is_overwritten_before_an_operation_that_may_raise() -> None:
    check = Step("inrange", (1,), (3,), Hosted(InRange(5, "x"), ((),)))
    assert overwriting_steps(steps_of(UPDATE, check)) == {}
    assert written_late(steps_of(UPDATE, check)) == {3}
    assert written_late(steps_of(check, UPDATE)) == {2, 3}


def test_a_step_that_raises_leaves_parameters_state_and_gradients(overwritten: list[int]) -> None:
    sg.manual_seed(0)
    model = sg.nn.Sequential(sg.nn.Embedding(300, 64), sg.nn.Linear(64, 300))
    optimizer = sg.optim.Adam(model.parameters())

    @sg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = sg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def values() -> list[bytes]:
        tensors = list(model.parameters())
        state = [v for p in tensors for v in optimizer.state[p].values() if isinstance(v, sg.Tensor)]
        return [
            t.detach().numpy().tobytes() for t in (*tensors, *(p.grad for p in tensors if p.grad is not None), *state)
        ]

    x, y = (sg.tensor(np.arange(500, dtype=np.int32) % 300) for _ in range(2))
    for _ in range(3):
        step(x, y)
    assert overwritten[-1] > 0
    before = values()
    for bad in ((x + 1, y), (x, y + 1)):
        with pytest.raises(IndexError):
            step(*(t.contiguous() for t in bad)).numpy()
        gc.collect()
        assert values() == before
    step(x, y)
    assert values() != before
