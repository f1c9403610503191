"""Optimizers of PyTorch with their defaults: one operator for all parameters (torch/optimizers.py), beside PyTorch's cpu."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
optim: Any = torch.optim
D = "webgpu"
STEPS = 6

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "Adam": ("Adam", {}),
    "Adam, amsgrad, decay": ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    "Adam, maximize": ("Adam", {"maximize": True, "betas": (0.4, 0.7), "eps": 1e-4}),
    "Adam, decoupled": ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "AdamW": ("AdamW", {}),
    "AdamW, maximize": ("AdamW", {"maximize": True, "weight_decay": 0.2, "amsgrad": True}),
    "SGD": ("SGD", {}),
    "SGD, decay, maximize": ("SGD", {"weight_decay": 0.1, "maximize": True}),
    "SGD, momentum": ("SGD", {"momentum": 0.9, "dampening": 0.3}),
    "SGD, nesterov": ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "Adagrad": ("Adagrad", {}),
    "Adagrad, decays": ("Adagrad", {"lr_decay": 0.3, "weight_decay": 0.1, "maximize": True, "initial_accumulator_value": 0.1}),
    "RMSprop": ("RMSprop", {}),
    "RMSprop, centered": ("RMSprop", {"centered": True, "weight_decay": 0.1, "maximize": True}),
    "RMSprop, momentum": ("RMSprop", {"momentum": 0.9, "alpha": 0.8}),
    "RMSprop, centered momentum": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "Adamax": ("Adamax", {}),
    "Adamax, decay": ("Adamax", {"weight_decay": 0.1, "maximize": True}),
    "Adadelta": ("Adadelta", {"lr": 0.5}),
    "Adadelta, decay": ("Adadelta", {"lr": 0.5, "weight_decay": 0.1, "maximize": True, "rho": 0.8}),
}  # fmt: skip


@pytest.fixture
def updates(torch_device: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each list that an optimizer updates on the device, whether one operator did."""
    from shadergrad.torch import optimizers

    found: list[bool] = []
    of_one = optimizers.Update.__call__

    def noted(self: Any, *args: Any) -> bool:
        found.append(of_one(self, *args))
        return found[-1]

    monkeypatch.setattr(optimizers.Update, "__call__", noted)
    return found


def drawn(*shapes: tuple[int, ...]) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def parameters(place: str) -> list[Any]:
    return [nn.Parameter(x.to(place)) for x in drawn((3, 4), (4,), (), (2, 1, 3))]


def gradients(k: int, parameters: list[Any]) -> None:
    """Those of the step of number k."""
    for i, p in enumerate(parameters):
        generator = torch.Generator().manual_seed(31 * k + i)
        p.grad = torch.randn(p.shape, generator=generator).to(p.device)


def trained(
    make: Callable[[Any], Any], place: str, each: Callable[[int, Any, Any], None] = lambda k, ps, o: None
) -> tuple[list[Any], Any]:
    """The parameters after some steps, and the optimizer. each: called before each step."""
    ps = parameters(place)
    optimizer = make(ps)
    for k in range(STEPS):
        gradients(k, ps)
        each(k, ps, optimizer)
        optimizer.step()
    return ps, optimizer


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found.detach().cpu(), expected.detach().cpu(), rtol=3e-5, atol=3e-6)


def same_state(ours: Any, theirs: Any) -> None:
    """Equal state dicts: keys, dtypes, values, and counts of steps on the host."""
    a, b = ours.state_dict(), theirs.state_dict()
    assert [{k: v for k, v in g.items() if not isinstance(v, float)} for g in a["param_groups"]] == [
        {k: v for k, v in g.items() if not isinstance(v, float)} for g in b["param_groups"]
    ]
    assert a["state"].keys() == b["state"].keys()
    for k, state in a["state"].items():
        assert state.keys() == b["state"][k].keys()
        for name, value in state.items():
            expected = b["state"][k][name]
            assert value.dtype == expected.dtype
            assert value.device.type == ("cpu" if name in ("step", "mu_product") else D)
            same(value, expected)


def both(make: Callable[[Any], Any], each: Callable[[int, Any, Any], None] = lambda k, ps, o: None) -> None:
    ours, theirs = trained(make, D, each), trained(make, "cpu", each)
    for p, q in zip(ours[0], theirs[0], strict=True):
        same(p, q)
    same_state(ours[1], theirs[1])


def slower(k: int, ps: Any, optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["lr"] *= 0.8


@pytest.mark.parametrize("name", CASES)
def test_steps_and_state_are_those_of_the_cpu(name: str, updates: list[bool]) -> None:
    kind, options = CASES[name]
    given = {"lr": 0.05, **options}
    both(lambda ps: getattr(optim, kind)(ps, **given), slower)
    first = 1 if options.get("momentum") and kind == "SGD" else 0  # which has no momentum yet
    assert updates[first:] == [True] * (STEPS - first)


@pytest.mark.parametrize("name", ["Adam, amsgrad, decay", "SGD, nesterov", "RMSprop, centered momentum"])
def test_groups_and_parameters_that_join_late_or_rest(name: str, updates: list[bool]) -> None:
    """Then the counts of steps differ within a group."""
    kind, options = CASES[name]

    def make(ps: Any) -> Any:
        return getattr(optim, kind)([{"params": ps[:2]}, {"params": ps[2:3], "lr": 0.01}], lr=0.05, **options)

    def each(k: int, ps: Any, optimizer: Any) -> None:
        if k == 2:
            optimizer.add_param_group({"params": ps[3:], "lr": 0.02})
        if k in (1, 4):
            ps[0].grad = None
        ps[2].requires_grad_(k != 3)

    both(make, each)
    assert any(updates)


def test_betas_and_momenta_of_a_schedule_compile_nothing(updates: list[bool]) -> None:
    from shadergrad.drive import execute

    schedules: dict[Any, Any] = {}
    counts: list[int] = []

    def make(ps: Any) -> Any:
        optimizer = optim.Adam(ps, 0.05)
        schedules[optimizer] = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40)
        return optimizer

    def each(k: int, ps: Any, optimizer: Any) -> None:
        if k:
            schedules[optimizer].step()

    both(make, each)
    ps = parameters(D)
    optimizer = make(ps)
    for k in range(12):
        gradients(k, ps)
        each(k, ps, optimizer)
        optimizer.step()
        counts.append(execute.programs.compiled)
    assert counts[-1] == counts[-5]
    assert all(updates)


def expanded(k: int, ps: Any, optimizer: Any) -> None:
    for p in ps:
        p.grad = p.grad.sum().expand(p.shape)


def test_gradients_of_any_strides(updates: list[bool]) -> None:
    both(lambda ps: optim.Adam(ps, 0.05), expanded)
    assert all(updates)


LEFT: dict[str, Callable[[Any], Any]] = {
    "a tensor as rate": lambda ps: optim.Adam(ps, torch.tensor(0.05)),
    "one by one": lambda ps: optim.Adam(ps, 0.05, foreach=False),
    "NAdam": lambda ps: optim.NAdam(ps, 0.05),
    "the same memory": lambda ps: optim.SGD([ps[1], nn.Parameter(ps[1].detach())], 0.05),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_pytorch_does_itself(name: str, updates: list[bool]) -> None:
    def each(k: int, ps: Any, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            gradients(k, group["params"])

    both(LEFT[name], each)
    assert not any(updates)


def test_other_dtypes_and_devices_go_to_pytorch(updates: list[bool]) -> None:
    def mixed(place: str) -> list[Any]:
        a, b, c = drawn((4,), (3, 2), (2,))
        return [nn.Parameter(a.to(place)), nn.Parameter(b.half().to(place)), nn.Parameter(c)]

    found = []
    for place in (D, "cpu"):
        ps = mixed(place)
        optimizer = optim.AdamW(ps, 0.05)
        for k in range(STEPS):
            for i, p in enumerate(ps):
                p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(k + i)).to(p)
            optimizer.step()
        found.append(ps)
    for p, q in zip(*found, strict=True):
        torch.testing.assert_close(p.detach().cpu(), q.detach(), rtol=2e-3, atol=2e-4)
    assert not any(updates)


def test_a_capturable_optimizer_counts_on_the_device(updates: list[bool]) -> None:
    ps, optimizer = trained(lambda ps: optim.Adam(ps, 0.05, capturable=True), D)
    for p, q in zip(ps, trained(lambda ps: optim.Adam(ps, 0.05), "cpu")[0], strict=True):
        same(p, q)
    assert optimizer.state[ps[0]]["step"].device.type == D
    assert not any(updates)


def test_a_state_goes_from_the_cpu_to_the_device_and_back(updates: list[bool]) -> None:
    found = []
    for places in (("cpu", D, "cpu"), ("cpu", "cpu", "cpu")):
        ps = parameters(places[0])
        state: Any = None
        for n, place in enumerate(places):
            ps = [nn.Parameter(p.detach().to(place)) for p in ps]
            optimizer = optim.Adam(ps, 0.05, amsgrad=True)
            if state is not None:
                optimizer.load_state_dict(state)
            for k in range(3):
                gradients(3 * n + k, ps)
                optimizer.step()
            state = copy.deepcopy(optimizer.state_dict())
        found.append(ps)
    for p, q in zip(*found, strict=True):
        same(p, q)
    assert updates == [True] * 3


def test_a_module_that_moves_after_its_optimizer_was_made(updates: list[bool]) -> None:
    found = []
    for place in (D, "cpu"):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = optim.Adam(model.parameters(), 0.05)
        model.to(place)
        for k in range(STEPS):
            gradients(k, list(model.parameters()))
            optimizer.step()
        found.append(model)
    for p, q in zip(*(m.parameters() for m in found), strict=True):
        same(p, q)
    assert updates == [True] * STEPS


@pytest.mark.filterwarnings("ignore:torch.float64 is computed as float32")  # in which PyTorch inverts the scale
def test_a_gradient_scaler_skips_steps_that_overflow(updates: list[bool]) -> None:
    found = []
    for place in (D, "cpu"):
        scaler = torch.amp.GradScaler(place, init_scale=4.0)
        ps = parameters(place)
        optimizer = optim.Adam(ps, 0.05)
        for k in range(STEPS):
            gradients(k, ps)
            for p in ps:
                p.grad = p.grad * (float("inf") if k == 2 else 4.0)
            scaler.scale(torch.ones((), device=place))
            scaler.step(optimizer)
            scaler.update(4.0)
        found.append((ps, optimizer))
    for p, q in zip(found[0][0], found[1][0], strict=True):
        same(p, q)
    assert found[0][1].state[found[0][0][0]]["step"] == STEPS - 1


def test_a_backward_pass_after_the_step_is_refused(updates: list[bool]) -> None:
    """The parameters' versions tell: the gradient would be of other values."""
    w = nn.Parameter(torch.ones(2, device=D))
    optimizer = optim.Adam([w], 0.1)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    assert updates == [True]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_modes_see_pytorchs_operators(updates: list[bool]) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    ps = parameters(D)
    optimizer = optim.SGD(ps, 0.1)
    gradients(0, ps)
    with Noting():
        optimizer.step()
    assert "aten._foreach_add_.List" in seen
    assert not updates


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
def test_compiled_steps_of_the_cpu_are_traced_as_before(torch_device: Any) -> None:
    torch._dynamo.reset()
    ps, qs = parameters("cpu"), parameters("cpu")
    ours, theirs = optim.Adam(ps, 0.05, foreach=True), optim.Adam(qs, 0.05, foreach=True)
    step = torch.compile(ours.step, backend="eager")
    for k in range(3):
        gradients(k, ps)
        gradients(k, qs)
        step()
        theirs.step()
    for p, q in zip(ps, qs, strict=True):
        same(p, q)
