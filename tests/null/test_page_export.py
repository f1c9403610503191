"""Recipes as pages: one shape for a step whose batches differ in theirs, and a folder from each recipe."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import nn, recipes
from shadergrad.system.safe_tensors import load_file
from shadergrad.train import Recipe, Settings, Stream, Trainable
from shadergrad.train.page_export import export_recipe

ELSEWHERE = {"mnist", "mnist-logic", "mnist-logic-conv", "logic-study"}  # data from the network; more than one training


def build(settings: Settings, device: str) -> Trainable:
    model = nn.Linear(1, 1).to(device)
    lengths = [3, 5, 5, 4]
    batches = [(np.full((2, n), k, np.float32),) for k, n in enumerate(lengths)]
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)
    return Trainable(model, optimizer, Stream(lambda _: batches), lambda x: model(x.reshape(-1, 1)).mean())


def test_a_page_takes_the_commonest_shape_of_a_streams_batches_and_says_so(tmp_path: Path) -> None:
    export_recipe(
        "mixed", Recipe("Of all lengths.", build, defaults={"batch_size": 2, "lr": 0.1, "steps": 4}), tmp_path
    )
    (batches,) = load_file(tmp_path / "data.safetensors").values()
    assert batches.shape == (4, 5)
    assert sorted({float(x) for x in batches.ravel()}) == [1, 2]
    assert "batches of shape (2, 5) alone: 2 of the first 4" in (tmp_path / "page.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*recipes.names()} - ELSEWHERE))
def test_every_recipe_is_a_page_that_trains_without_a_gpu_too(tmp_path: Path, name: str) -> None:
    export_recipe(name, recipes.find(name), tmp_path)
    assert (tmp_path / "step.cpu.js").is_file()
    if name == "digits":
        plans = json.loads((tmp_path / "step.json").read_text())["plans"]
        assert [plan["name"] for plan in plans] == ["desktop"], "the default"
