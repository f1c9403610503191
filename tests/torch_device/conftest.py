"""PyTorch's device "webgpu" with each of our devices behind it. An operator without a kernel fails the test that calls it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from shadergrad import config


@pytest.fixture
def torch_device(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """PyTorch, with this device registered; strict: nothing falls to the host."""
    torch = pytest.importorskip("torch")
    import shadergrad.torch
    from shadergrad.torch import host_fallback

    monkeypatch.setattr(host_fallback, "config", dataclasses.replace(config.config, torch_fallback="error"))
    shadergrad.torch.use(device)
    torch.manual_seed(0)
    yield torch
    shadergrad.torch.use("webgpu")


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The graphs that a test compiles; PyTorch's compiler begins anew."""
    torch = pytest.importorskip("torch")
    from torch._dynamo.utils import counters

    from shadergrad.torch import compiling

    made: list[Any] = []

    class Noted(compiling.Graph):
        def __new__(cls, module: Any) -> Noted:  # which has ended when a warning looks for the line that called
            made.append(super().__new__(cls))
            return made[-1]

    monkeypatch.setattr(compiling, "Graph", Noted)
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(allow_rnn=True):  # or its graphs break at recurrent layers, on every device
        yield made
    torch._dynamo.reset()
