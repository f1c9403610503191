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
    from shadergrad.torch import host

    monkeypatch.setattr(host, "config", dataclasses.replace(config.config, torch_fallback="error"))
    shadergrad.torch.use(device)
    torch.manual_seed(0)
    yield torch
    shadergrad.torch.use("webgpu")
