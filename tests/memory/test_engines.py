"""Engines of the backward pass keep nothing of the steps before."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.drive.execute import programs
from shadergrad.runtime.device import get_device
from shadergrad.train import TrainingStep


def kept() -> tuple[int, int, int]:
    """Device buffers, torch.Tensors and programs compiled."""
    gc.collect()
    tensors = sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())
    return get_device("webgpu").statistics().live_buffers, tensors, programs.compiled  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ["torch", "numpy"])
def test_a_step_leaves_no_buffer_no_tensor_and_no_program_behind(webgpu: str, engine: str) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.BatchNorm1d(8), nn.Linear(8, 3)).to(webgpu)
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-3)
    step = TrainingStep(model, optimizer, lambda x, y: F.cross_entropy(model(x), y), backward=engine)
    rng = np.random.default_rng(0)

    def train(steps: int) -> None:
        for _ in range(steps):
            step(rng.standard_normal((6, 4)).astype(np.float32), rng.integers(0, 3, 6))

    train(5)
    before = kept()
    train(20)
    assert kept() == before
