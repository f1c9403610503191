"""Attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math

from ...dtypes import bool_
from ...errors import DTypeError, ShapeError
from ...tensor import Tensor, arange, where
from .dropout import dropout
from .substitutes import replaceable


@replaceable
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T scale + mask) value (Vaswani et al., 2017).

    query (..., L, E), key (..., S, E), value (..., S, Ev): (..., L, Ev). attn_mask, broadcast to (..., L, S): bools,
    true where attention is allowed, or floats that are added. is_causal: row i sees columns up to i. scale:
    1 / sqrt(E) by default. dropout_p: the share of the weights that is dropped, always, so give 0 for inference.
    enable_gqa: every head of key and value, axis -3, serves several of query. A row that may see nothing gives 0.

    ShapeError for a mask beside is_causal and for heads that do not divide those of query; DTypeError for a mask of
    integers.

    >>> query, key = sg.zeros(2, 1), sg.ones(2, 1)
    >>> F.scaled_dot_product_attention(query, key, sg.tensor([[2.0], [4.0]]), is_causal=True)
    tensor([[2.],
            [3.]])
    """
    if is_causal and attn_mask is not None:
        raise ShapeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = (_repeated(x, query.shape[-3]) for x in (key, value))
    scores = (query * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.transpose(-2, -1)
    if is_causal:
        rows, columns = scores.shape[-2:]
        attn_mask = arange(rows, device=query.device).unsqueeze(1) >= arange(columns, device=query.device)
    weights = dropout(masked_softmax(scores, attn_mask), dropout_p)
    return weights @ value


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """softmax along the last axis, of what a mask of bools allows, or with a mask of numbers added; a row of which
    nothing is left gives 0."""
    if mask is None:
        return scores.softmax(-1)
    if mask.dtype is bool_:
        scores = where(mask, scores, -math.inf)
    elif mask.dtype.category == 2:
        scores = scores + mask
    else:
        raise DTypeError(f"Expected attn_mask dtype to be bool or float, but got {mask.dtype.name}.")
    top = scores.detach().amax(-1, keepdim=True)
    powers = (scores - where(top.isfinite(), top, 0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / where(total == 0.0, 1.0, total)


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Each head, axis -3, as often as it takes to have `heads`."""
    own = x.shape[-3]
    if heads % own:
        raise ShapeError(f"[scaled_dot_product_attention] {heads} heads of query for {own} of key and value.")
    wider = x.unsqueeze(-3)
    wider = wider.expand(*x.shape[:-2], heads // own, *x.shape[-2:])
    return wider.reshape(*x.shape[:-3], heads, *x.shape[-2:])
