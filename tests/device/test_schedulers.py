"""Schedulers against PyTorch's: their first hundred rates, their states, and what they cost a compiled step."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import shadergrad as sg
from helpers import assert_close, assert_compiles_nothing
from shadergrad import optim
from shadergrad.checkpoint import pack, unpack
from shadergrad.optim import lr_scheduler as schedulers

RATES = (0.5, 0.03)  # of two groups
EPOCHS = 100


def sequence(s: Any, optimizer: Any) -> Any:
    parts = [s.LinearLR(optimizer, 0.1, total_iters=10), s.ExponentialLR(optimizer, 0.9), s.StepLR(optimizer, 7, 0.5)]
    return s.SequentialLR(optimizer, parts, [10, 40])


def nested_sequence(s: Any, optimizer: Any) -> Any:
    inner = s.SequentialLR(optimizer, [s.ConstantLR(optimizer, 0.5, 4), s.CosineAnnealingLR(optimizer, 30)], [8])
    return s.SequentialLR(optimizer, [inner, s.PolynomialLR(optimizer, 50, 2.0)], [45])


def chain(s: Any, optimizer: Any) -> Any:
    return s.ChainedScheduler([s.ConstantLR(optimizer, 0.1, 20), s.ExponentialLR(optimizer, 0.97)], optimizer)


SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "StepLR": lambda s, o: s.StepLR(o, 7),
    "StepLR, gamma": lambda s, o: s.StepLR(o, step_size=1, gamma=0.9),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [5, 30, 30, 80], 0.3),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.95),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 100),
    "CosineAnnealingLR, down and up": lambda s, o: s.CosineAnnealingLR(o, 13, eta_min=1e-3),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 9, eta_min=1e-3),
    "CosineAnnealingWarmRestarts, longer each time": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.7, 120),
    "OneCycleLR by epochs, linear": lambda s, o: s.OneCycleLR(
        o, [0.7, 0.1], epochs=10, steps_per_epoch=11, anneal_strategy="linear", div_factor=10.0, final_div_factor=50.0
    ),
    "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(
        o, 0.7, 101, pct_start=0.2, three_phase=True, cycle_momentum=False
    ),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.1, 0.7, 11),
    "CyclicLR, halved": lambda s, o: s.CyclicLR(o, [0.1, 0.2], [0.7, 0.5], 7, 13, mode="triangular2"),
    "CyclicLR, fading": lambda s, o: s.CyclicLR(o, 0.1, 0.7, 7, mode="exp_range", gamma=0.98, cycle_momentum=False),
    "CyclicLR, by a function": lambda s, o: s.CyclicLR(
        o, 0.1, 0.7, 7, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations", base_momentum=0.5, max_momentum=0.95
    ),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "LinearLR, down": lambda s, o: s.LinearLR(o, 1.0, 0.01, total_iters=60),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "ConstantLR, long": lambda s, o: s.ConstantLR(o, 0.2, 40),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o),
    "PolynomialLR, power": lambda s, o: s.PolynomialLR(o, total_iters=70, power=1.7),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch + 0.1),
    "LambdaLR, one a group": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), lambda epoch: 2.0]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 1 - epoch / 1000),
    "SequentialLR": sequence,
    "SequentialLR of SequentialLR": nested_sequence,
    "ChainedScheduler": chain,
}
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES)
quiet = pytest.mark.filterwarnings("ignore:Detected call", "ignore:The epoch parameter")  # of sequences in sequences


def made(**options: Any) -> tuple[list[sg.Tensor], optim.SGD]:
    parameters = [sg.ones(2).requires_grad_() for _ in RATES]
    groups = [{"params": [p], "lr": rate} for p, rate in zip(parameters, RATES, strict=True)]
    return parameters, optim.SGD(groups, lr=1.0, momentum=0.9, **options)


def torch_made() -> torch.optim.SGD:
    groups = [{"params": [torch.ones(2, requires_grad=True)], "lr": rate} for rate in RATES]
    return torch.optim.SGD(groups, lr=1.0, momentum=0.9)


def torch_schedule(schedule: str, optimizer: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SCHEDULES[schedule](torch.optim.lr_scheduler, optimizer)


def rates_of(optimizer: Any) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


@every_schedule
@quiet
def test_the_first_hundred_rates_are_pytorchs(schedule: str) -> None:
    """Of both groups, with the momentum where it is cycled."""
    _, optimizer = made()
    reference = torch_made()
    mine, its = SCHEDULES[schedule](schedulers, optimizer), torch_schedule(schedule, reference)
    for epoch in range(EPOCHS):
        assert_close(rates_of(optimizer), rates_of(reference), 1e-12, 1e-15, f"epoch {epoch}")
        assert mine.get_last_lr() == rates_of(optimizer)
        momenta = [[g["momentum"] for g in o.param_groups] for o in (optimizer, reference)]
        assert_close(momenta[0], momenta[1], 1e-12, 0, f"epoch {epoch}")
        optimizer.step()
        reference.step()
        mine.step()
        its.step()


@every_schedule
@quiet
def test_a_schedule_goes_on_from_its_state_after_a_file(schedule: str) -> None:
    _, optimizer = made()
    first = SCHEDULES[schedule](schedulers, optimizer)
    optimizer.step()
    for _ in range(33):
        first.step()
    arrays, structure = pack(first.state_dict())
    assert not arrays
    saved = unpack({}, json.loads(json.dumps(structure, allow_nan=False)))
    state = optimizer.state_dict()
    expected = []
    for _ in range(40):
        first.step()
        expected.append(rates_of(optimizer))
    _, again = made()
    second = SCHEDULES[schedule](schedulers, again)
    again.load_state_dict(state)
    again.step()
    second.load_state_dict(saved)
    assert second.get_last_lr() == rates_of(again)
    for rates in expected:
        second.step()
        assert_close(rates_of(again), rates, 1e-12, 1e-15)


@every_schedule
@quiet
def test_pytorchs_state_is_taken(schedule: str) -> None:
    reference, (_, optimizer) = torch_made(), made()
    its, mine = torch_schedule(schedule, reference), SCHEDULES[schedule](schedulers, optimizer)
    reference.step()
    optimizer.step()
    for _ in range(12):
        its.step()
    mine.load_state_dict(its.state_dict())
    for group, theirs in zip(optimizer.param_groups, reference.param_groups, strict=True):
        group["lr"] = theirs["lr"]
    for _ in range(50):
        its.step()
        mine.step()
        assert_close(rates_of(optimizer), rates_of(reference), 1e-12, 1e-15)


@pytest.mark.parametrize(
    "make",
    [
        lambda s, o, last: s.StepLR(o, 7, last_epoch=last),
        lambda s, o, last: s.MultiStepLR(o, [5, 30], last_epoch=last),
        lambda s, o, last: s.ExponentialLR(o, 0.95, last_epoch=last),
        lambda s, o, last: s.LinearLR(o, total_iters=40, last_epoch=last),
        lambda s, o, last: s.ConstantLR(o, 0.5, 40, last_epoch=last),
        lambda s, o, last: s.PolynomialLR(o, 70, last_epoch=last),
        lambda s, o, last: s.CosineAnnealingLR(o, 70, last_epoch=last),
        lambda s, o, last: s.CosineAnnealingWarmRestarts(o, 9, last_epoch=last),
        lambda s, o, last: s.LambdaLR(o, lambda epoch: 0.9**epoch, last_epoch=last),
        lambda s, o, last: s.MultiplicativeLR(o, lambda epoch: 0.9, last_epoch=last),
    ],
)
def test_a_schedule_resumes_at_last_epoch_as_pytorchs(make: Any) -> None:
    (_, optimizer), reference = made(), torch_made()
    with pytest.raises(KeyError, match=r"param 'initial_lr' is not specified in param_groups\[0\] when resuming"):
        make(schedulers, optimizer, 20)
    for groups in (optimizer.param_groups, reference.param_groups):
        for group in groups:
            group["initial_lr"] = group["lr"]
            group["lr"] *= 0.7
    mine, its = make(schedulers, optimizer, 20), make(torch.optim.lr_scheduler, reference, 20)
    optimizer.step()
    reference.step()
    for _ in range(30):
        assert_close(rates_of(optimizer), rates_of(reference), 1e-12, 1e-15)
        mine.step()
        its.step()


@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if "SequentialLR" not in s and s != "ChainedScheduler"])
@pytest.mark.filterwarnings("ignore:The epoch parameter", "ignore:Detected call")
def test_a_step_to_an_epoch_sets_pytorchs_rates(schedule: str) -> None:
    """The closed form where there is one: at every epoch in order, so at the milestones, and then back."""
    (_, optimizer), reference = made(), torch_made()
    mine, its = SCHEDULES[schedule](schedulers, optimizer), torch_schedule(schedule, reference)
    for epoch in [*range(EPOCHS), *range(EPOCHS - 1, 0, -7)]:
        mine.step(epoch)
        its.step(epoch)
        assert_close(rates_of(optimizer), rates_of(reference), 1e-12, 1e-15, f"epoch {epoch}")
        assert mine.last_epoch == epoch


@quiet
def test_every_public_scheduler_has_a_case() -> None:
    public = {n for n, k in vars(schedulers).items() if inspect.isclass(k) and issubclass(k, schedulers.LRScheduler)}
    used = {type(SCHEDULES[s](schedulers, made()[1])).__name__ for s in SCHEDULES}
    apart = {"LRScheduler", "ReduceLROnPlateau"}  # the base; and what needs a metric, whose cases are PLATEAUS
    assert {n for n in public if n[0] != "_"} - apart == used


@pytest.mark.filterwarnings("ignore:The epoch parameter")  # that it is deprecated: both libraries say so
def test_warm_restarts_take_fractions_of_epochs() -> None:
    (_, optimizer), reference = made(), torch_made()
    for mult in (1, 2):
        mine = schedulers.CosineAnnealingWarmRestarts(optimizer, 5, mult)
        its: Any = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(reference, 5, mult)  # typed without fractions
        for k in range(60):
            mine.step(k / 3)
            its.step(k / 3)
            assert_close(rates_of(optimizer), rates_of(reference), 1e-12, 1e-15)
        assert mine.last_epoch == its.last_epoch


PLATEAUS: dict[str, dict[str, Any]] = {
    "default": {"patience": 2},
    "max": {"mode": "max", "patience": 1, "factor": 0.5},
    "absolute": {"threshold_mode": "abs", "threshold": 0.05, "patience": 0, "factor": 0.9},
    "max, absolute": {"mode": "max", "threshold_mode": "abs", "threshold": 0.05, "patience": 0, "factor": 0.9},
    "cooldown and lowest rates": {"patience": 1, "cooldown": 3, "factor": 0.3, "min_lr": [0.01, 0.002], "eps": 1e-3},
}


@pytest.mark.parametrize("options", PLATEAUS.values(), ids=PLATEAUS)
def test_reduce_on_plateau_is_pytorchs(options: dict[str, Any]) -> None:
    (_, optimizer), reference = made(), torch_made()
    mine = schedulers.ReduceLROnPlateau(optimizer, **options)
    its = torch.optim.lr_scheduler.ReduceLROnPlateau(reference, **options)
    for epoch in range(EPOCHS):
        metric = math.exp(-epoch / 20) + 0.1 * math.sin(epoch) - (epoch == 5)
        mine.step(sg.tensor(metric, dtype=sg.float64))
        its.step(metric)
        assert_close(rates_of(optimizer), rates_of(reference), 1e-12, 0, f"epoch {epoch}")
        assert (mine.num_bad_epochs, mine.in_cooldown) == (its.num_bad_epochs, its.in_cooldown)
        assert mine.get_last_lr() == rates_of(optimizer)
    again = schedulers.ReduceLROnPlateau(optimizer, **options)
    again.load_state_dict(mine.state_dict())
    assert (again.best, again.last_epoch) == (mine.best, mine.last_epoch)


def test_a_plateau_scheduler_without_epochs_can_be_saved() -> None:
    _, optimizer = made()
    mine = schedulers.ReduceLROnPlateau(optimizer)
    json.dumps(mine.state_dict(), allow_nan=False)
    mine.load_state_dict(mine.state_dict())
    assert mine.best == math.inf


def test_a_plateau_scheduler_takes_groups_added_later() -> None:
    _, optimizer = made()
    one, each = schedulers.ReduceLROnPlateau(optimizer), schedulers.ReduceLROnPlateau(optimizer, min_lr=[0.1, 0.1])
    optimizer.add_param_group({"params": [sg.ones(1).requires_grad_()]})
    for scheduler in (one, each):
        scheduler.step(1.0)
        scheduler.patience = 0
    one.step(2.0)
    assert_close(rates_of(optimizer), [0.05, 0.003, 0.1], 1e-12, 0)
    with pytest.raises(ValueError, match="usually due to a new param group"):
        each.step(2.0)


def test_warm_up_and_cosine_is_a_sequence() -> None:
    (_, optimizer), reference = made(), torch_made()
    mine = schedulers.warmup_cosine(optimizer, 10, 60, start_factor=0.01, eta_min=1e-3)
    s = torch.optim.lr_scheduler
    its = s.SequentialLR(
        reference,
        [s.LinearLR(reference, 0.01, total_iters=10), s.CosineAnnealingLR(reference, 50, 1e-3)],
        [10],
    )
    optimizer.step()
    reference.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(60):
            assert_close(rates_of(optimizer), rates_of(reference), 1e-12, 1e-15)
            mine.step()
            its.step()
    assert_close(rates_of(optimizer), [1e-3, 1e-3], 1e-12, 0)
    with pytest.raises(ValueError, match="Expected 0 < warmup_steps < total_steps, but got 9 and 9"):
        schedulers.warmup_cosine(optimizer, 9, 9)


# ---------------------------------------------------------------------------------- refusals

REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "no optimizer": lambda s, o: s.StepLR([1], 3),
    "no optimizer, plateau": lambda s, o: s.ReduceLROnPlateau([1]),
    "no optimizer, one cycle": lambda s, o: s.OneCycleLR([1], 0.1, 10),
    "constant factor": lambda s, o: s.ConstantLR(o, 1.5),
    "start factor": lambda s, o: s.LinearLR(o, 0.0),
    "end factor": lambda s, o: s.LinearLR(o, end_factor=1.5),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 1.0]),
    "lambdas, multiplicative": lambda s, o: s.MultiplicativeLR(o, [lambda e: 1.0] * 3),
    "no function": lambda s, o: s.MultiplicativeLR(o, 0.9),
    "T_0": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "T_mult": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 0.5),
    "eta_min": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, eta_min="0"),
    "negative epoch": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3).step(-1),
    "plateau factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda s, o: s.ReduceLROnPlateau(o, mode="least"),
    "plateau threshold mode": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="both"),
    "plateau min_lr": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "cyclic mode": lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    "cyclic base_lr": lambda s, o: s.CyclicLR(o, [0.1], 0.2),
    "no steps": lambda s, o: s.OneCycleLR(o, 0.1),
    "total_steps": lambda s, o: s.OneCycleLR(o, 0.1, 0),
    "epochs": lambda s, o: s.OneCycleLR(o, 0.1, epochs=-1, steps_per_epoch=3),
    "steps_per_epoch": lambda s, o: s.OneCycleLR(o, 0.1, epochs=3, steps_per_epoch=0),
    "pct_start": lambda s, o: s.OneCycleLR(o, 0.1, 10, pct_start=2.0),
    "anneal_strategy": lambda s, o: s.OneCycleLR(o, 0.1, 10, anneal_strategy="square"),
    "max_lr": lambda s, o: s.OneCycleLR(o, [0.1], 10),
    "too many steps": lambda s, o: [schedule := s.OneCycleLR(o, 0.1, 2), [schedule.step() for _ in range(3)]],
    "no schedulers": lambda s, o: s.SequentialLR(o, [], []),
    "none to chain": lambda s, o: s.ChainedScheduler([]),
    "milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 3)], [3]),
    "plateau in a sequence": lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    "plateau in a chain": lambda s, o: s.ChainedScheduler([s.StepLR(o, 3), s.ReduceLROnPlateau(o)]),
    "no scheduler": lambda s, o: s.ChainedScheduler([3], o),
}


@pytest.mark.parametrize("case", REFUSED)
@quiet
def test_arguments_that_make_no_schedule_are_refused_in_pytorchs_words(case: str) -> None:
    with pytest.raises((ValueError, TypeError)) as expected:
        REFUSED[case](torch.optim.lr_scheduler, torch_made())
    with pytest.raises(type(expected.value)) as caught:
        REFUSED[case](schedulers, made()[1])
    assert str(caught.value).startswith(str(expected.value).rstrip("."))  # and then the value, where PyTorch has none
    assert isinstance(caught.value, sg.ShadergradError)


def test_schedulers_of_different_optimizers_are_refused() -> None:
    (_, one), (_, other) = made(), made()
    for make in (
        lambda: schedulers.SequentialLR(one, [schedulers.StepLR(other, 3)], []),
        lambda: schedulers.ChainedScheduler([schedulers.StepLR(one, 3), schedulers.StepLR(other, 3)]),
    ):
        with pytest.raises(ValueError, match="expects all schedulers to belong to the same optimizer"):
            make()


def test_a_cycle_may_rise_in_no_time() -> None:
    """PyTorch divides by zero here: the rise of pct_start * total_steps = 1 steps has no length."""
    _, optimizer = made()
    schedule = schedulers.OneCycleLR(optimizer, 0.7, 10, pct_start=0.1)
    assert_close(rates_of(optimizer), [0.7, 0.7], 1e-12, 0)
    optimizer.step()
    for _ in range(9):
        schedule.step()
    assert_close(rates_of(optimizer), [0.7 / 25 / 1e4] * 2, 1e-9, 0)


def test_momentum_is_not_cycled_where_there_is_none() -> None:
    optimizer = optim.Adagrad([sg.ones(1).requires_grad_()])
    with pytest.raises(ValueError, match="optimizer must support momentum or beta1 with `cycle_momentum`"):
        schedulers.OneCycleLR(optimizer, 0.1, 10)
    schedulers.OneCycleLR(optimizer, 0.1, 10, cycle_momentum=False)


def test_a_scheduler_stepped_before_its_optimizer_warns() -> None:
    _, optimizer = made()
    scheduler = schedulers.StepLR(optimizer, 3)
    said = r"Detected call of `lr_scheduler\.step\(\)` before `optimizer\.step\(\)`.*#how-to-adjust-learning-rate"
    with pytest.warns(UserWarning, match=said):
        scheduler.step()
    _, optimizer = made()
    scheduler = schedulers.StepLR(optimizer, 3)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()


# ---------------------------------------------------------------------------------- in a training loop


def values() -> list[list[float]]:
    return [[1.0, -2.0, 0.5], [0.3, 0.7, -1.5]]


def loss_of(parameters: list[Any]) -> Any:
    a, b = parameters
    return (a * a * b + b * b).square().mean() + (a - 1).square().mean()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("SGD", {}),
        ("RMSprop", {"momentum": 0.5}),
        ("RMSprop", {}),
        ("Adam", {}),
        ("AdamW", {"amsgrad": True}),
        ("NAdam", {}),
        ("RAdam", {"betas": (0.9, 0.99)}),
    ],
)
def test_one_cycle_moves_rate_and_momentum_of_a_compiled_step_and_compiles_nothing(
    kind: str, options: dict[str, Any], device: str
) -> None:
    """Thirty steps: PyTorch's values in the end, one program for all."""
    dtype = sg.float64 if device == "cpu" else sg.float32
    theirs = [torch.tensor(v, dtype=getattr(torch, dtype.name), requires_grad=True) for v in values()]
    reference = getattr(torch.optim, kind)(theirs, **options)
    schedule = torch.optim.lr_scheduler.OneCycleLR(reference, 0.01, 30)
    for _ in range(30):
        reference.zero_grad()
        loss_of(theirs).backward()
        reference.step()
        schedule.step()
    parameters = [sg.tensor(v, dtype=dtype, device=device, requires_grad=True) for v in values()]
    optimizer = getattr(optim, kind)(parameters, **options)
    scheduler = schedulers.OneCycleLR(optimizer, 0.01, 30)

    @sg.compile
    def step() -> None:
        optimizer.zero_grad()
        loss_of(parameters).backward()
        optimizer.step()

    def train(steps: int) -> None:
        for _ in range(steps):
            step()
            scheduler.step()

    train(2)
    assert_compiles_nothing(lambda: train(28), "the rest of the cycle")
    assert step.captures == 1
    tolerance = 1e-5
    if device == "cpu":
        tolerance = 1e-7 if kind == "NAdam" else 1e-11  # PyTorch keeps NAdam's product of momenta in float32
    for p, e in zip(parameters, theirs, strict=True):
        assert_close(p, e.detach(), tolerance, tolerance)


def test_lion_cycles_its_momentum() -> None:
    """Gradients of changing signs, so that the momentum decides on the direction."""
    w, value, mean, directions = sg.zeros(1).requires_grad_(), 0.0, 0.0, []
    optimizer = optim.Lion([w], betas=(0.9, 0.5))
    scheduler = schedulers.OneCycleLR(optimizer, 0.1, 20, base_momentum=0.05)
    for k in range(19):
        group = optimizer.param_groups[0]
        gradient, beta = (-0.8) ** k, group["betas"][0]
        w.grad = sg.tensor([gradient])
        optimizer.step()
        directions.append(math.copysign(1.0, mean * beta + gradient * (1 - beta)))
        value -= group["lr"] * directions[-1]
        mean = mean * 0.5 + gradient * 0.5
        assert_close(w, [value], 1e-6, 1e-7)
        scheduler.step()
    assert directions != [math.copysign(1.0, (-0.8) ** k) for k in range(19)]


def test_muon_cycles_its_momentum() -> None:
    results = []
    for lowest in (0.85, 0.5):
        w = sg.tensor(values(), requires_grad=True)
        optimizer = optim.Muon([w], lr=0.01)
        scheduler = schedulers.OneCycleLR(optimizer, 0.01, 10, base_momentum=lowest)
        for _ in range(9):
            optimizer.zero_grad()
            loss_of(list(w)).backward()
            optimizer.step()
            scheduler.step()
        results.append(w.detach().numpy())
    assert abs(results[0] - results[1]).max() > 1e-5


def test_momentum_that_is_cycled_equals_momentum_that_is_constant(device: str) -> None:
    """The rule is the same, whether momentum is a number of the program or lies on the device."""
    results = []
    for cycles in (False, True):
        parameters = [sg.tensor(v, device=device, requires_grad=True) for v in values()]
        optimizer = optim.Adam(parameters, lr=0.01, betas=(0.9, 0.99))
        if cycles:
            optimizer.param_groups[0].cycle_momentum()
        for _ in range(5):
            optimizer.zero_grad()
            loss_of(parameters).backward()
            optimizer.step()
        results.append([p.detach().numpy() for p in parameters])
    for p, e in zip(*results, strict=True):
        assert_close(p, e, 1e-6, 1e-7)


@pytest.mark.parametrize("schedule", ["CosineAnnealingLR", "SequentialLR"])
def test_a_schedule_takes_effect_in_a_compiled_step_and_compiles_nothing(schedule: str, device: str) -> None:
    """w falls by its rate at every step, since its gradient is 1."""
    w = sg.zeros(1, device=device).requires_grad_()
    optimizer = optim.SGD([w], lr=0.5)
    scheduler = SCHEDULES[schedule](schedulers, optimizer)

    @sg.compile
    def step() -> None:
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    rates = []

    def train(steps: int) -> None:
        for _ in range(steps):
            rates.append(scheduler.get_last_lr()[0])
            step()
            scheduler.step()

    train(2)
    assert_compiles_nothing(lambda: train(18))
    assert_close(w, [-sum(rates)], 1e-6, 0)
    assert len(set(rates)) == 20


def test_a_scheduler_inside_a_compiled_step_is_refused() -> None:
    _, optimizer = made()
    for scheduler in (
        schedulers.StepLR(optimizer, 3),
        schedulers.CosineAnnealingWarmRestarts(optimizer, 3),
        schedulers.SequentialLR(optimizer, [schedulers.StepLR(optimizer, 3)], []),
    ):
        before = scheduler.last_epoch
        with pytest.raises(sg.CompileError, match="call it after the compiled step"):
            sg.compile(scheduler.step)()
        assert scheduler.last_epoch == before


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
@every_schedule
@quiet
def test_a_rate_that_is_a_tensor_is_written_in_place(schedule: str, compiled: bool) -> None:
    """The tensor stays the group's, what the scheduler keeps are copies, and the parameters go PyTorch's way."""

    def course(lib: Any, plans: Any) -> list[float]:
        leaves = [lib.ones(2, dtype=lib.float64).requires_grad_() for _ in RATES]
        rates = [lib.tensor(rate / 10, dtype=lib.float64) for rate in RATES]
        groups = [{"params": [p], "lr": rate} for p, rate in zip(leaves, rates, strict=True)]
        optimizer = lib.optim.SGD(groups, lr=1.0, momentum=0.9)
        scheduler = SCHEDULES[schedule](plans, optimizer)
        first = [float(group["initial_lr"]) for group in optimizer.param_groups]

        def step() -> None:
            optimizer.zero_grad()
            loss: Any = sum((p * p).sum() for p in leaves)
            loss.backward()
            optimizer.step()

        run = sg.compile(step) if compiled and lib is sg else step
        found = []
        for _ in range(6):
            run()
            scheduler.step()
            assert all(g["lr"] is rate for g, rate in zip(optimizer.param_groups, rates, strict=True))
            found += [*map(float, rates), *map(float, scheduler.get_last_lr())]
            found += [value for p in leaves for value in p.detach().tolist()]
        assert first == [float(group["initial_lr"]) for group in optimizer.param_groups]
        return found

    assert course(sg, schedulers) == pytest.approx(course(torch, torch.optim.lr_scheduler), 1e-9, 1e-12)
