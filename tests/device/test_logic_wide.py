"""Layers of gates by kernels of their own: values and gradients, of all sizes, as by tensor operations; and what a step costs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_close, grad_of
from shadergrad import extend, nn, optim
from shadergrad.logic import GroupSum, LogicLayer, LogicNetwork
from shadergrad.logic.fused import wide, wide_kernels
from shadergrad.runtime.device import get_device

SIZES = [(1, 2, 1), (3, 7, 34), (129, 2, 3)]  # rows, inputs, gates


def given(rows: int, n_in: int, n_out: int, width: int) -> tuple[np.ndarray, ...]:
    """g, x, parameters and wires. Nobody reads the last input, and gate 0 reads input 0 twice."""
    rng = np.random.default_rng(rows)
    a, b = rng.integers(0, max(1, n_in - 1), (2, n_out))
    a[0] = b[0] = 0
    order, starts = wide.reader_lists(n_in, a, b)
    values = (rng.random((rows, n_out)), rng.random((rows, n_in)), rng.standard_normal((n_out, width)))
    return (*(v.astype(np.float32) for v in values), np.stack([a, b]).astype(np.int32), order, starts)


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_kernels_are_their_twins_and_differentiate(sizes: tuple[int, int, int], softmax: bool, webgpu: str) -> None:
    g, *rest = given(*sizes, 16 if softmax else 4)
    near = partial(extend.check, rtol=1e-4, atol=1e-5)  # sums over 129 rows
    near(wide.WideLayer(*sizes, softmax), *rest)
    if not softmax:
        near(wide.WideInputGradient(*sizes, softmax), g, *rest)
        near(wide.WideParameterGradient(*sizes, softmax), g, *rest)


def test_sums_over_many_rows_of_few_gates_are_divided() -> None:
    assert wide_kernels.parts_of(100, 8000) == 1
    assert wide_kernels.parts_of(300, 5) == 4
    assert wide_kernels.parts_of(1 << 20, 64) == 128


@pytest.mark.parametrize(
    ("parametrisation", "mode"), [("softmax", "soft"), ("softmax", "straight-through"), ("light", "soft")]
)
def test_second_derivatives_are_those_of_tensor_operations(parametrisation: str, mode: str, webgpu: str) -> None:
    found = []
    for device in ("cpu", webgpu):
        sg.manual_seed(3)
        rng = np.random.default_rng(0)
        layer = LogicLayer(6, 9, "random", "gaussian", mode, seed=2, parametrisation=parametrisation)
        layer.to(device)
        x = sg.tensor(rng.random((5, 6)).astype(np.float32), device=device, requires_grad=True)
        of_x, of_logits = sg.autograd.grad([layer(x).square().sum()], [x, layer.logits], create_graph=True)
        assert of_x is not None
        assert of_logits is not None
        (of_x.square().sum() + of_logits.square().sum()).backward()
        found.append(
            (of_x.detach().numpy(), of_logits.detach().numpy(), grad_of(x).numpy(), grad_of(layer.logits).numpy())
        )
    for cpu, gpu in zip(*found, strict=True):
        assert_close(gpu, cpu, 1e-3, 1e-5)


def test_a_step_has_few_dispatches_and_keeps_no_gathered_inputs(webgpu: str) -> None:
    """Six layers, Adam: a kernel a layer forward, two backward, one of Adam; no batch sum and no gather runs apart."""
    model = nn.Sequential(LogicNetwork((64, *[2000] * 6), "random", "residual", device=webgpu), GroupSum(10, 10.0))
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x = sg.tensor(np.random.default_rng(0).random((20, 64)).astype(np.float32), device=webgpu)
    step(x, sg.tensor(np.arange(20, dtype=np.int32) % 10, device=webgpu))
    kernels = [step.plan.kernels[d.kernel] for d in step.plan.dispatches]
    few_bindings = get_device(webgpu).target.max_storage_buffers < 16  # each layer's update is a dispatch
    assert len(kernels) <= (30 if not few_bindings else 42)
    assert not any("gather" in k.name for k in kernels)
