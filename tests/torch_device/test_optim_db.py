"""Every optimizer in PyTorch's own database takes on the device the steps that it takes on PyTorch's cpu, with each of its options."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from op_db import in_shares
from torch import nn

STEPS = 4
LEFT_OUT = {
    "SparseAdam": "its gradients are sparse tensors, which the device does not hold",
    "Muon": "it orthogonalizes in bfloat16, which the device computes as float32",
}


def trained(model: nn.Module, device: str, kind: Any, options: dict[str, Any]) -> list[torch.Tensor]:
    """The parameters after some steps."""
    dtype = torch.float64 if kind is torch.optim.LBFGS else torch.float32  # it divides by differences of gradients
    model = copy.deepcopy(model).to(dtype).to(device)
    x = torch.linspace(-1, 1, 12).sin().reshape(4, 3).to(dtype).to(device)
    optimizer = kind(model.parameters(), **options)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        return loss

    for _ in range(2 if kind is torch.optim.LBFGS else STEPS):  # its steps have twenty iterations
        optimizer.step(closure)
    return [p.detach().cpu() for p in model.parameters()]


def cases(device: str) -> list[tuple[Any, Any]]:
    """Those of the database that the device can run; a GPU has no float64."""
    from torch.testing._internal.common_optimizers import optim_db  # seconds to import

    found = []
    for info in optim_db:
        kind: Any = info.optim_cls
        if kind.__name__ in LEFT_OUT or (kind is torch.optim.LBFGS and device != "cpu"):
            continue
        names = inspect.signature(info.optim_inputs_func).parameters
        given = info.optim_inputs_func(**({"device": "cpu"} if "device" in names else {}))
        found += [(kind, case) for case in given]
    return found


@pytest.mark.filterwarnings("ignore")
@in_shares
def test_optimizers_of_optim_db_take_the_same_steps(share: slice, torch_device: Any) -> None:
    from shadergrad.torch.storage import Place

    first = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False))
    wrong = {}
    compared = 0
    given = cases(Place.device)[share]
    for kind, case in given:
        options = {k: v for k, v in case.kwargs.items() if not isinstance(v, torch.Tensor)}
        try:
            expected = trained(first, "cpu", kind, options)
        except (RuntimeError, ValueError, TypeError):
            continue  # an option of CUDA's
        compared += 1
        try:
            for a, b in zip(trained(first, "webgpu", kind, options), expected, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        except Exception as error:  # one table of all that differ
            wrong[f"{kind.__name__}: {case.desc}"] = str(error).splitlines()[:3]
    assert compared or not given
    assert not wrong
