"""Arrays joined where they lie: parts of `cat` are written to its result, with the bits of the interpreter and without any overlap of what lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.compile.native.program import Steps
from shadergrad.drive.execute import programs
from shadergrad.extend import Operation, Spec
from shadergrad.runtime import cpu, llvm, native_cpu
from shadergrad.runtime.concatenation import Parts

pytestmark = pytest.mark.skipif(
    llvm.installed() is None, reason='llvmlite is not installed: pip install "shadergrad[cpu]"'
)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[native_cpu.Native]]:
    """The programs that are loaded from here on, each in its first run."""
    monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu="native"))
    for name in ("COMES_AGAIN", "LITTLE_COMES_AGAIN", "LONG_COMES_AGAIN"):
        monkeypatch.setattr(cpu, name, 1)
    found: list[native_cpu.Native] = []

    class Noted(native_cpu.Native):
        def __init__(self, steps: Steps) -> None:
            super().__init__(steps)
            found.append(self)

    monkeypatch.setattr(cpu, "Native", Noted)
    programs.clear()
    yield found
    programs.clear()


def reference(f: Callable[..., list[Any]], *x: Any) -> list[np.ndarray]:
    """Computed by NumPy alone, one operation after another."""
    kept = cpu.config
    cpu.config = replace(kept, cpu="reference")
    programs.clear()
    try:
        return [y.numpy() for y in f(*x)]
    finally:
        cpu.config = kept
        programs.clear()


def joins(native: native_cpu.Native) -> int:
    return sum(step.hosted is not None and step.hosted.of.name == "cat" for step in native.steps.steps)


def assert_nothing_overlaps(native: native_cpu.Native, parts: Parts) -> None:
    """Of rows that live at the same time, only parts and their whole share bytes."""
    steps, offsets = native.steps, native._offsets
    live: set[int] = set()
    for step, dead in zip(steps.steps, steps.dies, strict=True):
        live |= {row for row in step.writes if row in offsets}
        live |= {parts[row].whole for row in step.writes if row in parts}
        for a in live:
            for b in live:
                if a < b and {a, b} & {row for row in live if row not in parts}:
                    family = {parts[row].whole if row in parts else row for row in (a, b)}
                    apart = (
                        offsets[a] + steps.rows[a].nbytes <= offsets[b]
                        or offsets[b] + steps.rows[b].nbytes <= offsets[a]
                    )
                    assert apart or len(family) == 1, (a, b)
        live -= {*dead}


def of_all(x: Any, y: Any) -> list[Any]:
    """Parts of several sizes, which are read after the join, too."""
    parts = [x * 2, (y + 1).sum(1, keepdim=True) * y, x.exp()]
    joined = sg.cat(parts)
    return [(joined * joined).sum(1), parts[0] - parts[2], joined.flip(0) * 3]


def of_a_result(x: Any, y: Any) -> list[Any]:
    """A part that is a result has memory of its own."""
    part = x * 2
    return [part, sg.cat([part, y + 1]) * 2]


def twice(x: Any, y: Any) -> list[Any]:
    """A part of two joins lies in one of them, or twice in one."""
    part = x * 2
    return [sg.cat([part, y + 1]) * 2, sg.cat([y - 1, part]) * 3, sg.cat([part, part]).sum(1)]


def of_inputs(x: Any, y: Any) -> list[Any]:
    return [sg.cat([x, y * 2]) * 2]


def of_columns(x: Any, y: Any) -> list[Any]:
    return [sg.cat([x * 2, x + 1], 1) * 2]


def of_joins(x: Any, y: Any) -> list[Any]:
    """A join of joins, of which one is read elsewhere."""
    inner = sg.cat([x * 2, y + 1])
    return [sg.cat([inner * 2, inner.exp()]) + 1, inner.sum(1)]


def a_view(x: Any, y: Any) -> list[Any]:
    """A result that shows a part of the join keeps it."""
    joined = sg.cat([x * 2, y + 1])
    return [joined[3:7], joined.sum(1)]


@dataclass(frozen=True)
class Same(Operation):
    """x itself: a result that shows its operand."""

    arguments = ("x",)

    def infer(self, x: Spec) -> Spec:
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x


def by_an_operation(x: Any, y: Any) -> list[Any]:
    """A user's operation reads the join, which its result may show."""
    return [Same()(sg.cat([x * 2, y + 1]))]


@pytest.mark.parametrize("width", [16, 48, 5])  # of 5 floats, rows begin where vectors may not
@pytest.mark.parametrize("f", [of_all, of_a_result, twice, of_inputs, of_columns, of_joins, a_view, by_an_operation])
def test_joined_arrays_are_numpys(f: Callable[..., list[Any]], width: int, loaded: list[native_cpu.Native]) -> None:
    rng = np.random.default_rng(0)
    x, y = (sg.tensor(rng.standard_normal((n, width)).astype(np.float32)) for n in (8, 12))
    expected = reference(f, x, y)
    step = sg.compile(f)
    runs = [[r.numpy() for r in step(x, y)] for _ in range(3)]
    for found in runs:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found, runs[0], strict=True))
    for native in loaded:
        assert_nothing_overlaps(native, native.parts)


def test_hidden_states_and_gradients_of_gates_are_written_where_they_are_joined(
    loaded: list[native_cpu.Native],
) -> None:
    sg.manual_seed(0)
    model = sg.nn.LSTM(16, 16)
    x = sg.randn(5, 4, 16)

    def losses(x: Any) -> list[Any]:
        model.zero_grad()
        out = model(x)[0]
        (out * out).sum().backward()
        return [(out * out).sum(2).detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    expected = reference(losses, x)
    found = [r.numpy() for r in sg.compile(losses)(x)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    native = max(loaded, key=lambda n: len(n.steps.steps))
    assert native.parts
    assert joins(native) <= 1  # hidden states but the last are joined behind the first, too
    assert_nothing_overlaps(native, native.parts)
