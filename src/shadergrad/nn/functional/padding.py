"""Padding, PyTorch's order: pairs (before, after) from the last axis backwards."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ShapeError
from ...tensor import Tensor, cat
from ..arguments import refuse
from ..errors import ArgumentError

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """The last axes padded: with `value`, 0 by default, or from the input itself.

    mode: 'constant', 'reflect', 'replicate' or 'circular'. pad: pairs (before, after) of elements, from the last axis
    backwards; negative amounts cut.
    ArgumentError for an odd number of amounts, more than two an axis, or a value beside another mode than 'constant';
    ShapeError if 'reflect' or 'circular' need more than the axis has.

    >>> F.pad(sg.tensor([1.0, 2.0, 3.0]), (2, 1), mode="reflect")
    tensor([3., 2., 1., 2., 3., 2.])
    >>> F.pad(sg.tensor([1.0, 2.0, 3.0]), (-1, 2), value=9.0)
    tensor([2., 3., 9., 9.])
    """
    for amount in pad if isinstance(pad, Sequence) else [pad]:
        if isinstance(pad, str) or not isinstance(pad, Sequence) or not isinstance(amount, int):
            refuse("pad", "pad", amount, "a tuple of ints")
    pad = tuple(pad)
    if len(pad) % 2:
        raise ArgumentError(f"Padding length must be divisible by 2, but got pad={pad}.")
    if len(pad) > 2 * input.ndim:
        raise ArgumentError(
            f"Padding length should be less than or equal to two times the input dimension, but got pad={pad} for input of "
            f"size {list(input.shape)}."
        )
    if mode == "constant":
        return input.pad(pad, 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ArgumentError(
            f"Unrecognised padding mode, got mode={mode!r}. Known: constant, reflect, replicate, circular."
        )
    if value is not None:
        raise ArgumentError(f'Padding mode "{mode}" doesn\'t take in value argument, but got value={value}')
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    cuts = [min(n, 0) for n in pad]
    if not any(cuts):
        return _pad_edges(input, pairs, mode)
    edges = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "replicate":  # for sizes that negative padding may reduce to 0
        return _pad_edges(input, edges, mode).pad(cuts)
    return _pad_edges(input.pad(cuts), edges, mode)


def _pad_edges(input: Tensor, edges: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """The last axes padded (before, after) from the input itself: mode 'reflect', 'replicate' or 'circular'."""
    x = input
    for a, (low, high) in enumerate(edges):
        axis = input.ndim - len(edges) + a
        n = input.shape[axis]
        if mode == "reflect" and max(low, high) >= n:
            raise ShapeError(
                f"Padding size should be less than the corresponding input dimension, but got padding ({low}, {high}) at size {n}"
            )
        if mode == "circular" and max(low, high) > n:
            raise ShapeError(f"Padding value causes wrapping around more than once, padding {(low, high)} at size {n}.")
        if not (low or high):
            continue
        before = x.narrow(axis, 0, 1)
        after = x.narrow(axis, n - 1, 1)
        if mode == "replicate":
            parts = [
                before.expand(*(low if b == axis else -1 for b in range(x.ndim))),
                x,
                after.expand(*(high if b == axis else -1 for b in range(x.ndim))),
            ]
        elif mode == "reflect":
            parts = [x.narrow(axis, 1, low).flip(axis), x, x.narrow(axis, n - 1 - high, high).flip(axis)]
        else:
            parts = [x.narrow(axis, n - low, low), x, x.narrow(axis, 0, high)]
        x = cat([p for p in parts if p.shape[axis]], axis)
    return x
