"""The optimizers that tests walk: a rule by name, its class and its options, and PyTorch's of the same name.

A new optimizer is its own file, its line in optim/__init__.py, and a rule here; a test asks for it. One that PyTorch does
not have brings its reference, as Lion does.
"""

from __future__ import annotations

from typing import Any

import torch

RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.05}),
    "SGD with weight decay": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "SGD with momentum": ("SGD", {"lr": 0.02, "momentum": 0.9}),
    "SGD with nesterov momentum": ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    "SGD with dampening": ("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.3}),
    "SGD with momentum and weight decay": ("SGD", {"lr": 0.02, "momentum": 0.8, "weight_decay": 0.05}),
    "SGD, nesterov, weight decay": ("SGD", {"lr": 0.02, "momentum": 0.8, "weight_decay": 0.05, "nesterov": True}),
    "SGD, dampening, weight decay, maximize": (
        "SGD",
        {"lr": 0.001, "momentum": 0.5, "dampening": 0.1, "weight_decay": 0.05, "maximize": True},
    ),
    "SGD, maximize": ("SGD", {"lr": 0.001, "maximize": True}),
    "Adam": ("Adam", {"lr": 0.02}),
    "Adam with weight decay": ("Adam", {"lr": 0.02, "weight_decay": 0.1}),
    "Adam with other betas and eps": ("Adam", {"lr": 0.02, "betas": (0.8, 0.99), "eps": 1e-3}),
    "Adam without first moment": ("Adam", {"lr": 0.02, "betas": (0.0, 0.99)}),
    "Adam, amsgrad": ("Adam", {"lr": 0.02, "amsgrad": True}),
    "Adam, maximize": ("Adam", {"lr": 0.001, "maximize": True}),
    "AdamW": ("AdamW", {"lr": 0.02}),
    "AdamW with much decay": ("AdamW", {"lr": 0.02, "weight_decay": 0.5}),
    "AdamW, amsgrad": ("AdamW", {"lr": 0.02, "amsgrad": True}),
    "AdamW, amsgrad, maximize": ("AdamW", {"lr": 0.001, "amsgrad": True, "maximize": True, "weight_decay": 0.1}),
    "Adam, decoupled": ("Adam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "NAdam": ("NAdam", {"lr": 0.02}),
    "NAdam with weight decay and fast momentum": ("NAdam", {"lr": 0.02, "weight_decay": 0.1, "momentum_decay": 0.1}),
    "NAdam, decoupled, maximize": (
        "NAdam",
        {"lr": 1e-3, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "RAdam": ("RAdam", {"lr": 0.02}),
    "RAdam with a long memory": ("RAdam", {"lr": 0.02, "betas": (0.9, 0.9999)}),
    "RAdam with too short a memory to rectify": ("RAdam", {"lr": 0.02, "betas": (0.9, 0.5), "weight_decay": 0.1}),
    "RAdam, decoupled, maximize": (
        "RAdam",
        {"lr": 1e-3, "betas": (0.5, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    "Adagrad": ("Adagrad", {"lr": 0.1}),
    "Adagrad with all options": (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-6},
    ),
    "Adagrad, maximize": ("Adagrad", {"lr": 1e-3, "maximize": True}),
    "RMSprop": ("RMSprop", {"lr": 0.01}),
    "RMSprop, centered": ("RMSprop", {"lr": 0.01, "centered": True, "alpha": 0.9}),
    "RMSprop with momentum": ("RMSprop", {"lr": 1e-3, "momentum": 0.9}),
    "RMSprop with all options": (
        "RMSprop",
        {"lr": 1e-3, "centered": True, "momentum": 0.9, "weight_decay": 0.1, "eps": 1e-3, "maximize": True},
    ),
    "Adadelta": ("Adadelta", {}),
    "Adadelta with all options": (
        "Adadelta",
        {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1, "maximize": True},
    ),
    "Adamax": ("Adamax", {"lr": 0.02}),
    "Adamax with all options": (
        "Adamax",
        {"lr": 1e-3, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.1, "maximize": True},
    ),
    "ASGD": ("ASGD", {"lr": 0.02}),
    "ASGD with all options": (
        "ASGD",
        {"lr": 0.02, "lambd": 0.01, "alpha": 0.5, "t0": 3.0, "weight_decay": 0.1},
    ),
    "ASGD, maximize": ("ASGD", {"lr": 1e-3, "maximize": True}),
    "Rprop": ("Rprop", {"lr": 0.02}),
    "Rprop with all options": ("Rprop", {"lr": 1e-3, "etas": (0.4, 1.5), "step_sizes": (1e-4, 0.05), "maximize": True}),
    "Adafactor": ("Adafactor", {"lr": 0.05}),
    "Adafactor with all options": (
        "Adafactor",
        {"lr": 0.02, "beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 1.5, "weight_decay": 0.1, "maximize": True},
    ),
    "Lion": ("Lion", {"lr": 0.01}),
    "Lion with all options": ("Lion", {"lr": 1e-3, "betas": (0.8, 0.9), "weight_decay": 0.5, "maximize": True}),
    "Muon": ("Muon", {"lr": 0.02}),
    "Muon without nesterov, matching AdamW": (
        "Muon",
        {"lr": 0.02, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0, "momentum": 0.8},
    ),
    "LBFGS": ("LBFGS", {"lr": 0.5, "max_iter": 3}),
}
KINDS = dict(reversed(RULES.values()))  # the first rule of each class
LATER = ("ASGD", "Rprop")  # where a changed rate is for the step after the next, or for none, as in PyTorch
BY_CLOSURE = ("LBFGS",)  # their course is tested by itself: a step takes a closure, and no compiled step holds it


class TorchLion(torch.optim.Optimizer):
    """The reference of Lion: https://github.com/google/automl/blob/master/lion/lion_pytorch.py, with maximize."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                grad = -p.grad if group["maximize"] else p.grad
                state = self.state[p]
                mean = state.setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(mean * beta1 + grad * (1 - beta1)), alpha=-group["lr"])
                mean.mul_(beta2).add_(grad, alpha=1 - beta2)


REFERENCES = {"Lion": TorchLion}  # of what PyTorch has not


def torch_optimizer(kind: str) -> Any:
    return REFERENCES.get(kind) or getattr(torch.optim, kind)
