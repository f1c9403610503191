"""A random training from a number, as plain data: the same number is the same training for ever."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

ACTIVATIONS = ("ReLU", "Tanh", "GELU", "SiLU", "ELU", "Softplus", "Sigmoid", "LeakyReLU", "Softsign", "Mish")
LOSSES = ("mse", "cross_entropy", "smooth_l1", "bce", "nll")
# kinds whose steps follow the sign of what may be nothing but rounding: no normalization, whose gradients cancel
BY_SIGN = ("Rprop", "Adafactor")
OPTIMIZERS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": 0.05}, {"lr": 0.03, "momentum": 0.9}, {"lr": 0.03, "momentum": 0.8, "nesterov": True}, {"lr": 0.03, "momentum": 0.9, "dampening": 0.3}],
    "Adam": [{"lr": 0.01}, {"lr": 0.01, "amsgrad": True}, {"lr": 0.01, "betas": (0.5, 0.9)}],
    "AdamW": [{"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.2}],
    "NAdam": [{"lr": 0.01}, {"lr": 0.01, "decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [{"lr": 0.01}, {"lr": 0.01, "betas": (0.5, 0.8)}],
    "Adamax": [{"lr": 0.01}],
    "Adagrad": [{"lr": 0.05}, {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.1}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8}],
    "RMSprop": [{"lr": 0.01}, {"lr": 0.01, "centered": True, "momentum": 0.5}],
    "ASGD": [{"lr": 0.02, "t0": 2.0}],
    "Rprop": [{"lr": 0.01}],
    "Adafactor": [{"lr": 0.02}],
}  # fmt: skip
SMOOTH = ("SGD", "Adam", "AdamW", "Adamax", "RMSprop", "NAdam")  # in float32 too, with a large eps
SCHEDULES: dict[str, list[dict[str, Any]]] = {
    "StepLR": [{"step_size": 2, "gamma": 0.5}],
    "MultiStepLR": [{"milestones": [1, 3], "gamma": 0.3}],
    "ExponentialLR": [{"gamma": 0.8}],
    "LinearLR": [{"start_factor": 0.2, "total_iters": 3}],
    "ConstantLR": [{"factor": 0.5, "total_iters": 2}],
    "PolynomialLR": [{"total_iters": 9, "power": 2.0}],
    "CosineAnnealingLR": [{"T_max": 4}],
    "CosineAnnealingWarmRestarts": [{"T_0": 2}, {"T_0": 2, "T_mult": 2}],
    "OneCycleLR": [{"max_lr": 0.05, "total_steps": 20}],
    "CyclicLR": [{"base_lr": 0.01, "max_lr": 0.05, "step_size_up": 2, "cycle_momentum": False}],
}


@dataclass(frozen=True)
class Training:
    """layers: kinds with their arguments; loss; the optimizer's kind and options; groups: how parameters are spread, with options;
    events: what happens before a step, by its number; batches: for each step the sizes of the batches that it accumulates.

    way: whether a compiled step holds all ('whole') or its parts are compiled apart ('parts')."""

    seed: int
    width: int
    outputs: int
    layers: tuple[tuple[Any, ...], ...]
    loss: str
    optimizer: str
    options: dict[str, Any]
    groups: tuple[tuple[str, dict[str, Any]], ...]
    rate_is_tensor: bool
    schedule: tuple[str, dict[str, Any]] | None
    clip: tuple[str, float] | None
    batches: tuple[tuple[int, ...], ...]
    events: dict[int, tuple[tuple[Any, ...], ...]] = field(default_factory=dict)
    averages: bool = False
    way: str = "whole"


def draw(seed: int, rough: bool = False) -> Training:
    """The training of a number. rough: for float32, where the ways part faster: kinds that forgive rounding, few steps."""
    r = random.Random(seed)
    kind = r.choice(SMOOTH if rough else tuple(OPTIMIZERS))
    options = dict(r.choice(OPTIMIZERS[kind]))
    if rough and kind != "SGD":
        options["eps"] = 1e-2
    if "weight_decay" not in options and kind != "Rprop" and r.random() < 0.3:
        options["weight_decay"] = r.choice((0.01, 0.1))
    if r.random() < 0.1:
        options.update(maximize=True, lr=1e-3)
    width, outputs = r.randint(2, 6), r.randint(2, 4)
    layers = _layers(r, width, outputs, kind not in BY_SIGN)
    steps = r.randint(4, 5) if rough else r.randint(4, 9)
    accumulates = r.choice((1, 1, 2, 3))
    sizes = r.sample((2, 3, 4, 5, 7, 8), r.choice((1, 1, 2)))
    batches = tuple(tuple(r.choice(sizes) for _ in range(accumulates)) for _ in range(steps))
    schedule = r.choice((None, *SCHEDULES))
    return Training(
        seed=seed,
        width=width,
        outputs=outputs,
        layers=layers,
        loss=r.choice(LOSSES),
        optimizer=kind,
        options=options,
        groups=_groups(r, kind),
        rate_is_tensor=r.random() < 0.25,
        schedule=None if schedule is None else (schedule, r.choice(SCHEDULES[schedule])),
        clip=r.choice((None, None, ("norm", 0.5), ("norm", 5.0), ("value", 0.1), ("total", 0.3))),
        batches=batches,
        events={k: found for k in range(steps) if (found := _events(r, kind))},
        averages=r.random() < 0.15,
        way=r.choice(("whole", "whole", "parts")),
    )


def _layers(r: random.Random, width: int, outputs: int, normalizes: bool) -> tuple[tuple[Any, ...], ...]:
    found: list[tuple[Any, ...]] = []
    now = width
    for _ in range(r.randint(1, 3)):
        what = r.choice(("linear", "linear", "norm", "batch norm", "residual", "conv", "tied", "bilinear"))
        if what == "linear":
            after = r.randint(2, 6)
            found.append(("linear", now, after, r.random() < 0.8))
            now = after
        elif what == "batch norm" and normalizes:
            after = r.randint(2, 5)
            found += [("linear", now, after, False), ("batch norm", after, r.choice((0.1, 0.3, None)))]
            now = after
        elif what == "norm" and normalizes and now > 2:
            found.append(("norm", now))
        elif what in ("residual", "tied"):
            found.append((what, now))
        elif what == "conv":
            found.append(("conv", now))
        elif what == "bilinear":
            found.append(("gate", now))
        found.append(("activation", r.choice(ACTIVATIONS)))
    return (*found, ("linear", now, outputs, True))


def _groups(r: random.Random, kind: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """How parameters are spread over groups: all; those of one axis apart; every other one."""
    how = r.choice(("all", "all", "vectors apart", "in turns"))
    if how == "all":
        return (("all", {}),)
    more: dict[str, Any] = {"lr": r.choice((0.002, 0.02))}
    if kind != "Rprop" and r.random() < 0.5:
        more["weight_decay"] = 0.0
    return (("vectors", {}), ("rest", more)) if how == "vectors apart" else (("even", {}), ("odd", more))


def _events(r: random.Random, kind: str) -> tuple[tuple[Any, ...], ...]:  # noqa: C901  # a line an event
    """What happens before a step."""
    found: list[tuple[Any, ...]] = []
    if r.random() < 0.2:
        found.append(("freeze", r.randint(0, 5), r.choice((True, False))))
    if r.random() < 0.1:
        found.append(("thaw all",))
    if r.random() < 0.12:
        found.append(("resume",))
    if r.random() < 0.1:
        found.append(("rate", r.choice((0.5, 1.5))))
    if kind != "Adagrad":  # PyTorch makes its state in the constructor, and raises KeyError without
        if r.random() < 0.05:
            found.append(("clear state",))
        if r.random() < 0.05:
            found.append(("forget one", r.randint(0, 3)))
        if r.random() < 0.08:
            found.append(("add group", r.choice((0.001, 0.01))))
        if r.random() < 0.08:
            found.append(("look",))
    if r.random() < 0.08:
        found.append(("judge",))
    if r.random() < 0.08:
        found.append(("zero", r.choice((True, False))))
    if r.random() < 0.06 and kind != "Rprop":
        found.append(("decay", r.choice((0.0, 0.05))))
    if r.random() < 0.06:
        found.append(("perturb", r.randint(0, 5)))
    return tuple(found)
