"""What programs change between the steps of an optimizer, for every optimizer: the parameters go PyTorch's way, compiled or not.

An edit is a function of the number of the step, the library, the optimizer and its leaves. Six steps; after each the parameters
are compared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from optimizer_cases import BY_CLOSURE, KINDS, torch_optimizer

STEPS = 6
SINGLE = {"Muon": 1e-2}  # PyTorch's Muon iterates in bfloat16
Edit = Callable[[int, Any, Any, list[Any]], None]
EDITS: dict[str, Edit] = {}


def edit(function: Edit) -> Edit:
    EDITS[function.__name__.replace("_", " ")] = function
    return function


@edit
def nothing(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    pass


@edit
def frozen_for_two_steps(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    leaves[1].requires_grad_(k not in (2, 3))


@edit
def frozen_at_first(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    leaves[0].requires_grad_(k >= 2)


@edit
def in_turns(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    leaves[0].requires_grad_(k % 2 == 0)
    leaves[2].requires_grad_(k % 3 == 0)


@edit
def state_cleared(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k == 3:
        optimizer.state.clear()


@edit
def state_of_one_taken_out(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k in (2, 4):
        optimizer.state.pop(leaves[1], None)


@edit
def a_count_set_back(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k == 3 and "step" in optimizer.state[leaves[1]]:
        optimizer.state[leaves[1]]["step"].fill_(1.0)


@edit
def state_changed_in_place(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    for value in optimizer.state[leaves[0]].values() if k == 3 else ():
        if value.ndim:
            value.mul_(0.5)


@edit
def a_group_added(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k == 2:
        optimizer.add_param_group({"params": [leaves[-1]], "lr": 0.004})


@edit
def the_rate_set(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    optimizer.param_groups[0]["lr"] = 0.01 / (1 + k)


@edit
def the_rate_becomes_a_tensor_and_a_number_again(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k in (1, 4):
        optimizer.param_groups[0]["lr"] = lib.tensor(0.02, dtype=optimizer.param_groups[0]["params"][0].dtype)
    elif k == 3:
        optimizer.param_groups[0]["lr"] = 0.01


@edit
def the_rate_changed_in_place(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    optimizer.param_groups[0]["lr"].mul_(0.5 if k % 2 else 1.5)


@edit
def weight_decay_set(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if "weight_decay" in optimizer.param_groups[0]:
        optimizer.param_groups[0]["weight_decay"] = 0.1 * (k % 3)


@edit
def loaded_from_two_steps_before(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k == 2:
        optimizer.kept_for_later = copy.deepcopy(optimizer.state_dict())
    elif k == 4:
        optimizer.load_state_dict(optimizer.kept_for_later)


@edit
def loaded_from_the_beginning(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k == 0:
        optimizer.kept_for_later = copy.deepcopy(optimizer.state_dict())
    elif k == 3:
        optimizer.load_state_dict(optimizer.kept_for_later)


@edit
def warmed_up(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k == 0:
        optimizer.plan = lib.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    else:
        optimizer.plan.step()


@edit
def warmed_up_with_a_rate_that_is_a_tensor(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    if k == 0:
        optimizer.param_groups[0]["lr"] = lib.tensor(0.05, dtype=optimizer.param_groups[0]["params"][0].dtype)
    warmed_up(k, lib, optimizer, leaves)


@edit
def hyperparameters_that_are_tensors(k: int, lib: Any, optimizer: Any, leaves: list[Any]) -> None:
    group = optimizer.param_groups[0]
    if k == 1:
        for key in ("weight_decay", "momentum", "alpha", "rho", "lambd", "d"):
            if key in group and not (key == "momentum" and "alpha" in group):  # PyTorch's RMSprop has no buffer then
                group[key] = lib.tensor(float(group[key]) or 0.1, dtype=optimizer.param_groups[0]["params"][0].dtype)
        if "betas" in group:
            group["betas"] = tuple(
                lib.tensor(b, dtype=optimizer.param_groups[0]["params"][0].dtype) for b in group["betas"]
            )
    elif k > 1:
        for key in ("weight_decay", "momentum", "rho"):
            if isinstance(group.get(key), lib.Tensor):
                group[key].mul_(0.9)
        if "betas" in group:
            group["betas"][0].mul_(0.9)


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s) for s in ((3, 4), (4, 2), (3, 2), (2, 2))]


def course(lib: Any, make: Any, options: dict[str, Any], how: str, compiled: bool, **kind: Any) -> list[np.ndarray]:
    """What the parameters were after each step."""
    leaves = [lib.tensor(a, **kind).requires_grad_() for a in arrays()]
    if how == "the rate changed in place":
        options = {**options, "lr": lib.tensor(options.get("lr", 0.02), dtype=leaves[0].dtype)}
    named = [leaves[0], leaves[1], leaves[0], leaves[2]] if how == "a parameter twice" else leaves[:-1]
    optimizer = make(named, **options)
    found: list[np.ndarray] = []

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (((x @ leaves[0]).tanh() @ leaves[1] + x @ leaves[2]) @ leaves[3]).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = sg.compile(step) if compiled else step
    for k in range(STEPS):
        if how in EDITS:
            EDITS[how](k, lib, optimizer, leaves)
        x = np.random.default_rng(k).standard_normal((5, 3))
        run(lib.tensor(x, **kind))
        found += [p.detach().cpu().numpy().copy() for p in leaves]
    return found


ON_WEBGPU = (
    "in turns",
    "the rate changed in place",
    "hyperparameters that are tensors",
    "loaded from two steps before",
)


@pytest.mark.parametrize("how", ON_WEBGPU)
@pytest.mark.parametrize("kind", ["AdamW"])
def test_edits_between_steps_act_on_webgpu_as_on_cpu(kind: str, how: str, webgpu: str) -> None:
    """The rates and decays lie on the cpu device: each run carries them over."""
    options = KINDS[kind]
    make = getattr(sg.optim, kind)
    for compiled in (False, True):
        mine, its = (
            course(sg, make, options, how, compiled, dtype=sg.float32, device=device) for device in (webgpu, "cpu")
        )
        for k, (a, b) in enumerate(zip(mine, its, strict=True)):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5, err_msg=f"step {k // 4}, leaf {k % 4}, {compiled=}")


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("how", EDITS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in BY_CLOSURE])
def test_edits_between_steps_act_as_in_pytorch(kind: str, how: str, compiled: bool) -> None:
    options = KINDS[kind]
    theirs = course(torch, torch_optimizer(kind), options, how, False, dtype=torch.float64)
    mine = course(sg, getattr(sg.optim, kind), options, how, compiled, dtype=sg.float64)
    far = SINGLE.get(kind, 1e-6 if kind == "ASGD" else 1e-9)  # PyTorch's ASGD keeps its rates in float32
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        np.testing.assert_allclose(a, b, far, far, err_msg=f"step {k // 4}, leaf {k % 4}")


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in BY_CLOSURE])
@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_a_parameter_twice_in_a_group_is_updated_twice_as_in_pytorch(kind: str, compiled: bool) -> None:
    """Each update is a step of its own. SGD without momentum: in the first step PyTorch makes its buffer twice."""
    options = {
        **KINDS[kind],
        **({"momentum": 0.0, "nesterov": False} if "momentum" in KINDS[kind] and kind == "SGD" else {}),
    }
    theirs = course(torch, torch_optimizer(kind), options, "a parameter twice", False, dtype=torch.float64)
    mine = course(sg, getattr(sg.optim, kind), options, "a parameter twice", compiled, dtype=sg.float64)
    far = SINGLE.get(kind, 1e-6 if kind == "ASGD" else 1e-9)
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        np.testing.assert_allclose(a, b, far, far, err_msg=f"step {k // 4}, leaf {k % 4}")


def test_a_parameter_twice_in_a_group_is_warned_of() -> None:
    p = sg.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="a parameter group with duplicate parameters") as found:
        sg.optim.SGD([p, p], lr=0.1)
    assert found[0].filename == __file__


def test_a_group_that_is_there_twice_has_the_same_numbers_in_a_state_dict() -> None:
    def run(lib: Any) -> list[Any]:
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(3))], lr=0.1)
        optimizer.param_groups.extend(optimizer.param_groups)
        return [group["params"] for group in optimizer.state_dict()["param_groups"]]

    assert run(sg) == run(torch)
