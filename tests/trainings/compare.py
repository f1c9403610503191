"""What of a training differs from PyTorch. In: a number and a mode (`compiled-cpu`). Out: words, or nothing."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import shadergrad as sg

from .course import Course, Step
from .draw import Training, draw

FAR = {"cpu": 1e-6, "webgpu": 2e-3}  # in float64, in float32


@contextmanager
def _precise(dtype: Any) -> Iterator[None]:
    """PyTorch's optimizers keep some rates in the default dtype."""
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def difference(seed: int, mode: str) -> str | None:
    """Where a training parts from PyTorch's, and the training; None where it does not."""
    way, device = mode.split("-")
    rough = device != "cpu"
    training = draw(seed, rough)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compare(training, way == "compiled", device, FAR[device])


def compare(training: Training, compiled: bool, device: str, far: float) -> str | None:
    rough = device != "cpu"
    dtypes = (torch.float32, sg.float32) if rough else (torch.float64, sg.float64)
    with _precise(dtypes[0]):
        its = _all(training, torch, "cpu", dtypes[0], lambda f: f)
    mine = _all(training, sg, device, dtypes[1], sg.compile if compiled else lambda f: f)
    found = _first(its, mine, far)
    return None if found is None else f"training {training.seed}: {found}\n{training}"


def _all(training: Training, lib: Any, device: str, dtype: Any, compile: Any) -> list[Step]:
    found: list[Step] = []
    try:
        for step in Course(training, lib, device, dtype, compile).steps():
            found.append(step)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__}: {str(error)[:300]} ({where.filename}:{where.lineno})"
        found.append(("raises", np.array(words)))
    return found


def _first(its: list[Step], mine: list[Step], far: float) -> str | None:
    if its and its[-1][0] == "raises" and mine[-1][0] == "raises":
        its, mine = its[:-1], mine[:-1]  # both refuse it
    for n, ((name, b), (mine_name, a)) in enumerate(zip(its, mine, strict=False)):
        if "raises" in (name, mine_name) or name != mine_name:
            return f"at {n}: PyTorch has {name} {b if name == 'raises' else ''}, here {mine_name} {a if mine_name == 'raises' else ''}"
        if a.shape != b.shape:
            return f"{name} at {n}: shape {a.shape}, PyTorch's {b.shape}"
        if not np.allclose(a, b, far, far, equal_nan=True):
            return f"{name} at {n}: {a.ravel()[:4]}, PyTorch's {b.ravel()[:4]}"
    if len(its) != len(mine):
        return f"{len(mine)} values, PyTorch's {len(its)}"
    return None
