"""shadergrad.signal.windows, and the older names, as PyTorch's, for every length, symmetric and periodic."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.signal

import shadergrad as sg
from helpers import assert_equals_torch

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "exponential": [{}, {"tau": 2.5}],
    "gaussian": [{}, {"std": 2.5}],
    "general_cosine": [{"a": [0.4, 0.3, 0.2, 0.1]}],
    "general_hamming": [{}, {"alpha": 0.7}],
    "kaiser": [{}, {"beta": 3.0}, {"beta": 0.0}],
}


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", sg.signal.windows.__all__)
def test_a_window_is_pytorchs(name: str, sym: bool) -> None:
    for options in OPTIONS.get(name, [{}]):
        for count in (0, 1, 2, 5, 8):
            given = {**options, "sym": sym}
            ours = getattr(sg.signal.windows, name)(count, dtype=sg.float64, **given)
            theirs = getattr(torch.signal.windows, name)(count, dtype=torch.float64, **given)
            assert_equals_torch(ours, theirs, 1e-12, f"{name}({count}, {given})")


@pytest.mark.parametrize(
    "name", ["hann_window", "hamming_window", "bartlett_window", "blackman_window", "kaiser_window"]
)
def test_an_older_name_is_pytorchs(name: str) -> None:
    for count in (1, 2, 5, 8):
        for periodic in (True, False):
            ours = getattr(sg, name)(count, periodic, dtype=sg.float64)
            assert_equals_torch(
                ours, getattr(torch, name)(count, periodic, dtype=torch.float64), 1e-9, f"{name}({count})"
            )


def test_a_window_is_made_on_a_device(device: str) -> None:
    window = sg.signal.windows.hann(5, device=device, requires_grad=True)
    assert window.device == device
    assert window.requires_grad


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.signal.windows.hann(-1),
        lambda t: t.signal.windows.hann(3, dtype=t.int32),
        lambda t: t.signal.windows.gaussian(3, std=0.0),
        lambda t: t.signal.windows.kaiser(3, beta=-1.0),
        lambda t: t.signal.windows.exponential(3, tau=-1.0),
        lambda t: t.signal.windows.exponential(3, center=1.0),
        lambda t: t.signal.windows.general_cosine(3, a=[]),
    ],
)
def test_what_pytorch_refuses_is_refused(call: Any) -> None:
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        call(torch)
    with pytest.raises(sg.ShadergradError):
        call(sg)
