"""Graphs that wait for other processes: cut into stages, they give what the whole gives, and each exchange happens once, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.graph.node import Node
from shadergrad.primitives.exchange import exchanged
from shadergrad.tensor import Tensor


class Added:
    """A route on which another process has the same value, and is seen to have it at the second look."""

    def __init__(self) -> None:
        self.turns = 0

    def begin(self, given: Any) -> list[Any]:
        self.turns += 1
        return [given, 0]

    def is_done(self, turn: list[Any]) -> bool:
        turn[1] += 1
        return turn[1] > 2

    def finish(self, turn: list[Any]) -> list[Any]:
        return [turn[0], turn[0]]


class Doubling:
    """A channel on which the others always send the same. adds: the route that all exchanges take."""

    def __init__(self, is_fast: bool = False, adds: Added | None = None) -> None:
        self.is_fast, self.adds = is_fast, adds
        self.sent: list[int] = []
        self.under_way: set[int] = set()
        self.most = 0

    def start(self, array: np.ndarray, number: int) -> Any:
        self.sent.append(number)
        self.under_way.add(number)
        self.most = max(self.most, len(self.under_way))
        return number, 2 * array

    casts = False

    def is_done(self, started: Any) -> bool:
        return self.is_fast

    def finish(self, started: Any) -> np.ndarray:
        number, array = started
        self.under_way.remove(number)
        return array

    def backward(self) -> Doubling:
        return self

    def route(self, node: Node, given: Any, send_all: Any) -> Added | None:
        if self.adds is None:
            return None
        send_all()
        return self.adds


def doubled(t: Tensor, channel: Doubling, number: int) -> Tensor:
    return Tensor._of(exchanged(t._node, channel, number))


@pytest.mark.parametrize("is_fast", [False, True])
def test_values_pending_and_compiled(is_fast: bool) -> None:
    channel = Doubling(is_fast)
    x = sg.tensor([1.0, 2.0], device="cpu")

    def f(x: Tensor) -> tuple[Tensor, ...]:
        a = doubled(x * 3, channel, 7)
        b = doubled(x + 1, channel, 5)
        free = x * 10
        c = doubled(a + b, channel, 1)  # waits for both
        return a.reshape(2, 1).T + 0, b, free, c * a, x.sum(), c

    expected = [[[6, 12]], [4, 6], [10, 20], [(6 + 4) * 2 * 6, (12 + 6) * 2 * 12], 3, [20, 36]]
    step = sg.compile(f)
    for _ in range(3):
        channel.sent.clear()
        assert [t.tolist() for t in step(x)] == expected
        assert channel.sent == [5, 7, 1]
        assert channel.most == (1 if is_fast else 2)
        assert not channel.under_way
    assert step.captures == 1
    assert "exchange" not in str(step.plan)


def test_an_exchange_in_a_training_step_with_state_in_place() -> None:
    channel = Doubling()

    def train(is_compiled: bool) -> list[float]:
        sg.manual_seed(0)
        model = sg.nn.Sequential(sg.nn.Linear(3, 4), sg.nn.BatchNorm1d(4), sg.nn.Linear(4, 1)).to("cpu")
        optimizer = sg.optim.Adam(model.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            with sg.no_grad():
                for k, p in enumerate(model.parameters()):
                    assert p.grad is not None
                    p.grad = doubled(p.grad, channel, k)
            optimizer.step()
            return loss

        run = sg.compile(step) if is_compiled else step
        found = [run(sg.arange(12.0, device="cpu").reshape(4, 3)).item() for _ in range(4)]
        return [*found, *(v for t in model.state_dict().values() for v in t.reshape(-1).tolist())]

    first = train(True)
    assert channel.sent == [*range(6)] * 4
    channel.sent.clear()
    assert first == pytest.approx(train(False), rel=1e-5)
    assert sorted(channel.sent) == sorted([*range(6)] * 4)


def test_its_gradient_goes_the_same_way() -> None:
    channel = Doubling()
    x = sg.tensor([1.0, 2.0], device="cpu", requires_grad=True)
    (doubled(x * 3, channel, 0) ** 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2 * 6 * 3 * 2, 2 * 12 * 3 * 2]


@pytest.mark.parametrize("is_half", [False, True])
def test_devices_add_what_they_can_read(is_half: bool) -> None:
    """Each exchange is a turn of its route, and no array is sent."""
    route = Added()
    channel = Doubling(adds=route)
    x = sg.tensor([1.0, 2.0], device="cpu", dtype=sg.float16 if is_half else sg.float32)

    def f(x: Tensor) -> tuple[Tensor, ...]:
        a = doubled(x * 3, channel, 7)
        b = doubled(x + 1, channel, 5)
        return a, doubled(a + b, channel, 1) * 10, x.sum()

    for call in (f, sg.compile(f)):
        for _ in range(3):
            before = route.turns
            assert [t.tolist() for t in call(x)] == [[6, 12], [200, 360], 3]
            assert route.turns == before + 3
    assert not channel.sent
