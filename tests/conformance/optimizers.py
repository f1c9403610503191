"""PyTorch's own table of optimizers (torch.testing._internal's optim_db) run against ours: some steps of a small problem, in
float64, for each set of options; and what it says must be refused.

In: the name of an optimizer. Out: what differs, a line for each set of options that does.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import torch

import shadergrad as sg

STEPS = {"LBFGS": 1}  # each of which takes 20 iterations, after which rounding leads elsewhere
TOLERANCE = {"Muon": 1e-2, "ASGD": 1e-8}  # PyTorch's Muon iterates in bfloat16, its ASGD keeps rates in float32
IGNORED = {"foreach", "fused", "capturable", "differentiable"}  # how PyTorch computes it


@cache
def table() -> dict[str, Any]:
    """The records of PyTorch's table by name."""
    from torch.testing._internal.common_optimizers import optim_db  # which is slow to import

    return {info.name: info for info in optim_db}


def there() -> list[str]:
    """Those that we have."""
    return sorted(name for name in table() if hasattr(sg.optim, name))


def missing() -> list[str]:
    """Those that we have not."""
    return sorted(set(table()) - set(there()))


def differences(name: str) -> list[str]:
    """What is not as PyTorch's."""
    found = []
    for given in table()[name].optim_inputs_func("cpu"):
        options = {k: v for k, v in given.kwargs.items() if k not in IGNORED}
        try:
            problem = _compared(name, options)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if problem:
            found.append(f"{name}, {given.desc}: {problem}")
    return [*found, *_accepted(name)]


def _compared(name: str, options: dict[str, Any]) -> str:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((4, 3)), rng.standard_normal((3, 2))]
    x, y = rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
    numbers = {k: v.item() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    mine = [sg.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    ours = getattr(sg.optim, name)(mine, **{k: tuple(v) if isinstance(v, list) else v for k, v in numbers.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        its = getattr(torch.optim, name)(theirs, **numbers)
    for lib, optimizer, leaves in ((sg, ours, mine), (torch, its, theirs)):
        a, b = lib.tensor(x), lib.tensor(y)

        def closure(lib: Any = lib, optimizer: Any = optimizer, leaves: Any = leaves, a: Any = a, b: Any = b) -> Any:
            optimizer.zero_grad()
            loss = ((a @ leaves[0]).tanh() @ leaves[1] - b).square().mean()
            loss.backward()
            return loss

        for _ in range(STEPS.get(name, 5)):
            optimizer.step(closure)
    for p, q in zip(mine, theirs, strict=True):
        far = float(np.abs(p.detach().numpy() - q.detach().numpy()).max())
        if not far <= TOLERANCE.get(name, 1e-9):
            return f"a parameter differs by {far:.1e}"
    return ""


def _accepted(name: str) -> list[str]:
    """What PyTorch refuses of hyperparameters, and we do not."""
    found = []
    for error in table()[name].optim_error_inputs_func("cpu", torch.float64):
        given = error.optimizer_error_input
        options = {k: v for k, v in given.kwargs.items() if k not in IGNORED}
        if given.params is None or not options or any(isinstance(v, torch.Tensor) for v in options.values()):
            continue  # parameters that are no tensors of ours, ways of computing
        try:
            getattr(sg.optim, name)([sg.ones(2, requires_grad=True)], **options)
        except sg.ShadergradError:
            continue
        found.append(f"{name} takes {given.desc}: {options}")
    return found
