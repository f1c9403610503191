"""Random trainings come to what they come to in PyTorch. `make test-all` runs thousands, `scripts/trainings.py` any."""

from __future__ import annotations

from typing import Any

import pytest

import shadergrad as sg
from shadergrad.optim import optimizer as optimizers

from .compare import difference
from .draw import draw

SIZE = 6


def assert_as_pytorch(first: int, count: int, modes: list[str]) -> None:
    found = [words for seed in range(first, first + count) for mode in modes if (words := difference(seed, mode))]
    assert not found, f"{len(found)} trainings part from PyTorch's:\n" + "\n".join(found[:2])


@pytest.mark.parametrize("chunk", range(5))
def test_random_trainings_go_pytorchs_way(chunk: int) -> None:
    assert_as_pytorch(chunk * SIZE, SIZE, ["eager-cpu", "compiled-cpu"])


@pytest.mark.parametrize("seed", range(5))
def test_random_trainings_go_pytorchs_way_on_webgpu(seed: int, webgpu: str) -> None:
    assert_as_pytorch(seed, 1, [f"compiled-{webgpu}"])


def test_a_number_is_one_training() -> None:
    assert [repr(draw(seed)) for seed in range(50)] == [repr(draw(seed)) for seed in range(50)]
    assert len({repr(draw(seed)) for seed in range(50)}) == 50


def test_the_net_sees_an_optimizer_that_goes_on_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Any, active: Any, group: Any) -> None:
        pass

    monkeypatch.setattr(optimizers.Optimizer, "_part", never)
    assert any(difference(seed, "eager-cpu") for seed in range(60))


def test_the_net_sees_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise sg.ShadergradError("no")

    monkeypatch.setattr(optimizers.Optimizer, "load_state_dict", fail)
    assert any("raises" in (difference(seed, "eager-cpu") or "") for seed in range(40))
