"""Averages of weights, beside PyTorch's; gradients' norms; torch._foreach_*."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad.as_torch.modules import foreach

AVERAGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "equal weights": lambda u: {},
    "EMA": lambda u: {"avg_fn": u.get_ema_avg_fn(0.7)},
    "EMA of lists": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7)},
    "SWA of lists": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn(), "use_buffers": False},
    "a function of one's own": lambda u: {"avg_fn": lambda a, b, n: a * n / (n + 2) + b * 2 / (n + 2)},
    "buffers too": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.5), "use_buffers": True},
}


def model_of(lib: Any, **kind: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2)).to(**kind)
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for p in model.parameters():
            p.copy_(lib.tensor(rng.standard_normal(tuple(p.shape)), **kind))
    return model


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("how", AVERAGES)
def test_averages_of_a_training_are_pytorchs(how: str, compiled: bool) -> None:
    def course(lib: Any) -> list[np.ndarray]:
        model = model_of(lib, dtype=lib.float64)
        averaged = lib.optim.swa_utils.AveragedModel(model, **AVERAGES[how](lib.optim.swa_utils))
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            averaged.update_parameters(model)
            return loss

        run = sg.compile(step) if compiled and lib is sg else step
        data = [lib.tensor(np.random.default_rng(k).standard_normal((5, 3))) for k in range(5)]
        for x in data:
            run(x)
        found = [t.detach().numpy().copy() for t in averaged.module.state_dict().values()]
        lib.optim.swa_utils.update_bn(data, averaged)
        averaged.eval()
        return [*found, averaged(data[0]).detach().numpy(), averaged.n_averaged.numpy()]

    for a, b in zip(course(sg), course(torch), strict=True):
        far = 1e-6 if how == "SWA of lists" else 1e-9  # where PyTorch divides by the number in float32
        np.testing.assert_allclose(a, b, far, far)


@pytest.mark.parametrize(
    "options", [{}, {"anneal_epochs": 3, "anneal_strategy": "linear"}, {"anneal_epochs": 0}], ids=str
)
def test_swalr_is_pytorchs(options: dict[str, Any]) -> None:
    def course(lib: Any) -> list[float]:
        groups = [{"params": [lib.ones(1).requires_grad_()], "lr": rate} for rate in (0.5, 0.1)]
        optimizer = lib.optim.SGD(groups, lr=1.0)
        before = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        then = lib.optim.swa_utils.SWALR(optimizer, [0.05, 0.2], **options)
        found = []
        for k in range(15):
            optimizer.step()
            (before if k < 3 else then).step()
            found += [float(group["lr"]) for group in optimizer.param_groups]
        return found

    assert course(sg) == pytest.approx(course(torch), 1e-12)


def test_an_average_lies_where_it_is_asked_for(device: str) -> None:
    model = model_of(sg)
    averaged = sg.optim.swa_utils.AveragedModel(model, device=device)
    for _ in range(2):
        averaged.update_parameters(model)
    assert {str(p.device) for p in averaged.parameters()} == {device}
    assert averaged.n_averaged.item() == 2


def test_what_makes_no_average_is_refused() -> None:
    utils = sg.optim.swa_utils
    with pytest.raises(ValueError, match="Invalid decay value"):
        utils.get_ema_multi_avg_fn(1.5)
    with pytest.raises(ValueError, match="Only one of avg_fn and multi_avg_fn"):
        utils.AveragedModel(model_of(sg), None, utils.get_ema_avg_fn(), utils.get_ema_multi_avg_fn())


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, float("inf")])
def test_norms_and_clipping_by_a_norm_are_pytorchs(norm_type: float, device: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (5,))]
    found = []
    for lib, where in ((sg, device), (torch, "cpu")):
        leaves = [lib.nn.Parameter(lib.zeros(*a.shape, device=where)) for a in arrays]
        for p, a in zip(leaves, arrays, strict=True):
            p.grad = lib.tensor(a, device=where)
        norm = lib.nn.utils.get_total_norm([p.grad for p in leaves], norm_type)
        lib.nn.utils.clip_grads_with_norm_(leaves, 0.5, norm)
        found.append([norm.numpy(), *(p.grad.numpy() for p in leaves)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


# ---------------------------------------------------------------------------------- torch._foreach_*

ARGUMENTS: dict[str, list[Callable[[Any, list[Any]], tuple[list[Any], dict[str, Any]]]]] = {
    "add": [lambda T, a: ([2.0], {}), lambda T, a: ([a], {"alpha": 3.0}), lambda T, a: ([[1.0, 2.0]], {}), lambda T, a: ([T.tensor(2.0)], {})],
    "sub": [lambda T, a: ([a], {"alpha": 0.5}), lambda T, a: ([1.0], {})],
    "mul": [lambda T, a: ([a], {}), lambda T, a: ([0.5], {}), lambda T, a: ([T.tensor(0.5)], {})],
    "div": [lambda T, a: ([a], {}), lambda T, a: ([[2.0, 4.0]], {})],
    "pow": [lambda T, a: ([2.0], {}), lambda T, a: ([a], {}), lambda T, a: ([[2.0, 3.0]], {})],
    "maximum": [lambda T, a: ([a], {}), lambda T, a: ([1.0], {})],
    "minimum": [lambda T, a: ([[0.5, 1.0]], {})],
    "clamp_max": [lambda T, a: ([1.0], {})],
    "clamp_min": [lambda T, a: ([1.0], {}), lambda T, a: ([a], {})],
    "addcmul": [lambda T, a: ([a, a], {"value": 2.0}), lambda T, a: ([a, a, [1.0, 2.0]], {})],
    "addcdiv": [lambda T, a: ([a, a], {}), lambda T, a: ([a, a, T.tensor([1.0, 2.0])], {})],
    "lerp": [lambda T, a: ([[x * 2 for x in a], 0.3], {}), lambda T, a: ([[x * 2 for x in a], [0.3, 0.6]], {})],
    "norm": [lambda T, a: ([], {}), lambda T, a: ([1], {}), lambda T, a: ([float("inf")], {})],
    "copy_": [lambda T, a: ([[x * 2 for x in a]], {})],
}  # fmt: skip
LISTED = sorted(name.removeprefix("_foreach_") for name in foreach.foreach_functions())


@pytest.mark.parametrize("name", LISTED)
def test_operations_on_lists_are_pytorchs(name: str) -> None:
    ours = foreach.foreach_functions()[f"_foreach_{name}"]
    its = getattr(torch, f"_foreach_{name}")
    for make in ARGUMENTS.get(name, ARGUMENTS.get(name.rstrip("_"), [lambda T, a: ([], {})])):
        found = []
        for lib, function in ((sg, ours), (torch, its)):
            tensors = [lib.tensor([0.25, 0.5]), lib.tensor([[0.75]])]
            args, kwargs = make(lib, [t * 1.5 for t in tensors])
            made = function(tensors, *args, **kwargs)
            found.append([*(t.numpy() for t in made or ()), *(t.numpy() for t in tensors)])
        for a, b in zip(*found, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        foreach.foreach_functions()["_foreach_add_"]([sg.ones(1), sg.ones(1)], [sg.ones(1)])
