"""What reading a value leaves behind, and loops whose length changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad.drive import execute
from shadergrad.primitives.elementwise import Exp
from shadergrad.primitives.random import Threefry
from shadergrad.runtime import cpu


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of some operations, each time that the cpu device computes one by NumPy."""
    monkeypatch.setattr(cpu, "config", replace(cpu.config, cpu="reference"))
    execute.programs.clear()
    names: list[str] = []
    for primitive in (Exp, Threefry):
        real = primitive.numpy

        def noted(self: Any, *args: Any, real: Any = real, **kwargs: Any) -> Any:
            names.append(type(self).__name__)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(primitive, "numpy", noted)
    yield names
    execute.programs.clear()


def test_a_value_that_is_read_leaves_those_behind_that_a_backward_pass_wants(computed: list[str]) -> None:
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp() * 2
    assert bool((y.detach() > 0).all())
    assert y.argmax().item() == 1
    y.sum().backward()
    assert x.grad is not None
    assert_close(x.grad, 2 * np.exp([1.0, 2.0]), 1e-6, 0)
    assert computed == ["Exp"]


def test_a_value_that_is_read_leaves_those_behind_that_tensors_hold(computed: list[str]) -> None:
    drawn = (sg.rand(4) * 2).argmax().detach()  # a view, under another name, of what no tensor holds
    assert bool(drawn >= 0)
    first = list(computed)
    assert bool(drawn < 4)
    assert drawn.item() == drawn.item()
    assert "Threefry" in first
    assert computed == first


def test_a_part_that_is_read_leaves_the_joined_array_behind(computed: list[str]) -> None:
    x = sg.tensor([1.0, 2.0])
    joined = sg.cat([x.exp(), (x + 1).exp()])
    assert_close([joined[k].item() for k in range(4)], np.exp([1.0, 2.0, 2.0, 3.0]), 1e-6, 0)
    assert computed == ["Exp", "Exp"]


def episode(lib: Any, w: Any, length: int) -> Any:
    """A loss of as many moves, each of which is looked at."""
    scores, rewards = [], []
    for k in range(length):
        chances = lib.softmax(w * (0.1 * k + 1.0), 0)
        best = chances.argmax()
        scores.append(chances.log()[best])
        rewards.append(float(best.item() + k % 3))
    return -(lib.stack(scores) * lib.tensor(rewards)).sum()


@pytest.mark.parametrize("long", [1, 64])
def test_episodes_of_many_lengths_have_pytorchs_gradients(monkeypatch: pytest.MonkeyPatch, long: int) -> None:
    monkeypatch.setattr(execute, "LONG", long)
    start = np.random.default_rng(0).normal(size=5).astype(np.float32)
    grads = []
    for lib in (torch, sg):
        w = lib.tensor(start, requires_grad=True)
        for length in (3, 7, 5, 7, 3, 7):  # some come again
            episode(lib, w, length).backward()
        grads.append(w.grad)
    assert_close(grads[1], grads[0], 1e-4, 1e-5)


def test_a_length_that_comes_once_is_not_planned() -> None:
    w = sg.tensor([0.5, -1.0, 2.0], requires_grad=True)
    for length in (20, 21, 4):
        loss = episode(sg, w, length)
        before = execute.programs.compiled
        loss.backward()
        assert w.grad is not None
        w.grad.tolist()
        assert execute.programs.compiled == before
