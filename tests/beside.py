"""The same call in PyTorch and here: values, gradients and second derivatives, for tables of namespaces.

A `Call` is a name, a function of (library, tensors) and arrays. Floating arrays are leaves; results are whatever the function
gives, in order, and gradients are taken for random cotangents of those that require one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import shadergrad as sg
from helpers import assert_devices_agree, assert_equals_torch, listed


@dataclass(frozen=True)
class Call:
    """second: whether second derivatives are compared too. on_webgpu: whether it runs there."""

    name: str
    function: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    second: bool = True
    on_webgpu: bool = True
    gradient: bool = True

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def floats(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Uniform numbers; float64 that float32 holds, so that both devices see the same."""
    drawn = np.random.default_rng(seed).uniform(low, high, shape)
    return drawn.astype(np.float32).astype(np.float64)


def results(call: Call, lib: Any, device: str = "cpu", single: bool = False, second: bool = True) -> list[list[Any]]:
    """Values, gradients, second derivatives."""
    leaves = []
    for array in call.arrays:
        given = array.astype(np.float32) if single and array.dtype == np.float64 else array
        leaf = lib.from_numpy(given).to(device) if lib is torch else lib.tensor(given, device=device)
        leaves.append(leaf.requires_grad_() if call.gradient and given.dtype.kind == "f" else leaf)
    values = [v for v in listed(call.function(lib, *leaves)) if isinstance(v, lib.Tensor)]
    smooth = [v for v in values if v.requires_grad]
    wanted = [x for x in leaves if x.requires_grad]
    if not smooth:
        return [values, [], []]
    rng = np.random.default_rng(5)

    def cotangent(x: Any) -> Any:
        drawn = rng.standard_normal(tuple(x.shape))
        if "complex" in str(x.dtype):
            drawn = drawn + 1j * rng.standard_normal(tuple(x.shape))
        array = np.asarray(
            drawn.astype(np.complex64 if single else np.complex128) if drawn.dtype.kind == "c" else drawn
        )
        return lib.tensor(array, dtype=x.dtype, device=x.device)

    deep = second and call.second
    first = gradients(lib, smooth, wanted, [cotangent(v) for v in smooth], create_graph=deep)
    deeper: list[Any] = []
    if deep and any(g.requires_grad for g in first):
        rough = [g for g in first if g.requires_grad]
        deeper = gradients(lib, rough, wanted, [cotangent(g) for g in rough])
    return [values, first, deeper]


def gradients(lib: Any, outputs: list[Any], inputs: list[Any], cotangents: list[Any], **options: Any) -> list[Any]:
    """With zeros for inputs that have none."""
    found = lib.autograd.grad(outputs, inputs, cotangents, allow_unused=True, **options)
    return [lib.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


KINDS = ("value", "gradient", "second derivative")


def assert_as_torch(call: Call, tolerance: float = 1e-9) -> None:
    """On the cpu, in the dtypes of the arrays."""
    ours, theirs = results(call, sg), results(call, torch)
    for kind, mine, other in zip(KINDS, ours, theirs, strict=True):
        if kind == "second derivative" and not (mine and other):
            assert all(not np.any(t.detach().numpy()) for t in [*mine, *other]), f"{call.name}: {kind} of one alone"
            continue
        assert len(mine) == len(other), f"{call.name}: {len(mine)} of {kind}, PyTorch has {len(other)}"
        for a, b in zip(mine, other, strict=True):
            assert_equals_torch(a, b.resolve_conj().detach(), tolerance, f"{call.name}: {kind}")


def assert_as_the_cpu(call: Call, device: str, length: int = 16) -> None:
    """On another device, in float32."""
    there, here = results(call, sg, device, True, False), results(call, sg, "cpu", True, False)
    for kind, mine, other in zip(KINDS[:2], there, here, strict=False):
        for a, b in zip(mine, other, strict=True):
            assert a.device == device or a.numel() == 0, f"{call.name}: {kind} is on {a.device}"
            assert_devices_agree(a, b, length, f"{call.name}: {kind}")
