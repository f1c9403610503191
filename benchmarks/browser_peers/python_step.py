"""A training step of ../workloads.py in Pyodide, of this library or of borch's binding.

In: from python.mjs, the library's name, the workload's, weights and a batch. Out: losses, and milliseconds of steps.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from workloads import WORKLOADS, training_step

OURS = "shadergrad"
BURSTS, BURST = 25, 8  # calls
PAGE, BORCH, ANEW = "Python in the page", "borch, Python in the page", "borch, Python in the page, each step anew"


def array_of(told: dict[str, Any]) -> np.ndarray:
    return np.asarray(told["data"]).reshape([*told["shape"]])


def encoder_of(nn: Any) -> Any:
    """borch's TransformerEncoder with the normalization at its end, which the binding of 1.14.1 leaves out."""
    encoder = nn.TransformerEncoder

    class Encoder(nn.Module):
        def __init__(self, layer: Any, depth: int, norm: Any, enable_nested_tensor: bool = False) -> None:
            super().__init__()
            self.inner, self.norm = encoder(layer, depth), norm

        def forward(self, x: Any) -> Any:
            return self.norm(self.inner(x))

    return Encoder


class Step:
    """ways: names of the ways to run it; the last that was taken is measured, at first the plainest."""

    def __init__(self, given: dict[str, Any]) -> None:
        lib = importlib.import_module(given["library"])
        is_ours = given["library"] == OURS
        self.ways = [PAGE] if is_ours else [ANEW, BORCH]
        self.version = lib.__version__ if is_ours else importlib.import_module("js").borch.VERSION
        if not is_ours:
            lib.nn.TransformerEncoder = encoder_of(lib.nn)
        workload = replace(WORKLOADS[given["name"]](given["small"]), optimizer="Adam")
        model = workload.model(lib)
        own = {name.replace(".inner.", "."): parameter for name, parameter in model.named_parameters()}
        if own.keys() != given["weights"].keys():
            raise ValueError(f"other parameters: {sorted(own.keys() ^ given['weights'].keys())}")
        with lib.no_grad():
            for name, parameter in own.items():
                parameter.copy_(lib.tensor(array_of(given["weights"][name])))
        arrays = [array_of(told) for told in given["batch"]]
        if is_ours:
            model = model.to("webgpu")
            self.batch = [lib.tensor(a, device="webgpu") for a in arrays]
        else:
            self.batch = [lib.tensor(a) if a.dtype == np.float32 else lib.tensor(a).long() for a in arrays]
        step = training_step(lib, workload, model)

        def in_a_scope(x: Any, y: Any) -> Any:
            with lib.scope() as kept:
                return kept.keep(step(x, y))

        self.kinds: dict[str, Callable[..., Any]] = (
            {PAGE: lib.compile(step)} if is_ours else {ANEW: in_a_scope, BORCH: lib.compiled(step)}
        )
        self.call = self.kinds[self.ways[0]]

    def take(self, way: str) -> None:
        self.call = self.kinds[way]

    def loss(self) -> float:
        return float(self.call(*self.batch).item())

    def host(self) -> float:
        """Milliseconds of a call that submits a step, in bursts that do not fill the queue: the median."""
        found = []
        for _ in range(BURSTS):
            self.loss()
            begun = time.perf_counter()
            for _ in range(BURST):
                self.call(*self.batch)
            found.append(1000 * (time.perf_counter() - begun) / BURST)
        return statistics.median(found)

    def timed(self, steps: int) -> float:
        """Milliseconds of a step, of so many that follow one another and whose last loss is read."""
        begun = time.perf_counter()
        for _ in range(steps - 1):
            self.call(*self.batch)
        self.loss()
        return 1000 * (time.perf_counter() - begun) / steps
