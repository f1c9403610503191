"""How the work of a compilation grows with the graph: counted in calls, not in time."""

from __future__ import annotations

import cProfile
import gc
from typing import Any

import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.drive.execute import programs

MOST_GROWTH = 1.04  # of the calls for two layers more; 1 is what a linear compiler takes


def calls_of(depth: int) -> int:
    """Calls of functions, those written in C as well, while a training step of so many layers is captured and compiled."""
    layers = (
        nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(depth)
    )
    model = nn.Sequential(nn.Embedding(7, 8), *layers, nn.LayerNorm(8), nn.Linear(8, 7))
    optimizer = sg.optim.AdamW(model.parameters(), lr=0.01)

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        loss = nn.functional.cross_entropy(model(x).reshape(-1, 7), x.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return calls_of_capture(step, sg.zeros(2, 4, dtype=sg.int32))


def calls_of_capture(step: Any, x: sg.Tensor) -> int:
    programs.clear()  # of other tests: to make room for new ones takes calls, as do the objects that the collector frees
    gc.collect()
    gc.disable()
    try:
        profile = cProfile.Profile()
        profile.enable()
        step.portable(x)
        profile.disable()
    finally:
        gc.enable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_two_layers_more_take_as_many_calls_again() -> None:
    calls_of(1)  # what is worked out once a process
    few, some, many = (calls_of(depth) for depth in (1, 3, 5))
    growth = (many - some) / (some - few)
    assert growth <= MOST_GROWTH, (
        f"1, 3 and 5 layers take {few}, {some} and {many} calls: {growth:.3f} times as many for two more"
    )


def test_comparisons_of_a_long_expression_do_not_walk_it_once_for_each_of_its_values() -> None:
    """As a rejection sampler's rounds, each of which compares two values of what all rounds are computed of."""

    def calls(rounds: int) -> int:
        @sg.compile
        def step(x: sg.Tensor) -> sg.Tensor:
            low, high = x.exp(), x.exp()
            for k in range(rounds):
                low, high = (low * high + k).sin(), (high / low - k).cos()
                x = sg.where(low < high, low, x)
            return x

        return calls_of_capture(step, sg.rand(8))

    calls(1)
    few, many = calls(4), calls(12)
    assert many < 6 * few, f"4 and 12 rounds take {few} and {many} calls"
