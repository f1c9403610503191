"""Padding, PyTorch's order: pairs (before, after) from the last axis backwards."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ShapeError
from ...tensor import Tensor
from ..errors import ArgumentError
from ..functional_conv import pad_edges


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """With `value` around (0 by default), or from the input itself: mode 'reflect', 'replicate', 'circular'.

    Negative amounts cut.
    """
    if len(pad) % 2:
        raise ShapeError(f"Padding length must be divisible by 2, got {len(pad)}.")
    if mode == "constant":
        return input.pad(pad, 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ArgumentError(f"Unrecognised padding mode {mode}")
    if value is not None:
        raise ArgumentError(f'Padding mode "{mode}" doesn\'t take in value argument')
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    if len(pairs) > input.ndim:
        raise ShapeError(f"[pad] {len(pairs)} pairs of padding for a tensor of {input.ndim} dimensions.")
    if min((0, *pad)) < 0:  # cut first, then add
        input = input.pad([min(n, 0) for n in pad])
    return pad_edges(input, [(max(a, 0), max(b, 0)) for a, b in pairs], mode)
