"""Bags of embeddings at their edges: offsets that are out of range, and bags without positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.nn import functional as F

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("offsets", [[1, 2], [0, 100], [-1, 2], [0, 3, 2], [0, 1, 0]])
def test_offsets_out_of_range_raise(offsets: list[int], is_known: bool, device: str) -> None:
    given = sg.tensor(offsets, device=device)
    with pytest.raises(RuntimeError, match="offset"):
        F.embedding_bag(
            sg.tensor([0, 1, 2, 4], device=device), sg.ones(5, 3, device=device), given if is_known else given + 0
        ).tolist()


@pytest.mark.parametrize("offsets", [[0, 2], [0, 4], [0, 0]])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_offsets_up_to_the_number_of_positions_are_taken(offsets: list[int], mode: str, device: str) -> None:
    def run(lib: Any, **options: Any) -> Any:
        table = lib.arange(15.0, **options).reshape(5, 3)
        return lib.nn.functional.embedding_bag(
            lib.tensor([0, 1, 2, 4], **options), table, lib.tensor(offsets, **options), mode=mode
        ).tolist()

    assert run(sg, device=device) == run(torch)


def test_bags_without_positions_give_zeros_and_gradients_of_zeros(device: str) -> None:
    table = sg.tensor([[float("inf"), 1.0], [2.0, float("nan")]], device=device, requires_grad=True)
    weights = sg.zeros(0, device=device, requires_grad=True)
    none = sg.zeros(0, dtype=sg.int32, device=device)
    found = F.embedding_bag(none, table, sg.tensor([0, 0], device=device), mode="sum", per_sample_weights=weights)
    found.sum().backward()
    assert found.tolist() == [[0, 0], [0, 0]]
    assert table.grad is not None
    assert table.grad.tolist() == [[0, 0], [0, 0]]
    assert weights.grad is not None
    assert weights.grad.shape == (0,)


def test_weights_of_bags_are_of_sums_only(device: str) -> None:
    positions, weights = sg.tensor([[0, 1]], device=device), sg.ones(1, 2, device=device)
    with pytest.raises(NotImplementedError, match="only supported for mode='sum'"):
        F.embedding_bag(positions, sg.ones(2, 2, device=device), mode="mean", per_sample_weights=weights)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_gradients_of_weights_of_positions_are_pytorchs_to_the_last_bit(dtype: str, by_hand: bool) -> None:
    """Of the function, and of the same sums written out, whose halves are rounded in other places."""
    rng = np.random.default_rng(0)
    table, weights, upstream = (rng.standard_normal(n).astype(dtype) * 4 for n in ((5, 2), (6,), (2, 2)))

    def gradients(lib: Any) -> list[Any]:
        rows, factors = (lib.tensor(a, requires_grad=True) for a in (table, weights))
        positions = lib.tensor([3, 1, 1, 1, 4, 0])
        if by_hand:
            each = rows.index_select(0, positions) * factors.unsqueeze(1)
            bags = lib.stack([each[:3].sum(0), each[3:].sum(0)])
        else:
            bags = lib.nn.functional.embedding_bag(
                positions, rows, lib.tensor([0, 3]), mode="sum", per_sample_weights=factors
            )
        bags.backward(lib.tensor(upstream))
        return factors.grad.tolist()

    assert gradients(sg) == gradients(torch)
