"""A fixed part of PyTorch's own tables of modules and optimizers; scripts/conformance_modules.py runs all of them."""

from __future__ import annotations

import pytest

import modules
import optimizers

MODULES = (
    "BatchNorm1d", "Bilinear", "CircularPad2d", "Conv1d", "CosineEmbeddingLoss", "Embedding", "GRUCell", "GroupNorm",
    "HuberLoss", "LazyConv1d", "Linear", "MaxPool1d", "ReflectionPad1d", "SiLU", "Softmin",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_pytorchs_by_its_own_samples(name: str) -> None:
    assert modules.differences(name) == []


@pytest.mark.parametrize(
    "name", ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "NAdam", "RMSprop", "Rprop", "SGD"]
)
def test_an_optimizer_is_pytorchs_by_its_own_options(name: str) -> None:
    assert optimizers.differences(name) == []


def test_what_is_missing_is_known() -> None:
    assert optimizers.missing() == []
