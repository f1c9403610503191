"""Row kernels that share a dispatch: each keeps its own values, and what they have in common is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

import shadergrad as sg
from helpers import assert_close


def rows(x: Any, y: Any, scale: Any) -> list[Any]:
    """Of kinds that meet in one dispatch: rows, columns, whole arrays, several levels; with numbers that all read."""
    return [
        (x * scale).sum(1),
        (y * scale.exp()).sum(1) * scale,
        x.softmax(1),
        (y - y.mean(1, keepdim=True)).square().mean(1).sqrt(),
        (x[:5] * scale).sum(),
        y.amax(1) + scale.exp(),
        x.sum(0),
        (y * 2.0).sum(0) * scale,
    ]


def test_rows_that_share_a_dispatch_keep_their_values(webgpu: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((40, 130), (70, 200), ())]
    step = sg.compile(rows)
    found = step(*(sg.tensor(a, device=webgpu) for a in arrays))
    assert any("parts" in k.shape or "+" in k.shape for k in step.plan.kernels), "some share"
    for k, (a, b) in enumerate(zip(found, rows(*map(sg.tensor, arrays)), strict=True)):
        assert_close(a.numpy(), b.numpy(), 1e-5, 1e-5, str(k))


def test_a_training_step_with_shared_rows_equals_one_on_the_cpu(webgpu: str) -> None:
    """Large enough that values of rows are computed again, sums cut in parts, and rows of 32 threads."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2100, 36)).astype(np.float32), rng.integers(0, 33, 2100)
    losses = []
    for device in (webgpu, "cpu"):
        sg.manual_seed(0)
        model = sg.nn.Sequential(sg.nn.Linear(36, 40), sg.nn.LayerNorm(40), sg.nn.GELU(), sg.nn.Linear(40, 33)).to(
            device
        )
        optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)

        @sg.compile
        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = sg.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        given = sg.tensor(x, device=device), sg.tensor(y, device=device)
        losses.append([step(*given).item() for _ in range(4)])
    assert losses[0][3] < losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
