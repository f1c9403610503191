"""Kernels that are written for the device, by family. Each module registers its kernels in the table when it is imported."""

from __future__ import annotations

import importlib

FAMILIES = (
    "memory",
    "arithmetic",
    "reductions",
    "normalization",
    "convolutions",
    "pooling",
    "resampling",
    "losses",
    "indexing",
    "random",
    "recurrent",
    "optimizers",
    "lists",
    "attention",
    "fourier",
    "linear",
    "linear_algebra",
    "sets",
    "distances",
    "bags",
)


def load() -> None:
    """Import every family."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
