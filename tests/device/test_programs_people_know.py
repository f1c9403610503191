"""The programs in examples/ are PyTorch's as they stand: each runs under PyTorch and under `shadergrad run`'s names, from the same
weights and draws, and the losses of the first twenty steps are the same.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from program_draws import pytorch_draws_as_we_do
from shadergrad.as_torch import installed

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = 20

# What makes each as small as a test may be; the programs name their sizes in capitals
SMALL: dict[str, dict[str, Any]] = {
    "vae": {"BATCH": 16, "HIDDEN": 32},
    "cnn": {"BATCH": 4, "CHANNELS": 2, "HIDDEN": 8},
    "dcgan": {"BATCH": 8, "NZ": 8, "NGF": 4, "NDF": 4},
    "wgan_gp": {"BATCH": 16, "HIDDEN": 8, "CRITIC_ITERS": 2},
    "resnet": {"BATCH": 8, "WIDTH": 2, "SIZE": 12, "LR": 1e-3},
    "char_gpt": {"BLOCK": 8, "LAYERS": 2, "HEADS": 2, "WIDTH": 16, "BATCH": 4},
    "lstm_lm": {"BATCH": 4, "BPTT": 4, "WIDTH": 8},
    "transformer_lm": {"BATCH": 4, "BPTT": 4, "WIDTH": 8, "HIDDEN": 8, "HEADS": 2, "LAYERS": 1, "DROPOUT": 0.0},
    "seq2seq": {"BATCH": 3, "WIDTH": 8, "LONGEST": 4},
    "vit": {"BATCH": 8, "PATCH": 4, "WIDTH": 8, "DEPTH": 1, "HEADS": 2},
    "diffusion": {"BATCH": 4, "CHANNELS": 4},
    "siren": {"SIDE": 6, "WIDTH": 8, "LAYERS": 1},
    "image_field": {"BATCH": 32, "WIDTH": 16},
    "maml": {"TASKS": 2, "SHOTS": 4, "WIDTH": 8},
    "siamese": {"BATCH": 8, "CHANNELS": 4, "WIDTH": 8},
    "simclr": {"BATCH": 16, "WIDTH": 8},
    "gcn": {"NODES": 20, "FEATURES": 6},
    "gat": {"NODES": 20, "FEATURES": 6, "HIDDEN": 4, "HEADS": 2},
    "style_transfer": {"SIDE": 14, "FILTERS": 4},
    "neural_ca": {"SIDE": 6, "CHANNELS": 6, "HIDDEN": 8, "GROWTH": 3, "BATCH": 2},
    "time_series": {"WAVES": 4, "LENGTH": 6, "HIDDEN": 4, "ITERATIONS": 2},
    "binary_network": {"BATCH": 16, "WIDTH": 16},
    "reinforce": {"WIDTH": 8, "LIMIT": 6},
    "actor_critic": {"WIDTH": 8, "LIMIT": 6},
    "dqn": {"WIDTH": 8, "BATCH": 8},
}


def load(name: str) -> ModuleType:
    path = EXAMPLES / f"{name}.py"
    module = ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    module.__dict__.update(SMALL[name])
    return module


def losses(name: str, device: str, compiled: bool) -> np.ndarray:
    program = load(name)
    sg.manual_seed(0)
    model = program.build(device)
    found = itertools.islice(program.training(model, device, compiled), STEPS)
    return np.array([loss.detach().cpu().numpy() for loss in found])


@cache
def expected(name: str) -> np.ndarray:
    with pytorch_draws_as_we_do():
        return losses(name, "cpu", compiled=False)


# Where a step is compiled here; the others are slow: their kernels take a software adapter long to compile
QUICK_ON_WEBGPU = ("lstm_lm", "maml")
UNCOMPILED = ("actor_critic", "reinforce", "seq2seq", "time_series")


def assert_trains_as_in_pytorch(name: str, device: str, compiled: bool) -> None:
    with installed():
        ours = losses(name, device, compiled)
    np.testing.assert_allclose(ours, expected(name), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_a_program_trains_as_in_pytorch(name: str) -> None:
    assert_trains_as_in_pytorch(name, "cpu", name not in UNCOMPILED)


@pytest.mark.parametrize("name", QUICK_ON_WEBGPU)
def test_a_program_trains_as_in_pytorch_on_webgpu(name: str, webgpu: str) -> None:
    assert_trains_as_in_pytorch(name, webgpu, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SMALL if name not in UNCOMPILED])
def test_a_program_trains_as_in_pytorch_uncompiled(name: str, device: str) -> None:
    assert_trains_as_in_pytorch(name, device, False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SMALL if name not in QUICK_ON_WEBGPU])
def test_a_program_trains_as_in_pytorch_on_webgpu_compiled(name: str, webgpu: str) -> None:
    assert_trains_as_in_pytorch(name, webgpu, name not in UNCOMPILED)


def test_each_program_is_compared_and_listed() -> None:
    """And is a page."""
    programs = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    ours = {name: text for name, text in programs.items() if "import torch" in text}
    assert ours.keys() == SMALL.keys()
    gallery = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name, text in ours.items():
        assert f"[{name}.py]({name}.py)" in gallery
        assert len(text.splitlines()) <= 130, name
        assert f"shadergrad run examples/{name}.py" in text
