"""Arguments at the edge of what operators take, as PyTorch takes them: no axis, no element, masks of bytes, one vector of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:.*(uint8|torch.uint8)")
INF = float("inf")


def bytes_of(lib: Any, values: list[int], device: Any) -> Any:
    return lib.tensor(values, dtype=lib.uint8, device=device)


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "linear by a vector": lambda lib, d: lib.nn.functional.linear(lib.ones(2, 3, device=d), lib.arange(3.0, device=d)),
    "linear of a vector by one": lambda lib, d: lib.nn.functional.linear(
        lib.ones(3, device=d), lib.arange(3.0, device=d)
    ),
    "movedim of no axis": lambda lib, d: lib.tensor(3.0, device=d).movedim(0, -1),
    "moveaxis of no axis": lambda lib, d: lib.moveaxis(lib.tensor(3.0, device=d), 0, 0),
    "movedim of none": lambda lib, d: lib.tensor(3.0, device=d).movedim([], []),
    "logsumexp of an empty axis": lambda lib, d: lib.ones(2, 0, device=d).logsumexp(1),
    "logsumexp of an empty axis, kept": lambda lib, d: lib.logsumexp(lib.ones(2, 0, device=d), 1, True),
    "logsumexp beside an empty axis": lambda lib, d: lib.ones(2, 0, device=d).logsumexp(0),
    "logsumexp of all": lambda lib, d: lib.ones(0, 3, device=d).logsumexp((0, 1)),
    "where of bytes": lambda lib, d: lib.where(
        bytes_of(lib, [1, 0, 2], d), lib.ones(3, device=d), -lib.ones(3, device=d)
    ),
    "bytes as a mask": lambda lib, d: lib.arange(3.0, device=d)[bytes_of(lib, [1, 0, 2], d)],
    "bytes as a mask among others": lambda lib, d: lib.arange(6.0, device=d).reshape(2, 3)[
        :, bytes_of(lib, [1, 0, 2], d)
    ],
    "is_nonzero": lambda lib, d: lib.tensor([lib.tensor([0.5], device=d).is_nonzero()]),
}


@pytest.mark.parametrize("name", CASES)
def test_edges_are_pytorchs(name: str, device: str) -> None:
    assert_close(CASES[name](sg, device), CASES[name](torch, "cpu").numpy(), 0, 0)


def test_the_gradient_of_logsumexp_of_nothing_is_empty(device: str) -> None:
    x = sg.ones(2, 0, device=device, requires_grad=True)
    x.logsumexp(1).exp().sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (2, 0)


def test_a_linear_map_by_a_vector_has_gradients(device: str) -> None:
    def grads(lib: Any, d: Any) -> list[Any]:
        x, w = (lib.arange(float(n), device=d).reshape(shape).requires_grad_() for n, shape in ((6, (2, 3)), (3, (3,))))
        (lib.nn.functional.linear(x, w) ** 2).sum().backward()
        return [x.grad.tolist(), w.grad.tolist()]

    assert grads(sg, device) == grads(torch, "cpu")


@pytest.mark.parametrize("with_image", [True, False])
def test_the_grid_of_nearest_pixels_has_a_gradient_of_zero(with_image: bool, device: str) -> None:
    def grads(lib: Any, d: Any) -> list[Any]:
        image = lib.arange(16.0, device=d).reshape(1, 1, 4, 4).requires_grad_(with_image)
        grid = lib.full((1, 2, 2, 2), 0.3, device=d).requires_grad_()
        out = lib.nn.functional.grid_sample(image, grid, mode="nearest", align_corners=False)
        (out * 2).sum().backward()
        return [out.tolist(), grid.grad.tolist(), image.grad.tolist() if with_image else None]

    assert grads(sg, device) == grads(torch, "cpu")


@pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "torch"])
def test_gradients_of_the_values_of_a_dict(lib: Any) -> None:
    params = {"a": lib.ones(2, requires_grad=True), "b": lib.full((1,), 3.0, requires_grad=True)}
    loss = (params["a"].sum() * params["b"]).sum()
    found = lib.autograd.grad(loss, params.values(), retain_graph=True)
    assert [g.tolist() for g in found] == [[3.0, 3.0], [2.0]]
    weights = {"x": lib.full((2,), 2.0)}
    assert lib.autograd.grad([params["a"]], (p for p in [params["a"]]), grad_outputs=weights.values())[0].tolist() == [
        2.0,
        2.0,
    ]
    loss.backward(inputs=list(params.values()))
    assert params["b"].grad.tolist() == [2.0]


def test_bytes_as_conditions_warn_and_as_masks_of_fills_are_refused() -> None:
    mask = sg.tensor([1, 0], dtype=sg.uint8)
    with pytest.warns(UserWarning, match="uint8 condition"):
        sg.where(mask, 1.0, 0.0)
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        sg.ones(2).masked_fill(mask, 0.0)
    x = sg.arange(3.0)
    x[sg.tensor([0, 1, 1], dtype=sg.uint8)] = sg.tensor([5.0, 6.0])
    assert x.tolist() == [0.0, 5.0, 6.0]
    assert np.isneginf(sg.ones(0).logsumexp(0).item())
