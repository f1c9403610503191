"""An index out of range raises on every device, and a call that was refused leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg

Write = Callable[[Any, Any, Any], Any]  # of torch or shadergrad, a tensor of six zeros, and the positions [9]
WRITES: dict[str, Write] = {
    "setitem": lambda lib, x, at: x.__setitem__(at, 1.0),
    "setitem from the end": lambda lib, x, at: x.__setitem__(at - 20, 1.0),
    "setitem of two": lambda lib, x, at: x.reshape(2, 3).__setitem__((at - 8, at), 1.0),
    "index_put_": lambda lib, x, at: x.index_put_((at,), lib.ones(1, device=x.device)),
    "index_put_ that adds": lambda lib, x, at: x.index_put_((at,), lib.ones(1, device=x.device), accumulate=True),
    "index_fill_": lambda lib, x, at: x.index_fill_(0, at, 9.0),
    "index_add_": lambda lib, x, at: x.index_add_(0, at, lib.ones(1, device=x.device)),
    "index_copy_": lambda lib, x, at: x.index_copy_(0, at, lib.ones(1, device=x.device)),
    "index_reduce_": lambda lib, x, at: x.index_reduce_(0, at, lib.ones(1, device=x.device), "prod"),
    "scatter_": lambda lib, x, at: x.scatter_(0, at, 1.0),
    "scatter_ that multiplies": lambda lib, x, at: x.scatter_(0, at, lib.ones(1, device=x.device), reduce="multiply"),
    "scatter_add_": lambda lib, x, at: x.scatter_add_(0, at, lib.ones(1, device=x.device)),
    "scatter_reduce_": lambda lib, x, at: x.scatter_reduce_(0, at, lib.ones(1, device=x.device), "amax"),
    "scatter_reduce_ of a sum": lambda lib, x, at: x.scatter_reduce_(0, at, lib.ones(1, device=x.device), "sum"),
    "put_": lambda lib, x, at: x.put_(at, lib.ones(1, device=x.device)),
    "an index": lambda lib, x, at: x.add_(lib.ones(3, device=x.device)[at]),
    "an index of a matrix": lambda lib, x, at: x.add_(lib.ones(3, 3, device=x.device)[at - 8, at].sum()),
    "gather": lambda lib, x, at: x.add_(x.gather(0, at)),
    "take": lambda lib, x, at: x.add_(x.take(at)),
    "take from the end": lambda lib, x, at: x.add_(x.take(at - 20)),
    "index_select": lambda lib, x, at: x.add_(x.index_select(0, at)),
    "take_along_dim": lambda lib, x, at: x.add_(x.take_along_dim(at, 0)),
    "embedding": lambda lib, x, at: x.add_(lib.nn.functional.embedding(at, lib.ones(3, 1, device=x.device)).sum()),
    "one_hot": lambda lib, x, at: x.add_(lib.nn.functional.one_hot(at, 3).sum()),
    "cross_entropy": lambda lib, x, at: x.add_(lib.nn.functional.cross_entropy(lib.ones(1, 3, device=x.device), at)),
    "nll_loss": lambda lib, x, at: x.add_(lib.nn.functional.nll_loss(lib.ones(1, 3, device=x.device), at)),
    "another shape": lambda lib, x, at: x.copy_(lib.ones(4, device=x.device)),
    "too many axes": lambda lib, x, at: x.add_(lib.ones(2, 3, device=x.device)),
    "a part of another shape": lambda lib, x, at: x.__setitem__(slice(0, 3), lib.ones(2, device=x.device)),
}

LOSSES = ("cross_entropy", "nll_loss")


def is_refused(calls: list[Callable[[], Any]]) -> bool:
    """Whether one of several calls raises, as for an index or a shape that does not fit."""
    refused = False
    for call in calls:
        try:
            call()
        except (IndexError, RuntimeError, ValueError):
            refused = True
    return refused


@pytest.mark.parametrize("name", [n for n in WRITES if n != "take_along_dim"])  # which counts in circles there
def test_pytorch_refuses_it(name: str) -> None:
    assert is_refused([lambda: WRITES[name](torch, torch.zeros(6), torch.tensor([9]))])


@pytest.mark.parametrize("how", ["known", "pending", "through a view"])
@pytest.mark.parametrize("name", [n for n in WRITES if n not in LOSSES])
def test_a_refused_write_leaves_the_tensor_as_it_was(name: str, how: str, device: str) -> None:
    whole = sg.zeros(2, 6, device=device) if how == "through a view" else sg.zeros(6, device=device)
    x = whole[1] if how == "through a view" else whole
    at = sg.tensor([9], device=device)
    if how == "pending":
        at = sg.tensor([3], device=device) * 3
    assert is_refused([lambda: WRITES[name](sg, x, at), whole.tolist])  # on webgpu what is pending raises at the read
    np.testing.assert_array_equal(whole.numpy(), np.zeros(whole.shape))
    x.add_(1.0)
    np.testing.assert_array_equal(x.numpy(), np.ones(6))


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_refused_at_the_read_and_names_its_label_each_time(name: str) -> None:
    """On the cpu device a loss looks at its labels when it is computed: what it was added to has no value since then, and says why."""
    x = sg.zeros(6)
    WRITES[name](sg, x, sg.tensor([9]))
    for _ in range(2):
        with pytest.raises(sg.IndexRangeError, match="target 9 is out of bounds"):
            x.tolist()
    x.copy_(sg.ones(6))
    assert x.tolist() == [1.0] * 6


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_is_refused_adds_nothing_on_webgpu(name: str, webgpu: str) -> None:
    x = sg.zeros(6, device=webgpu)
    assert is_refused([lambda: WRITES[name](sg, x, sg.tensor([9], device=webgpu)), x.tolist])
    np.testing.assert_array_equal(x.numpy(), np.zeros(6))


@pytest.mark.parametrize("name", [n for n in WRITES if "shape" not in n and "axes" not in n])
def test_a_compiled_step_refuses_it_too(name: str, device: str) -> None:
    x, state = sg.zeros(6, device=device), sg.zeros(6, device=device)

    @sg.compile
    def step(at: sg.Tensor) -> sg.Tensor:
        WRITES[name](sg, x, at)
        return x + state.add_(1.0)

    assert is_refused([lambda: step(sg.tensor([9], device=device)), x.tolist])
    np.testing.assert_array_equal(x.numpy(), np.zeros(6))
    if (
        device == "cpu"
    ):  # the call raised and changed nothing; on webgpu the read raised, after the step had done the rest
        np.testing.assert_array_equal(state.numpy(), np.zeros(6))


def test_a_mask_for_more_than_there_is_raises(device: str) -> None:
    x = sg.zeros(6, device=device)
    assert is_refused([lambda: x.masked_scatter_(x < 1, sg.ones(2, device=device)), x.tolist])
    assert x.tolist()[2:] == [0.0] * 4
    x = sg.zeros(6, device=device)
    x.masked_scatter_(x > 1, sg.ones(0, device=device))
    x.masked_scatter_(x < 1, sg.ones(6, device=device))
    assert x.tolist() == [1.0] * 6


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_training_step_that_is_refused_changes_nothing_on_the_cpu(is_compiled: bool) -> None:
    sg.manual_seed(0)
    model = sg.nn.Sequential(sg.nn.Embedding(5, 4), sg.nn.Flatten(), sg.nn.BatchNorm1d(8), sg.nn.Linear(8, 3))
    optimizer = sg.optim.Adam(model.parameters(), lr=0.1)
    losses: list[sg.Tensor] = []

    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = sg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        return loss.detach()

    run = sg.compile(step) if is_compiled else step
    x, y = sg.tensor([[0, 1], [2, 3]]), sg.tensor([0, 2])
    run(x, y)
    before = {k: v.numpy() for k, v in model.state_dict().items()}
    for bad in ((x + 4, y), (x, y + 1)):
        with pytest.raises(sg.IndexRangeError):
            run(*bad)
    after = model.state_dict()
    batches = 0 if is_compiled else 1  # uncompiled, the forward pass of the second one was done
    assert after.pop("2.num_batches_tracked").item() - before.pop("2.num_batches_tracked") == batches
    for name, value in before.items():
        if is_compiled or "running" not in name:
            np.testing.assert_array_equal(after[name].numpy(), value, err_msg=name)
    assert len(losses) == 1
    assert np.isfinite(run(x, y).item())
