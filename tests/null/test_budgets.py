"""What a training step of each benchmarked network may take on a large GPU, asked of its plan: no clock, no adapter.

A step that needs more than stands here has become slower or larger. One that needs less is welcome, and its row is
brought down: a row that is more than 2 % above what the plan takes fails, too, so that nothing gained is lost unseen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import shadergrad as sg
import step as steps
from helpers import large_gpu
from shadergrad.plan import Plan
from shadergrad.primitives import random
from workloads import ON_PROCESSORS, WORKLOADS, Workload, residual


class Budget(NamedTuple):
    """dispatches: kernels a step. moved: what they read and write, each element of a buffer once a kernel, in MB. temporary: the
    memory that a step needs beside its tensors, in MB."""

    dispatches: int
    moved: float
    temporary: float


BUDGETS = {
    "xor": Budget(5, 0.0016, 0.00028),
    "logreg": Budget(7, 2.05, 0.146),
    "mlp": Budget(12, 24.2, 2.11),
    "cnn": Budget(27, 866, 162),
    "resnet": Budget(218, 11_200, 800),
    "lstm": Budget(182, 705, 38.5),
    "transformer": Budget(83, 1_015, 156),
    "mlm": Budget(106, 1_350, 221),
    "gpt2s": Budget(328, 18_460, 1_837),
}
SLACK = 0.02
# MiB that PyTorch 2.11 takes at most for a step (benchmarks/RESULTS.md), and that parameters, their gradients and state take
PYTORCH = {"cnn": (199, 29), "resnet": (942, 172), "mlm": (298, 19), "gpt2s": (3_789, 1_893)}


@pytest.fixture(autouse=True)
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are zeros: nobody looks at them, and drawing those of GPT-2 takes seconds."""
    monkeypatch.setattr(random.Threefry, "numpy", lambda self, key, x0, x1: np.zeros_like(x0))


def planned(workload: Workload) -> Plan:
    """Of a training step on a large GPU."""
    step = sg.compile(steps.training_step(sg, workload, workload.model(sg)))
    return step._planned(large_gpu(), tuple(sg.tensor(a) for a in workload.batch()), {}).plan


def test_every_benchmarked_step_has_a_budget() -> None:
    assert BUDGETS.keys() == WORKLOADS.keys() - set(ON_PROCESSORS)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "gpt2s" else n for n in BUDGETS])
def test_a_step_keeps_to_its_budget(name: str) -> None:
    plan = planned(WORKLOADS[name](False))
    moved = sum(plan.kernels[d.kernel].nbytes for d in plan.dispatches) / 1e6
    found = Budget(len(plan.dispatches), moved, plan.temporary_bytes / 1e6)
    most = BUDGETS[name]
    for what, value, bound in zip(Budget._fields, found, most, strict=True):
        assert value <= bound, f"{name}: {what} {value:,.6g}, of at most {bound:,}"
        assert value >= bound * (1 - SLACK) - 1e-9, (
            f"{name}: {what} is {value:,.6g} now: bring the budget of {bound:,} down"
        )
    if name in PYTORCH:
        theirs, kept = PYTORCH[name]
        assert plan.temporary_bytes <= (theirs - kept) << 20


def test_a_sample_costs_no_more_in_a_larger_batch() -> None:
    """Of a residual network: what is multiplied and the memory grow with the batch, and no more."""
    small, large = (planned(residual(batch, 32, (64, 128, 256, 512))) for batch in (128, 512))
    flops = [sum(plan.kernels[d.kernel].flops for d in plan.dispatches) for plan in (small, large)]
    assert flops[1] <= 4 * flops[0]
    assert large.temporary_bytes <= 4 * small.temporary_bytes
