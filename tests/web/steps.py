"""Steps that the tests of pages export: small, on the cpu device, so that Python's side needs no adapter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data import load_digits
from shadergrad.logic.experiments import EXPERIMENTS, Training

BATCH = 32


def digits(seed: int = 0) -> tuple[Any, Any, Any]:
    """(step, predict, model) of a small classifier of the digits; the step has dropout, so that random state counts."""
    sg.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = sg.optim.AdamW(model.parameters(), lr=6e-3)

    @sg.compile
    def step(images: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(F.dropout(images, 0.1)), labels)
        loss.backward()
        optimizer.step()
        return loss

    @sg.compile
    def predict(images: sg.Tensor) -> sg.Tensor:
        model.eval()
        with sg.no_grad():
            return model(images)

    return step, predict, model


def digit_batches(steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same batches in every run."""
    images, labels, *_ = load_digits()
    rng = np.random.default_rng(0)
    rows = [rng.choice(len(images), BATCH, replace=False) for _ in range(steps)]
    return [(images[r], labels[r]) for r in rows]


def sequences(kind: str, seed: int = 0) -> tuple[Any, list[tuple[np.ndarray, np.ndarray]]]:
    """(step, batches) of a small LSTM, or of a transformer's layer with attention, that say whether a sequence's mean is
    positive."""
    sg.manual_seed(seed)
    rng = np.random.default_rng(seed)
    layer = (
        nn.LSTM(6, 8, batch_first=True)
        if kind == "lstm"
        else nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    )
    into, out = nn.Linear(4, 6 if kind == "lstm" else 8), nn.Linear(8, 2)
    optimizer = sg.optim.Adam([*layer.parameters(), *into.parameters(), *out.parameters()], lr=1e-2)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> dict[str, sg.Tensor]:
        optimizer.zero_grad()
        found = layer(into(x))
        last = found[0][:, -1] if kind == "lstm" else found.mean(1)
        logits = out(last)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        return {"loss": loss, "accuracy": (logits.argmax(1) == y).to(sg.float32).mean()}

    data = [rng.standard_normal((16, 10, 4)).astype(np.float32) for _ in range(20)]
    return step, [(x, (x.mean((1, 2)) > 0).astype(np.int32)) for x in data]


def in_halves(dtype: Any, seed: int = 0) -> tuple[Any, list[tuple[np.ndarray, np.ndarray]]]:
    """(step, batches) of a classifier of the digits under autocast, with a GradScaler of float16."""
    sg.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = sg.optim.AdamW(model.parameters(), lr=6e-3)
    scaler = sg.amp.GradScaler("cpu", init_scale=1024.0, enabled=dtype is sg.float16)

    @sg.compile
    def step(images: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        with sg.autocast("cpu", dtype=dtype):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step, digit_batches(20)


SMALL = {
    "checkerboard": {
        "batch": 2,
        "ca_steps": 8,
        "grid": (8, 8),
        "channels": 4,
        "kernels": 4,
        "update": (64, 32, 16, 8, 4),
    },
    "lizard": {"ca_steps": 4, "channels": 8, "kernels": 2, "update": (32, 16, 8)},
    "letter-g": {"ca_steps": 4, "channels": 8, "kernels": 2, "update": (32, 16, 8)},
}


def automaton(steps: int = 0, name: str = "checkerboard") -> Training:
    """An experiment at a size that the CPU trains in seconds: with 500 steps the checkerboard's hard loss is 0."""
    training = Training(replace(EXPERIMENTS[name], **SMALL[name]), device="cpu")
    update = sg.compile(training.update)
    for _ in range(steps):
        update(*training.batch())
    return training
