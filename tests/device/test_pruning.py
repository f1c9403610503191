"""Pruned parameters are PyTorch's: masks, products, gradients, names of states, again and again, and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune as theirs

import shadergrad as sg
from shadergrad.nn.utils import prune as ours

PRUNERS = {"torch": theirs, "shadergrad": ours}
WEIGHTS = [
    np.random.default_rng(0).normal(size=(4, 3, 2, 2)).astype("f4"),
    np.random.default_rng(1).normal(size=(5, 4)).astype("f4"),
]
WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "l1 of a part": lambda p, m, t: p.l1_unstructured(m[0], "weight", 0.3),
    "l1 of a number": lambda p, m, t: p.l1_unstructured(m[0], "weight", amount=7),
    "l1 of none": lambda p, m, t: p.l1_unstructured(m[0], "weight", 0.0),
    "l1 of all": lambda p, m, t: p.l1_unstructured(m[0], "weight", 1.0),
    "l1 by scores": lambda p, m, t: p.l1_unstructured(m[1], "weight", 0.5, importance_scores=t.arange(20.0).reshape(5, 4)),
    "l2 of channels": lambda p, m, t: p.ln_structured(m[0], "weight", 0.5, n=2, dim=0),
    "infinite norm along the last": lambda p, m, t: p.ln_structured(m[1], "weight", 1, n=float("inf"), dim=-1),
    "identity": lambda p, m, t: p.identity(m[1], "weight"),
    "a mask": lambda p, m, t: p.custom_from_mask(m[1], "weight", (t.arange(20) % 3 > 0).reshape(5, 4)),
    "a bias": lambda p, m, t: p.l1_unstructured(m[0], "bias", 1),
    "twice": lambda p, m, t: p.l1_unstructured(p.l1_unstructured(m[0], "weight", 0.3), "weight", 0.5),
    "channels, then elements": lambda p, m, t: p.l1_unstructured(p.ln_structured(m[0], "weight", 1, 1, 1), "weight", 0.5),
    "elements, then channels, then a mask": lambda p, m, t: p.custom_from_mask(p.ln_structured(p.l1_unstructured(m[1], "weight", 0.6), "weight", 2, 2, 0), "weight", t.ones(5, 4).tril()),
    "weight and bias": lambda p, m, t: p.l1_unstructured(p.l1_unstructured(m[1], "weight", 0.3), "bias", 2),
    "globally": lambda p, m, t: p.global_unstructured([(m[0], "weight"), (m[1], "weight"), (m[0], "bias")], p.L1Unstructured, amount=0.4),
    "globally after one": lambda p, m, t: p.global_unstructured(((p.ln_structured(m[0], "weight", 1, 2, 0), "weight"), (m[1], "weight")), pruning_method=p.L1Unstructured, amount=10),
}  # fmt: skip
LIBRARIES = {"torch": torch, "shadergrad": sg}


def model_of(lib: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Conv2d(3, 4, 2), lib.nn.Linear(4, 5))
    with lib.no_grad():
        for layer, weight in zip(model, WEIGHTS, strict=True):
            layer.weight.copy_(lib.tensor(weight))
            layer.bias.copy_(lib.arange(layer.bias.numel()).float() - 1.5)
    return model


def trained(name: str, way: Callable[[Any, Any, Any], Any]) -> dict[str, Any]:
    lib, prune = LIBRARIES[name], PRUNERS[name]
    model = model_of(lib)
    way(prune, model, lib)
    optimizer = lib.optim.SGD(model.parameters(), 0.1)
    x = lib.arange(24.0).reshape(2, 3, 2, 2).cos()
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model[1](model[0](x).flatten(1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found: dict[str, Any] = {"losses": losses, "pruned": prune.is_pruned(model), "names": sorted(model.state_dict())}
    found |= {f"state {key}": value.numpy().copy() for key, value in model.state_dict().items()}
    for layer in model:
        for part in ("weight", "bias"):
            if hasattr(layer, f"{part}_mask"):
                prune.remove(layer, part)
    found |= {"left": sorted(k for k, _ in model.named_parameters()), "after": prune.is_pruned(model)}
    return found | {f"end {key}": value.numpy().copy() for key, value in model.state_dict().items()}


@pytest.mark.parametrize("way", WAYS)
def test_pruning_is_pytorchs(way: str) -> None:
    found, wanted = trained("shadergrad", WAYS[way]), trained("torch", WAYS[way])
    assert list(found) == list(wanted) or sorted(found) == sorted(wanted)
    for key, value in wanted.items():
        if key in ("names", "pruned", "left", "after"):
            assert found[key] == value
        else:
            np.testing.assert_allclose(found[key], value, rtol=2e-5, atol=1e-6, err_msg=key)


@pytest.mark.parametrize(
    ("way", "zeros"),
    [
        (lambda p, m: p.random_unstructured(m[0], "weight", 0.25), 12),
        (lambda p, m: p.random_unstructured(m[0], "weight", 5), 5),
        (lambda p, m: p.random_structured(m[0], "weight", 0.5, dim=0), 24),
        (lambda p, m: p.random_structured(m[0], "weight", 1, dim=1), 16),
    ],
)
def test_random_pruning_takes_the_amount(way: Any, zeros: int) -> None:
    for name, prune in PRUNERS.items():
        model = model_of(LIBRARIES[name])
        way(prune, model)
        assert int((model[0].weight == 0).sum()) == zeros


@pytest.mark.parametrize(
    "way",
    [
        lambda p, m, t: p.l1_unstructured(m[0], "weight", 1.5),
        lambda p, m, t: p.l1_unstructured(m[0], "weight", -1),
        lambda p, m, t: p.l1_unstructured(m[0], "weight", 49),
        lambda p, m, t: p.l1_unstructured(m[0], "weight", "a"),
        lambda p, m, t: p.ln_structured(m[0], "weight", 0.5, 2, 4),
        lambda p, m, t: p.remove(m[0], "weight"),
        lambda p, m, t: p.l1_unstructured(m[0], "weight", 0.5, importance_scores=t.ones(3)),
        lambda p, m, t: p.global_unstructured([(m[0], "weight")], p.LnStructured, amount=0.5, n=2),
        lambda p, m, t: p.l1_unstructured(m[0], "nothing", 0.5),
    ],
)
def test_what_cannot_be_pruned_is_refused_and_leaves_the_module_as_it_was(way: Any) -> None:
    for name, prune in PRUNERS.items():
        model = model_of(LIBRARIES[name])
        with pytest.raises((ValueError, TypeError, AttributeError, IndexError, AssertionError)):
            way(prune, model, LIBRARIES[name])
        if name == "shadergrad":
            assert sorted(dict(model.named_parameters())) == ["0.bias", "0.weight", "1.bias", "1.weight"]
            assert not prune.is_pruned(model)


def test_a_pruned_module_is_compiled_and_its_state_loaded() -> None:
    model = model_of(sg)
    ours.l1_unstructured(model[1], "weight", 0.5)
    optimizer = sg.optim.SGD(model[1].parameters(), 0.1)
    other = ours.identity(sg.nn.Linear(4, 5), "weight")
    other.load_state_dict(model[1].state_dict())
    twin = sg.optim.SGD(other.parameters(), 0.1)
    x = sg.arange(8.0).reshape(2, 4).sin()

    def step(layer: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = sg.compile(lambda: step(model[1], optimizer))
    for _ in range(4):
        np.testing.assert_allclose(compiled().item(), step(other, twin).item(), rtol=1e-6)
    assert int((model[1].weight_mask == 0).sum()) == 10
