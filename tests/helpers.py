"""Assertions and small machinery that the tests share. Functions that assert are called assert_*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import shadergrad as sg
from cases import Case
from shadergrad.compile import tuning
from shadergrad.drive.execute import programs
from shadergrad.graph.node import Node, topological
from shadergrad.runtime.device import get_device
from shadergrad.target import ROWS, Target
from shadergrad.train.console_progress import StopWish

RTOL, ATOL = 1e-4, 1e-5  # between devices, in float32; ATOL scaled by the length of sums


# -- running a case


def listed(value: Any) -> list[Any]:
    """A result, or the results of a function that gives several."""
    return list(value) if isinstance(value, tuple | list) else [value]


def leaves_of(case: Case, arrays: Sequence[np.ndarray], device: str, dtype: Any) -> list[sg.Tensor]:
    """Our leaves; floats require gradients if the case is differentiable."""
    result = []
    for spec, array in zip(case.inputs, arrays, strict=True):
        is_float = spec.kind == "float"
        leaf = sg.tensor(array, dtype=dtype if is_float else None, device=device)
        result.append(leaf.requires_grad_() if is_float and case.differentiable else leaf)
    return result


def torch_leaves_of(case: Case, arrays: Sequence[np.ndarray], dtype: Any = torch.float64) -> list[torch.Tensor]:
    result = []
    for spec, array in zip(case.inputs, arrays, strict=True):
        leaf = torch.from_numpy(array)
        if spec.kind == "index":
            leaf = leaf.long()
        if spec.kind == "float":
            leaf = leaf.to(dtype).clone().requires_grad_(case.differentiable)
        result.append(leaf)
    return result


def evaluate(case: Case, function: Callable[..., Any], leaves: Sequence[Any]) -> list[Any]:
    """The results of a case's function, on operands made from leaves by the inputs' layouts."""
    operands = [x if i.layout is None else i.layout(x) for i, x in zip(case.inputs, leaves, strict=True)]
    return listed(function(*operands))


def cotangents_of(outputs: Sequence[Any], seed: int = 7) -> list[np.ndarray]:
    """Random cotangents for those of the results that are floating."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(tuple(o.shape)).astype(np.float32).astype(np.float64) for o in outputs]


def is_floating(x: Any) -> bool:
    return x.is_floating_point()


def gradients(lib: Any, outputs: list[Any], inputs: list[Any], cotangents: list[Any], **options: Any) -> list[Any]:
    """What lib.autograd.grad gives, with zeros for unused inputs."""
    found = lib.autograd.grad(outputs, inputs, cotangents, allow_unused=True, **options)
    return [lib.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def results_of(case: Case, lib: Any, leaves: Sequence[Any], second: bool = False) -> dict[str, list[Any]]:
    """ "values", "gradients" of floating leaves for random cotangents u, and with `second` "second derivatives":
    d/d(leaves, u) of <gradients, w>, for random w. Of what the case has; as tensors of lib (sg or torch)."""
    outputs = evaluate(case, case.torch if lib is torch else case.ours, leaves)
    if not case.differentiable:
        return {"values": outputs}
    smooth, inputs = [o for o in outputs if is_floating(o)], [x for x in leaves if is_floating(x)]
    us = [lib.tensor(u, dtype=o.dtype, device=o.device) for u, o in zip(cotangents_of(smooth), smooth, strict=True)]
    second = second and case.second
    if second:
        us = [u.requires_grad_() for u in us]
    first = gradients(lib, smooth, inputs, us, create_graph=second)
    found = {"values": outputs, "gradients": first}
    if second:
        found["second derivatives"] = _second_derivatives(lib, first, [*inputs, *us])
    return found


def _second_derivatives(lib: Any, first: list[Any], variables: list[Any]) -> list[Any]:
    ws = [lib.tensor(w, dtype=g.dtype, device=g.device) for w, g in zip(cotangents_of(first, 11), first, strict=True)]
    total: Any = sum((g * w).sum() for g, w in zip(first, ws, strict=True))
    if not total.requires_grad:  # the gradient is constant, as that of floor
        return [lib.zeros_like(x) for x in variables]
    return gradients(lib, [total], variables, [lib.ones_like(total)])


def graph_of(outputs: Sequence[sg.Tensor]) -> list[Node]:
    """All nodes that tensors are made of, inputs first."""
    return topological([o._node for o in outputs], lambda n: n.inputs)


# -- assertions


def as_array(x: Any) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        return x.numpy(force=True)
    return x.detach().numpy() if isinstance(x, sg.Tensor) else np.asarray(x)


def grad_of(x: Any) -> Any:
    """The gradient of a tensor of ours or PyTorch's, which must have one."""
    found = x.grad
    assert found is not None
    return found


def assert_close(actual: Any, expected: Any, rtol: float, atol: float, what: str = "") -> None:
    """Equal shapes, and |actual - expected| <= atol + rtol * |expected|; NaN equals NaN."""
    a, b = as_array(actual), as_array(expected)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)


def assert_same_bits(actual: Any, expected: Any, what: str = "") -> None:
    """Equal shapes, dtypes and bits."""
    a, b = as_array(actual), as_array(expected)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, expected {b.dtype}"
    assert a.tobytes() == b.tobytes(), f"{what}: {a} is not bit for bit {b}"


def assert_equals_torch(actual: Any, expected: torch.Tensor, tolerance: float = 1e-9, what: str = "") -> None:
    """Values within tolerance (relative above 1) and PyTorch's dtype, where int32 stands for int64."""
    kind = str(expected.dtype).removeprefix("torch.")
    allowed = {kind, "int32"} if kind == "int64" else {kind}
    assert actual.dtype.name in allowed, f"{what}: dtype {actual.dtype.name}, PyTorch gives {kind}"
    if kind == "float32":
        tolerance = max(tolerance, 2e-6)
    assert_close(actual, expected, tolerance, tolerance, what)


def assert_devices_agree(actual: Any, reference: Any, length: int = 1, what: str = "") -> None:
    """A result of webgpu against that of cpu: exact for integers and bools."""
    a, b = as_array(actual), as_array(reference)
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype} on webgpu, {b.dtype} on cpu"
    if a.dtype.kind != "f":
        assert_close(a, b, 0, 0, what)
    else:
        assert_close(a, b, RTOL, ATOL * length, what)


class Counted:
    """What happened on a device since: `compiled` plans, `dispatches`, `submits`."""

    def __init__(self, device: str) -> None:
        self._device = get_device(device)
        self._before = self._now()

    def _now(self) -> tuple[int, int, int, int]:
        if not hasattr(self._device, "statistics"):
            return programs.compiled, 0, 0, 0
        s = self._device.statistics()  # type: ignore[attr-defined]
        return programs.compiled, s.dispatches, s.submits, s.pipelines

    @property
    def compiled(self) -> int:
        return self._now()[0] - self._before[0]

    @property
    def dispatches(self) -> int:
        return self._now()[1] - self._before[1]

    @property
    def submits(self) -> int:
        return self._now()[2] - self._before[2]


def assert_compiles_nothing(run: Callable[[], Any], what: str = "the second run") -> Any:
    """Runs, and fails if a plan was compiled on the way."""
    before = programs.compiled
    result = run()
    assert programs.compiled == before, f"{what} compiled {programs.compiled - before} plan(s)"
    return result


class StopAfter(StopWish):
    """A user who presses Ctrl-C when the loop has looked that often."""

    def __init__(self, asked: int) -> None:
        super().__init__()
        self.left = asked

    def __bool__(self) -> bool:
        self.left -= 1
        return self.left < 0


# -- what a device is


def large_gpu(**traits: Any) -> Target:
    """As an H200 is."""
    table = tuning.load(tuning.SHIPPED / "discrete.json")
    target = Target("wgsl", 64, 1024, 49152, 65535, 1 << 31, traits=ROWS["discrete"], measured=tuning.register(table))
    return target.having(**traits)
