"""Modules that learn the size of their input at the first call, as PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad import nn

INPUTS = {1: (2, 3, 6), 2: (2, 3, 6, 5), 3: (2, 3, 6, 5, 4)}
LAZY: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("LazyLinear", (4,), {}, (2, 7)),
    ("LazyLinear", (4,), {"bias": False}, (7,)),
    *((f"LazyConv{r}d", (6, 2), {"groups": 3, "padding": 1}, INPUTS[r]) for r in INPUTS),
    *((f"LazyConv{r}d", (6, 2), {"bias": False}, INPUTS[r][1:]) for r in INPUTS),
    *((f"LazyConvTranspose{r}d", (6, 2), {"groups": 3, "stride": 2}, INPUTS[r]) for r in INPUTS),
    *((f"LazyBatchNorm{r}d", (), {}, INPUTS[r]) for r in INPUTS),
    *((f"LazyInstanceNorm{r}d", (), {"affine": True, "track_running_stats": True}, INPUTS[r]) for r in INPUTS),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), LAZY)
def test_a_lazy_module_becomes_what_pytorchs_becomes(
    name: str, args: Any, options: dict[str, Any], shape: tuple[int, ...], device: str
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    ours, theirs = getattr(nn, name)(*args, **options).to(device), getattr(torch.nn, name)(*args, **options)
    assert ours.has_uninitialized_params()
    parameters = list(ours.parameters())
    theirs(torch.tensor(x))
    ours(sg.tensor(x, device=device))
    assert repr(ours) == repr(theirs)
    assert all(a is b for a, b in zip(parameters, ours.parameters(), strict=True)), "parameters are other objects now"
    assert [tuple(p.shape) for p in ours.parameters()] == [tuple(p.shape) for p in theirs.parameters()]
    assert not hasattr(ours, "has_uninitialized_params")
    fan = theirs.weight.detach().abs().max().item()
    assert 0.5 * fan <= ours.weight.detach().abs().max().item() <= 2 * fan
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    ours.eval()
    theirs.eval()
    expected = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(sg.tensor(x, device=device)).detach().numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_state_dict_gives_a_lazy_module_its_shapes() -> None:
    source = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    lazy = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    lazy.load_state_dict(source.state_dict())
    x = sg.ones(2, 3)
    lazy.eval()
    source.eval()
    assert lazy(x).tolist() == source(x).tolist()
    assert type(lazy[0]) is nn.Linear


def test_a_lazy_module_trains() -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(1))
    x = sg.ones(4, 3)
    model(x)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)
    before = model(x).square().mean().item()
    for _ in range(20):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    assert model(x).square().mean().item() < before / 2


def test_a_wrong_input_is_refused() -> None:
    with pytest.raises(sg.ShadergradError, match="Expected 3D"):
        nn.LazyConv2d(4, 2)(sg.ones(4))
