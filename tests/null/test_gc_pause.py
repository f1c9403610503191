"""The garbage collector waits while a step is captured, and only then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import shadergrad as sg


@pytest.fixture(autouse=True)
def enabled_afterwards() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("collects", [True, False])
def test_it_waits_for_a_capture_and_is_as_before(collects: bool) -> None:
    if not collects:
        gc.disable()
    seen = []

    @sg.compile
    def step(x: sg.Tensor, fails: bool = False) -> sg.Tensor:
        seen.append(gc.isenabled())
        if fails:
            raise KeyError("no")
        return x * 2

    step(sg.ones(2))
    assert gc.isenabled() is collects
    with pytest.raises(KeyError):
        step(sg.ones(2), fails=True)
    assert gc.isenabled() is collects
    assert seen[0] is False


def test_a_computation_that_is_compiled_waits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from shadergrad.compile import pipeline

    seen, numpy_plan = [], pipeline._numpy_plan
    monkeypatch.setattr(pipeline, "_numpy_plan", lambda *args: seen.append(gc.isenabled()) or numpy_plan(*args))
    x = sg.ones(3, 7, 5)
    assert (x.sin() + x.cos() * 0.123).sum().item() > 0
    assert seen
    assert not any(seen)
    assert gc.isenabled()
