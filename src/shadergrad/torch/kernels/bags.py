"""Embedding bags: sums, means and maxima, forward and backward."""

from __future__ import annotations

from typing import Any

import shadergrad as sg

from ...nn.functional.embedding_bags import checked_offsets
from ...tensor import Tensor
from ..table import kernel

SUM, MEAN, MAX = 0, 1, 2


@kernel("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    w: Tensor, indices: Tensor, offsets: Tensor, scale_by_frequency: bool = False, mode: int = 0, sparse: bool = False,
    weights: Any = None, include_last: bool = False, padding: int = -1,
) -> Any:  # fmt: skip
    """The bags, the bag of each index, the size of each bag, and for the maximum the row that gave each element."""
    n = offsets.shape[0] - (1 if include_last else 0)
    starts = checked_offsets(offsets, indices.shape[0])[:n].to(sg.int64)
    at = sg.arange(indices.shape[0], device=w.device)
    bag = (at.unsqueeze(1) >= starts.unsqueeze(0)).to(sg.int64).sum(1) - 1 if indices.shape[0] else indices.to(sg.int64)
    bag = bag.clamp(min=0)  # if the first offset is wrong, that is the error
    kept = (indices != padding) if padding >= 0 else sg.ones(indices.shape, dtype=sg.bool, device=w.device)
    size = sg.zeros(n, dtype=sg.int64, device=w.device).index_add(0, bag, kept.to(sg.int64))
    rows = w[indices]
    if mode == MAX:
        belongs = (sg.arange(n, device=w.device).unsqueeze(1) == bag.unsqueeze(0)) & kept.unsqueeze(0)
        if not indices.shape[0]:
            return (
                sg.zeros((n, w.shape[1]), dtype=w.dtype, device=w.device),
                bag,
                size,
                sg.zeros((n, w.shape[1]), dtype=sg.int64, device=w.device),
            )
        found, first = sg.where(belongs.unsqueeze(-1), rows.unsqueeze(0), -float("inf")).max(1)
        filled = (size > 0).unsqueeze(1)
        at_row = sg.where(filled, indices.to(sg.int64)[first], -1)
        return sg.where(filled, found, 0.0), bag, size, at_row
    rows = rows if weights is None else rows * weights.unsqueeze(1)
    rows = sg.where(kept.unsqueeze(1), rows, 0.0)
    total = sg.zeros((n, w.shape[1]), dtype=w.dtype, device=w.device).index_add(0, bag, rows)
    if mode == MEAN:
        total = total / size.clamp(min=1).unsqueeze(1).to(w.dtype)
    return total, bag, size, sg.zeros(0, dtype=sg.int64, device=w.device)


@kernel("_embedding_bag_dense_backward")
def embedding_bag_backward(
    g: Tensor, indices: Tensor, bag: Tensor, size: Tensor, at_row: Tensor, n: int, scale_by_frequency: bool, mode: int,
    weights: Any, padding: int = -1,
) -> Tensor:  # fmt: skip
    zeros = sg.zeros((n, g.shape[1]), dtype=g.dtype, device=g.device)
    if mode == MAX:
        kept = at_row >= 0
        return zeros.scatter_add(0, sg.where(kept, at_row, 0), sg.where(kept, g, 0.0))
    rows = (g / size.clamp(min=1).unsqueeze(1).to(g.dtype) if mode == MEAN else g)[bag]
    rows = rows if weights is None else rows * weights.unsqueeze(1)
    if padding >= 0:
        rows = sg.where((indices == padding).unsqueeze(1), 0.0, rows)
    if scale_by_frequency:
        counts = sg.zeros(n, device=g.device).index_add(0, indices, sg.ones(indices.shape, device=g.device))
        rows = rows / counts[indices].unsqueeze(1)
    return zeros.index_add(0, indices, rows)


@kernel("_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(
    g: Tensor, w: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, mode: int, padding: int = -1
) -> Tensor:
    found = (g[bag] * w[indices]).sum(1)
    return sg.where(indices == padding, 0.0, found) if padding >= 0 else found


@kernel("_embedding_bag_backward")
def embedding_bag_backward_of_any(
    g: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, size: Tensor, at_row: Tensor, n: int, scale_by_frequency: bool,
    mode: int, sparse: bool, weights: Any, padding: int = -1,
) -> Tensor:  # fmt: skip
    if sparse:
        raise NotImplementedError(
            "[torch] the device webgpu has no sparse gradients. Hint: EmbeddingBag(..., sparse=False)."
        )
    return embedding_bag_backward(g, indices, bag, size, at_row, n, scale_by_frequency, mode, weights, padding)
